//! Peers that die and are restarted, the restart exchange, and the end of the program.

use super::decisions::Logged;
use super::nondeterminism::CoreParts;
use super::{Finalizing, Host, Link, Logging};
use crate::core::{Core, Deferred, broken};
use crate::frame::{Frame, body, kind};
use crate::peer::Destination;
use crate::policy::protocol::Recovery;
use crate::{Engine, Rank};
use taffrail_fabric::{Fabric, Fault, Incarnation, Payload, PeerId, SendMemory};
use taffrail_logging::{Meeting, MsgId, PeerNumbers, Received, Restart, RestartPhase, mutant};

impl<P: Logged> Recovery<P> for Logging<P::Host> {
    fn suspended(core: &mut Core<P>, rank: Rank, partial: Vec<(MsgId, Destination)>) {
        let log = core.log();
        log.outbound.lost(rank);
        log.links[rank as usize].finalize_sent = false;
        log.forget_known_determinants(rank);
        for (message, destination) in partial {
            log.inbound.began(message);
            log.partial.insert(message, destination);
        }
    }

    /// The program would see an error that its replay does not see. So this process ends, and is restarted (fail-stop).
    fn protocol_broken(core: &mut Core<P>, rank: Rank, fault: Fault) {
        if mutant!(GarbageSurvived) {
            return core.peer_failed(rank, fault);
        }
        P::Host::end_process(&format!("rank {rank} has broken the protocol: {fault}"));
    }

    fn resumes(core: &mut Core<P>, rank: Rank, incarnation: u32) -> bool {
        let meeting = core.log().inbound.met(rank, incarnation);
        if meeting == Meeting::Old && !mutant!(OldIncarnationMet) {
            tracing::warn!(rank, incarnation, "an earlier incarnation has connected");
            return false;
        }
        let is_unheard = !core.peers[rank as usize].is_away();
        if meeting == Meeting::Restarted && is_unheard && !mutant!(CallerNotSuspended) {
            // There was no link with the one before, whose death has not been heard of: what is sent waits for the exchange.
            core.peer_suspended(rank);
        }
        let CoreParts { log, peers, .. } = core.parts();
        let (link, peer) = (&mut log.links[rank as usize], &mut peers[rank as usize]);
        if meeting == Meeting::Restarted {
            // The roster may have said that the program of the one before had completed.
            peer.is_finished &= mutant!(SilenceKept);
        }
        // Both processes live, and messages on the lost link have arrived or not: both send RESTART1.
        link.is_first |=
            peer.is_away() && meeting == Meeting::Known && !mutant!(LostLinkNotSettled);
        if let Some(exchanged) = &mut link.exchanged {
            exchanged.arriving = None;
        }
        log.forget_known_determinants(rank);
        true
    }

    /// Begins the restart exchange, if this rank is to speak first.
    fn reconnected<F: Fabric + SendMemory>(engine: &mut Engine<F, P>, rank: Rank) {
        let log = engine.core.log();
        // A rank that was restarted speaks first.
        if !log.is_same_set(rank) && log.links[rank as usize].is_first {
            engine.send_restart(rank, RestartPhase::First);
        }
    }

    fn restart_received(
        core: &mut Core<P>,
        from: Rank,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let log = core.log();
        if log.is_same_set(from) {
            return Err(broken("kind", "no RESTART within a set", kind::RESTART));
        }
        let restart = body::read_restart(payload)?;
        if !log.inbound.believes(from, restart.incarnation) && !mutant!(OldIncarnationMet) {
            // Its sender is dead, or has not connected yet (*old-incarnations-die*).
            tracing::warn!(from, restart.incarnation, "not the incarnation that has connected");
            return Ok(());
        }
        let begun = &mut log.links[from as usize].exchanged().arriving;
        if mutant!(PieceTakenForAll) && restart.continues {
            return Ok(());
        }
        let more = restart.more && !mutant!(PieceTakenForAll);
        let whole = Restart::join(begun, Restart { more, ..restart });
        let whole = whole.map_err(|error| broken("RESTART", "the next piece of one", error))?;
        core.deferred.extend(whole.map(|restart| Deferred::PeerState { from, restart }));
        Ok(())
    }

    /// RESTART1, RESTART2 or COMMITTED.
    fn peer_state_received<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        rank: Rank,
        restart: Restart,
    ) {
        if restart.phase == RestartPhase::Committed {
            engine.core.received_for_good(rank, &restart.received);
            return engine.collect(rank, restart.received);
        }
        let answers = restart.phase == RestartPhase::First;
        if answers {
            engine.send_restart(rank, RestartPhase::Second);
        }
        let log = engine.core.log();
        // Where both were restarted, its RESTART1 has said the same already.
        if answers || !log.outbound.is_ready(rank) {
            log.links[rank as usize].is_first = false;
            let exchanged = log.links[rank as usize].exchanged.as_deref();
            if let Some(dropped) = exchanged.and_then(|exchanged| exchanged.dropped.as_ref())
                && !restart.received.reaches(dropped)
                && !mutant!(DroppedNotMissed)
            {
                // Its node was lost with that checkpoint (*oldest-usable*).
                P::Host::end_process(&format!(
                    "rank {rank} was restarted before its last checkpoint, and rank {} has dropped messages that this \
                     covers; the job cannot be continued",
                    log.me
                ));
            }
            if mutant!(DiscardedEarly) {
                engine.collect(rank, restart.received.clone());
            }
            engine.send_again(rank, restart.received);
            if !mutant!(FinalizeNotRepeated) {
                engine.send_finalize(rank);
            }
        }
    }

    fn collect_more<F: Fabric + SendMemory>(engine: &mut Engine<F, P>, rank: Rank) {
        engine.collect_rest(rank);
    }

    fn determinants_received(
        core: &mut Core<P>,
        from: Rank,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        core.log().receive_determinants(from, payload)
    }

    fn begin_exchange<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) {
        for rank in 0..engine.size() {
            let incarnation = engine.fabric.incarnation(PeerId(rank)).0;
            let log = engine.core.log();
            if rank == log.me {
                continue;
            }
            if log.inbound.met(rank, incarnation) == Meeting::Restarted {
                // It was restarted before this process has met it, and speaks first: what is sent to it waits for that.
                log.outbound.lost(rank);
            }
            if engine.fabric.was_linked(PeerId(rank)) {
                Self::reconnected(engine, rank);
            } else if engine.needs_link(rank) && !mutant!(CheckpointedNotCalled) {
                // Where either has something of the other in its checkpoint or the log of that. The exchange begins when the link is up.
                engine.fabric.connect(PeerId(rank));
            }
        }
    }

    /// A rank that has, or may have, something for one that was restarted connects with it: there may be many others, which only count it
    /// (*neighbours-only*).
    fn runs_again<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        rank: Rank,
        incarnation: Incarnation,
    ) {
        let needs_link = engine.needs_link(rank);
        let CoreParts { log, peers, .. } = engine.core.parts();
        if !mutant!(FinalizingOnce) {
            log.publish_again();
        }
        if log.inbound.precedes(rank, incarnation.0) {
            // Its link may be up, which is reported next: until then nobody leaves.
            peers[rank as usize].is_finished &= mutant!(SilenceKept);
        }
        if !needs_link && !mutant!(RestartUncounted) {
            log.inbound.met(rank, incarnation.0);
        }
        if needs_link && !mutant!(RestartedNotCalled) {
            engine.fabric.connect(PeerId(rank));
        }
    }

    /// Sends FINALIZE to all ranks with a link. The others learn it from [`Membership`](taffrail_fabric::Membership).
    fn begin_to_leave<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) -> bool {
        engine.begin_to_finalize();
        let CoreParts { log, peers, .. } = engine.core.parts();
        log.begin_finalizing(peers);
        engine.send_finalize_to_neighbours();
        true
    }

    /// A peer with a link sends FINALIZE over it, behind its messages. A peer without one has sent this rank nothing, and never will: a
    /// peer publishes this after its links are up, those with ranks that were restarted as well, of all of which it knew
    /// (*neighbours-only*).
    fn peer_finalizing<F: Fabric + SendMemory>(
        engine: &mut Engine<F, P>,
        rank: Rank,
        incarnation: Incarnation,
    ) {
        let is_linked = engine.fabric.was_linked(PeerId(rank));
        let is_present = engine.core.log().inbound.believes(rank, incarnation.0);
        if is_present && (!is_linked || mutant!(FinalizingBelievedOfLinked)) {
            engine.core.finalize_received(rank);
        }
    }

    /// Also after a check for peers that have died: those are restarted and will need this rank.
    fn have_all_left<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) -> bool {
        if !mutant!(LateCallerNotAnswered) {
            engine.send_finalize_to_neighbours();
        }
        engine.publish_finalizing();
        if !engine.has_all_finalize() {
            return false;
        }
        if !mutant!(LastLookOmitted) {
            engine.check();
        }
        if !engine.has_all_finalize() {
            return false;
        }
        // The time until all had left does not count.
        engine.core.finalizing = Some(engine.core.clock.now());
        let log = engine.core.log();
        log.causal_counters().iter().for_each(|sent| log.events.publish(sent));
        true
    }

    /// Notes it where the launcher sees it.
    fn leave<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) {
        let log = engine.core.log();
        // Of incarnations that are linked with this rank, or need no link: another may be on its way, and needs this rank.
        log.events.leave(log.incarnations().map(u64::from).sum());
    }
}

impl<F: Fabric + SendMemory, P: Logged> Engine<F, P> {
    /// Sends RESTART1 or RESTART2: what this rank has of a peer.
    fn send_restart(&mut self, rank: Rank, phase: RestartPhase) {
        let CoreParts { log, numbers, .. } = self.core.parts();
        let channels = numbers.of(rank).expected.all().collect();
        let missing = log.inbound.missing(rank).filter(|_| !mutant!(MissingUnreported));
        let missing = missing.map(|name| (name.context, name.seq)).collect();
        let received = Received { channels, missing };
        let restart = Restart::new(phase, log.incarnation, received);
        self.repeat_committed(rank);
        self.post_restart(rank, &restart);
    }

    /// Sends a message of the exchange, in as many pieces as it takes.
    pub(super) fn post_restart(&mut self, rank: Rank, restart: &Restart) {
        let most = self.core.peers[rank as usize].fragment();
        for piece in restart.pieces(most) {
            let (frame, body) = body::restart(&piece);
            self.tx().post_frame(rank, frame, &body);
        }
    }

    /// Sends COMMITTED to a peer once more: one of the two was restarted, so that it may have been lost. It comes before
    /// RESTART, so that messages that it covers are not sent again.
    fn repeat_committed(&mut self, rank: Rank) {
        let exchanged = self.core.log().links[rank as usize].exchanged.as_deref();
        if let Some(received) = exchanged.and_then(|exchanged| exchanged.own_checkpoint.clone())
            && !mutant!(CommittedNotRepeated)
        {
            self.send_committed(rank, received);
        }
    }

    /// Sends FINALIZE behind all messages to a peer: where some are still held, when they leave
    /// (*nothing-after-farewell*).
    fn send_finalize(&mut self, rank: Rank) {
        let is_finalizing = self.core.finalizing.is_some();
        let log = self.core.log();
        let is_held = !log.is_same_set(rank) && !log.outbound.is_ready(rank);
        if is_finalizing && (!is_held || mutant!(FinalizeBeforeHeld)) {
            log.links[rank as usize].finalize_sent = true;
            self.tx().post_frame(rank, Frame::Finalize, &[]);
        }
    }

    /// Sends FINALIZE to the ranks with a link, which may be new, that have not been sent it (*neighbours-only*). Where its end
    /// depends on events that it cannot see become stable, all ranks are sent it, behind their determinants.
    fn send_finalize_to_neighbours(&mut self) {
        let (me, sends_all) = (self.rank(), self.core.log().ends_out_of_sight());
        for rank in (0..self.size()).filter(|&rank| rank != me) {
            let is_linked = self.fabric.was_linked(PeerId(rank));
            if (is_linked || sends_all) && self.lacks_finalize(rank) {
                self.send_finalize(rank);
            }
            // To one that was restarted, or by one, it leaves behind the exchange.
            if sends_all && !is_linked && !mutant!(EndCallsNobody) {
                self.fabric.connect(PeerId(rank));
            }
        }
    }

    /// Whether this rank has something for another one, or may have it: they have spoken with each other (*neighbours-only*). The ranks
    /// of a set are few, and keep nothing for each other.
    fn needs_link(&mut self, rank: Rank) -> bool {
        let CoreParts { log, numbers, .. } = self.core.parts();
        let PeerNumbers { sent, expected } = numbers.of(rank);
        let have_spoken = sent.all().chain(expected.all()).next().is_some();
        have_spoken || log.is_same_set(rank) || self.fabric.was_linked(PeerId(rank))
    }

    /// Whether FINALIZE was sent to all of these ranks that are not gone; those that are to be restarted are not.
    fn have_finalize(&mut self, are_meant: impl Fn(&F, Rank) -> bool) -> bool {
        let Engine { fabric, core, .. } = self;
        let CoreParts { log, peers, .. } = core.parts();
        let lacks_it = |(rank, link): (Rank, &Link)| {
            let is_there = rank != log.me && peers[rank as usize].fault.is_none();
            is_there && !link.finalize_sent && are_meant(fabric, rank)
        };
        !(0..).zip(&log.links).any(lacks_it)
    }

    /// Whether FINALIZE is still to be sent to a rank that is there.
    fn lacks_finalize(&mut self, rank: Rank) -> bool {
        let is_away = self.core.peers[rank as usize].is_away();
        !is_away && !self.core.log().links[rank as usize].finalize_sent
    }

    /// Publishes that this program has completed, once, and once more after each restart of a rank: when FINALIZE has left to all ranks
    /// with a link and the events before it are stable. Each of those ranks has that link as well by then, and waits for FINALIZE over it.
    fn publish_finalizing(&mut self) {
        let is_neighbour = |fabric: &F, rank| fabric.was_linked(PeerId(rank));
        if self.core.log().is_finalizing_stable()
            && (self.have_finalize(is_neighbour) && self.has_flushed() || mutant!(FinalizingEarly))
        {
            self.core.log().finalizing = Finalizing::Published;
            self.core.membership.finalizing();
        }
    }

    /// Whether all that was sent has left.
    fn has_flushed(&self) -> bool {
        let mut all = 0..self.size();
        !self.tx.has_backlog() && all.all(|rank| self.is_flushed(rank) && !self.withholds(rank))
    }

    /// Whether this rank has published its end, or FINALIZE was sent to all that are there.
    fn can_all_learn_the_end(&mut self) -> bool {
        let is_published = matches!(self.core.log().finalizing, Finalizing::Published);
        is_published || self.have_finalize(|_, _| true)
    }

    /// Whether FINALIZE has come from all other ranks and has left to all of them, and those without a link can learn it: the gate may
    /// hold that back for longer than closing the endpoint waits.
    fn has_all_finalize(&mut self) -> bool {
        self.core.all_finished(self.rank()) && self.can_all_learn_the_end() && self.has_flushed()
    }
}
