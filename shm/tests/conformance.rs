//! Shared memory passes the suite that every fabric passes.

mod common;

use taffrail_fabric::conformance::{Bench, Member, Processes, mesh_of_joined};
use taffrail_shm::ShmFabric;

struct Shm;

impl Bench for Shm {
    type Fabric = ShmFabric;

    fn mesh(&self, n: usize) -> Vec<ShmFabric> {
        mesh_of_joined(self, n)
    }
}

impl Processes for Shm {
    fn join(&self, member: &mut Member<'_>) -> ShmFabric {
        common::join(member)
    }
}

taffrail_fabric::conformance!(Shm);
taffrail_fabric::conformance!(@memory Shm);
taffrail_fabric::conformance_processes!(Shm);
