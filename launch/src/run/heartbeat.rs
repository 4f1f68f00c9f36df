//! Ranks that hang: each process has a word that changes whenever it calls the library. One whose word
//! stays the same for too long has not called it, or is stopped.
//!
//! Where the word is 0 the program has no endpoint yet, or none any more, or never has one. Then it is
//! only seen whether it is stopped.

use super::Failure;
use super::ranks::RankEnv;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use taffrail_logging::store::{Memory, MemoryError, Words, create_memory};

/// Bytes of the memory whose first word it is.
const BYTES: usize = 4096;

/// How often the words are looked at within the longest time for which one may stay the same.
const LOOKS: u32 = 8;

/// The heartbeats of all ranks.
pub struct Heartbeats {
    limit: Duration,
    looked: Instant,
    /// Ranks were stopped by the launcher, and are not to be held responsible for it.
    suspended: bool,
    /// Of each rank: of its present process.
    pulses: Vec<Option<Pulse>>,
}

struct Pulse {
    memory: Memory,
    /// What the word was at the last look, and for how long it has been that.
    word: u64,
    silent: Duration,
}

impl Heartbeats {
    /// Of so many ranks, which must call the library within this time again.
    pub fn new(limit: Duration, ranks: u32) -> Heartbeats {
        let pulses = (0..ranks).map(|_| None).collect();
        Heartbeats { limit, looked: Instant::now(), suspended: false, pulses }
    }

    /// Gives the next process of a rank a word of its own.
    pub fn env(&mut self, rank: usize, env: &mut RankEnv) -> Result<(), Failure> {
        let failed = |e: MemoryError| Failure::new(format!("no heartbeat for rank {rank}: {e}"));
        let file = create_memory("taffrail-heartbeat", BYTES).map_err(failed)?;
        let memory = Memory::map(file.as_fd(), BYTES).map_err(failed)?;
        env.tell("TAFFRAIL_HEARTBEAT", &[file.as_raw_fd()]);
        env.inherited.push(file);
        self.pulses[rank] = Some(Pulse { memory, word: 0, silent: Duration::ZERO });
        Ok(())
    }

    /// All ranks are stopped, or continued: the time between does not count.
    pub fn suspend(&mut self, suspended: bool) {
        self.suspended = suspended;
        self.looked = Instant::now();
    }

    /// When the words are to be looked at next.
    pub fn due(&self) -> Instant {
        self.looked + self.limit / LOOKS
    }

    /// The ranks that have not called the library for too long, or were stopped. Each process is told of
    /// once.
    pub fn overdue(&mut self, is_stopped: impl Fn(usize) -> bool) -> Vec<usize> {
        let now = Instant::now();
        if self.suspended {
            self.looked = now;
        }
        if now < self.due() {
            return Vec::new();
        }
        // If we did not run ourselves, perhaps nobody did.
        let passed = (now - self.looked).min(2 * self.limit / LOOKS);
        self.looked = now;
        let mut overdue = Vec::new();
        for (rank, place) in self.pulses.iter_mut().enumerate() {
            let Some(pulse) = place else { continue };
            if pulse.silent_after(passed, || is_stopped(rank)) >= self.limit {
                overdue.push(rank);
                *place = None;
            }
        }
        overdue
    }

    /// For how long a word may stay the same.
    pub fn limit(&self) -> Duration {
        self.limit
    }
}

impl Pulse {
    fn silent_after(&mut self, passed: Duration, is_stopped: impl Fn() -> bool) -> Duration {
        let word = self.memory.word(0).load(Ordering::Relaxed);
        let same = word == self.word && (word != 0 || is_stopped());
        (self.word, self.silent) = (word, if same { self.silent + passed } else { Duration::ZERO });
        self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(heartbeats: &Heartbeats, rank: usize, value: u64) {
        heartbeats.pulses[rank].as_ref().unwrap().memory.word(0).store(value, Ordering::Relaxed);
    }

    /// Looks after so much time.
    fn look(heartbeats: &mut Heartbeats, after: Duration) -> Vec<usize> {
        heartbeats.looked = Instant::now().checked_sub(after).unwrap();
        heartbeats.overdue(|rank| rank == 3)
    }

    #[test]
    fn who_does_not_call_the_library_is_overdue_once() {
        let limit = Duration::from_secs(8);
        let mut all = Heartbeats::new(limit, 4);
        (0..4).for_each(|rank| all.env(rank, &mut RankEnv::default()).unwrap());
        // Rank 0 has no endpoint, rank 1 goes on, rank 2 does not. Rank 3 is stopped before it has one:
        // nothing was known of its word at the first look, which was the same for longer.
        word(&all, 2, 77);
        for turn in 0..8 {
            word(&all, 1, 100 + turn);
            let overdue = look(&mut all, limit / LOOKS);
            assert_eq!(overdue, if turn == 7 { vec![3] } else { Vec::new() }, "look {turn}");
        }
        word(&all, 1, 200);
        assert_eq!(look(&mut all, limit / LOOKS), [2]);
        word(&all, 1, 201);
        assert_eq!(look(&mut all, limit / LOOKS), [0; 0]);
        assert!(all.due() > Instant::now() && all.overdue(|_| true).is_empty(), "it is too early");
    }

    #[test]
    fn time_in_which_ranks_were_stopped_does_not_count() {
        let mut all = Heartbeats::new(Duration::from_secs(8), 1);
        all.env(0, &mut RankEnv::default()).unwrap();
        word(&all, 0, 1);
        all.suspend(true);
        for _ in 0..20 {
            assert_eq!(look(&mut all, Duration::from_secs(1)), [0; 0]);
        }
        all.suspend(false);
        let mut looks = (0..20).map(|_| look(&mut all, Duration::from_secs(1)));
        assert_eq!(looks.position(|overdue| overdue == [0]), Some(8));
    }

    /// Whoever stops and continues the launcher has perhaps done so with the whole job.
    #[test]
    fn time_in_which_the_launcher_did_not_run_does_not_count() {
        let mut all = Heartbeats::new(Duration::from_secs(8), 1);
        all.env(0, &mut RankEnv::default()).unwrap();
        word(&all, 0, 1);
        assert_eq!(look(&mut all, Duration::from_secs(1)), [0; 0]);
        for _ in 0..3 {
            assert_eq!(look(&mut all, Duration::from_secs(1000)), [0; 0]);
        }
        assert_eq!(look(&mut all, Duration::from_secs(1000)), [0]);
    }
}
