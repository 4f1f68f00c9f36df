//! Peers that die and come back, and the end of the program.

use super::Logging;
use super::host::Host;
use super::nondeterminism::name;
use crate::Engine;
use crate::core::{Core, Deferred, Unexpected};
use crate::frame::Frame;
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
            Fault::Lost(_) if !self.is_fellow(peer) => OnLoss::Suspend,
            _ => OnLoss::Fail,
        }
    }
}

impl<P: Policy> Core<P> {
    /// A peer has died and will be started again: what is under way to it and from it waits for that
    /// (*whole-message*).
    pub(crate) fn peer_suspended(&mut self, rank: Rank) {
        let Some(log) = self.policy.log_mut() else { return };
        tracing::debug!(rank, "gone; waiting until it is there again");
        log.outbound.lost(rank);
        log.forget_what_it_has(rank);
        let peer = &mut self.peers[rank as usize];
        peer.set_away(true);
        // Its program is not over any more, if it was.
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
                    }
                    if let Some(name) = slot.record.name(rank) {
                        lacking.push((name, Destination::Request(index)));
                    }
                }
                Stage::RtsSent | Stage::Streaming => {
                    // The log has it; what is to be acknowledged is sent again with its name.
                    if !mutant!(SendNotBegunAgain) {
                        (slot.stage, slot.moved) = (Stage::RtsSent, 0);
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
        self.drop_actions_of(rank);
        for index in detached {
            self.requests.fail(index, Error::PeerFailed { rank, fault: Fault::Died });
            let _ = self.requests.finish(index);
        }
    }

    /// Forgets what a dead peer calls its sends. Returns the messages that it had announced, and which wait for a receive.
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
        // The next incarnation names its sends anew: an answer to a former name might answer another send.
        for id in synchronous {
            if let Some(Unexpected::Stored { sync, .. }) = self.matcher.payload_mut(id) {
                *sync = None;
            }
        }
        lacking
    }

    /// Drops what the same poll has left to do for, or on the word of, an incarnation that has died
    /// (*old-incarnations-die*).
    fn drop_actions_of(&mut self, rank: Rank) {
        let of_the_dead = |action: &Deferred| match action {
            Deferred::Answer { to, .. } => *to == rank && !mutant!(StaleAnswersKept),
            Deferred::PeerState { from, .. } => *from == rank && !mutant!(OldIncarnationBelieved),
            Deferred::Connected { rank: peer } => *peer == rank,
            _ => false,
        };
        self.deferred.retain(|action| !of_the_dead(action));
        self.retry_deferred.retain(|action| !of_the_dead(action));
    }

    /// A peer that had died is there again.
    pub(crate) fn peer_restarted(&mut self, rank: Rank, incarnation: u32) {
        if let Some(log) = self.policy.log_mut() {
            let meeting = log.inbound.met(rank, incarnation);
            if meeting == Meeting::Old && !mutant!(OldIncarnationMet) {
                tracing::warn!(rank, incarnation, "an earlier incarnation has connected");
                return;
            }
            let (link, peer) = (&mut log.links[rank as usize], &mut self.peers[rank as usize]);
            // Both have lived on, and what was on the lost link has come or not: both say what they have.
            link.is_first |=
                peer.is_away() && meeting == Meeting::Known && !mutant!(LostLinkNotSettled);
            peer.set_away(false);
            log.forget_what_it_has(rank);
            self.deferred.push_back(Deferred::Connected { rank });
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Begins the exchange with those who were there before: only if this rank was started again.
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

    /// There is a connection with a peer that one of us was started again for.
    pub(crate) fn peer_connected(&mut self, rank: Rank) {
        let Some(log) = self.core.policy.log() else { return };
        // A peer that has started again speaks first, and so do we if we have.
        if !log.is_fellow(rank) && log.links[rank as usize].is_first {
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
        self.post_frame(rank, Frame::Restart, &restart.encode());
    }

    /// Sends COMMITTED to a peer once more: one of the two was started again, so that it may never have come. In
    /// front of the rest, so that what it covers is not sent again.
    fn repeat_committed(&mut self, rank: Rank) {
        let Some(log) = self.core.policy.log() else { return };
        if let Some(received) = &log.links[rank as usize].own_checkpoint
            && !mutant!(CommittedNotRepeated)
        {
            self.send_committed(rank, received.clone());
        }
    }

    /// A peer says what it has of us, or what its checkpoint has.
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
        // Where both have started again, its RESTART1 has said it all already.
        if answers || !log.outbound.is_ready(rank) {
            log.links[rank as usize].is_first = false;
            if mutant!(DiscardedEarly) {
                self.collect(rank, restart.received.clone());
            }
            self.send_again(rank, restart.received);
            if !mutant!(FinalizeNotRepeated) {
                self.say_farewell(rank);
            }
        }
    }

    /// Says that the program is over, behind all messages that were sent: so where some are still
    /// held, it is said when they leave (*nothing-after-farewell*).
    fn say_farewell(&mut self, rank: Rank) {
        let Some(log) = self.core.policy.log() else { return };
        let is_held = !log.is_fellow(rank) && !log.outbound.is_ready(rank);
        if self.core.finalizing.is_some() && (!is_held || mutant!(FinalizeBeforeHeld)) {
            self.post_frame(rank, Frame::Finalize, &[]);
        }
    }

    /// Says that this rank takes nobody in any more.
    pub fn leave(&mut self) {
        let Some(me) = self.core.policy.log().map(|log| log.me) else { return };
        // Whoever starts ranks again must know that this one takes nobody in any more.
        let incarnation = |rank: Rank| u64::from(self.fabric.incarnation(PeerId(rank)).0);
        let others: u64 = (0..self.size()).filter(|&rank| rank != me).map(incarnation).sum();
        if let Some(log) = self.core.policy.log_mut() {
            log.events.leave(others + u64::from(log.incarnation));
        }
    }

    /// Says to all that the program is over. `false` when nobody has to wait for the others: nothing is logged.
    pub fn begin_to_leave(&mut self) -> bool {
        let Some(me) = self.core.policy.log().map(|log| log.me) else { return false };
        self.begin_to_finalize();
        for rank in (0..self.size()).filter(|&rank| rank != me) {
            self.say_farewell(rank);
        }
        true
    }

    /// Whether the programs of all others are over, also after a look at who has died: that one will come again,
    /// and will need us.
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

    /// Whether the programs of all others are over, as far as we know, and all of them know that ours is:
    /// the gate may hold that back for longer than closing the endpoint waits.
    fn have_all_left(&self) -> bool {
        let log = self.core.policy.log();
        self.peers_with_backlog.is_empty()
            && log.is_none_or(|log| self.core.all_finished(log.me))
            && (0..self.size()).all(|rank| self.is_flushed(rank))
    }
}
