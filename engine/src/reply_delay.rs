//! How long a wait for an answer delays its first poll.
//!
//! The peer writes its answer into a cache line that the waiting side polls. A poll while the answer is being
//! written takes the line away from the writer, which costs one more transfer between the caches. So one side of
//! a ping-pong learns how long answers take, and polls first when the answer has just arrived. Polling late costs
//! the lateness, polling early costs the transfer.

/// Increase of the delay after a first poll that was too early, in turns of an empty loop (about 5 ns).
const STEP: u32 = 16;
/// The longest delay, in the same turns (about 0.6 us).
const MAX_TURNS: u32 = 2048;
/// A wait with at least this number of idle turns was not ended by an answer that was already under way.
const MAX_ANSWER_TURNS: u32 = 16;

/// How long the answers of one peer take.
#[derive(Default)]
pub struct ReplyDelay {
    turns: u32,
}

impl ReplyDelay {
    /// Lets the time pass in which no answer can arrive.
    #[inline]
    pub fn await_it(&self) {
        for turn in 0..self.turns {
            std::hint::black_box(turn);
        }
    }

    /// A wait has ended after `idle` idle turns.
    #[inline]
    pub fn observe(&mut self, idle: u32) {
        if idle == 0 {
            self.turns = self.turns.saturating_sub(1);
        } else if idle < MAX_ANSWER_TURNS {
            self.turns = (self.turns + STEP).min(MAX_TURNS);
        } else {
            self.turns /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for answers that take `time`, polling every 200 turns; returns the delays before the first poll.
    fn waits(delay: &mut ReplyDelay, time: u32, count: usize) -> Vec<u32> {
        let wait = |_| {
            let turns = delay.turns;
            delay.observe(time.saturating_sub(turns).div_ceil(200));
            turns
        };
        (0..count).map(wait).collect()
    }

    #[test]
    fn the_first_poll_moves_to_the_arrival_of_answers() {
        let mut delay = ReplyDelay::default();
        waits(&mut delay, 700, 200);
        let settled = waits(&mut delay, 700, 1000);
        assert!(settled.iter().all(|turns| (699..700 + STEP).contains(turns)), "{settled:?}");
        let early = settled.iter().filter(|&&turns| turns < 700).count();
        assert!(early <= 1000 / STEP as usize, "{early} of 1000 polls were too early");
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
        let times = waits(&mut delay, MAX_TURNS + 900, 1000);
        assert_eq!(times.iter().max(), Some(&MAX_TURNS));
    }
}
