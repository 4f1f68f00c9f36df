//! Flow control: messages that nobody has received take no more of our memory than the user allows, since their senders
//! wait (`docs/wire.md`, section 5).

use super::Core;
use crate::Rank;
use crate::peer::Waiting;
use crate::policy::Policy;
use taffrail_fabric::Fault;
use taffrail_logging::{Admit, mutant};

/// What an answer takes that its peer does not take, in bytes: the queue of a peer has up to twice the room that it needs.
const ANSWER: usize = 2 * size_of::<Waiting>();

/// Answers that a peer need not take, whatever the limit.
const MIN_ANSWERS: usize = 1 << 18;

impl<P> Core<P> {
    /// How many answers may wait for a peer that does not read: those to a peer whose program computes meanwhile are as many as
    /// its sends under way, whose memory is like ours.
    pub(crate) fn most_answers(&self) -> usize {
        MIN_ANSWERS.max(self.flow.limit() / ANSWER)
    }
}

impl<P: Policy> Core<P> {
    /// Unreceived messages of a peer take more: `payload` bytes that are here, and `memory` bytes of memory. The peer is stopped
    /// if that is too much.
    pub(crate) fn grow_unreceived(&mut self, from: Rank, payload: usize, memory: usize) {
        self.flow.grow(&mut self.peers[from as usize].unreceived, payload, memory);
        self.adjust_throttle(from);
    }

    /// As [`grow_unreceived`](Self::grow_unreceived), less. Peers that were stopped are let go when there is room for their
    /// messages.
    pub(crate) fn shrink_unreceived(&mut self, from: Rank, payload: usize, memory: usize) {
        self.flow.shrink(&mut self.peers[from as usize].unreceived, payload, memory);
        self.adjust_throttle(from);
        for rank in self.flow.stopped_to_look_at() {
            self.adjust_throttle(rank);
        }
    }

    /// Sends THROTTLE to a peer, if it is to do something else from now on.
    #[inline]
    fn adjust_throttle(&mut self, rank: Rank) {
        let may_stop = self.may_stop(rank);
        let peer = &mut self.peers[rank as usize];
        if peer.fault.is_none()
            && let Some(throttle) = self.flow.adjust(rank, &mut peer.unreceived, may_stop)
        {
            self.deferred.throttle(rank, throttle);
        }
    }

    /// A rank that finalises receives nothing that its peers withhold.
    fn may_stop(&self, rank: Rank) -> bool {
        self.finalizing.is_none() && (self.policy.may_stop(rank) || mutant!(ReplayStops))
    }

    /// This rank finalises: stopped peers may send the rest of their messages, which are dropped.
    pub(crate) fn lift_stops(&mut self) {
        for rank in self.flow.stopped() {
            self.adjust_throttle(rank);
        }
    }

    /// Whether nobody will ever receive a message that was judged like this, and that no send waits for: no receive is posted
    /// any more.
    #[inline]
    pub(crate) fn is_dropped(&self, admit: Admit) -> bool {
        self.finalizing.is_some() && admit == Admit::Match
    }

    /// Whether a peer has not taken too much of our memory.
    #[inline]
    pub(crate) fn check_buffer_limit(&self, from: Rank) -> Result<(), Fault> {
        self.flow.check(&self.peers[from as usize].unreceived)
    }
}
