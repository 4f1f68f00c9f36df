//! Looking for messages, claiming and discarding them. Every look makes an entry: what was found, or
//! the failure `FI_ENOMSG`.

use super::Endpoint;
use super::messages::{place, places, slices_of};
use super::operation::{Kind, Operation};
use crate::abi::constants::{FI_CLAIM, FI_DISCARD, FI_RECV, FI_TAGGED};
use crate::abi::errno::{FI_EINVAL, FI_ENOMSG};
use crate::call::errno_of;
use crate::cq::{Entry, Failure};
use crate::say::say;
use libc::iovec;
use std::ffi::c_void;
use std::ptr::null_mut;
use taffrail::{Error, Fault, Pattern};

impl Endpoint {
    /// Looks for a message, and claims or discards it.
    pub fn peek(&mut self, from: Pattern, context: *mut c_void, flags: u64) -> isize {
        let found = if flags & (FI_CLAIM | FI_DISCARD) == 0 {
            self.engine.probe(from)
        } else {
            self.engine.claim(from).map(|claimed| {
                claimed.map(|claimed| {
                    let status = claimed.status();
                    if flags & FI_DISCARD == 0 {
                        self.claims.insert(context.addr(), claimed);
                    }
                    status
                })
            })
        };
        let flags = FI_RECV | FI_TAGGED;
        match found {
            Ok(Some(status)) => {
                let mut entry = Entry::new(context, flags);
                self.describe(&mut entry, &status);
                self.tell(Kind::Receive, entry);
            }
            Ok(None) => self.tell_failure(Kind::Receive, no_message(context, FI_ENOMSG, "")),
            // That somebody is gone is news only for who has asked for this one.
            Err(Error::PeerFailed { ref fault, .. })
                if from.source.is_none() || *fault == Fault::Closed =>
            {
                self.tell_failure(Kind::Receive, no_message(context, FI_ENOMSG, ""));
            }
            Err(error @ Error::PeerFailed { .. }) => {
                let why = error.to_string();
                self.tell_failure(Kind::Receive, no_message(context, errno_of(&error), &why));
            }
            Err(error) => {
                say(&format!("no look for messages: {error}"));
                return -errno_of(&error) as isize;
            }
        }
        0
    }

    /// Receives, or discards, the message that was claimed with the same context.
    ///
    /// # Safety
    /// So many places are there, and stay until the operation ends.
    pub unsafe fn receive_claimed(
        &mut self,
        iov: *const iovec,
        count: usize,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        // SAFETY: the caller's promise.
        let places = match unsafe { places(iov, count) } {
            _ if flags & FI_DISCARD != 0 => &[],
            Ok(places) => places,
            Err(errno) => return errno,
        };
        let Some(claimed) = self.claims.remove(&context.addr()) else {
            say("FI_CLAIM with a context by which nothing was claimed");
            return -FI_EINVAL as isize;
        };
        let tell = self.rx.tells_of(flags);
        if flags & FI_DISCARD != 0 {
            let mut entry = Entry::new(context, FI_RECV | FI_TAGGED);
            self.describe(&mut entry, &claimed.status());
            entry.len = 0;
            if tell {
                self.tell(Kind::Receive, entry);
            }
            return 0;
        }
        // SAFETY: the caller's promise.
        let started = unsafe {
            match places {
                [] => self.engine.irecv_claimed_raw(claimed, place(null_mut()), 0),
                [one] => self.engine.irecv_claimed_raw(claimed, place(one.iov_base), one.iov_len),
                several => self.engine.irecv_claimed_vectored_raw(claimed, &mut slices_of(several)),
            }
        };
        self.started(started, Operation::new(Kind::Receive, FI_RECV | FI_TAGGED, context, tell))
    }
}

fn no_message(context: *mut c_void, errno: i32, why: &str) -> Failure {
    let why = if why.is_empty() { "no such message" } else { why }.to_owned();
    Failure { entry: Entry::new(context, FI_RECV | FI_TAGGED), more: 0, errno, why }
}
