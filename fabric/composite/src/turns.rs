//! When the far fabric is polled: a poll of it is a system call, one of the near fabric a few loads.

use crate::mutant::Mutant;

/// While near messages come, the far fabric is polled once in this many idle turns and near events together.
/// A turn takes about 10 ns and a message 50 ns, so that a far message waits 13 us at most, about as long as it was
/// under way, and a near one pays for a 250th part of a system call.
pub(crate) const INTERVAL_MAX: usize = 256;

/// Counts until the next poll of the far fabric. When nothing comes from either, the interval falls to one turn.
pub(crate) struct Turns {
    interval: usize,
    left: usize,
    /// Something near has come since the last poll of the far fabric.
    is_near_busy: bool,
}

impl Turns {
    pub(crate) fn new() -> Turns {
        Turns { interval: 1, left: 1, is_near_busy: false }
    }

    /// The near fabric was polled, and had this many events. Whether it is the far one's turn.
    pub(crate) fn is_due(&mut self, near_events: usize) -> bool {
        if Mutant::FarStarves.lives() {
            return near_events == 0;
        }
        self.is_near_busy |= near_events > 0;
        self.left = self.left.saturating_sub(1 + near_events);
        self.left == 0 || Mutant::FarEveryTime.lives()
    }

    /// The far fabric was polled, and had something or not.
    pub(crate) fn polled(&mut self, found: bool) {
        self.interval = match (std::mem::take(&mut self.is_near_busy), found) {
            (true, _) => INTERVAL_MAX,
            (false, true) => 1,
            (false, false) => (self.interval / 2).max(1),
        };
        self.left = self.interval;
    }

    /// The far fabric has something: the next turn is its turn.
    pub(crate) fn hurry(&mut self) {
        self.left = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(turns: &mut Turns, count: usize, near: impl Fn(usize) -> usize) -> usize {
        let due = |turn| {
            let due = turns.is_due(near(turn));
            if due {
                turns.polled(false);
            }
            usize::from(due)
        };
        (0..count).map(due).sum()
    }

    #[test]
    fn the_far_fabric_is_polled_seldom_while_near_messages_come_and_each_turn_when_none_do() {
        let turns = &mut Turns::new();
        assert_eq!(polls(turns, 100, |_| 0), 100);
        // A ping-pong: one message in eight turns.
        polls(turns, 1, |_| 1);
        let count = polls(turns, INTERVAL_MAX * 100, |turn| usize::from(turn % 8 == 0));
        assert!((100..=113).contains(&count), "{count}");
        // A flood does not starve it either: full turns count for what they hold.
        let count = polls(turns, 1000, |_| 31);
        assert!((124..=126).contains(&count), "{count}");
        polls(turns, 4 * INTERVAL_MAX, |_| 0);
        assert_eq!(polls(turns, 100, |_| 0), 100);
    }
}
