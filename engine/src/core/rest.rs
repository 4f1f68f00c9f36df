//! Messages whose bytes are not all here when their fabric hands them over: it reads the rest into memory that is
//! named here ([`Take::Rest`]), and nothing else of that peer comes before it.
//!
//! The rest of a message that a receive has matched goes straight to the memory of the program, if that is in one
//! fragment; so do the bytes of an announced message. Everything else is gathered in a buffer of our own, of at most the
//! longest message of the fabric for each peer (*control-passes-bodies*: a stream never stops behind a body
//! that nobody wants yet).

use super::Core;
use super::arrivals::check_range;
use super::state::{Of, REST, Rest};
use crate::frame::{MsgHead, kind, rndv_data};
use crate::peer::Destination;
use crate::policy::Policy;
use crate::policy::rx::RxPolicy;
use crate::request::Slot;
use taffrail_fabric::{Fault, Head, Payload, Take, Token, UserBuf};
use taffrail_logging::mutant;

impl<P: Policy> Core<P> {
    /// The beginning of a message has come; `left` more bytes are to come.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_message(
        &mut self,
        from: u32,
        head: Head,
        here: &Payload<'_>,
        left: usize,
    ) -> Take {
        if self.peers[from as usize].fault.is_some() {
            // What a peer says that was cut off a moment ago.
            return Take::Done;
        }
        let is_replaying = self.policy.is_replaying();
        let rest = match head.kind {
            kind::EAGER if !is_replaying => self.begin_eager(from, head, here, left),
            kind::RNDV_DATA => self.begin_rndv_data(from, head, here, left),
            _ => Ok(self.gather(from, head, here, left)),
        };
        rest.unwrap_or_else(|fault| {
            self.protocol_error(from, fault);
            Take::Done
        })
    }

    /// The rest of a message has come, or never will.
    #[cold]
    pub(crate) fn end_message<R: RxPolicy<P>>(&mut self, token: Token, result: Result<(), Fault>) {
        let from = (token.0 & !REST) as u32;
        let Some((rest, is_of_former_link)) = self.rests.remove(from) else { return };
        if self.peers[from as usize].fault.is_some() {
            // What it was for has waited for this alone.
            if let Some(request) = rest.request() {
                let error = self.finished_error(from);
                self.fail(request, error);
            }
            return;
        }
        if is_of_former_link || (result.is_err() && !mutant!(LostRestDelivered)) {
            // The end of the link ends or suspends what is under way. It was reported, or is reported next.
            return;
        }
        let result = match rest {
            Rest::Whole { head, bytes } => {
                self.receive_apart::<R>(from, head, &Payload::of(&bytes));
                Ok(())
            }
            Rest::Buffered { of: Of::Eager, bytes } => self.more(from, &Payload::of(&bytes)),
            Rest::Buffered { of: Of::RndvData { to, offset }, bytes } => {
                self.rndv_data(from, to, offset, &Payload::of(&bytes))
            }
            Rest::Direct { of: Of::Eager, len, .. } => {
                self.moved_in(from, len);
                Ok(())
            }
            Rest::Direct { of: Of::RndvData { to, .. }, len, .. } => {
                self.moved_rndv_data(from, to, len);
                Ok(())
            }
        };
        if let Err(fault) = result {
            self.protocol_error(from, fault);
        }
    }

    fn begin_eager(
        &mut self,
        from: u32,
        head: Head,
        here: &Payload<'_>,
        left: usize,
    ) -> Result<Take, Fault> {
        let env = self.envelope(from, MsgHead::of(head), (here.len() + left) as u64);
        self.begin_partial(&env, here, 0)?;
        self.check_buffer_limit(from)?;
        let Some(partial) = &self.peers[from as usize].partial else { return Ok(Take::Done) };
        let (destination, at) = (partial.destination, partial.here);
        match destination {
            Destination::Request(request) => {
                let slot = self.requests.get(request);
                match memory(slot, at, left) {
                    Some(into) => {
                        let rest = Rest::Direct { of: Of::Eager, len: left, request };
                        Ok(self.await_rest(from, rest, into))
                    }
                    None => Ok(self.await_buffered(from, Of::Eager, left)),
                }
            }
            _ => Ok(self.await_buffered(from, Of::Eager, left)),
        }
    }

    fn begin_rndv_data(
        &mut self,
        from: u32,
        head: Head,
        here: &Payload<'_>,
        left: usize,
    ) -> Result<Take, Fault> {
        let (to, offset) = rndv_data(head);
        let Some((_, slot)) = self.requests.by_name(from, to) else { return Ok(Take::Done) };
        let at = check_range(slot, offset, here.len() + left)? + here.len();
        if !here.is_empty() {
            self.rndv_data(from, to, offset, here)?;
        }
        let of = Of::RndvData { to, offset: at as u64 };
        let Some((request, slot)) = self.requests.by_name(from, to) else { return Ok(Take::Done) };
        match memory(slot, at, left) {
            Some(into) => Ok(self.await_rest(from, Rest::Direct { of, len: left, request }, into)),
            None => Ok(self.await_buffered(from, of, left)),
        }
    }

    /// Gathers a whole message in a buffer.
    fn gather(&mut self, from: u32, head: Head, here: &Payload<'_>, left: usize) -> Take {
        let mut bytes = here.to_vec();
        let at = bytes.len();
        bytes.resize(at + left, 0);
        let into = buffer(&mut bytes[at..]);
        self.await_rest(from, Rest::Whole { head, bytes }, into)
    }

    fn await_buffered(&mut self, from: u32, of: Of, left: usize) -> Take {
        let mut bytes = vec![0; left];
        let into = buffer(&mut bytes);
        self.await_rest(from, Rest::Buffered { of, bytes }, into)
    }

    fn await_rest(&mut self, from: u32, rest: Rest, into: UserBuf) -> Take {
        self.rests.insert(from, rest);
        Take::Rest(into, Token(REST | u64::from(from)))
    }

    /// The last bytes of an eager message are where they belong.
    fn moved_in(&mut self, from: u32, len: usize) {
        let Some(mut partial) = self.peers[from as usize].partial.take() else { return };
        partial.here += len;
        if let Destination::Request(request) = partial.destination {
            self.requests.get(request).moved = partial.here;
            self.complete(request);
        }
        self.partial_completed(from, &partial);
    }

    /// Bytes of an announced message are where they belong.
    fn moved_rndv_data(&mut self, from: u32, to: u64, len: usize) {
        let Some((request, slot)) = self.requests.by_name(from, to) else { return };
        slot.moved += len;
        self.end_fragments(request);
    }
}

/// The memory of a receive for `len` bytes from `at` on; `None` if it is not in one piece.
fn memory(slot: &Slot, at: usize, len: usize) -> Option<UserBuf> {
    if slot.extra.as_ref().is_some_and(|extra| !extra.parts.is_empty()) {
        return None;
    }
    // Of what does not fit the fabric drops the rest.
    let room = len.min(slot.len.saturating_sub(at));
    // SAFETY: the caller that posted the receive vouches for its memory until the request is finished, which it is only
    // after the fabric has reported the end, also when its peer fails before that.
    Some(unsafe { UserBuf::new(slot.at.wrapping_add(at.min(slot.len)), room) })
}

fn buffer(bytes: &mut [u8]) -> UserBuf {
    // SAFETY: the buffer is kept in `Rests` until the fabric has reported the end, or is gone itself.
    unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) }
}
