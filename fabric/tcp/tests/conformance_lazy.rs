//! The fabric over connections that it makes by itself passes the suite that every fabric passes.

#[path = "common/lazy.rs"]
mod lazy;

use taffrail_fabric::Fault;
use taffrail_fabric::conformance::{Bench, Member, Processes, mesh_of_joined};
use taffrail_tcp::{Config, TcpFabric};

struct Lazy;

/// Few messages come in one piece.
const CONFIG: Config = Config { whole: 64, max_segments: 1024, ..Config::DEFAULT };

impl Bench for Lazy {
    type Fabric = TcpFabric;

    fn mesh(&self, n: usize) -> Vec<TcpFabric> {
        mesh_of_joined(self, n)
    }
}

impl Processes for Lazy {
    fn join(&self, member: &mut Member<'_>) -> TcpFabric {
        lazy::join(member, CONFIG)
    }

    fn is_end_of_killed(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Lost(_))
    }
}

taffrail_fabric::conformance!(@messages Lazy);

taffrail_fabric::conformance!(@memory Lazy);

mod death {
    use super::*;

    #[test]
    #[ignore = "run by the other tests here, as a peer process of theirs"]
    fn child() {
        taffrail_fabric::conformance::run_child(&Lazy);
    }

    taffrail_fabric::conformance_processes!(@each Lazy; while_sending, while_receiving, while_still,
        while_stopped, while_asleep, in_good_order);
}
