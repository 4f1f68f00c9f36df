//! Lines that are connected with each other, in this process.

use taffrail_shm::{Config, Setup, ShmFabric};

/// A line for each of `n` ranks, with outboxes as small as can be.
pub fn lines(n: u32) -> Vec<ShmFabric> {
    let config = |rank| Config { outbox_max: 0, ..Config::new(rank, n) };
    let setups: Vec<Setup> =
        (0..n).map(|rank| Setup::new(config(rank)).expect("memory and a listener")).collect();
    let addresses: Vec<String> = setups.iter().map(|setup| setup.address().to_owned()).collect();
    let connect = |setup: Setup| setup.connect(&addresses).expect("a connection with every peer");
    std::thread::scope(|s| {
        let mut setups = setups.into_iter();
        let first = setups.next();
        let others: Vec<_> = setups.map(|setup| s.spawn(move || connect(setup))).collect();
        let first = first.map(connect).into_iter();
        first.chain(others.into_iter().map(|line| line.join().expect("connected"))).collect()
    })
}
