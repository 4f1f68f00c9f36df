//! Open jobs, between processes that call each other, pass the suite that every fabric passes.

mod common;

use taffrail_fabric::conformance::{Bench, Member, Processes, mesh_of_joined};
use taffrail_shm::ShmFabric;

struct Open;

impl Bench for Open {
    type Fabric = ShmFabric;

    fn mesh(&self, n: usize) -> Vec<ShmFabric> {
        mesh_of_joined(self, n)
    }
}

impl Processes for Open {
    fn join(&self, member: &mut Member<'_>) -> ShmFabric {
        common::join_open(member)
    }
}

taffrail_fabric::conformance!(Open);
taffrail_fabric::conformance!(@memory Open);
taffrail_fabric::conformance_processes!(Open);
