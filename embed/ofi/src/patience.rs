//! How long a read of a queue looks before it says that there is nothing; and when a program has looked at a
//! queue or waited for a counter in vain for so long that it is said what for.
//!
//! A program that waits reads again and again. Between two reads it does this and that: MPICH gives the
//! processor away each time, which takes longer than most messages are on their way. So a read that such
//! a program makes looks often; one of a program that computes meanwhile looks once. Which of the two it
//! is tells the time between reads. Where messages are logged there are fewer reads in vain to be counted
//! and made again, too.
//!
//! The first read after something was found does not look for long: if the processor is given away then,
//! that takes no longer than the other rank does for its answer, while later the answer would wait for it.
//! Not so where a rank is replayed alone: then it would be given away again, and nobody would need it.

use std::time::{Duration, Instant};

/// Looks of a read, where the program waits: together about two microseconds.
const TURNS: u32 = 48;
/// Looks of the first.
const FIRST_TURNS: u32 = 4;
/// Reads in vain that look so often: who waits longer has time, and may be waiting for a rank that needs
/// this processor.
const MAX_READS: u32 = 4;
/// One of so many waits is timed: what a program does changes rarely, and the clock takes as long as a look.
const TIMED: u8 = 8;
/// Reads that follow each other within this are all that the program does.
const AT_ONCE: Duration = Duration::from_micros(2);
/// Reads in vain before the processor is given away.
const YIELD_AFTER: u32 = 2000;
/// Who reads in vain for so long naps instead of that. Processes that only give the processor away keep others from running for
/// seconds where each processor has one (Linux 6.18): also threads of the kernel, for which the start of another rank may wait.
/// Not who takes in messages that the program does not wait for, or sends what waited for room.
const NAP_AFTER: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(50);
/// Who reads in vain for so long says what it waits for, and looks again after as long whether that has
/// changed.
const STALLED: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Patience {
    /// Reads in vain since the last one that was not.
    in_vain: u32,
    /// When the last of them was over, if this wait is timed.
    over: Option<Instant>,
    /// Waits until the next that is timed.
    untimed: u8,
    /// The program has waited lately, and done nothing else.
    waits: bool,
    /// Since when reads are in vain, if they have been for so long that the processor is given away, and
    /// when that is to be said.
    stalled: Option<(Instant, Instant)>,
    /// Since when nothing at all has happened, if that is so, and how much had happened before.
    idle: Option<(Instant, u64)>,
}

impl Patience {
    /// How often the read that begins now is to look. Open MPI reads until there is nothing more: if no
    /// operation `has_started` since something was found, it is not waited for. `is_replayed`: alone, if its
    /// process is killed.
    #[inline]
    pub fn turns(&mut self, has_started: bool, is_replayed: bool) -> u32 {
        if let Some(over) = self.over.take() {
            self.waits = over.elapsed() < AT_ONCE;
        }
        if self.in_vain == 0 && !has_started {
            return 1;
        }
        match self.in_vain {
            _ if !self.waits => 1,
            0 if !is_replayed => FIRST_TURNS,
            in_vain if in_vain < MAX_READS => TURNS,
            _ => 1,
        }
    }

    /// The read was not in vain.
    #[inline]
    pub fn found_something(&mut self) {
        if self.in_vain > 0 {
            (self.in_vain, self.over) = (0, None);
            self.untimed = self.untimed.checked_sub(1).unwrap_or(TIMED - 1);
        }
    }

    /// The read was in vain. After many the processor is given to somebody who may have what is waited
    /// for, as where there are more ranks than processors, unless more has `happened` meanwhile. Since when nothing was found, if
    /// somebody should know.
    #[inline]
    #[must_use]
    pub fn found_nothing(&mut self, happened: impl FnOnce() -> u64) -> Option<Instant> {
        self.in_vain = self.in_vain.saturating_add(1);
        if self.untimed == 0 && self.in_vain <= MAX_READS {
            self.over = Some(Instant::now());
        } else if self.in_vain > YIELD_AFTER {
            return self.wait_long(happened());
        }
        None
    }

    /// The program is about to sleep until there is something.
    pub fn sleeps(&mut self) {
        self.in_vain = self.in_vain.max(YIELD_AFTER);
    }

    #[cold]
    #[inline(never)]
    fn wait_long(&mut self, happened: u64) -> Option<Instant> {
        let now = Instant::now();
        if self.in_vain == YIELD_AFTER + 1 {
            (self.stalled, self.idle) = (None, None);
        }
        match self.idle {
            Some((since, before)) if before == happened => {
                match now.saturating_duration_since(since) > NAP_AFTER {
                    true => std::thread::sleep(NAP),
                    false => std::thread::yield_now(),
                }
            }
            _ => self.idle = Some((now, happened)),
        }
        let (since, due) = self.stalled.get_or_insert((now, now + STALLED));
        (now >= *due).then(|| {
            *due = now + STALLED;
            *since
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read in vain after `pause`; how often it has looked.
    fn read(patience: &mut Patience, pause: Duration) -> u32 {
        std::thread::sleep(pause);
        let turns = patience.turns(true, false);
        assert_eq!(patience.found_nothing(|| 0), None, "it waits for a short time only");
        turns
    }

    #[test]
    fn who_waits_for_long_says_so_every_ten_seconds() {
        let mut patience = Patience::default();
        let said = |patience: &mut Patience| patience.found_nothing(|| 0).is_some();
        assert_eq!((0..=YIELD_AFTER).filter(|_| said(&mut patience)).count(), 0);
        let due = |patience: &mut Patience| {
            let (_, due) = patience.stalled.as_mut().expect("it is seen that it waits");
            *due = Instant::now();
        };
        due(&mut patience);
        assert!(said(&mut patience) && !said(&mut patience), "once");
        due(&mut patience);
        assert!(said(&mut patience), "again");
        patience.found_something();
        assert_eq!((0..=YIELD_AFTER).filter(|_| said(&mut patience)).count(), 0, "another wait");
        patience.found_something();
        patience.sleeps();
        assert!(!said(&mut patience));
        due(&mut patience);
        assert!(said(&mut patience), "in its sleep");
    }

    #[test]
    fn a_program_that_computes_between_reads_loses_no_time() {
        let mut patience = Patience::default();
        for _ in 0..10 {
            for _ in 0..3 {
                assert_eq!(read(&mut patience, Duration::from_millis(1)), 1);
            }
            patience.found_something();
        }
    }

    #[test]
    fn one_that_waits_is_waited_with_but_not_for_long() {
        let mut patience = Patience { waits: true, ..Patience::default() };
        let looked: Vec<u32> = (0..3 * MAX_READS)
            .map(|_| {
                let turns = patience.turns(true, false);
                // As if the next read came at once, however late this test is.
                patience.in_vain += 1;
                patience.over = Instant::now().checked_add(Duration::from_secs(60));
                turns
            })
            .collect();
        let (often, rest) = looked.split_at(MAX_READS as usize);
        assert_eq!(often, [FIRST_TURNS, TURNS, TURNS, TURNS]);
        assert!(rest.iter().all(|&turns| turns == 1), "{looked:?}");
        patience.found_something();
        assert_eq!(patience.turns(false, false), 1, "it only looks whether there is more");
        assert_eq!(patience.turns(true, false), FIRST_TURNS, "the next time again");
    }

    #[test]
    fn one_that_is_replayed_alone_is_waited_with_at_once() {
        let mut patience = Patience { waits: true, ..Patience::default() };
        assert_eq!(patience.turns(true, true), TURNS);
        assert_eq!(patience.turns(false, true), 1, "it only looks whether there is more");
    }

    #[test]
    fn what_a_program_does_later_is_noticed_after_a_few_waits() {
        let mut patience = Patience { waits: true, ..Patience::default() };
        let mut wait = |pause: Duration| {
            read(&mut patience, pause);
            read(&mut patience, pause);
            patience.found_something();
            patience.waits
        };
        assert!(!wait(Duration::from_millis(1)), "the first is timed");
        let waits: Vec<bool> = (0..100).map(|_| wait(Duration::ZERO)).collect();
        let (first, rest) = waits.split_at(usize::from(TIMED) - 1);
        assert!(!first.contains(&true), "{waits:?}");
        assert!(rest.contains(&true), "however late this test is: {waits:?}");
    }

    #[test]
    fn one_that_stops_waiting_is_noticed() {
        let mut patience = Patience { waits: true, ..Patience::default() };
        assert_eq!(read(&mut patience, Duration::ZERO), FIRST_TURNS, "nobody can know yet");
        assert_eq!(read(&mut patience, Duration::from_millis(1)), 1);
        patience.found_something();
        assert_eq!(patience.turns(true, false), 1);
    }

    /// One that takes in what others send meanwhile, or sends what waited for room, does not nap.
    #[test]
    fn one_to_which_things_happen_does_not_nap() {
        let reads = |patience: &mut Patience, happened: fn(u32) -> u64| {
            let started = Instant::now();
            (0..300).for_each(|read| assert_eq!(patience.found_nothing(|| happened(read)), None));
            started.elapsed()
        };
        let long_ago = |patience: &mut Patience| {
            let since = Instant::now().checked_sub(2 * NAP_AFTER).unwrap();
            patience.idle = Some((since, 0));
        };
        let mut patience = Patience { in_vain: YIELD_AFTER + 1, ..Patience::default() };
        long_ago(&mut patience);
        assert!(reads(&mut patience, |_| 0) >= 300 * NAP);
        long_ago(&mut patience);
        let started = Instant::now();
        let _ = reads(&mut patience, |read| 1 + u64::from(read));
        let (since, before) = patience.idle.unwrap();
        assert!(before == 300 && since >= started, "it has begun anew each time");
    }
}
