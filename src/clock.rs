//! The clock: the engine is given times, and reads none itself.

use std::time::Instant;

/// Where an endpoint has its times from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock;

impl Clock {
    /// The time now.
    #[inline]
    pub(crate) fn now(self) -> Instant {
        Instant::now()
    }
}
