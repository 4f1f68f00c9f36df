//! For unit tests: ranks as threads.

use super::grid::Block;
use super::{Application, Place};
use taffrail::{Endpoint, Job};

/// Runs `part` on so many ranks at once; what they return, in their order.
pub fn on_ranks<R: Send>(
    ranks: u32,
    part: impl Fn(Place, &mut Endpoint) -> R + Send + Sync,
) -> Vec<R> {
    std::thread::scope(|scope| {
        let start = |mut job: Job| {
            let part = &part;
            scope.spawn(move || {
                let mut endpoint = job.endpoint().unwrap();
                part(Place { rank: job.rank(), ranks: job.size() }, &mut endpoint)
            })
        };
        let threads: Vec<_> = Job::local(ranks).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The parts of an application after so many iterations.
pub fn after<A: Application + Send>(
    ranks: u32,
    iterations: u32,
    make: impl Fn(Place) -> A + Send + Sync,
) -> Vec<A> {
    on_ranks(ranks, |place, endpoint| {
        let mut application = make(place);
        for iteration in 0..iterations {
            application.step(endpoint, iteration).unwrap();
        }
        application
    })
}

/// The values of the whole grid, from its blocks and their arrays.
pub fn whole<'a, const D: usize>(
    blocks: impl Iterator<Item = (&'a Block<D>, &'a [f64])>,
) -> Vec<f64> {
    let mut cells: Vec<_> = blocks.flat_map(|(block, cells)| block.own_cells(cells)).collect();
    cells.sort_unstable_by_key(|&(cell, _)| cell);
    cells.into_iter().map(|(_, value)| value).collect()
}
