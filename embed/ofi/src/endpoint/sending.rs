//! Sends, with tags and without.

use super::Endpoint;
use super::messages::{Label, Lane, gather, immediate, no_buffer, place, places};
use super::operation::{Kind, Operation};
use crate::abi::constants::*;
use crate::abi::errno::{FI_EAGAIN, FI_EINVAL};
use crate::call::errno_of;
use crate::cq::Entry;
use crate::info::{INJECT, IOV};
use crate::say::say;
use libc::iovec;
use std::ffi::{c_int, c_void};
use std::io::IoSlice;
use std::time::{Duration, Instant};
use taffrail::{Data, Dest, Error, Rank};

/// Sends that end when their message was matched. (`FI_DELIVERY_COMPLETE`, which MPICH asks for with
/// every send because of its windows, wants less: a message that has left lies whole in memory out of
/// which its receiver, whose progress is manual, takes it with its next call.)
const SYNCHRONOUS: u64 = FI_MATCH_COMPLETE;

/// Messages that may wait for room towards one peer: copies of injected ones, and in a logged job all.
const MAX_WAITING: usize = 1024;

/// How long a message waits in a logged job until others have left, before it joins them.
const MAX_WAIT: Duration = Duration::from_millis(100);

impl Endpoint {
    /// Starts a send.
    ///
    /// # Safety
    /// The buffer stays as it is until the operation ends, or this returns, with `FI_INJECT`.
    #[inline(always)]
    pub unsafe fn send(
        &mut self,
        lane: Lane,
        label: Label,
        buf: *const c_void,
        len: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if buf.is_null() && len > 0 {
            return no_buffer(len);
        }
        let to = match self.dest(lane, label) {
            Ok(to) => to,
            Err(errno) => return -errno as isize,
        };
        let tell = self.tx.tells_of(flags);
        let operation = Operation::new(Kind::Send, FI_SEND | lane.flag, context, tell);
        let data = place(buf.cast_mut());
        if flags & (FI_INJECT | SYNCHRONOUS) != 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.send_specially(to, data, len, operation, flags) };
        }
        // SAFETY: the caller's promise.
        match unsafe { self.engine.try_inject(&to, data, len) } {
            Ok(true) => self.sent(operation),
            Ok(false) => {
                // SAFETY: the caller's promise.
                let started = unsafe { self.engine.isend_raw(to, data, len) };
                self.started(started, operation)
            }
            Err(error) => self.not_started(&error, operation),
        }
    }

    /// A send has ended at once.
    #[inline(always)]
    fn sent(&mut self, operation: Operation) -> isize {
        if operation.tell {
            self.tell(Kind::Send, Entry::new(operation.context, operation.flags));
        }
        self.count(Kind::Send, true);
        0
    }

    /// Where a message goes, for the engine.
    #[inline(always)]
    fn dest(&mut self, lane: Lane, label: Label) -> Result<Dest, c_int> {
        let rank = self.rank(label.to)?;
        let data = match label.data {
            None => Data::NONE,
            Some(data) => immediate(data)?,
        };
        if self.is_logged && self.engine.waiting(rank) >= MAX_WAITING {
            self.wait_for_room(rank);
        }
        Ok(Dest { rank, context: lane.context, tag: label.tag, data })
    }

    /// Lets messages leave while too many wait for a peer. A logged program must not see that there is no room, since this is not
    /// determined. The wait has an end: the peer may wait for what this program does next.
    #[cold]
    #[inline(never)]
    fn wait_for_room(&mut self, to: Rank) {
        let begun = Instant::now();
        while self.engine.waiting(to) >= MAX_WAITING && begun.elapsed() < MAX_WAIT {
            if self.engine.progress() == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// # Safety
    /// As [`send`](Self::send).
    unsafe fn send_specially(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
        mut operation: Operation,
        flags: u64,
    ) -> isize {
        if flags & SYNCHRONOUS == 0 {
            // SAFETY: the caller's promise.
            let injected = unsafe { self.inject_now(&to, data, len) };
            if injected == 0 && operation.tell {
                self.tell(Kind::Send, Entry::new(operation.context, operation.flags));
            }
            return injected;
        }
        let mut data = data;
        if flags & FI_INJECT != 0 {
            // SAFETY: the caller's promise.
            let copy: Box<[u8]> = unsafe { std::slice::from_raw_parts(data, len) }.into();
            data = operation.keep(copy).as_ptr();
        }
        // SAFETY: the caller's promise, or memory of ours that the operation keeps.
        let started = unsafe { self.engine.isend_sync_raw(to, data, len) };
        self.started(started, operation)
    }

    /// Sends a message that leaves nothing behind.
    ///
    /// # Safety
    /// `len` bytes at `buf`.
    #[inline(always)]
    pub unsafe fn inject(
        &mut self,
        lane: Lane,
        label: Label,
        buf: *const c_void,
        len: usize,
    ) -> isize {
        if len > INJECT || (buf.is_null() && len > 0) {
            return -FI_EINVAL as isize;
        }
        match self.dest(lane, label) {
            // SAFETY: the caller's promise.
            Ok(to) => unsafe { self.inject_now(&to, place(buf.cast_mut()), len) },
            Err(errno) => -errno as isize,
        }
    }

    /// # Safety
    /// `len` bytes at `data`.
    #[inline(always)]
    unsafe fn inject_now(&mut self, to: &Dest, data: *const u8, len: usize) -> isize {
        // SAFETY: the caller's promise.
        match unsafe { self.engine.inject_at_once(to, data, len) } {
            Ok(true) => {
                self.count(Kind::Send, true);
                0
            }
            // SAFETY: the caller's promise.
            Ok(false) => unsafe { self.inject_later(to, data, len) },
            Err(error) => self.not_injected(&error),
        }
    }

    /// Sends a copy when there is room. Only so many wait: then the program is to try again, as a
    /// full queue would make it. (Where messages are logged it [has waited](Self::wait_for_room).)
    ///
    /// # Safety
    /// `len` bytes at `data`.
    #[cold]
    unsafe fn inject_later(&mut self, to: &Dest, data: *const u8, len: usize) -> isize {
        if !self.is_logged && self.engine.waiting(to.rank) >= MAX_WAITING {
            self.engine.progress();
            return -FI_EAGAIN as isize;
        }
        // SAFETY: the caller's promise.
        match unsafe { self.engine.inject_copy(to, data, len) } {
            Ok(()) => {
                self.count(Kind::Send, true);
                0
            }
            Err(error) => self.not_injected(&error),
        }
    }

    #[cold]
    fn not_injected(&mut self, error: &Error) -> isize {
        match error {
            // That a peer is gone must not be told here: MPICH would end.
            Error::PeerFailed { .. } => {
                self.say_why(error);
                self.count(Kind::Send, true);
                0
            }
            error => {
                say(&format!("a message cannot be sent: {error}"));
                -errno_of(error) as isize
            }
        }
    }

    /// Starts a send from several places.
    ///
    /// # Safety
    /// As [`send`](Self::send), for all of them.
    pub unsafe fn sendv(
        &mut self,
        lane: Lane,
        label: Label,
        iov: *const iovec,
        count: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        // SAFETY: the caller's promise.
        let places = match unsafe { places(iov, count) } {
            Ok(places) => places,
            Err(errno) => return errno,
        };
        match places {
            [] => {
                // SAFETY: no bytes.
                return unsafe { self.send(lane, label, std::ptr::null(), 0, context, flags) };
            }
            [one] => {
                // SAFETY: the caller's promise.
                return unsafe {
                    self.send(lane, label, one.iov_base, one.iov_len, context, flags)
                };
            }
            _ => {}
        }
        let to = match self.dest(lane, label) {
            Ok(to) => to,
            Err(errno) => return -errno as isize,
        };
        let tell = self.tx.tells_of(flags);
        let mut operation = Operation::new(Kind::Send, FI_SEND | lane.flag, context, tell);
        if flags & (FI_INJECT | SYNCHRONOUS) != 0 {
            // SAFETY: the caller's promise.
            let whole = unsafe { gather(places) };
            let (data, len) = (whole.as_ptr(), whole.len());
            operation.keep(whole);
            if flags & SYNCHRONOUS == 0 {
                // SAFETY: memory of ours, which is copied.
                return unsafe { self.send_specially(to, data, len, operation, FI_INJECT) };
            }
            // SAFETY: memory of ours that the operation keeps.
            let started = unsafe { self.engine.isend_sync_raw(to, data, len) };
            return self.started(started, operation);
        }
        let mut slices = [IoSlice::new(&[]); IOV];
        for (slice, one) in slices.iter_mut().zip(places) {
            // SAFETY: the caller's promise.
            *slice = IoSlice::new(unsafe {
                std::slice::from_raw_parts(place(one.iov_base), one.iov_len)
            });
        }
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.isend_vectored_raw(to, &slices[..places.len()]) };
        self.started(started, operation)
    }
}
