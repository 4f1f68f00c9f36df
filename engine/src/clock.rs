//! The clock: the engine is given one, and reads no other.

use std::time::Instant;

/// Where an engine has its times from: the clock of the machine, or that of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Clock(fn() -> Instant);

impl Clock {
    /// A clock that this function reads.
    pub fn new(read: fn() -> Instant) -> Clock {
        Clock(read)
    }

    /// The time now.
    #[inline]
    pub fn now(self) -> Instant {
        self.0()
    }
}
