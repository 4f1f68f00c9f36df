//! How an endpoint finalises: a message that was sent arrives, also if nobody waits for its send any more.
//!
//! MPI lets a program free the request of a send and finalise. So an endpoint goes only when every operation
//! under way is over. A peer that finalises as well receives nothing more than what its posted receives
//! match: it answers all other sends that wait for it with FINALIZE_NAK, so that two that finalise do not wait
//! for each other.

use super::core::{Core, Deferred};
use super::frame::Frame;
use super::request::{Slot, Stage};
use crate::Engine;
use crate::Rank;
use crate::policy::Policy;
use std::time::Duration;
use taffrail_fabric::{Fabric, PeerId, SendMemory};

/// A peer is waited for so long if its thread may be the one that waits.
const OWN_PROCESS: Duration = Duration::from_secs(if cfg!(fuzzing) { 0 } else { 5 });

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Begins or continues to finalise: makes progress, and returns whether the endpoint can be dropped
    /// without waiting. Peers in the same process are waited for five seconds at most. From the first call on
    /// nothing is received but what posted receives match.
    pub fn try_finalize(&mut self) -> bool {
        if self.abandon_in_child() {
            return true;
        }
        self.begin_to_finalize();
        self.progress();
        self.is_finalized()
    }

    /// If this process is the child of a fork: drops its links without a word to the peers, which are the parent's
    /// (*abandon-in-child*). Whether it is.
    pub fn abandon_in_child(&mut self) -> bool {
        let is_child = self.fabric.in_child();
        if is_child {
            self.fabric.abandon_in_child();
        }
        is_child
    }

    /// Notifies the sends that wait for a receive of this rank, which will post none. Sends that come from
    /// now on are notified as they come.
    pub fn begin_to_finalize(&mut self) {
        if self.core.finalizing.is_some() {
            return;
        }
        self.core.finalizing = Some(self.core.clock.now());
        let core = &mut self.core;
        let waiting = core.matcher.unexpected().chain(core.matcher.claimed());
        let names: Vec<(Rank, u64)> = waiting
            .filter_map(|(_, env, found)| Some((env.source, found.waiting_send()?)))
            .collect();
        for (rank, name) in names {
            core.refuse(rank, name);
        }
        core.lift_stops();
        self.run_deferred();
    }

    /// Whether nothing is under way that is worth waiting for.
    pub(crate) fn is_finalized(&self) -> bool {
        let is_early =
            self.core.finalizing.is_none_or(|since| self.core.clock.now() - since < OWN_PROCESS);
        let is_patient = self.core.policy.waits_for_receivers() && !std::thread::panicking();
        let is_awaited = |peer: Rank| is_early || (is_patient && !self.is_of_own_process(peer));
        let core = &self.core;
        let goes_on = |slot: &Slot| !matches!(slot.stage, Stage::Posted | Stage::Watching);
        let under_way = core.requests.under_way().filter(|(_, slot)| goes_on(slot));
        let mut peers = under_way
            .map(|(_, slot)| slot.peer)
            .chain(self.tx.backlog())
            .chain((0..self.size()).filter(|&peer| !self.is_flushed(peer) || self.withholds(peer)));
        !peers.any(is_awaited) && (core.deferred.is_empty() || !is_early)
    }

    /// Whether messages to a peer wait until it takes new ones.
    pub(crate) fn withholds(&self, peer: Rank) -> bool {
        self.core.peers[peer as usize].has_withheld()
    }

    /// Whether all that was sent to a peer is out of this process's hands, or nobody is there to take it.
    pub(crate) fn is_flushed(&self, peer: Rank) -> bool {
        self.core.peers[peer as usize].fault.is_some() || self.fabric.flushed(PeerId(peer))
    }

    fn is_of_own_process(&self, peer: Rank) -> bool {
        peer == self.rank() || self.fabric.shares_process(PeerId(peer))
    }
}

impl<P: Policy> Core<P> {
    /// Answers a send whose message will not be received, as this rank finalises.
    #[inline]
    pub(crate) fn refuse(&mut self, to: u32, name: u64) {
        if self.finalizing.is_some() {
            self.deferred.push(Deferred::Answer { to, frame: Frame::FinalizeNak { name } });
        }
    }

    /// A message of ours whose receiver finalises: it will not be received.
    pub(crate) fn unreceived(&mut self, from: u32, name: u64) {
        let error = self.finished_error(from);
        match self.requests.by_name(from, name) {
            Some((request, slot)) if slot.stage == Stage::RtsSent => {
                match slot.extra.as_ref().is_some_and(|extra| extra.detached) {
                    true => self.requests.sent(request),
                    false => self.fail(request, error),
                }
            }
            _ => {}
        }
    }
}
