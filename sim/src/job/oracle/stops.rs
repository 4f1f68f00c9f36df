//! Whether senders wait that their receivers have stopped (*a stopped sender waits*).

use super::Oracle;
use crate::fabric::Frame;
use std::collections::{HashMap, HashSet};
use taffrail_engine::kind;
use taffrail_logging::{Rank, Restart, RestartPhase};

/// Who has stopped whom.
#[derive(Default)]
pub(super) struct Stops {
    /// THROTTLEs on the way, by the numbers of their frames: from whom, to whom, and whether they stop.
    on_the_way: HashMap<u64, (Rank, Rank, bool)>,
    /// Senders that have been handed a THROTTLE that stops them, and its senders.
    stopped: HashSet<(Rank, Rank)>,
}

impl Stops {
    /// The links of a rank are forgotten.
    pub(super) fn died(&mut self, rank: Rank) {
        self.on_the_way.retain(|_, (from, to, _)| *from != rank && *to != rank);
        self.stopped.retain(|(sender, by)| *sender != rank && *by != rank);
    }

    /// A frame is handed over.
    pub(super) fn arrives(&mut self, number: u64) {
        match self.on_the_way.remove(&number) {
            Some((by, sender, true)) => _ = self.stopped.insert((sender, by)),
            Some((by, sender, false)) => _ = self.stopped.remove(&(sender, by)),
            None => {}
        }
    }
}

impl Oracle {
    /// A frame leaves: a message, or its beginning, only if its receiver has not stopped its sender.
    pub(super) fn keeps_stops(&mut self, frame: &Frame<'_>) {
        let (from, to) = (frame.from as Rank, frame.to as Rank);
        match frame.head.kind {
            kind::THROTTLE => {
                let is_stop = frame.head.seq == 2;
                self.stops.on_the_way.insert(frame.number, (from, to, is_stop));
            }
            // A new link, of which neither has said anything yet.
            kind::RESTART if begins_link(frame.payload) => {
                self.stops.stopped.remove(&(from, to));
            }
            kind::EAGER
            | kind::EAGER_SYNC
            | kind::EAGER_FIRST
            | kind::EAGER_DATA
            | kind::RTS
            | kind::RTS_DATA
            | kind::LOAN
            | kind::ACTIVE
                if self.stops.stopped.contains(&(from, to)) =>
            {
                let text = format!(
                    "rank {from} sends rank {to}, which has stopped it, a message (kind {}, context {}, number {})",
                    frame.head.kind, frame.head.context, frame.head.seq
                );
                self.violated("a stopped sender waits", text);
            }
            _ => {}
        }
    }
}

/// Whether a RESTART is one of those that a link begins with.
fn begins_link(payload: &[u8]) -> bool {
    Restart::decode(payload)
        .is_ok_and(|restart| restart.phase != RestartPhase::Committed && !restart.continues)
}
