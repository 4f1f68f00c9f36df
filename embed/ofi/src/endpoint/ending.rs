//! What ends, and who is told.

use super::Endpoint;
use super::operation::{Kind, Operation};
use crate::abi::constants::{FI_MULTI_RECV, FI_REMOTE_CQ_DATA};
use crate::abi::errno::FI_EIO;
use crate::cq::{Cq, Entry, Failure};
use crate::say::say;
use std::ffi::c_int;
use std::ptr::null_mut;
use taffrail::{Completion, Error, Landed, Over, Request, Status};

impl Endpoint {
    /// Makes progress, up to `turns` times while nothing ends, and takes what has ended, up to `most`
    /// operations.
    #[inline]
    pub fn advance(&mut self, most: usize, turns: u32) -> Result<(), c_int> {
        let mut next = self.engine.await_ended(turns);
        for left in (0..most).rev() {
            let over = match next {
                Ok(Over::Nothing) => break,
                Ok(over) => over,
                Err(error) => return Err(self.broken(&error)),
            };
            if let Some((request, status)) = self.engine.take_well(&over) {
                self.ended_well(request, &status);
            } else if let Some((request, completion)) = self.engine.take_ended(over) {
                self.ended(request, completion);
            }
            if left == 0 {
                break;
            }
            next = self.engine.more_ended();
        }
        Ok(())
    }

    #[cold]
    fn broken(&self, error: &Error) -> c_int {
        say(&format!("{error}"));
        FI_EIO
    }

    #[inline(always)]
    fn ended_well(&mut self, request: Request, status: &Status) {
        let operation = &mut self.operations[request.index()];
        if !operation.kind.is_plain() {
            return self.ended_otherwise(request, Completion::Ended(Ok(*status)));
        }
        let kind = std::mem::replace(&mut operation.kind, Kind::None);
        if operation.memory.is_some() {
            operation.let_go_of_memory();
        }
        if operation.tell {
            let mut entry = Entry::new(operation.context, operation.flags);
            if kind == Kind::Receive {
                self.describe(&mut entry, status);
            }
            self.tell(kind, entry);
        }
        self.count(kind, true);
    }

    #[inline(never)]
    fn ended(&mut self, request: Request, completion: Completion) {
        match completion {
            Completion::Ended(Ok(status)) => self.ended_well(request, &status),
            Completion::Landed(Ok(landed)) => self.landed(request, &landed),
            rest => self.ended_otherwise(request, rest),
        }
    }

    /// Says in an entry what a message says of itself.
    #[inline]
    pub fn describe(&mut self, entry: &mut Entry, status: &Status) {
        entry.len = status.len;
        entry.tag = status.tag;
        if let Some(data) = status.data.get() {
            entry.data = data.into();
            entry.flags |= FI_REMOTE_CQ_DATA;
        }
        entry.source = self.source(status.source);
    }

    /// A message is in the buffer of a multi-receive.
    fn landed(&mut self, request: Request, landed: &Landed) {
        let operation = &mut self.operations[request.index()];
        let mut entry = Entry::new(operation.context, operation.flags);
        let buffer = operation.buffer().map_or(null_mut(), |buffer| buffer.iov_base);
        entry.buf = buffer.wrapping_byte_add(landed.offset);
        if landed.last {
            operation.released = true;
            entry.flags |= FI_MULTI_RECV;
        }
        let tell = operation.tell || landed.last;
        self.describe(&mut entry, &landed.status);
        if tell {
            self.tell(Kind::Multi, entry);
        }
        self.count(Kind::Multi, true);
    }

    #[cold]
    #[expect(
        clippy::unreachable,
        reason = "the caller takes the messages of a multi-receive, and their errors return above"
    )]
    fn ended_otherwise(&mut self, request: Request, completion: Completion) {
        if let Completion::Landed(Err(error)) = &completion {
            return self.landing_failed(request, error);
        }
        let operation = &mut self.operations[request.index()];
        let free = Operation::new(Kind::None, 0, null_mut(), false);
        match completion {
            Completion::Ended(Err(error)) => {
                let ended = std::mem::replace(operation, free);
                self.failed(ended, &error);
            }
            Completion::Ended(Ok(status)) if operation.kind == Kind::Notice => {
                let ended = std::mem::replace(operation, free);
                self.noticed(&status, ended.kept());
            }
            Completion::Ended(Ok(status)) if operation.kind == Kind::Departure => {
                operation.kind = Kind::None;
                self.departed(status.source);
            }
            // A multi-receive, which was told unless its last message had failed.
            Completion::Ended(Ok(_)) => {
                let ended = std::mem::replace(operation, free);
                if !ended.released {
                    // No other flag: no message belongs to it.
                    self.tell(Kind::Multi, Entry::new(ended.context, FI_MULTI_RECV));
                }
            }
            Completion::Landed(_) => unreachable!("reported before"),
        }
    }

    fn queue(&self, kind: Kind) -> *mut Cq {
        match kind {
            Kind::Receive | Kind::Multi | Kind::Notice => self.rx.cq,
            _ => self.tx.cq,
        }
    }

    /// Makes an entry of the queue that the operation belongs to.
    #[inline]
    pub fn tell(&mut self, kind: Kind, entry: Entry) {
        // SAFETY: a bound queue is open, and nobody else has it: everything is behind one lock.
        if let Some(cq) = unsafe { self.queue(kind).as_mut() } {
            cq.push(entry);
        }
    }

    #[cold]
    pub fn tell_failure(&mut self, kind: Kind, failure: Failure) {
        tracing::debug!("an operation has ended without success: {}", failure.why);
        // SAFETY: as above.
        if let Some(cq) = unsafe { self.queue(kind).as_mut() } {
            cq.fail(failure);
        }
    }

    /// Counts an operation that has ended.
    #[inline]
    pub fn count(&mut self, kind: Kind, well: bool) {
        let counter = match kind {
            Kind::Send => self.tx.cntr,
            Kind::Receive | Kind::Multi => self.rx.cntr,
            Kind::Read => self.reads,
            Kind::Write | Kind::Inject => self.writes,
            Kind::Notice | Kind::Departure | Kind::None => null_mut(),
        };
        // SAFETY: a bound counter is open, and nobody else has it.
        if let Some(counter) = unsafe { counter.as_mut() } {
            counter.count(well);
        }
    }
}
