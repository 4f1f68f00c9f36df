use taffrail_fabric::Fault;

use super::*;

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod threads;

fn cell() -> Cell {
    Cell { taken: AtomicU64::new(0), finished: AtomicU64::new(0), refused: AtomicU64::new(0) }
}

/// What a mover fails with.
fn trouble() -> Fault {
    Fault::NoSuchMemory("of the test".into())
}
