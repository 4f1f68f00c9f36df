//! How a rank of the conformance suite gets its line.

use std::time::Duration;
use taffrail_fabric::conformance::Seat;
use taffrail_shm::{Config, Costs, Line, Setup};

/// The line of this seat, connected with all others.
pub fn join(seat: &mut Seat<'_>) -> Line {
    let setup = Setup::new(Config {
        open: false,
        rank: seat.rank(),
        ranks: seat.size(),
        incarnation: 0,
        generations: Vec::new(),
        restarts: false,
        job: [1, 2],
        outbox_max: 64 << 20,
        reserve: 0,
        patience: Duration::from_secs(20),
        costs: Costs::default(),
    })
    .expect("memory and a listener");
    let addresses = seat.exchange(setup.address().as_bytes());
    let text = |address| String::from_utf8(address).expect("addresses are text");
    let addresses: Vec<String> = addresses.into_iter().map(text).collect();
    setup.connect(&addresses).expect("a connection with every peer")
}
