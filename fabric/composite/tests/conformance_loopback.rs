//! Two loopbacks, with all trouble that the contract permits: the composite passes the suite that every fabric passes.

mod common;

use common::Nodes;
use std::collections::HashMap;
use taffrail_composite::Composite;
use taffrail_fabric::conformance::Bench;
use taffrail_fabric::faulty::{Faults, Faulty, Mixed, Trouble};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Fabric, Wait};

/// A composite for each rank, of parts that `near` and `far` make of loopbacks.
fn composites<Near, Far>(
    n: usize,
    nodes: Nodes,
    near: impl Fn(Loopback) -> Near,
    far: impl Fn(Loopback) -> Far,
) -> Vec<Composite<Near, Far>>
where
    Near: Fabric + Wait,
    Far: Fabric + Wait,
{
    let mut nears: HashMap<u32, Loopback> = HashMap::new();
    let ranks = n as u32;
    for rank in 0..ranks {
        let node = nodes.fellows(rank, ranks);
        if !nears.contains_key(&rank) {
            nears.extend(node.iter().map(|rank| rank.0).zip(mesh(node.len())));
        }
    }
    let composite = |(rank, other): (u32, Loopback)| {
        let near = near(nears.remove(&rank).expect("each has one"));
        let node = nodes.fellows(rank, ranks);
        Composite::new(near, far(other), ranks, &node).expect("two fabrics of one rank")
    };
    (0..ranks).zip(mesh(n)).map(composite).collect()
}

/// The near fabric as it is, the far one with some trouble and bodies of some kind.
struct Far<const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool>(Nodes, Trouble);

impl<const O: bool, const S: bool, const L: bool> Bench for Far<O, S, L> {
    type Fabric = Composite<Loopback, Faulty<Loopback, O, S, L>>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        let far = |fabric| Faulty::new(fabric, Faults::trouble(self.1));
        composites(n, self.0, |fabric| fabric, far)
    }

    fn streams(&self) -> bool {
        S && self.0.apart(0, 1)
    }

    fn leases(&self) -> bool {
        L && self.0.apart(0, 2)
    }
}

/// Both fabrics with all trouble, and bodies of every kind.
struct Both(Nodes);

impl Bench for Both {
    type Fabric = Composite<Mixed<Loopback>, Mixed<Loopback>>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        let faulty = |seed| move |fabric| Mixed::new(fabric, Faults::trouble(Trouble::all(seed)));
        composites(n, self.0, faulty(7), faulty(8))
    }
}

const NONE: Trouble = Trouble { seed: 1, busy: false, late: false, later: false, reorder: false };

mod streams {
    use super::*;
    taffrail_fabric::conformance!(@messages Far::<true, true, false>(Nodes::Parity, NONE));
}

mod leases {
    use super::*;
    taffrail_fabric::conformance!(@messages Far::<true, false, true>(Nodes::Pairs, NONE));
}

mod without_order {
    use super::*;
    taffrail_fabric::conformance!(@unordered Far::<false, true, true>(Nodes::Parity, Trouble::all(4)));
}

/// All but views: allocated memory is that of the near fabric, and the far loopback has none to show.
macro_rules! without_views {
    ($bench:expr) => {
        taffrail_fabric::conformance!(@messages $bench);
        taffrail_fabric::conformance!(@memory $bench);
        taffrail_fabric::conformance!(@each $bench;
            memory {
                allocation, every_size, many_at_once, both_ways_in_threads, outside_of_a_region,
                unknown_regions, garbage_keys
            }
            deregister { stale_keys, get_under_way, put_under_way }
        );
    };
}

mod troubled {
    use super::*;

    mod pairs {
        use super::*;
        taffrail_fabric::conformance!(Far::<true, true, true>(Nodes::Pairs, Trouble::all(2)));
        taffrail_fabric::conformance!(@memory Far::<true, true, true>(Nodes::Pairs, Trouble::all(3)));
    }

    mod each_its_own {
        use super::*;
        without_views!(Far::<true, true, true>(Nodes::Each, Trouble::all(2)));
    }
}

mod both {
    use super::*;

    mod one_node {
        use super::*;
        taffrail_fabric::conformance!(Both(Nodes::One));
        taffrail_fabric::conformance!(@memory Both(Nodes::One));
    }

    mod parity {
        use super::*;
        without_views!(Both(Nodes::Parity));
    }
}
