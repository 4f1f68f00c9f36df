//! Peers that die and are restarted, the restart exchange, and the end of the program.

use super::decisions::Logged;
use super::nondeterminism::CoreParts;
use super::{Host, Logging};
use crate::core::{Core, Deferred, broken};
use crate::frame::{Frame, body, kind};
use crate::peer::Destination;
use crate::policy::protocol::Recovery;
use crate::{Engine, Rank};
use taffrail_fabric::{Fabric, Fault, Payload, PeerId, SendMemory};
use taffrail_logging::{Meeting, MsgId, Received, Restart, RestartPhase, mutant};

impl<P: Logged> Recovery<P> for Logging<P::Host> {
    fn suspended(core: &mut Core<P>, rank: Rank, partial: Vec<(MsgId, Destination)>) {
        let log = core.log();
        log.outbound.lost(rank);
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
        let CoreParts { log, peers, .. } = core.parts();
        let meeting = log.inbound.met(rank, incarnation);
        if meeting == Meeting::Old && !mutant!(OldIncarnationMet) {
            tracing::warn!(rank, incarnation, "an earlier incarnation has connected");
            return false;
        }
        let (link, peer) = (&mut log.links[rank as usize], &peers[rank as usize]);
        // Both processes live, and messages on the lost link have arrived or not: both send RESTART1.
        link.is_first |=
            peer.is_away() && meeting == Meeting::Known && !mutant!(LostLinkNotSettled);
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
        core.deferred.push(Deferred::PeerState { from, restart });
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
            if let Some(dropped) = &log.links[rank as usize].dropped
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
            if rank != log.me {
                log.inbound.met(rank, incarnation);
                Self::reconnected(engine, rank);
            }
        }
    }

    /// Sends FINALIZE to all other ranks.
    fn begin_to_leave<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) -> bool {
        let me = engine.core.log().me;
        engine.begin_to_finalize();
        for rank in (0..engine.size()).filter(|&rank| rank != me) {
            engine.send_finalize(rank);
        }
        true
    }

    /// Also after a check for peers that have died: those are restarted and will need this rank.
    fn have_all_left<F: Fabric + SendMemory>(engine: &mut Engine<F, P>) -> bool {
        if !engine.has_all_finalize() {
            return false;
        }
        engine.check();
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
        // Of incarnations whose connection was reported: another may be on its way, and needs this rank.
        log.events.leave(log.inbound.restarts_met() + u64::from(log.incarnation));
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
        let restart = Restart { phase, incarnation: log.incarnation, received };
        self.repeat_committed(rank);
        let (frame, body) = body::restart(&restart);
        self.tx().post_frame(rank, frame, &body);
    }

    /// Sends COMMITTED to a peer once more: one of the two was restarted, so that it may have been lost. It comes before
    /// RESTART, so that messages that it covers are not sent again.
    fn repeat_committed(&mut self, rank: Rank) {
        if let Some(received) = self.core.log().links[rank as usize].own_checkpoint.clone()
            && !mutant!(CommittedNotRepeated)
        {
            self.send_committed(rank, received);
        }
    }

    /// Sends FINALIZE behind all messages to a peer: where some are still held, when they leave
    /// (*nothing-after-farewell*).
    fn send_finalize(&mut self, rank: Rank) {
        let log = self.core.log();
        let is_held = !log.is_same_set(rank) && !log.outbound.is_ready(rank);
        if self.core.finalizing.is_some() && (!is_held || mutant!(FinalizeBeforeHeld)) {
            self.tx().post_frame(rank, Frame::Finalize, &[]);
        }
    }

    /// Whether FINALIZE has come from all other ranks and has left to all of them, which the gate may hold back for longer
    /// than closing the endpoint waits.
    fn has_all_finalize(&self) -> bool {
        !self.tx.has_backlog()
            && self.core.all_finished(self.rank())
            && (0..self.size()).all(|rank| self.is_flushed(rank) && !self.withholds(rank))
    }
}
