//! The gate: every frame that leaves the set, and lets a peer's program continue, waits here for the events
//! that it may depend on (*stable-before-escape*, *every-frame-that-frees*; `docs/logging.md`, section 2).
//!
//! A frame is given its ticket when it is made, and the gate is asked in one place, when the frame is the next
//! of its peer's queue.

use super::host::Host;
use super::{Dependencies, Finalizing, Logging};
use crate::Rank;
use crate::peer::Peer;
use taffrail_logging::{Ticket, mutant};

impl<H: Host> Logging<H> {
    /// The events that a control frame to a peer has to wait for: none within the set, and none in causal logging.
    pub(super) fn control_ticket(&mut self, peers: &mut [Peer], to: Rank) -> Ticket {
        match self.is_causal() || self.is_same_set(to) {
            true => {
                self.before_control(peers);
                Ticket::default()
            }
            false => self.published_ticket(peers),
        }
    }

    /// The events that something has to wait for which lets the programs of ranks of all sets continue.
    pub(super) fn published_ticket(&mut self, peers: &mut [Peer]) -> Ticket {
        self.before_control(peers);
        self.events.ticket()
    }

    /// The program has completed: FINALIZING waits for what that depends on, and not for what comes later.
    pub(super) fn begin_finalizing(&mut self, peers: &mut [Peer]) {
        if let Finalizing::No = self.finalizing {
            let ticket = self.published_ticket(peers);
            let known = self
                .refresh_causal()
                .map_or_else(Vec::new, |causal| causal.open_events().collect());
            self.finalizing = Finalizing::Waits(Dependencies { ticket, known });
        }
    }

    /// Another rank was restarted, and learns the end of this program only from a rank that knows of that (*neighbours-only*).
    pub(super) fn publish_again(&mut self) {
        if let Finalizing::Published = self.finalizing {
            self.finalizing = Finalizing::Waits(Dependencies::default());
        }
    }

    /// Whether FINALIZING waits for nothing any more.
    pub(super) fn is_finalizing_stable(&mut self) -> bool {
        self.refresh_causal();
        let Finalizing::Waits(end) = &mut self.finalizing else { return false };
        if let Some(causal) = &self.causal {
            end.known.retain(|&(rank, clock)| !causal.is_stable(rank, clock));
        }
        if !end.known.is_empty() {
            self.events.wake_loggers();
        }
        self.events.is_open(&end.ticket) && end.known.is_empty() || mutant!(FinalizingUngated)
    }

    /// Whether the end of the program depends on events of ranks of which this rank cannot see what is stable.
    pub(super) fn ends_out_of_sight(&self) -> bool {
        let Finalizing::Waits(end) = &self.finalizing else { return false };
        let is_seen = |rank| self.events.acknowledged().any(|(seen, _)| seen == rank);
        end.known.iter().any(|&(rank, _)| !is_seen(rank))
    }

    /// A control frame lets the program of a peer continue, as a message does.
    fn before_control(&mut self, peers: &mut [Peer]) {
        if !mutant!(PollsBeforeAnswerNotLogged) {
            self.before_send(peers);
        }
    }
}
