//! Peers that die and are restarted, the restart exchange, and the end of the program.

use super::Logging;
use super::host::Host;
use super::nondeterminism::name;
use crate::Engine;
use crate::core::{Core, Deferred, Unexpected};
use crate::frame::{Frame, body};
use crate::peer::Destination;
use crate::policy::{OnLoss, Policy};
use crate::request::Stage;
use crate::{Error, Rank};
use taffrail_fabric::{Fabric, Fault, PeerId, SendMemory};
use taffrail_logging::{Meeting, MsgId, Received, Restart, RestartPhase, mutant};

impl<H: Host> Logging<H> {
    /// A peer that has died is restarted; this rank with it, if it is of the same set. What was on a link that is lost is
    /// settled by a restart exchange when there is a link again, which nothing can within a set.
    pub(crate) fn on_loss(&self, peer: Rank, why: &Fault) -> OnLoss {
        match why {
            Fault::Died => OnLoss::Suspend,
            Fault::Lost(_) if !self.is_same_set(peer) => OnLoss::Suspend,
            _ => OnLoss::Fail,
        }
    }
}

impl<P: Policy> Core<P> {
    /// A peer has died and will be restarted: messages under way to it and from it wait for that (*whole-message*).
    pub(crate) fn peer_suspended(&mut self, rank: Rank) {
        let Some(log) = self.policy.log_mut() else { return };
        tracing::debug!(rank, "died; waiting for its next incarnation");
        log.outbound.lost(rank);
        log.forget_known_determinants(rank);
        let peer = &mut self.peers[rank as usize];
        peer.set_away(true);
        // If it had finalised: its next incarnation has not.
        peer.is_finished &= mutant!(SilenceKept);
        if !mutant!(BacklogKept) {
            peer.drop_backlog();
        }
        peer.force_rendezvous(false);
        peer.throttled &= mutant!(ThrottleKept);
        peer.timed = None;
        let mut lacking: Vec<(MsgId, Destination)> = Vec::new();
        if let Some(partial) = peer.partial.take()
            && !matches!(partial.destination, Destination::Nowhere)
            && !mutant!(InflowForgotten)
        {
            lacking.push((Self::partial_name(rank, &partial), partial.destination));
        }
        let mut detached = Vec::new();
        let under_way: Vec<u32> = self.requests.under_way().map(|(index, _)| index).collect();
        for index in under_way {
            let slot = self.requests.get(index);
            if slot.peer != rank {
                continue;
            }
            match slot.stage {
                Stage::Reading | Stage::CtsSent => {
                    (slot.stage, slot.moved) = (Stage::CtsSent, 0);
                    if let Some(extra) = &mut slot.extra {
                        extra.source = None;
                        extra.link_ended();
                    }
                    if let Some(name) = slot.record.name(rank) {
                        lacking.push((name, Destination::Request(index)));
                    }
                }
                Stage::RtsSent | Stage::Streaming => {
                    // The message is in the log, and is sent again with the name of this request if it is synchronous.
                    if !mutant!(SendNotBegunAgain) {
                        (slot.stage, slot.moved) = (Stage::RtsSent, 0);
                    }
                    if let Some(extra) = &mut slot.extra {
                        extra.link_ended();
                    }
                    if slot.extra.as_ref().is_some_and(|extra| extra.detached) {
                        detached.push(index);
                    }
                }
                _ => {}
            }
        }
        lacking.extend(self.forget_names(rank));
        let Some(log) = self.policy.log_mut() else { return };
        if mutant!(PartialForgotten) {
            lacking.clear();
        }
        for (name, destination) in lacking {
            log.inbound.began(name);
            log.partial.insert(name, destination);
        }
        self.deferred.drop_of(&mut self.requests, rank);
        for index in detached {
            self.requests.fail(index, Error::PeerFailed { rank, fault: Fault::Died });
            let _ = self.requests.finish(index);
        }
    }

    /// Forgets the names that a dead peer gave its sends. Returns the messages of it that were announced and are still
    /// unexpected.
    fn forget_names(&mut self, rank: Rank) -> Vec<(MsgId, Destination)> {
        let mut lacking = Vec::new();
        let mut synchronous = Vec::new();
        let waiting = self.matcher.unexpected_from(rank).chain(self.matcher.claimed());
        for (id, envelope, found) in waiting.filter(|(_, envelope, _)| envelope.source == rank) {
            match found {
                Unexpected::Rts(_) if !mutant!(AnnouncementOfDeadKept) => {
                    lacking.push((name(envelope), Destination::Waiting(id)));
                }
                Unexpected::Stored { sync: Some(_), .. } if !mutant!(StaleNamesKept) => {
                    synchronous.push(id);
                }
                _ => {}
            }
        }
        // The next incarnation gives new names: an ACK of an old name might be taken for that of another send.
        for id in synchronous {
            if let Some(Unexpected::Stored { sync, .. }) = self.matcher.payload_mut(id) {
                *sync = None;
            }
        }
        lacking
    }

    /// A peer has connected: a new incarnation, or the same one after its link was lost.
    pub(crate) fn peer_restarted(&mut self, rank: Rank, incarnation: u32) {
        if let Some(log) = self.policy.log_mut() {
            let meeting = log.inbound.met(rank, incarnation);
            if meeting == Meeting::Old && !mutant!(OldIncarnationMet) {
                tracing::warn!(rank, incarnation, "an earlier incarnation has connected");
                return;
            }
            let (link, peer) = (&mut log.links[rank as usize], &mut self.peers[rank as usize]);
            // Both processes live, and messages on the lost link have arrived or not: both send RESTART1.
            link.is_first |=
                peer.is_away() && meeting == Meeting::Known && !mutant!(LostLinkNotSettled);
            peer.set_away(false);
            log.forget_known_determinants(rank);
            self.deferred.push(Deferred::Connected { rank });
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Begins the restart exchange with all other ranks, if messages are logged: this rank was restarted.
    pub fn begin_exchange(&mut self) {
        for rank in 0..self.size() {
            let incarnation = self.fabric.incarnation(PeerId(rank)).0;
            let Some(log) = self.core.policy.log_mut() else { return };
            if rank != log.me {
                log.inbound.met(rank, incarnation);
                self.peer_connected(rank);
            }
        }
    }

    /// Begins the restart exchange with a peer that has connected, if this rank is to speak first.
    pub(crate) fn peer_connected(&mut self, rank: Rank) {
        let Some(log) = self.core.policy.log() else { return };
        // A rank that was restarted speaks first.
        if !log.is_same_set(rank) && log.links[rank as usize].is_first {
            self.send_restart(rank, RestartPhase::First);
        }
    }

    /// Sends RESTART1 or RESTART2: what this rank has of a peer.
    fn send_restart(&mut self, rank: Rank, phase: RestartPhase) {
        let Some(log) = self.core.policy.log_mut() else { return };
        let channels = self.core.numbers.of(rank).expected.all().collect();
        let missing = log.inbound.missing(rank).filter(|_| !mutant!(MissingNotTold));
        let missing = missing.map(|name| (name.context, name.seq)).collect();
        let received = Received { channels, missing };
        let restart = Restart { phase, incarnation: log.incarnation, received };
        self.repeat_committed(rank);
        let (frame, body) = body::restart(&restart);
        self.tx().post_frame(rank, frame, &body);
    }

    /// Sends COMMITTED to a peer once more: one of the two was restarted, so that it may have been lost. It comes before
    /// RESTART, so that messages that it covers are not sent again.
    fn repeat_committed(&mut self, rank: Rank) {
        let Some(log) = self.core.policy.log() else { return };
        if let Some(received) = &log.links[rank as usize].own_checkpoint
            && !mutant!(CommittedNotRepeated)
        {
            self.send_committed(rank, received.clone());
        }
    }

    /// RESTART1, RESTART2 or COMMITTED has come from a peer: which of our messages it has, or its checkpoint.
    pub(crate) fn peer_state_received(&mut self, rank: Rank, restart: Restart) {
        if restart.phase == RestartPhase::Committed {
            self.core.received_for_good(rank, &restart.received);
            return self.collect(rank, restart.received);
        }
        let answers = restart.phase == RestartPhase::First;
        if answers {
            self.send_restart(rank, RestartPhase::Second);
        }
        let Some(log) = self.core.policy.log_mut() else { return };
        // Where both were restarted, its RESTART1 has said the same already.
        if answers || !log.outbound.is_ready(rank) {
            log.links[rank as usize].is_first = false;
            if mutant!(DiscardedEarly) {
                self.collect(rank, restart.received.clone());
            }
            self.send_again(rank, restart.received);
            if !mutant!(FinalizeNotRepeated) {
                self.send_finalize(rank);
            }
        }
    }

    /// Sends FINALIZE behind all messages to a peer: where some are still held, when they leave
    /// (*nothing-after-farewell*).
    fn send_finalize(&mut self, rank: Rank) {
        let Some(log) = self.core.policy.log() else { return };
        let is_held = !log.is_same_set(rank) && !log.outbound.is_ready(rank);
        if self.core.finalizing.is_some() && (!is_held || mutant!(FinalizeBeforeHeld)) {
            self.tx().post_frame(rank, Frame::Finalize, &[]);
        }
    }

    /// Notes where the launcher sees it that this rank takes no restarted peer in any more.
    pub fn leave(&mut self) {
        let Some(me) = self.core.policy.log().map(|log| log.me) else { return };
        let incarnation = |rank: Rank| u64::from(self.fabric.incarnation(PeerId(rank)).0);
        let others: u64 = (0..self.size()).filter(|&rank| rank != me).map(incarnation).sum();
        if let Some(log) = self.core.policy.log_mut() {
            log.events.leave(others + u64::from(log.incarnation));
        }
    }

    /// Sends FINALIZE to all other ranks. `false` when this rank need not wait for theirs: nothing is logged.
    pub fn begin_to_leave(&mut self) -> bool {
        let Some(me) = self.core.policy.log().map(|log| log.me) else { return false };
        self.begin_to_finalize();
        for rank in (0..self.size()).filter(|&rank| rank != me) {
            self.send_finalize(rank);
        }
        true
    }

    /// Whether all other ranks have finalised, also after a check for peers that have died: those are restarted and will
    /// need this rank.
    pub(crate) fn have_all_left_for_good(&mut self) -> bool {
        if !self.have_all_left() {
            return false;
        }
        self.check();
        if !self.have_all_left() {
            return false;
        }
        // The time until all had left does not count.
        self.core.finalizing = Some(self.core.clock.now());
        if let Some(log) = self.core.policy.log_mut() {
            log.counters().iter().for_each(|sent| log.events.tell(sent));
        }
        true
    }

    /// Whether FINALIZE has come from all other ranks and has left to all of them, which the gate may hold back for longer
    /// than closing the endpoint waits.
    fn have_all_left(&self) -> bool {
        let log = self.core.policy.log();
        !self.tx.has_backlog()
            && log.is_none_or(|log| self.core.all_finished(log.me))
            && (0..self.size()).all(|rank| self.is_flushed(rank))
    }
}
