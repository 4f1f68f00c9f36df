//! The line passes the suite that every fabric passes.

use std::time::Duration;
use taffrail_fabric::conformance::{Bench, Processes, Seat, mesh_of_joined};
use taffrail_shm::{Config, Costs, Line, Setup};

struct Shm;

impl Bench for Shm {
    type Fabric = Line;

    fn mesh(&self, n: usize) -> Vec<Line> {
        mesh_of_joined(self, n)
    }
}

impl Processes for Shm {
    fn join(&self, seat: &mut Seat<'_>) -> Line {
        let setup = Setup::new(Config {
            rank: seat.rank(),
            ranks: seat.size(),
            incarnation: 0,
            generations: Vec::new(),
            restarts: false,
            job: [1, 2],
            outbox_max: 64 << 20,
            patience: Duration::from_secs(20),
            costs: Costs::default(),
        })
        .expect("memory and a listener");
        let addresses = seat.exchange(setup.address().as_bytes());
        let text = |address| String::from_utf8(address).expect("addresses are text");
        let addresses: Vec<String> = addresses.into_iter().map(text).collect();
        setup.connect(&addresses).expect("a connection with every peer")
    }
}

taffrail_fabric::conformance!(Shm);
taffrail_fabric::conformance_processes!(Shm);
