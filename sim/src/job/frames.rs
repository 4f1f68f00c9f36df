//! Which frames of the engine schedules have reached.

use std::fmt;
use taffrail_engine::kind;

/// The frames that programs of the simulator must reach: their kinds and names. The others are of calls that its programs do
/// not make: active messages, loans, one-sided operations, data beside a payload; and THROTTLE, which needs more messages.
const REACHED: [(u8, &str); 11] = [
    (kind::EAGER, "EAGER"),
    (kind::EAGER_SYNC, "EAGER_SYNC"),
    (kind::EAGER_FIRST, "EAGER_FIRST"),
    (kind::EAGER_FRAG, "EAGER_FRAG"),
    (kind::RTS, "RTS"),
    (kind::CTS, "CTS"),
    (kind::RNDV_DATA, "RNDV_DATA"),
    (kind::ACK, "ACK"),
    (kind::RESTART, "RESTART"),
    (kind::FINALIZE, "FINALIZE"),
    (kind::DETERMINANTS, "DETERMINANTS"),
];

/// How many frames of each kind were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames([u64; 32]);

impl Frames {
    pub(super) fn count(&mut self, kind: u8) {
        if let Some(count) = self.0.get_mut(usize::from(kind)) {
            *count += 1;
        }
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Frames) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Names of the frames that must be reached and were not.
    pub fn missing(&self) -> Vec<&'static str> {
        let missed = REACHED.iter().filter(|(kind, _)| self.0[usize::from(*kind)] == 0);
        missed.map(|(_, name)| *name).collect()
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        REACHED
            .iter()
            .try_for_each(|(kind, name)| writeln!(f, "{:>9} {name}", self.0[usize::from(*kind)]))
    }
}
