//! Operations under way.

use super::Endpoint;
use crate::abi::constants::FI_MULTI_RECV;
use crate::abi::errno::FI_EOPBADSTATE;
use crate::call::errno_of;
use crate::cq::{Entry, Failure};
use crate::over;
use crate::say::say;
use libc::iovec;
use std::ffi::c_void;
use std::ptr::null_mut;
use taffrail::{Error, Fault, MemoryError, Request, Status};

/// What is told of an operation, and to whom.
pub struct Operation {
    pub kind: Kind,
    /// Its success makes an entry.
    pub tell: bool,
    /// A multi-receive whose last entry said that its buffer is free.
    pub released: bool,
    pub context: *mut c_void,
    /// `FI_SEND | FI_TAGGED` and the like.
    pub flags: u64,
    pub request: Option<Request>,
    pub memory: Option<Box<Memory>>,
}

/// Memory of ours that an operation uses, and where in the end it goes; or the buffer of a
/// multi-receive.
pub struct Memory {
    whole: Box<[u8]>,
    places: Vec<iovec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such operation.
    None,
    Send,
    Receive,
    Multi,
    Read,
    Write,
    /// A write that leaves nothing to the program: its failure is not told either.
    Inject,
    /// Waits for a notice that a peer has written to our memory.
    Notice,
    /// Waits for a peer to go.
    Departure,
}

impl Kind {
    /// Operations on memory of a peer.
    fn is_one_sided(self) -> bool {
        matches!(self, Kind::Read | Kind::Write | Kind::Inject)
    }

    /// Operations of which nothing but a success is to be told.
    #[inline]
    pub fn is_plain(self) -> bool {
        !matches!(self, Kind::Multi | Kind::Notice | Kind::Departure)
    }
}

impl Operation {
    #[inline]
    pub fn new(kind: Kind, flags: u64, context: *mut c_void, tell: bool) -> Operation {
        Operation { kind, tell, released: false, context, flags, request: None, memory: None }
    }

    /// Keeps memory until the operation ends.
    pub fn keep(&mut self, whole: Box<[u8]>) -> &mut [u8] {
        let memory = Box::new(Memory { whole, places: Vec::new() });
        &mut self.memory.insert(memory).whole
    }

    /// As [`keep`](Self::keep); in the end it goes to these places.
    pub fn keep_for(&mut self, whole: Box<[u8]>, places: &[iovec]) -> &mut [u8] {
        let memory = Box::new(Memory { whole, places: places.to_vec() });
        &mut self.memory.insert(memory).whole
    }

    /// The memory that it keeps.
    pub fn kept(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.whole)
    }

    /// Takes note of the buffer of a multi-receive.
    pub fn keep_buffer(&mut self, buffer: iovec) {
        self.memory = Some(Box::new(Memory { whole: Box::default(), places: vec![buffer] }));
    }

    /// The buffer, if this is a multi-receive.
    pub fn buffer(&self) -> Option<iovec> {
        let is_multi = self.kind == Kind::Multi;
        self.memory.as_ref().filter(|_| is_multi).and_then(|memory| memory.places.first().copied())
    }

    /// Gives memory of ours back, when what was read into it is where it belongs.
    #[cold]
    pub fn let_go_of_memory(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        let mut rest = &memory.whole[..];
        for place in &memory.places {
            let (part, behind) = rest.split_at(place.iov_len);
            // SAFETY: whoever started the operation has left these places to it.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), place.iov_base.cast(), part.len());
            }
            rest = behind;
        }
    }
}

impl Endpoint {
    /// Takes note of an operation that was started, or has failed to. Returns what C is told.
    #[inline(always)]
    pub fn started(&mut self, started: Result<Request, Error>, mut operation: Operation) -> isize {
        match started {
            Ok(request) => {
                self.has_started = true;
                // It was started just now, and is not stale.
                let _ = self.engine.report(request);
                operation.request = Some(request);
                match self.operations.get_mut(request.index()) {
                    Some(place) => *place = operation,
                    None => self.add_operation(request.index(), operation),
                }
                0
            }
            Err(error) => self.not_started(&error, operation),
        }
    }

    #[cold]
    fn add_operation(&mut self, index: usize, operation: Operation) {
        while self.operations.len() <= index {
            self.operations.push(Operation::new(Kind::None, 0, null_mut(), false));
        }
        self.operations[index] = operation;
    }

    /// The completion queue reports a failed peer and memory that cannot be reached; the call returns all other errors.
    #[cold]
    pub fn not_started(&mut self, error: &Error, operation: Operation) -> isize {
        match error {
            // The last two: memory of our own, for which a peer's would say the same.
            Error::PeerFailed { .. }
            | Error::Memory(MemoryError::Unknown { .. } | MemoryError::NoAccess { .. }) => {
                self.failed(operation, error);
                0
            }
            Error::UsedAfterFork => -FI_EOPBADSTATE as isize,
            // Not every MPI looks at what the call returns: Intel MPI waits for what was never started.
            Error::NotLogged { .. } if operation.kind.is_one_sided() => {
                over::end_program(&format!(
                    "an operation cannot be started: {error}. The program ends here, since its MPI may wait for that for ever; \
                     use one set (--sets job, on one node), no --logging, or an MPI that makes windows of messages (MPICH)"
                ))
            }
            _ => {
                say(&format!("an operation cannot be started: {error}"));
                -errno_of(error) as isize
            }
        }
    }

    /// Says once of a peer that cannot be reached, breaks the protocol, or has another version of it, what was
    /// wrong: the number that C gets does not tell. That its process has ended, the launcher says.
    #[cold]
    pub fn say_why(&mut self, error: &Error) {
        let Error::PeerFailed { rank, fault } = error else { return };
        if matches!(
            fault,
            Fault::Died | Fault::Closed | Fault::NoSuchMemory(_) | Fault::NoAccess(_)
        ) || self.refused.contains(rank)
        {
            return;
        }
        self.refused.push(*rank);
        match fault {
            Fault::Unreachable { .. } => {
                say(&format!("no way to {}: {fault}", self.engine.peer_name(*rank)));
            }
            _ => say(&format!("{} is refused: {error}", self.engine.peer_name(*rank))),
        }
    }

    /// Tells that an operation has failed.
    #[cold]
    pub fn failed(&mut self, operation: Operation, error: &Error) {
        self.say_why(error);
        if operation.kind == Kind::Inject {
            // Nothing of it is the program's business, and MPICH would end.
            tracing::info!("an injected write: {error}");
            return self.count(Kind::Inject, true);
        }
        self.count(operation.kind, false);
        let mut failure = self.failure(operation.context, operation.flags, error);
        if operation.buffer().is_some() {
            // It has ended: its buffer is the program's again.
            failure.entry.flags |= FI_MULTI_RECV;
        }
        self.tell_failure(operation.kind, failure);
    }

    /// Tells that a message of a multi-receive, which goes on, has failed.
    #[cold]
    pub fn landing_failed(&mut self, request: Request, error: &Error) {
        self.say_why(error);
        self.count(Kind::Multi, false);
        let operation = &self.operations[request.index()];
        let (context, flags, buffer) = (operation.context, operation.flags, operation.buffer());
        let mut failure = self.failure(context, flags, error);
        if let (Error::Truncated { room, .. }, Some(buffer)) = (error, buffer) {
            // It has filled the buffer to its end.
            failure.entry.buf = buffer.iov_base.wrapping_byte_add(buffer.iov_len - room);
        }
        self.tell_failure(Kind::Multi, failure);
    }

    /// The error entry of an operation that has failed.
    fn failure(&mut self, context: *mut c_void, flags: u64, error: &Error) -> Failure {
        let mut entry = Entry::new(context, flags);
        let mut more = 0;
        if let Error::Truncated { len, room, source_rank: source, tag, data } = *error {
            more = len - room;
            self.describe(&mut entry, &Status { source, tag, len: room, data });
        }
        Failure { entry, more, errno: errno_of(error), why: error.to_string() }
    }
}
