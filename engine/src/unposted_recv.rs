//! A blocking receive whose message comes while it waits.
//!
//! Only the program that waits could see whether such a receive is posted. As long as no other receive is posted, and no
//! message waits for one, it is not: what comes is compared with it before policy and matcher see it, and neither a place
//! among the posted receives nor a request is needed. The first thing that comes and is not simply its message (a longer
//! one, one for another receive) finds it posted.

use super::core::Core;
use super::frame::{MsgHead, kind};
use super::policy::rx::RxPolicy;
use super::policy::{Policy, by_policy};
use super::receive::posting;
use super::recv_record::name;
use super::request::{ANY, Stage};
use super::sink::Rx;
use crate::Engine;
use crate::{Data, Pattern, Rank, Status};
use taffrail_fabric::{Fabric, Head, Payload, SendMemory};
use taffrail_matching::Posting;

/// Idle turns after which the receive is posted, and the wait may become a long one.
pub const SOON: u32 = 64;

/// A receive that is not posted, and what its message has said when it has come.
///
/// What comes is stored word by word and read again at once: no two of these words stand side by side, or
/// the compiler reads them as one, which has to wait until both stores have reached the cache.
#[repr(C)]
pub struct UnpostedRecv {
    tag: u64,
    posting: Posting,
    len: usize,
    into: *mut u8,
    data: Data,
    room: usize,
    source: Rank,
    has_come: bool,
    /// It had to be posted.
    request: Option<u32>,
}

/// What has become of a receive that was not posted at first.
pub enum Received {
    /// Its message is there.
    Has(Status),
    /// It is posted, as this request.
    Posted(u32),
    /// It is still not posted.
    Nothing,
}

impl UnpostedRecv {
    /// # Safety
    /// `room` bytes at `into` stay writable, and are used by nobody else, while progress is made with this.
    #[inline(always)]
    pub unsafe fn new(from: &Pattern, into: *mut u8, room: usize) -> UnpostedRecv {
        let (posting, data) = (posting(from), Data::NONE);
        let (tag, source, has_come, request) = (0, ANY, false, None);
        UnpostedRecv { tag, posting, len: 0, into, data, room, source, has_come, request }
    }

    /// What its message says of itself, when it has come.
    #[inline(always)]
    pub fn status(&self) -> Option<Status> {
        let UnpostedRecv { tag, len, data, source, .. } = *self;
        self.has_come.then_some(Status { source, tag, len, data })
    }

    /// As which request it had to be posted.
    #[inline(always)]
    pub fn request(&self) -> Option<u32> {
        self.request
    }
}

impl<P: Policy> Core<P> {
    /// Whether this message is the one for the receive that is not posted. If it is not, that is posted.
    #[inline(always)]
    pub(crate) fn take_unposted<R: RxPolicy<P>>(
        &mut self,
        want: &mut UnpostedRecv,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> bool {
        if want.has_come || want.request.is_some() {
            return false;
        }
        if head.kind == kind::EAGER && payload.len() <= want.room {
            let env = self.envelope(from, MsgHead::of(head), payload.len() as u64);
            let is_wanted = self.matcher.is_idle() && want.posting.takes(&env);
            if is_wanted && R::admit_next(self, name(&env)) {
                // SAFETY: the caller that receives vouches for `room` bytes at `into`.
                unsafe { payload.copy_to(want.into, want.room) };
                (want.tag, want.len, want.data) = (env.tag, payload.len(), env.data);
                (want.source, want.has_come) = (from, true);
                R::received_directly(self, want.posting.source.is_none(), name(&env));
                return true;
            }
        }
        want.request = Some(self.post_wanted(want));
        false
    }

    /// Posts the receive that is not posted, if nothing has come for it: something comes that is not whole.
    #[cold]
    pub(crate) fn post_unposted(&mut self, want: &mut UnpostedRecv) {
        if !want.has_come && want.request.is_none() {
            want.request = Some(self.post_wanted(want));
        }
    }

    /// Posts a receive while nothing waits for it.
    #[inline(never)]
    fn post_wanted(&mut self, want: &UnpostedRecv) -> u32 {
        let Posting { source, context, tag, ignore, .. } = want.posting;
        let request =
            self.requests.start(Stage::Posted, source.unwrap_or(ANY), want.into, want.room);
        let slot = self.requests.get(request);
        // A rank that is replayed does not come here.
        self.policy.posted(&mut slot.record, &Pattern { source, context, tag, ignore });
        if let Some(post) = self.post(want.posting, request) {
            self.requests.get(request).post = Some(post);
        }
        request
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Ends a receive that was posted if nobody is left to send anything for it.
    #[cold]
    pub fn look_after(&mut self, request: u32, from: &Pattern) {
        let slot = self.core.requests.get(request);
        if slot.stage == Stage::Posted
            && let Some(post) = slot.post
        {
            self.queued(request, post, from);
        }
    }

    /// One turn, in which a message may come for a receive that is not posted.
    #[inline(always)]
    pub fn turn_directly(&mut self, want: &mut UnpostedRecv) -> usize {
        by_policy!(self.core.policy, self.turn_directly_by(want))
    }

    #[inline(never)]
    fn turn_directly_by<R: RxPolicy<P>>(&mut self, want: &mut UnpostedRecv) -> usize {
        if !R::takes_in(&mut self.core, self.turns) {
            return self.after_poll(0);
        }
        if self.fabric.polls_apart() {
            return self.turn_apart::<R>(want);
        }
        let events = self.fabric.poll(&mut Rx::<P, R, true>::with_unposted(&mut self.core, want));
        self.after_poll(events)
    }

    #[cold]
    #[inline(never)]
    fn turn_apart<R: RxPolicy<P>>(&mut self, want: &mut UnpostedRecv) -> usize {
        let sink = &mut Rx::<P, R, true>::with_unposted(&mut self.core, want);
        let events = self.fabric.poll_apart(sink);
        self.after_poll(events)
    }
}
