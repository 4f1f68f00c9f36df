//! The `app` command: small applications with a known answer, for tests and figures of what the
//! transport does to programs.
//!
//! Each is deterministic but for the timing of messages: none of them reads a clock, draws random
//! numbers or depends on addresses. So every run with the same size, iterations and number of ranks
//! ends with the same checksum, whatever happened on the way.

pub mod cg;
mod checkpoint;
mod checksum;
mod command;
mod grid;
pub mod irregular;
pub mod jacobi3d;
pub mod phases;
pub mod ring;
#[cfg(test)]
mod testing;
pub mod wave2d;

pub use command::App;

use crate::Error;
use clap::ValueEnum;
use std::fmt;
use std::ops::RangeInclusive;
use taffrail::words::counted;
use taffrail::{Endpoint, Rank, collectives};

/// A rank's part of an application: its state between two iterations.
pub trait Application {
    /// Computes and communicates one iteration, counted from 0. Collective.
    ///
    /// # Errors
    /// Those of the transport; [`Error::Invalid`] if the application finds its answer to be wrong.
    fn step(&mut self, endpoint: &mut Endpoint, iteration: u32) -> Result<(), Error>;

    /// This rank's share of the checksum; the shares are added.
    fn digest(&self) -> u64;

    /// All that changes from one iteration to the next, where it is in memory: what a checkpoint keeps,
    /// and what is put back from it. Always pieces of the same lengths.
    fn state(&mut self) -> Vec<&mut [u8]>;
}

/// Which of the ranks this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub rank: Rank,
    /// How many there are.
    pub ranks: u32,
}

/// The applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// A token round a ring, by non-blocking sends and receives; size: its bytes
    Ring,
    /// The 2D wave equation in blocks; size: cells along a side
    Wave2d,
    /// Jacobi iterations of the 3D Laplace equation in blocks; size: cells along a side
    Jacobi3d,
    /// The 2D heat equation, each step solved by conjugate gradients; size: cells along a side
    Cg,
    /// Phases with partners and sizes of their own; size: numbers of 8 bytes in a long message
    Phases,
    /// Work handed out to whoever answers; size: pieces of work in an iteration
    Irregular,
}

/// As on the command line.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Name {
    /// All of them.
    pub const ALL: [Name; 6] =
        [Name::Ring, Name::Wave2d, Name::Jacobi3d, Name::Cg, Name::Phases, Name::Irregular];

    /// The sizes possible with so many ranks: every rank needs a part, and a part fits in memory.
    pub fn sizes(self, ranks: u32) -> RangeInclusive<u32> {
        match self {
            Name::Ring => 1..=1 << 30,
            Name::Wave2d => grid::smallest::<2>(ranks)..=1 << 15,
            Name::Jacobi3d => grid::smallest::<3>(ranks)..=1 << 10,
            Name::Cg => ranks..=1 << 13,
            Name::Phases => 1..=1 << 24,
            Name::Irregular => 1..=1 << 20,
        }
    }

    /// Size and iterations that take about two seconds on three ranks and two CPUs.
    pub fn defaults(self) -> (u32, u32) {
        match self {
            Name::Ring => (1024, 1_200_000),
            Name::Wave2d => (512, 2200),
            Name::Jacobi3d => (64, 2000),
            Name::Cg => (128, 130),
            Name::Phases => (1024, 12_000),
            Name::Irregular => (256, 2000),
        }
    }

    /// Makes a rank's part, before the first iteration.
    ///
    /// # Errors
    /// [`Error::Usage`] if the size is none of the [`sizes`](Self::sizes).
    pub fn make(self, place: Place, size: u32) -> Result<Box<dyn Application>, Error> {
        self.check(place.ranks, size)?;
        let size = size as usize;
        Ok(match self {
            Name::Ring => Box::new(ring::Ring::new(place, size)),
            Name::Wave2d => Box::new(wave2d::Wave2d::new(place, size)),
            Name::Jacobi3d => Box::new(jacobi3d::Jacobi3d::new(place, size)),
            Name::Cg => Box::new(cg::Heat::new(place, size)),
            Name::Phases => Box::new(phases::Phases::new(place, size)),
            Name::Irregular => Box::new(irregular::Irregular::new(size)),
        })
    }

    fn check(self, ranks: u32, size: u32) -> Result<(), Error> {
        let sizes = self.sizes(ranks);
        if sizes.contains(&size) {
            return Ok(());
        }
        let (least, most) = sizes.into_inner();
        Err(Error::Usage(match least <= most {
            true => {
                format!("--size {size}: on {}, expected {least} to {most}", counted(ranks, "rank"))
            }
            false => format!("{ranks} ranks are more than this application has parts for"),
        }))
    }
}

/// Runs an application from the first iteration to the last; its checksum on rank 0. Calls
/// `after` with the number of iterations done, after each. Collective.
///
/// Whenever `checkpoint_every` iterations are done, if that is not 0, each rank takes a checkpoint; after
/// `after`. A process that was started from one goes on there, and calls `after` with the iterations that
/// are done already first. So there must be nothing to communicate before.
///
/// # Errors
/// Those of [`Name::make`], [`Application::step`] and [`Endpoint::checkpoint`].
pub fn run(
    name: Name,
    endpoint: &mut Endpoint,
    size: u32,
    iterations: u32,
    checkpoint_every: u32,
    mut after: impl FnMut(u32),
) -> Result<u64, Error> {
    let place = Place { rank: endpoint.rank(), ranks: endpoint.size() };
    let mut application = name.make(place, size)?;
    let mut done = 0;
    if let Some(taken) = endpoint.restored() {
        done = checkpoint::restore(&mut *application, &taken)?;
        after(done);
    }
    while done < iterations {
        application.step(endpoint, done)?;
        done += 1;
        after(done);
        // No number above 0 is a multiple of 0.
        if done.is_multiple_of(checkpoint_every) {
            checkpoint::take(endpoint, &mut *application, done)?;
        }
    }
    let mut digest = [application.digest()];
    collectives::reduce(endpoint, 0, &mut digest, collectives::sum)?;
    Ok(digest[0])
}

#[cfg(test)]
mod tests {
    use super::testing::on_ranks;
    use super::*;

    #[test]
    fn an_application_whose_peer_has_left_ends_with_an_error() {
        for name in Name::ALL {
            let ends = on_ranks(2, |place, endpoint| match place.rank {
                0 => Some(run(name, endpoint, 8, 100_000, 1000, |_| {})),
                _ => None,
            });
            let error = ends[0].as_ref().unwrap().as_ref().unwrap_err();
            let gone = taffrail::Error::PeerFailed { rank: 1, fault: taffrail::Fault::Closed };
            assert_eq!(error.to_string(), gone.to_string(), "{name:?}");
        }
    }
}
