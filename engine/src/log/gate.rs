//! The gate: every frame that leaves the set, and lets a peer's program continue, waits here for the events
//! that it may depend on (*stable-before-escape*, *every-frame-that-frees*; `docs/logging.md`, section 2).
//!
//! A frame is given its ticket when it is made, and the gate is asked in one place, when the frame is the next
//! of its peer's queue.

use super::Logging;
use super::host::Host;
use crate::Rank;
use crate::peer::Peer;
use taffrail_logging::{Ticket, mutant};

impl<H: Host> Logging<H> {
    /// The events that a control frame to a peer has to wait for: none within the set, and none in causal logging.
    pub(super) fn control_ticket(&mut self, peers: &mut [Peer], to: Rank) -> Ticket {
        // The frame lets the program of the peer continue, as a message does.
        if !mutant!(PollsBeforeAnswerNotLogged) {
            self.before_send(peers);
        }
        match self.is_causal() || self.is_same_set(to) {
            true => Ticket::default(),
            false => self.events.ticket(),
        }
    }
}
