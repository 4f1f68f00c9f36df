//! How a receive is posted, and how messages are looked for without one.

use super::core::Core;
use super::multi::Multi;
use super::recv_record::name;
use super::request::{ANY, Stage};
use super::view::ViewBuffer;
use crate::Engine;
use crate::policy::protocol::Replays;
use crate::policy::rx::RxPolicy;
use crate::policy::{Policy, by_policy};
use crate::{Error, Pattern, Request, Status};
use std::io::IoSliceMut;
use taffrail_fabric::{Fabric, SendMemory};
use taffrail_logging::{MsgId, mutant};
use taffrail_matching::{Envelope, PostId, Posted, Posting};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Refuses the child of a fork, and ranks that there are not.
    ///
    /// # Errors
    /// [`Error::UsedAfterFork`], [`Error::NoSuchRank`].
    #[inline]
    pub fn check_pattern(&self, from: &Pattern) -> Result<(), Error> {
        if self.fabric.in_child() {
            return Err(Error::UsedAfterFork);
        }
        match from.source {
            Some(rank) if rank >= self.size() => Err(Error::NoSuchRank { rank, size: self.size() }),
            _ => Ok(()),
        }
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// `len` bytes at `into` stay writable, and are used by nobody else, until the request is
    /// finished.
    #[inline]
    pub unsafe fn start_recv(
        &mut self,
        from: Pattern,
        into: *mut u8,
        len: usize,
    ) -> Result<u32, Error> {
        self.check_pattern(&from)?;
        let peer = from.source.unwrap_or(ANY);
        let request = self.core.requests.start(Stage::Posted, peer, into, len);
        self.post(request, &from);
        Ok(request)
    }

    #[inline]
    fn post(&mut self, request: u32, from: &Pattern) {
        let record = &mut self.core.requests.get(request).record;
        if self.core.policy.posted(record, from)
            && by_policy!(self.core.policy, replay_post(self, request))
        {
            return;
        }
        match self.core.post(posting(from), request) {
            Some(post) => self.queued(request, post, from),
            None => self.run_deferred(),
        }
    }

    /// A receive waits for its message.
    #[inline]
    pub(crate) fn queued(&mut self, request: u32, post: PostId, from: &Pattern) {
        self.core.requests.get(request).post = Some(post);
        if from.source.is_none() && !self.core.policy.ends_any_source_at_once() {
            return;
        }
        if let Some(error) = self.gone(from).filter(|_| !mutant!(ReceiveAwaitsDead)) {
            self.nobody_sends(request, error);
        }
    }

    /// Ends a receive that nobody is left to send anything for.
    #[cold]
    fn nobody_sends(&mut self, request: u32, error: Error) {
        // Messages of this rank to itself may be there, and not polled yet.
        self.progress();
        let slot = self.core.requests.get(request);
        if slot.stage == Stage::Posted
            && let Some(post) = slot.post.take()
        {
            self.core.matcher.cancel(post);
            self.core.fail(request, error);
        }
    }

    /// Starts a receive into several places.
    ///
    /// # Safety
    /// As [`start_recv`](Self::start_recv), for each slice; the list itself is not kept.
    pub unsafe fn start_recv_vectored(
        &mut self,
        from: Pattern,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<u32, Error> {
        self.check_pattern(&from)?;
        let request = self.core.requests.start_scattered(from.source.unwrap_or(ANY), into);
        self.post(request, &from);
        Ok(request)
    }

    /// Starts a receive that finds its own memory.
    pub fn start_recv_view(&mut self, from: Pattern) -> Result<u32, Error> {
        self.check_pattern(&from)?;
        let peer = from.source.unwrap_or(ANY);
        let request = self.core.requests.start(Stage::Posted, peer, std::ptr::null_mut(), 0);
        self.core.requests.get(request).extra().view = Some(ViewBuffer::Bytes(Vec::new()));
        self.post(request, &from);
        Ok(request)
    }

    /// Starts a receive of many messages into one buffer.
    ///
    /// # Safety
    /// As [`start_recv`](Self::start_recv).
    pub unsafe fn start_multi(
        &mut self,
        from: Pattern,
        into: *mut u8,
        len: usize,
        least: usize,
    ) -> Result<u32, Error> {
        self.check_pattern(&from)?;
        let peer = from.source.unwrap_or(ANY);
        let request = self.core.requests.start(Stage::Posted, peer, into, len);
        let in_order = self.core.policy.reports_in_order();
        self.core.requests.get(request).extra().multi = Some(Multi::new(least, in_order));
        let record = &mut self.core.requests.get(request).record;
        if self.core.policy.posted_multi(record)
            && by_policy!(self.core.policy, replay_multi(self, request, &from))
        {
            return Ok(request);
        }
        self.post_multi(request, &from);
        Ok(request)
    }

    /// Posts a multi-receive, until it is full or no message is here that it takes.
    pub(crate) fn post_multi(&mut self, request: u32, from: &Pattern) {
        let closed = |multi: &Option<Multi>| multi.as_ref().is_some_and(|multi| multi.closed);
        while !closed(&self.core.requests.get(request).extra().multi) {
            let posting = Posting { multi: true, ..posting(from) };
            match self.core.post(posting, request) {
                Some(post) => return self.queued(request, post, from),
                None => self.run_deferred(),
            }
        }
    }

    /// Cancels a receive that no message has matched. `false` when it is too late.
    pub(crate) fn cancel_posted(&mut self, request: Request) -> Result<bool, Error> {
        let slot = self.core.requests.look(request)?;
        let Some(post) = slot.post.take_if(|_| slot.stage == Stage::Posted) else {
            return Ok(false);
        };
        if self.core.matcher.cancel(post).is_none() {
            return Ok(false);
        }
        self.core.fail(request.index, Error::Cancelled);
        Ok(true)
    }

    /// Looks for a message without receiving it.
    pub(crate) fn look_for(&mut self, from: &Pattern) -> Result<Option<Envelope>, Error> {
        let found = |core: &mut Core<P>| core.matcher.probe(&posting(from)).map(|(_, env, _)| *env);
        if let Some(envelope) = found(&mut self.core) {
            return Ok(Some(envelope));
        }
        self.progress();
        match (found(&mut self.core), self.gone(from)) {
            // A program that probes in a loop would wait without end.
            (None, Some(error)) => Err(error),
            (envelope, _) => Ok(envelope),
        }
    }

    /// The error of a pattern that nobody is left to send anything for.
    #[inline]
    pub(crate) fn gone(&self, from: &Pattern) -> Option<Error> {
        match from.source {
            Some(rank) if !self.core.peers[rank as usize].is_finished => None,
            None if self.core.last_finished.is_none() => None,
            _ => self.who_is_gone(from),
        }
    }

    #[cold]
    fn who_is_gone(&self, from: &Pattern) -> Option<Error> {
        let rank = match from.source {
            Some(rank) => rank,
            None if self.core.accepts_new_peers => return None,
            None => self.core.last_finished.filter(|_| self.core.all_finished(self.rank()))?,
        };
        self.core.peers[rank as usize].is_finished.then(|| self.core.finished_error(rank))
    }
}

impl<P: Policy> Core<P> {
    #[inline(always)]
    fn matched_by<R: RxPolicy<P>>(&mut self, request: u32, message: MsgId) {
        R::matched(self, request, message);
    }

    /// Posts a receive, or gives it the message that waits for it: `None`, and something may be deferred.
    #[inline]
    pub(crate) fn post(&mut self, posting: Posting, request: u32) -> Option<PostId> {
        match self.matcher.post(posting, request) {
            Posted::Queued(post) => Some(post),
            Posted::Matched(env, found) => {
                by_policy!(self.policy, self.matched_by(request, name(&env)));
                self.receive_unexpected(request, env, found);
                None
            }
        }
    }
}

pub(crate) fn posting(from: &Pattern) -> Posting {
    Posting {
        source: from.source,
        context: from.context,
        tag: from.tag,
        ignore: from.ignore,
        ident: 0,
        multi: false,
    }
}

/// What a message says of itself.
#[inline]
pub fn status(env: &taffrail_matching::Envelope) -> Status {
    Status { source: env.source, tag: env.tag, len: env.len as usize, data: env.data }
}
