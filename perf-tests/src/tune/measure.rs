//! Measuring every way, in turn, so that all see the same moments.

use crate::Error;
use crate::pair::{DATA, Pair};
use crate::progress::Progress;
use crate::provenance::DIVISOR;
use crate::stats::Spread;
use std::collections::BTreeMap;
use std::time::Instant;
use taffrail::{Dest, Endpoint, Job, Pattern, Settings, Way};

/// Sizes measured; the shortest only for the sake of the eager ones.
pub const SIZES: [usize; 10] = [
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
];
/// Longer messages are never eager.
pub const EAGER_MOST: usize = 1 << 20;
/// Everything is announced from this on, but for the eager candidate.
const ANNOUNCED: usize = 8 << 10;
/// How often each way and size has its turn. The lower quartile counts: above it is what others on
/// this machine did meanwhile.
const ROUNDS: usize = if DIVISOR > 1 { 3 } else { 15 };
/// Steps of progress of two measurements.
pub const ROUNDS_IN_ALL: u64 = 2 * (ROUNDS as u64 + 1);
/// Bytes to move in a turn, each way.
const TURN: usize = 4 << 20;

/// A way to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Candidate {
    /// Announced, in pieces of so many bytes.
    Pieces(usize),
    /// The same past the caches.
    Streaming(usize),
    /// Announced, read by the kernel.
    Read,
    /// Announced, copied out of shared memory.
    Mapped,
    /// Not announced, in pieces of so many bytes.
    Eager(usize),
}

impl Candidate {
    fn settings(self) -> Settings {
        let (way, piece, eager_max) = match self {
            Candidate::Pieces(piece) => (Some(Way::Fragments), Some(piece), ANNOUNCED),
            Candidate::Streaming(piece) => {
                (Some(Way::FragmentsNonTemporal), Some(piece), ANNOUNCED)
            }
            Candidate::Read | Candidate::Mapped => (Some(Way::Get), None, ANNOUNCED),
            Candidate::Eager(piece) => (None, Some(piece), EAGER_MOST),
        };
        Settings { way, piece, eager_max, ..Settings::default() }
    }

    fn measures(self, size: usize) -> bool {
        !matches!(self, Candidate::Eager(_)) || size <= EAGER_MOST
    }
}

/// Nanoseconds of half a round trip, by way and size.
#[derive(Clone, Debug, Default)]
pub struct Figures(pub BTreeMap<(Candidate, usize), f64>);

impl Figures {
    /// Of known figures.
    pub fn of(figures: impl IntoIterator<Item = ((Candidate, usize), f64)>) -> Figures {
        Figures(figures.into_iter().collect())
    }

    /// The time of a size, if it was measured.
    pub fn ns(&self, candidate: Candidate, size: usize) -> Option<f64> {
        self.0.get(&(candidate, size)).copied()
    }
}

/// Measures `candidates` at `sizes`, between ranks 0 and 1. Collective; figures on rank 0 only.
pub fn measure(
    job: &mut Job,
    candidates: &[Candidate],
    sizes: &[usize],
    bar: &Progress,
) -> Result<Figures, Error> {
    let mut endpoints = Vec::new();
    for &candidate in candidates {
        endpoints.push((candidate, job.endpoint_with(candidate.settings())?));
    }
    let longest = sizes.iter().copied().max().unwrap_or(0);
    let mut plain = vec![1; longest];
    let mut samples: BTreeMap<(Candidate, usize), Vec<f64>> = BTreeMap::new();
    for round in 0..=ROUNDS {
        bar.step(format!("round {round} of {ROUNDS}"));
        for &size in sizes {
            for (candidate, endpoint) in endpoints.iter_mut().filter(|(c, _)| c.measures(size)) {
                let ns = match candidate {
                    Candidate::Mapped => {
                        let mut buffer = endpoint.alloc(size)?;
                        turn(endpoint, &mut buffer)?
                    }
                    _ => turn(endpoint, &mut plain[..size])?,
                };
                // The first round warms up.
                if round > 0 {
                    samples.entry((*candidate, size)).or_default().push(ns);
                }
            }
        }
    }
    if job.rank() != 0 {
        return Ok(Figures::default());
    }
    Ok(Figures::of(samples.into_iter().map(|(of, samples)| (of, Spread::lower_quartile(&samples)))))
}

/// So many round trips, each side sending what it has received; nanoseconds of half of one.
fn turn(endpoint: &mut Endpoint, message: &mut [u8]) -> Result<f64, Error> {
    let Some(mut pair) = Pair::of(endpoint, 0, 1) else { return Ok(0.0) };
    let times = (TURN / message.len().max(1)).clamp(2, 32);
    let (dest, pattern) = (Dest::new(pair.peer, DATA), Pattern::new(pair.peer, DATA));
    // One more, so that the message is in the caches it will be in.
    let mut start = Instant::now();
    pair.meet()?;
    for time in 0..=times {
        if time == 1 {
            start = Instant::now();
        }
        if pair.transmits() {
            pair.endpoint.send(dest, message)?;
        }
        pair.endpoint.recv(pattern, message)?;
        if !pair.transmits() {
            pair.endpoint.send(dest, message)?;
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / (2 * times) as f64)
}
