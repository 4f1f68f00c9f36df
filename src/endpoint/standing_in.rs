//! Endpoints whose program does not call: for runtimes with a thread that stands in for it.

use crate::{Endpoint, Transport};

/// Turns in one call.
const TURNS: u32 = 64;

impl<F: Transport> Endpoint<F> {
    /// Makes progress for a program that has not called for a while, by somebody else: so this is no
    /// heartbeat. Where messages are logged, it takes in ranks that were started again, and sends them
    /// what they lack. Returns how many things happened.
    #[doc(hidden)]
    pub fn stand_in(&mut self) -> usize {
        if self.engine.fabric.in_child() {
            return 0;
        }
        let heartbeat = std::mem::take(&mut self.heartbeat);
        let mut happened = self.engine.check();
        for _ in 0..TURNS {
            match self.progress_once() {
                0 => break,
                events => happened += events,
            }
        }
        self.heartbeat = heartbeat;
        happened
    }

    /// One line that says what this endpoint waits for: for runtimes that look for the ends of operations
    /// themselves. The same until something changes.
    #[doc(hidden)]
    pub fn stalled(&self) -> String {
        crate::explain::stalled(self)
    }

    /// How many things have happened to this endpoint, in all: a wait in which this grows is not in vain.
    #[doc(hidden)]
    pub fn happened(&self) -> u64 {
        self.engine.happened
    }

    /// Waits until no rank has anything to send or receive any more, as dropping the endpoint does; but
    /// what is logged here stays, for ranks that are killed later, as long as somebody
    /// [stands in](Self::stand_in).
    #[doc(hidden)]
    pub fn finish(&mut self) {
        if !self.engine.fabric.in_child() {
            self.engine.give_all_back();
            self.say_that_it_is_over();
            self.heartbeat.end();
        }
    }
}
