//! Receives, with tags and without.

use super::Endpoint;
use super::messages::{Lane, no_buffer, place, places, slices_of};
use super::operation::{Kind, Operation};
use crate::abi::constants::*;
use crate::abi::fi_addr_t;
use libc::iovec;
use std::ffi::{c_int, c_void};
use taffrail::Pattern;

impl Endpoint {
    /// Which messages a receive takes.
    #[inline(always)]
    pub fn pattern(
        &mut self,
        lane: Lane,
        from: fi_addr_t,
        tag: u64,
        ignore: u64,
    ) -> Result<Pattern, c_int> {
        let source = match from {
            FI_ADDR_UNSPEC => None,
            from if self.directed => Some(self.rank(from)?),
            _ => None,
        };
        Ok(Pattern { source, context: lane.context, tag, ignore })
    }

    #[inline(always)]
    fn reception(&self, kind: Kind, lane: u64, context: *mut c_void, flags: u64) -> Operation {
        Operation::new(kind, FI_RECV | lane, context, self.rx.tells_of(flags))
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// The buffer is the operation's until it ends.
    #[inline(always)]
    pub unsafe fn receive(
        &mut self,
        lane: Lane,
        from: Pattern,
        buf: *mut c_void,
        len: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if buf.is_null() && len > 0 {
            return no_buffer(len);
        }
        let operation = self.reception(Kind::Receive, lane.flag, context, flags);
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.irecv_raw(from, place(buf), len) };
        self.started(started, operation)
    }

    /// Starts a receive into several places.
    ///
    /// # Safety
    /// As [`receive`](Self::receive), for all of them.
    pub unsafe fn receivev(
        &mut self,
        lane: Lane,
        from: Pattern,
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
                let nowhere = std::ptr::null_mut();
                // SAFETY: no bytes.
                return unsafe { self.receive(lane, from, nowhere, 0, context, flags) };
            }
            [one] => {
                let (buf, len) = (one.iov_base, one.iov_len);
                // SAFETY: the caller's promise.
                return unsafe { self.receive(lane, from, buf, len, context, flags) };
            }
            _ => {}
        }
        let operation = self.reception(Kind::Receive, lane.flag, context, flags);
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.irecv_vectored_raw(from, &mut slices_of(places)) };
        self.started(started, operation)
    }

    /// Starts a receive of many messages.
    ///
    /// # Safety
    /// As [`receive`](Self::receive).
    pub unsafe fn receive_multi(
        &mut self,
        from: Pattern,
        buf: *mut c_void,
        len: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        if buf.is_null() && len > 0 {
            return no_buffer(len);
        }
        let mut operation = self.reception(Kind::Multi, FI_MSG, context, flags);
        operation.keep_buffer(iovec { iov_base: buf, iov_len: len });
        let least = self.min_multi;
        // SAFETY: the caller's promise.
        let started = unsafe { self.engine.irecv_multi_raw(from, place(buf), len, least) };
        self.started(started, operation)
    }
}
