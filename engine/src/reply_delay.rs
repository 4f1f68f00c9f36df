//! When an delay may be here: a wait looks for it then, and not before.
//!
//! Whoever answers writes a line of the cache that whoever waits looks at, and a look while the delay
//! is being written takes the line away from the one who writes: one more trip between the caches. So
//! one of the two learns how long answers take, and looks for the first time when the delay has just
//! come. A little late costs that little, a little early costs the trip.

/// What a first look that was too early adds to the time, in turns of an empty loop (about 5 ns).
const LATER: u32 = 16;
/// The longest time without a look (about 0.6 us).
const MOST: u32 = 2048;
/// Idle turns of a wait after which what came was no delay that was on its way.
const ANSWERED: u32 = 16;

/// How long the answers of a peer take.
#[derive(Default)]
pub struct ReplyDelay {
    turns: u32,
}

impl ReplyDelay {
    /// Lets the time pass in which no delay can be here.
    #[inline]
    pub fn await_it(&self) {
        for turn in 0..self.turns {
            std::hint::black_box(turn);
        }
    }

    /// A wait was over after so many idle turns.
    #[inline]
    pub fn observe(&mut self, idle: u32) {
        if idle == 0 {
            self.turns = self.turns.saturating_sub(1);
        } else if idle < ANSWERED {
            self.turns = (self.turns + LATER).min(MOST);
        } else {
            self.turns /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for answers that take `time`, in turns of 200; returns the times without a look.
    fn waits(delay: &mut ReplyDelay, time: u32, count: usize) -> Vec<u32> {
        let wait = |_| {
            let turns = delay.turns;
            delay.observe(time.saturating_sub(turns).div_ceil(200));
            turns
        };
        (0..count).map(wait).collect()
    }

    #[test]
    fn the_first_look_comes_to_be_when_answers_come() {
        let mut delay = ReplyDelay::default();
        waits(&mut delay, 700, 200);
        let settled = waits(&mut delay, 700, 1000);
        assert!(settled.iter().all(|turns| (699..700 + LATER).contains(turns)), "{settled:?}");
        let early = settled.iter().filter(|&&turns| turns < 700).count();
        assert!(early <= 1000 / LATER as usize, "{early} of 1000 looks were too early");
    }

    #[test]
    fn what_takes_long_is_not_waited_for_blindly() {
        let mut delay = ReplyDelay::default();
        waits(&mut delay, 700, 200);
        waits(&mut delay, 1_000_000, 12);
        assert_eq!(delay.turns, 0);
        assert_eq!(waits(&mut delay, 1_000_000, 100), [0; 100]);
    }

    #[test]
    fn the_longest_time_is_bounded() {
        let mut delay = ReplyDelay::default();
        let times = waits(&mut delay, MOST + 900, 1000);
        assert_eq!(times.iter().max(), Some(&MOST));
    }
}
