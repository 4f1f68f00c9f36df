//! Shared memory to some ranks and TCP to others: the composite passes the suite that every fabric passes.

mod common;

use common::{Nodes, Real};
use taffrail_fabric::Fault;
use taffrail_fabric::conformance::{Bench, Member, Processes, mesh_of_joined};

struct On(Nodes);

impl Bench for On {
    type Fabric = Real;

    fn mesh(&self, n: usize) -> Vec<Real> {
        mesh_of_joined(self, n)
    }

    fn streams(&self) -> bool {
        self.0.apart(0, 1)
    }
}

impl Processes for On {
    fn join(&self, member: &mut Member<'_>) -> Real {
        common::join(member, self.0)
    }

    fn is_end_of_killed(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Died | Fault::Lost(_))
    }
}

mod one_node {
    use super::*;
    taffrail_fabric::conformance!(On(Nodes::One));
    taffrail_fabric::conformance!(@memory On(Nodes::One));
    taffrail_fabric::conformance_processes!(On(Nodes::One));
}

/// The ranks with memory that tests reach, 0 and 1, are on one node.
mod pairs {
    use super::*;
    taffrail_fabric::conformance!(On(Nodes::Pairs));
    taffrail_fabric::conformance!(@memory On(Nodes::Pairs));
    taffrail_fabric::conformance_processes!(On(Nodes::Pairs));
}

/// Ranks 0 and 1 are apart, and no memory is reached over sockets. (All ranks apart are in `conformance_loopback.rs`, and
/// sockets alone in their own package.)
mod parity {
    use super::*;
    taffrail_fabric::conformance!(@messages On(Nodes::Parity));
    taffrail_fabric::conformance!(@memory On(Nodes::Parity));

    mod death {
        use super::*;

        #[test]
        #[ignore = "run by the other tests here, as a peer process of theirs"]
        fn child() {
            taffrail_fabric::conformance::run_child(&On(Nodes::Parity));
        }

        taffrail_fabric::conformance_processes!(@each On(Nodes::Parity); while_sending, while_receiving,
            while_still, while_stopped, while_asleep, in_good_order);
    }
}
