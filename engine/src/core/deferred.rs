//! What a poll has left to do.

use crate::Rank;
use crate::frame::{Frame, Rts, Throttle};
use crate::loan::Offer;
use crate::request::Requests;
use std::collections::VecDeque;
use taffrail_fabric::{Fault, Token};
use taffrail_logging::{Restart, mutant};

/// Something to be done after the poll.
pub(crate) enum Deferred {
    /// Send a frame without a body.
    Answer { to: Rank, frame: Frame },
    /// Begin to move an announced message that `request` has matched.
    Fetch { request: u32, from: Rank, rts: Rts },
    /// Begin to send the fragments of an announced message.
    Stream { request: u32, want: usize, to: u64, non_temporal: bool },
    /// Take a loan that `request` has matched.
    Borrow { request: u32, from: Rank, offer: Offer },
    /// A read by the fabric ended.
    Read { token: Token, result: Result<(), Fault> },
    /// Answer a peer's get or put that the fabric cannot do.
    OneSided { from: Rank, frame: Frame, body: Vec<u8> },
    /// A view or a loaned buffer comes back.
    Returned { loan: u64, from: Rank },
    /// A peer is gone.
    Failed { rank: Rank },
    /// A peer that had died is there again.
    Connected { rank: Rank },
    /// Messages to a peer that were withheld may leave.
    Resumed { rank: Rank },
    /// A multi-receive of a replay has got a message.
    Advance { request: u32 },
    /// A peer says what it has of us.
    PeerState { from: Rank, restart: Restart },
    /// Drop more of what a peer's checkpoint covers.
    Collect { rank: Rank },
    /// Announce the last checkpoint, if it is on another node by now.
    Announce,
}

/// The actions that a poll has left to do, in the order in which they came.
///
/// *Invariant:* an action that there was no room for runs behind the others, the next time that actions are run.
#[derive(Default)]
pub(crate) struct DeferredActions {
    now: VecDeque<Deferred>,
    /// Actions that there was no room for.
    retry: VecDeque<Deferred>,
}

impl DeferredActions {
    /// Whether nothing is left to do.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Does this behind all others.
    #[inline]
    pub(crate) fn push(&mut self, action: Deferred) {
        self.now.push_back(action);
    }

    /// Does these behind all others.
    pub(crate) fn extend(&mut self, actions: impl IntoIterator<Item = Deferred>) {
        self.now.extend(actions);
    }

    /// Acknowledges a send of a peer.
    pub(crate) fn acknowledge(&mut self, to: Rank, name: u64) {
        self.push(Deferred::Answer { to, frame: Frame::Ack { name } });
    }

    /// Says to a peer which messages are taken from now on.
    pub(crate) fn throttle(&mut self, to: Rank, what: Throttle) {
        self.push(Deferred::Answer { to, frame: Frame::Throttle { what } });
    }

    /// The next action.
    pub(crate) fn pop(&mut self) -> Option<Deferred> {
        self.now.pop_front()
    }

    /// There was no room for an action: it is tried again the next time that actions are run.
    pub(crate) fn retry(&mut self, action: Deferred) {
        self.retry.push_back(action);
    }

    /// All that could be done is done: what there was no room for is left.
    pub(crate) fn end_turn(&mut self) {
        self.now.append(&mut self.retry);
    }

    /// Drops all deferred actions.
    #[cfg(fuzzing)]
    pub(crate) fn clear(&mut self) {
        self.now.clear();
    }

    /// Drops deferred actions that the same poll has queued because of an incarnation that has died since
    /// (*old-incarnations-die*).
    pub(crate) fn drop_of(&mut self, requests: &mut Requests, rank: Rank) {
        let mut of_the_dead = |action: &Deferred| match action {
            Deferred::Answer { to, .. } => *to == rank && !mutant!(StaleAnswersKept),
            Deferred::PeerState { from, .. } => *from == rank && !mutant!(OldIncarnationBelieved),
            Deferred::Connected { rank: peer } => *peer == rank,
            Deferred::Stream { request, .. } => requests.get(*request).peer == rank,
            _ => false,
        };
        self.now.retain(|action| !of_the_dead(action));
        self.retry.retain(|action| !of_the_dead(action));
    }
}
