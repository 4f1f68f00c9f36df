//! What the machine itself allows: handing a cache line to another CPU, and copying what that CPU
//! has just written. Every figure of a transport is to be seen beside these, taken in the same
//! minute, since virtual CPUs move.

use crate::machine::Distance;
use crate::netpipe::TRIALS;
use crate::stats::Spread;
use crate::{Error, cpus};
use serde::Serialize;
use std::fmt;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a page.
const PAGE: usize = 4096;

/// On idle CPUs nothing here takes as long.
const PATIENCE: Duration = Duration::from_millis(300);

/// The time to hand one cache line from a CPU to another: half a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Handover {
    /// In nanoseconds.
    pub ns: Spread,
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { median, p1, p99, .. } = self.ns;
        write!(f, "handover {median:.0} ns (p1 {p1:.0}, p99 {p99:.0})")
    }
}

/// The handover as it goes behind another figure.
pub fn beside(handover_ns: Option<Spread>) -> String {
    handover_ns.map_or(String::new(), |ns| format!("; {}", Handover { ns }))
}

/// Written instead of a turn: there are no more.
const OVER: u32 = u32::MAX;

/// A pair of cache lines (CPUs prefetch the neighbour) that nothing else is in.
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Waits for `turn`; `false` if it is over.
    fn await_turn(&self, turn: u32) -> bool {
        let mut spins = 0_u32;
        loop {
            match self.0.load(Ordering::Acquire) {
                now if now == turn => return true,
                OVER => return false,
                _ => spin_loop(),
            }
            spins += 1;
            // Whoever has to answer may be waiting for this very CPU.
            if spins.is_multiple_of(10_000) {
                std::thread::yield_now();
            }
        }
    }

    /// Hands over: now it is the other side's turn, or over.
    fn hand_over(&self, to: u32) {
        self.0.store(to, Ordering::Release);
    }
}

/// Measures the handover between two CPUs, for about 20 ms.
pub fn handover(between: (usize, usize)) -> Result<Handover, Error> {
    Ok(Handover { ns: Spread::of(&handovers(between)?).scaled(1e9) })
}

/// The handover as NetPIPE would score it: the best mean of three runs, in seconds.
pub fn best_handover(between: (usize, usize)) -> Result<f64, Error> {
    best_mean(|| handovers(between))
}

/// How far two CPUs are from each other now. Takes about a millisecond.
pub fn distance(between: (usize, usize)) -> Result<Distance, Error> {
    let seconds = alternate(between, 20, 200, |_| ())?;
    Ok(Distance::of(Spread::of(&seconds).median * 1e9))
}

fn handovers(between: (usize, usize)) -> Result<Vec<f64>, Error> {
    alternate(between, 200, 1000, |_| ())
}

fn best_mean(run: impl Fn() -> Result<Vec<f64>, Error>) -> Result<f64, Error> {
    (0..TRIALS).try_fold(f64::INFINITY, |best, _| {
        let seconds = run()?;
        Ok(best.min(seconds.iter().sum::<f64>() / seconds.len() as f64))
    })
}

/// Measures how long `size` bytes take to a CPU that copies them, once, out of memory in which
/// another CPU has just put them, handover included; in seconds, half a round trip.
pub fn fresh_copy(between: (usize, usize), size: usize) -> Result<Spread, Error> {
    Ok(Spread::of(&fresh_copies(between, size)?))
}

/// The same as NetPIPE would score it: the best mean of three runs.
pub fn best_fresh_copy(between: (usize, usize), size: usize) -> Result<f64, Error> {
    best_mean(|| fresh_copies(between, size))
}

fn fresh_copies(between: (usize, usize), size: usize) -> Result<Vec<f64>, Error> {
    let buffers = [Shared::new(size), Shared::new(size)];
    let turns = (4_000_000 / size.max(1000)).clamp(4, 1000);
    alternate(between, 40, turns as u32, |side| {
        // SAFETY: turns alternate and hand over with release and acquire, so that only the side
        // whose turn it is touches either buffer; both hold `size` bytes and do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                buffers[1 - side].start,
                buffers[side].start,
                black_box(size),
            )
        }
    })
}

/// Seconds a turn: two pinned threads take turns, `batches` times `turns` each, in every turn doing
/// `work` with their side's number. Ends early, with fewer batches, when others keep the CPUs busy.
fn alternate(
    between: (usize, usize),
    batches: u32,
    turns: u32,
    work: impl Fn(usize) + Sync,
) -> Result<Vec<f64>, Error> {
    let line = Line(AtomicU32::new(0));
    let first = || {
        let mut seconds = Vec::with_capacity(batches as usize + 1);
        let begin = Instant::now();
        let mut turn = 0;
        // The first batch warms up.
        while seconds.len() <= batches as usize && (begin.elapsed() < PATIENCE || seconds.len() < 3)
        {
            let start = Instant::now();
            for _ in 0..turns {
                line.await_turn(turn);
                work(0);
                line.hand_over(turn + 1);
                turn += 2;
            }
            seconds.push(start.elapsed().as_secs_f64() / f64::from(turns) / 2.0);
        }
        line.await_turn(turn);
        line.hand_over(OVER);
        seconds.split_off(1)
    };
    let second = || {
        let mut turn = 1;
        while line.await_turn(turn) {
            work(1);
            line.hand_over(turn + 1);
            turn += 2;
        }
    };
    // Neither begins before both have their CPU: one alone would wait for ever.
    let (both, pinned) = (Barrier::new(2), AtomicU32::new(0));
    let place = |cpu| {
        let result = cpus::stay_on(&[cpu]);
        pinned.fetch_add(u32::from(result.is_ok()), Ordering::Relaxed);
        both.wait();
        result.map(|()| pinned.load(Ordering::Relaxed) == 2)
    };
    std::thread::scope(|scope| {
        let second = scope.spawn(|| place(between.1).map(|both| both.then(second)));
        let first = scope.spawn(|| place(between.0).map(|both| both.then(first)));
        let seconds = first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(seconds.unwrap_or_default())
    })
}

/// Memory two threads take turns with.
struct Shared {
    start: *mut u8,
    _owner: Vec<u8>,
}

// SAFETY: only `start` is offered; who uses the pointer takes care of the turns.
unsafe impl Sync for Shared {}

impl Shared {
    /// `size` bytes from the beginning of a page on: a copy between two of them is not one of those that
    /// are slow because of the distance (`fabric/src/copying.rs`).
    fn new(size: usize) -> Shared {
        let mut owner = vec![1; size + PAGE];
        let page = owner.as_ptr().align_offset(PAGE);
        Shared { start: owner[page..].as_mut_ptr(), _owner: owner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_copy_takes_longer_than_a_handover() {
        let Ok(between) = cpus::pair() else { return };
        let handover = handover(between).unwrap();
        assert!(handover.ns.median > 0.0 && handover.ns.samples > 1);
        let copy = fresh_copy(between, 4 << 20).unwrap();
        assert!(copy.median * 1e9 > handover.ns.median);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(matches!(handover((0, 1000)), Err(Error::System { .. })));
        assert!(matches!(handover((1000, 0)), Err(Error::System { .. })));
    }
}
