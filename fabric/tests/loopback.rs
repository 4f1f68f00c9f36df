//! The suite passes the fabric that is its specification.

use taffrail_fabric::conformance::Bench;
use taffrail_fabric::loopback::{Loopback, Manners, mesh};

struct Good;

impl Bench for Good {
    type Fabric = Loopback;

    fn mesh(&self, n: usize) -> Vec<Loopback> {
        mesh(n, Manners::Good)
    }
}

taffrail_fabric::conformance!(Good);
taffrail_fabric::conformance!(@memory Good);
