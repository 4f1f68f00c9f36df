//! The fabric with all trouble that the contract permits on top of it: long bodies that really stream, under sinks that
//! keep buffers and sends that end later.

use taffrail_fabric::conformance::Bench;
use taffrail_fabric::faulty::{Faults, Faulty, Mixed, Trouble, Unordered};
use taffrail_tcp::{Config, TcpFabric};

fn mesh<const O: bool, const S: bool, const L: bool>(n: usize) -> Vec<Faulty<TcpFabric, O, S, L>> {
    let config = Config { whole: 64, ..Config::default() };
    let fabrics = taffrail_tcp::over_unix(n as u32, config).expect("few connections");
    let faults = Faults::trouble(Trouble::all(5));
    fabrics.into_iter().map(|fabric| Faulty::new(fabric, faults)).collect()
}

struct InOrder;

impl Bench for InOrder {
    type Fabric = Mixed<TcpFabric>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        mesh(n)
    }
}

struct WithoutOrder;

impl Bench for WithoutOrder {
    type Fabric = Unordered<TcpFabric>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        mesh(n)
    }
}

mod in_order {
    use super::*;
    taffrail_fabric::conformance!(@messages InOrder);
    taffrail_fabric::conformance!(@memory InOrder);
}

mod without_order {
    use super::*;
    taffrail_fabric::conformance!(@unordered WithoutOrder);
}
