//! Ends of operations in the order in which they come: for runtimes with a completion queue.

use crate::engine::claim::Claimed;
use crate::engine::policy::{Policy, Route};
use crate::{Completion, Dest, Endpoint, Error, Over, Rank, Request, Status, Transport};
use std::io::IoSliceMut;
use taffrail_fabric::{PeerId, Source};

impl<F: Transport> Endpoint<F> {
    /// Lets the end of an operation be told by [`next_ended`](Self::next_ended). Whoever wants to be told
    /// does not ask by [`test`](Self::test) or [`wait`](Self::wait).
    ///
    /// # Errors
    /// [`Error::StaleRequest`].
    #[inline]
    pub fn report(&mut self, request: Request) -> Result<(), Error> {
        self.engine.core.requests.look(request)?;
        self.engine.core.requests.track(request.index() as u32);
        Ok(())
    }

    /// The next of the [reported](Self::report) operations that is over, in the order in which they
    /// ended, or of whose multi-receive a message has landed. Makes progress when there is none.
    ///
    /// # Errors
    /// [`Error::UsedAfterFork`]; [`Error::Diverged`] when messages are logged and a program that was
    /// started again does something else than before. Those of the operation are in the result.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// use taffrail::{Completion, Dest, Pattern};
    /// let mut into = [0; 4];
    /// // SAFETY: `into` outlives the request.
    /// let receive = unsafe { endpoint.irecv_raw(Pattern::new(0, 1), into.as_mut_ptr(), 4)? };
    /// endpoint.report(receive)?;
    /// assert_eq!(endpoint.next_ended()?, None);
    /// // SAFETY: the literal is there for ever.
    /// unsafe { endpoint.inject(&Dest::new(0, 1).data(17), b"ahoy".as_ptr(), 4)? };
    /// let (request, Completion::Ended(Ok(status))) = endpoint.next_ended()?.expect("one") else {
    ///     panic!("it has landed whole");
    /// };
    /// assert_eq!((request, status.data.get(), &into), (receive, Some(17), b"ahoy"));
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    #[inline]
    pub fn next_ended(&mut self) -> Result<Option<(Request, Completion)>, Error> {
        self.next_ended_within(1)
    }

    /// As [`next_ended`](Self::next_ended), but makes progress up to `turns` times while nothing happens:
    /// for programs that do nothing but ask again. A turn takes some 20 ns, and as long a pause follows it.
    ///
    /// # Errors
    /// As [`next_ended`](Self::next_ended).
    ///
    /// # Panics
    /// If `turns` is 0.
    #[inline]
    pub fn next_ended_within(
        &mut self,
        turns: u32,
    ) -> Result<Option<(Request, Completion)>, Error> {
        let over = self.await_ended(turns)?;
        Ok(self.take_ended(over))
    }

    /// The first half of [`next_ended_within`](Self::next_ended_within): which operation is over. Nothing
    /// else is done with the endpoint before [`take_well`](Self::take_well) or [`take_ended`](Self::take_ended) has said
    /// how it ended.
    ///
    /// # Errors
    /// As [`next_ended`](Self::next_ended).
    ///
    /// # Panics
    /// If `turns` is 0.
    #[inline]
    pub fn await_ended(&mut self, turns: u32) -> Result<Over, Error> {
        assert!(turns > 0, "a look without a turn");
        self.check_process()?;
        self.poll_completion(turns)
    }

    /// The second half, if what is over has ended well and there is nothing else to it, as with most; else
    /// ask [`take_ended`](Self::take_ended).
    #[inline(always)]
    pub fn take_well(&mut self, over: &Over) -> Option<(Request, Status)> {
        match over {
            Over::Next => self.engine.core.requests.take_ok(),
            Over::Nothing | Over::This(_) => None,
        }
    }

    /// The second half: how it has ended.
    #[inline]
    pub fn take_ended(&mut self, over: Over) -> Option<(Request, Completion)> {
        match over {
            Over::Nothing => None,
            Over::Next => self.engine.core.requests.take_next(),
            Over::This(request) => {
                Some((request, self.engine.core.requests.take_completion(request)))
            }
        }
    }

    /// What else was over when [`await_ended`](Self::await_ended) has looked, without making progress: for
    /// the second and further entries of one look at a completion queue.
    ///
    /// # Errors
    /// As [`next_ended`](Self::next_ended).
    #[inline]
    pub fn more_ended(&mut self) -> Result<Over, Error> {
        self.poll_completion(0)
    }

    /// Sends a message whose memory is free again when this returns: what has no room now is copied.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`Error::Memory`] when there is none for the copy.
    ///
    /// # Safety
    /// `len` bytes at `data` are readable.
    #[inline]
    pub unsafe fn inject(&mut self, to: &Dest, data: *const u8, len: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        match unsafe { self.inject_at_once(to, data, len)? } {
            true => Ok(()),
            // SAFETY: the caller's promise.
            false => unsafe { self.inject_copy(to, data, len) },
        }
    }

    /// The first half of [`inject`](Self::inject): `false` if there is no room now.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    ///
    /// # Safety
    /// As [`inject`](Self::inject).
    #[inline]
    pub unsafe fn inject_at_once(
        &mut self,
        to: &Dest,
        data: *const u8,
        len: usize,
    ) -> Result<bool, Error> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { crate::engine::bytes(data, len) };
        self.engine.send_now(to, Source::Bytes(bytes), len)
    }

    /// The second half, of a message for which there was no room: it is copied.
    ///
    /// # Errors
    /// As [`inject`](Self::inject).
    ///
    /// # Safety
    /// As [`inject`](Self::inject).
    #[cold]
    #[inline(never)]
    pub unsafe fn inject_copy(
        &mut self,
        to: &Dest,
        data: *const u8,
        len: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { crate::engine::bytes(data, len) };
        self.begin(|engine| engine.send_copy(*to, bytes))
    }

    /// As [`inject`](Self::inject) if the message can leave now, and there is nothing to it but that;
    /// otherwise nothing is done, and `false` returned: start it as an operation. Where messages are logged,
    /// what is short leaves always, as a copy if need be: when there is room is chance, and whoever is told at
    /// once that a send has ended is to be told so in a replay as well.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// `len` bytes at `data` are readable.
    #[inline]
    pub unsafe fn try_inject(
        &mut self,
        to: &Dest,
        data: *const u8,
        len: usize,
    ) -> Result<bool, Error> {
        if self.engine.core.policy.may_find_no_room() {
            // SAFETY: the caller's promise.
            return unsafe { self.inject_at_once(to, data, len) };
        }
        self.engine.check_dest(to)?;
        // What is logged is copied in any case.
        let is_copied = self.engine.core.policy.route(to.rank) == Route::Kept;
        if !is_copied && len > self.engine.fabric.limits(PeerId(to.rank)).inline {
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        unsafe { self.inject(to, data, len) }.map(|()| true)
    }

    /// How many messages and parts of such wait for room towards a rank; those that were
    /// [injected](Self::inject) are copies.
    pub fn waiting(&self, to: Rank) -> usize {
        self.engine.core.peers.get(to as usize).map_or(0, |peer| peer.backlog_len())
    }

    /// Starts to receive a message that was [claimed](Self::claim).
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// If it was claimed at another endpoint.
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    pub unsafe fn irecv_claimed_raw(
        &mut self,
        claimed: Claimed,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.engine.receive_claimed(claimed, into, len)? };
        Ok(self.engine.handle(request))
    }

    /// Starts to receive a message that was [claimed](Self::claim) into several places, which are filled one
    /// after the other; the list itself is not kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// If it was claimed at another endpoint.
    ///
    /// # Safety
    /// As [`irecv_vectored_raw`](Self::irecv_vectored_raw).
    pub unsafe fn irecv_claimed_vectored_raw(
        &mut self,
        claimed: Claimed,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.engine.receive_claimed_vectored(claimed, into)? };
        Ok(self.engine.handle(request))
    }
}
