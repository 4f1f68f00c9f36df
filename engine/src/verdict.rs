//! Verdicts on peers: what [`Membership`] says, whatever their links do (*one-verdict*).

use crate::policy::protocol::Recovery;
use crate::policy::{Policy, by_policy};
use crate::{Engine, Rank};
use taffrail_fabric::{Fabric, Fault, Life, Membership, PeerId, SendMemory};
use taffrail_logging::mutant;

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// From now on this says who lives, in place of the links.
    pub fn set_membership(&mut self, membership: Box<dyn Membership>) {
        self.core.membership = membership;
    }

    /// Does what follows from the verdicts since the last look.
    pub(crate) fn poll_membership(&mut self) {
        let mut verdicts = Vec::new();
        self.core.membership.poll(&mut |peer, life| verdicts.push((peer.0, life)));
        for (rank, life) in verdicts {
            self.verdict(rank, life);
        }
    }

    fn verdict(&mut self, rank: Rank, life: Life) {
        // Of ranks that are not of the job it says nothing.
        let Some(peer) = self.core.peers.get(rank as usize) else { return };
        if peer.fault.is_some() {
            return;
        }
        if let Life::Restarted(_) = life {
            // On another node, perhaps.
            self.learn_limits(rank);
        }
        let peer = &self.core.peers[rank as usize];
        let linked = self.fabric.linked_incarnation(PeerId(rank));
        match life {
            // A later incarnation may have connected before the death of the former was known here; that is reported next.
            Life::Dead(of) if of >= linked || mutant!(OldVerdictBelieved) => self.peer_died(rank),
            Life::Restarted(as_this) if as_this > linked => self.peer_died(rank),
            // Else the link says when its last message is here.
            Life::Finished if peer.is_away() || !self.fabric.was_linked(PeerId(rank)) => {
                self.core.peer_failed(rank, Fault::Closed);
            }
            Life::Finished if mutant!(FinishedUnknown) => {}
            Life::Finished => self.fabric.peer_finished(PeerId(rank)),
            Life::Finalizing(incarnation) => {
                by_policy!(self.core.policy, peer_finalizing(self, rank, incarnation));
            }
            Life::Dead(_) | Life::Restarted(_) => {}
        }
        if let Life::Restarted(incarnation) = life {
            by_policy!(self.core.policy, runs_again(self, rank, incarnation));
        }
    }

    /// The process that a link connects with is dead: nothing of it is taken in any more, though the link may be up
    /// (*old-incarnations-die*).
    fn peer_died(&mut self, rank: Rank) {
        if !mutant!(DeadStillHeard) {
            self.fabric.disconnect(PeerId(rank), Fault::Died);
        }
        self.core.peer_lost(rank, Fault::Died);
    }
}
