//! The gate: every frame that leaves the set, and lets a peer's program continue, waits here for the events
//! that it may depend on (*stable-before-escape*, *every-frame-that-frees*; `docs/logging.md`, section 2).
//!
//! A frame is given its ticket when it is made, and the gate is asked in one place, when the frame is the next
//! of its peer's queue.

use super::host::Host;
use super::{Finalizing, Logging};
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

    /// Whether the events are stable that FINALIZING waits for.
    pub(super) fn is_finalizing_stable(&mut self) -> bool {
        let Finalizing::Waits(ticket) = &self.finalizing else { return false };
        if mutant!(FinalizingUngated) {
            return true;
        }
        self.events.is_open(ticket) && self.causal().is_none_or(|causal| causal.open() == 0)
    }

    /// What is not a message lets the program of a peer continue as a message does.
    fn before_control(&mut self, peers: &mut [Peer]) {
        if !mutant!(PollsBeforeAnswerNotLogged) {
            self.before_send(peers);
        }
    }
}
