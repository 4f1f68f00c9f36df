//! What the endpoints of jobs stand on passes the suite that every fabric passes, on one node and over several.

#[path = "../../fabric/composite/tests/common/mod.rs"]
mod nodes;
#[path = "../../shm/tests/common/mod.rs"]
mod shm;

use nodes::Nodes;
use taffrail::JobFabric;
use taffrail_fabric::Fault;
use taffrail_fabric::conformance::{Bench, Member, Processes, mesh_of_joined};

/// All ranks on one node.
struct OnNode;

impl Bench for OnNode {
    type Fabric = JobFabric;

    fn mesh(&self, n: usize) -> Vec<JobFabric> {
        mesh_of_joined(self, n)
    }

    fn streams(&self) -> bool {
        false
    }
}

impl Processes for OnNode {
    fn join(&self, member: &mut Member<'_>) -> JobFabric {
        JobFabric::on_node(shm::join(member)).expect("memory")
    }
}

/// Ranks 0 and 1 on one node, all others on the next.
struct OverNodes;

impl Bench for OverNodes {
    type Fabric = JobFabric;

    fn mesh(&self, n: usize) -> Vec<JobFabric> {
        mesh_of_joined(self, n)
    }

    fn streams(&self) -> bool {
        false
    }
}

impl Processes for OverNodes {
    fn join(&self, member: &mut Member<'_>) -> JobFabric {
        JobFabric::over_nodes(nodes::join(member, Nodes::Pairs)).expect("memory")
    }

    fn is_end_of_killed(&self, fault: &Fault) -> bool {
        matches!(fault, Fault::Died | Fault::Lost(_))
    }
}

mod on_node {
    use super::*;
    taffrail_fabric::conformance!(OnNode);
    taffrail_fabric::conformance!(@memory OnNode);
    taffrail_fabric::conformance_processes!(OnNode);
}

mod over_nodes {
    use super::*;
    taffrail_fabric::conformance!(OverNodes);
    taffrail_fabric::conformance!(@memory OverNodes);
    taffrail_fabric::conformance_processes!(OverNodes);
}
