//! The fabric over pairs of `AF_UNIX` sockets passes the suite that every fabric passes.

mod common;

use taffrail_fabric::Fault;
use taffrail_fabric::conformance::{Bench, Processes, Seat};
use taffrail_tcp::{Config, TcpFabric};

struct Sockets;

/// Few messages come in one piece.
const CONFIG: Config = Config { whole: 64, max_segments: 1024 };

impl Bench for Sockets {
    type Fabric = TcpFabric;

    fn mesh(&self, n: usize) -> Vec<TcpFabric> {
        taffrail_tcp::over_unix(n as u32, CONFIG).expect("few connections")
    }
}

impl Processes for Sockets {
    fn join(&self, seat: &mut Seat<'_>) -> TcpFabric {
        common::join::<common::Unix>(seat, CONFIG)
    }

    fn is_end_of_killed(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Lost(_))
    }
}

taffrail_fabric::conformance!(@messages Sockets);

taffrail_fabric::conformance!(@memory Sockets);

mod death {
    use super::*;

    #[test]
    #[ignore = "run by the other tests here, as a peer process of theirs"]
    fn child() {
        taffrail_fabric::conformance::run_child(&Sockets);
    }

    taffrail_fabric::conformance_processes!(@each Sockets; while_sending, while_receiving, while_still,
        while_stopped, while_asleep, in_good_order);
}
