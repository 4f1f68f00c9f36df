//! Measuring while two processors stay where they are to each other.
//!
//! A virtual processor that falls asleep wakes up anywhere on its host, and a figure of two that share a
//! cache says nothing of one of two that do not. So processors are kept awake while a figure is taken, and
//! where they are is looked at before and after. Where they should be elsewhere they are let sleep.

use crate::machine::Distance;
use crate::provenance::DIVISOR;
use crate::{Error, limits, say};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::time::Duration;

/// As long as this is open, the kernel lets no processor sleep so deeply that it wakes up later than was
/// written into it, in microseconds: with 0, it spins when there is nothing to do.
const LATENCY: &str = "/dev/cpu_dma_latency";
/// Figures of a build for debugging say nothing, wherever the processors are.
const IS_MEASURED: bool = DIVISOR == 1;
/// How often a figure is taken again because the processors have moved meanwhile.
const ATTEMPTS: u32 = if IS_MEASURED { 4 } else { 1 };
/// How often processors are let sleep, to be elsewhere afterwards, and how long.
const SLEEPS: u32 = if IS_MEASURED { 100 } else { 1 };
const SLEEP: Duration = Duration::from_millis(30);
/// After so many figures in a row for which that did not help, the rest is taken wherever they are.
const FAILURES: u32 = 2;

/// What stands below a table with marks.
pub const MARKED: &str = "* In some round the processors did not stay where they were to be: also of wherever they were.";

/// A figure, or why there is none.
pub struct Taken<T> {
    /// The figure.
    pub figure: Result<T, String>,
    /// The processors stayed where they were to be meanwhile, or that does not matter.
    pub stayed: bool,
}

impl<T> From<Result<T, String>> for Taken<T> {
    /// One that where processors are does not matter to, or for which they stayed.
    fn from(figure: Result<T, String>) -> Self {
        Taken { figure, stayed: true }
    }
}

/// A cell of a table, with a mark if it is of processors that did not stay.
pub fn marked(cell: String, stayed: bool) -> String {
    if stayed { cell } else { format!("*{cell}") }
}

/// Processors that fall asleep only to be moved, until this is dropped.
pub struct Awake {
    between: (usize, usize),
    /// How far these two are to be from each other.
    at: Distance,
    latency: Option<File>,
    /// Figures in a row for which they were not there, or did not stay.
    failures: u32,
}

impl Awake {
    /// Keeps all processors awake, where that is allowed, and these two near each other, if they can be
    /// brought there, or else where they are.
    ///
    /// # Errors
    /// When a thread cannot be bound to one of the processors.
    pub fn keep(between: (usize, usize)) -> Result<Awake, Error> {
        let latency = forbid_sleep().inspect_err(|error| {
            say::warn(format_args!(
                "processors may fall asleep, and virtual ones wake up elsewhere: {LATENCY}: {error}"
            ));
        });
        let mut awake = Awake { between, at: Distance::Near, latency: latency.ok(), failures: 0 };
        if !awake.bring(Distance::Near)? {
            awake.at = limits::distance(between)?;
        }
        Ok(awake)
    }

    /// How far the processors are to be from each other.
    pub fn at(&self) -> Distance {
        self.at
    }

    /// From now on they are to be so far from each other.
    pub fn place(&mut self, at: Distance) {
        self.at = at;
    }

    /// Lets the processors sleep until they are so far from each other, some seconds at most. Whether they
    /// are.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn bring(&mut self, to: Distance) -> Result<bool, Error> {
        for _ in 0..SLEEPS {
            if limits::distance(self.between)? == to {
                return Ok(true);
            }
            self.latency = None;
            std::thread::sleep(SLEEP);
            self.latency = forbid_sleep().ok();
        }
        Ok(false)
    }

    /// Takes a figure while the processors are where they are to be, all the time. What fails is not tried
    /// again. Where they do not stay there, as on a busy machine, it is taken wherever they are; a warning
    /// says so, and the figure does.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn settled<T>(
        &mut self,
        measure: impl Fn() -> Result<T, String>,
    ) -> Result<Taken<T>, Error> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            if self.failures >= FAILURES || !self.bring(self.at)? {
                break;
            }
            let figure = measure();
            if figure.is_err() || limits::distance(self.between)? == self.at {
                self.failures = 0;
                return Ok(figure.into());
            }
            last = Some(figure);
        }
        self.warn();
        Ok(Taken { figure: last.unwrap_or_else(measure), stayed: false })
    }

    fn warn(&mut self) {
        self.failures += 1;
        let from_now_on = match self.failures {
            ..FAILURES => "this figure is",
            FAILURES => "figures from now on are",
            _ => return,
        };
        let at = self.at;
        say::warn(format_args!(
            "the processors do not stay where they are to be ({at}): {from_now_on} of wherever they are"
        ));
    }

    /// The handover between the processors, in microseconds.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn handover_us(&mut self) -> Result<Taken<f64>, Error> {
        let between = self.between;
        self.settled(|| Ok(limits::best_handover(between).map_err(|e| e.to_string())? * 1e6))
    }
}

fn forbid_sleep() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus;
    use std::cell::Cell;

    #[test]
    fn what_is_measured_is_settled_and_failures_are_not_repeated() {
        let Ok(between) = cpus::pair() else { return };
        let mut awake = Awake::keep(between).unwrap();
        let calls = Cell::new(0);
        let crash = || {
            calls.set(calls.get() + 1);
            Err::<(), _>("crashed".to_owned())
        };
        let taken = awake.settled(crash).unwrap();
        assert!(taken.figure.is_err() && taken.stayed);
        assert_eq!(calls.get(), 1);
        assert_eq!(awake.settled(|| Ok(1)).unwrap().figure, Ok(1));
    }

    #[test]
    fn a_figure_says_that_the_processors_did_not_stay() {
        let Ok(between) = cpus::pair() else { return };
        let mut awake = Awake::keep(between).unwrap();
        // As after two figures for which they did not.
        awake.failures = FAILURES;
        let taken = awake.settled(|| Ok(1)).unwrap();
        assert_eq!((taken.figure, taken.stayed), (Ok(1), false));
    }
}
