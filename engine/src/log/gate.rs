//! The gate: every frame that leaves the set, and on which a peer's program goes on, waits here for the events
//! that it may depend on (*stable-before-escape*, *every-frame-that-frees*; `docs/logging.md`, section 2).
//!
//! A frame is given its ticket when it is made, and the gate is asked in one place, when the frame is the next
//! of its peer's queue.

use super::Logging;
use super::host::Host;
use crate::Engine;
use crate::Rank;
use crate::core::Core;
use crate::frame::kind;
use crate::policy::Policy;
use taffrail_fabric::{Fabric, SendMemory};
use taffrail_logging::{Ticket, mutant};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// The events that a control frame has to wait for. In causal logging it waits for none, and determinants go
    /// before it.
    pub(crate) fn gate_ticket(&mut self, to: Rank, kind: u8) -> Ticket {
        let Core { policy, peers, .. } = &mut self.core;
        let Some(log) = policy.log_mut().filter(|_| kind::frees(kind)) else {
            return Ticket::default();
        };
        // Its peer's program goes on, as it does with a message.
        if !mutant!(PollsBeforeAnswerNotLogged) {
            log.before_send(peers);
        }
        if kind::escapes(kind) {
            return Ticket::default();
        }
        if log.is_causal() {
            self.send_determinants(to);
            return Ticket::default();
        }
        log.ticket_to(to)
    }

    /// Asks the gate for the frame at the front of a peer's queue: whether the frame may leave.
    pub(crate) fn passes_gate(&mut self, to: Rank) -> bool {
        loop {
            let core = &mut self.core;
            let Some(front) = core.peers[to as usize].front() else { return true };
            if !front.ticket.is_free() {
                if core.policy.log_mut().is_some_and(|log| !log.events.is_open(&front.ticket)) {
                    return false;
                }
                // An open gate stays open: the rest of a long message does not ask again.
                front.ticket = Ticket::default();
            }
            if !self.open_page(to) {
                return true;
            }
        }
    }
}

impl<H: Host> Logging<H> {
    /// What a frame that is made now has to wait for: nothing within the set.
    fn ticket_to(&mut self, to: Rank) -> Ticket {
        if self.is_fellow(to) { Ticket::default() } else { self.events.ticket() }
    }
}
