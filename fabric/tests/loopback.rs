//! The suite passes the fabric that is its specification, and what makes trouble on top of it within the contract.

use taffrail_fabric::conformance::Bench;
use taffrail_fabric::faulty::{Faults, Faulty, Leasing, Mixed, Streaming, Trouble, Unordered};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Source, Take, Token};

struct Good;

impl Bench for Good {
    type Fabric = Loopback;

    fn mesh(&self, n: usize) -> Vec<Loopback> {
        mesh(n)
    }
}

taffrail_fabric::conformance!(Good);
taffrail_fabric::conformance!(@memory Good);

/// The loopback with some trouble, and bodies of some kind.
struct Troubled<const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool>(Trouble);

impl<const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool> Bench
    for Troubled<IN_ORDER, STREAMING, LEASING>
{
    type Fabric = Faulty<Loopback, IN_ORDER, STREAMING, LEASING>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        let faults = Faults::trouble(self.0);
        mesh(n).into_iter().map(|fabric| Faulty::new(fabric, faults)).collect()
    }
}

const NONE: Trouble = Trouble { seed: 1, busy: false, late: false, later: false, reorder: false };

mod no_trouble {
    use super::*;
    taffrail_fabric::conformance!(@messages Troubled::<true, false, false>(NONE));
}

mod busy {
    use super::*;
    const BUSY: Trouble = Trouble { busy: true, ..NONE };
    taffrail_fabric::conformance!(@messages Troubled::<true, false, false>(BUSY));
}

mod late {
    use super::*;
    const LATE: Trouble = Trouble { late: true, reorder: true, ..NONE };
    taffrail_fabric::conformance!(@messages Troubled::<true, false, false>(LATE));
}

mod sent_later {
    use super::*;
    const LATER: Trouble = Trouble { later: true, ..NONE };
    taffrail_fabric::conformance!(@messages Troubled::<true, false, false>(LATER));
}

mod streams {
    use super::*;
    taffrail_fabric::conformance!(@messages Troubled::<true, true, false>(NONE));
}

mod leases {
    use super::*;
    taffrail_fabric::conformance!(@messages Troubled::<true, false, true>(NONE));
}

mod everything {
    use super::*;
    taffrail_fabric::conformance!(Troubled::<true, true, true>(Trouble::all(2)));
    taffrail_fabric::conformance!(@memory Troubled::<true, true, true>(Trouble::all(3)));
}

mod without_order {
    use super::*;
    taffrail_fabric::conformance!(@unordered Troubled::<false, true, true>(Trouble::all(4)));
}

/// What each kind of fabric has shown.
#[derive(Default)]
struct Shown {
    tags: Vec<u64>,
    streams: usize,
    leases: usize,
}

impl Sink for Shown {
    fn message(&mut self, _: PeerId, head: Head, body: Body<'_>) -> Take {
        self.tags.push(head.tag);
        self.streams += usize::from(matches!(body, Body::Stream { .. }));
        self.leases += usize::from(matches!(body, Body::Leased(..)));
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}

fn shown<F: Fabric>(faulty: impl Fn(Loopback, Faults) -> F) -> Shown {
    let trouble = Trouble { late: true, reorder: true, ..NONE };
    let new = |fabric| faulty(fabric, Faults::trouble(trouble));
    let mut mesh: Vec<F> = mesh(2).into_iter().map(new).collect();
    let mut shown = Shown::default();
    for tag in 0..50 {
        let head = Head { tag, ..Head::default() };
        mesh[0].send(PeerId(1), head, Source::Bytes(&[1; 100])).expect("room");
    }
    while shown.tags.len() < 50 {
        mesh[1].poll(&mut shown);
    }
    shown
}

#[test]
fn each_kind_of_fabric_does_what_its_name_says() {
    let in_order = |shown: &Shown| shown.tags.is_sorted();
    let plain = shown(Faulty::<_>::new);
    assert!(in_order(&plain) && (plain.streams, plain.leases) == (0, 0));
    let streaming = shown(Streaming::new);
    assert!(in_order(&streaming) && streaming.streams > 5 && streaming.leases == 0);
    let leasing = shown(Leasing::new);
    assert!(in_order(&leasing) && leasing.streams == 0 && leasing.leases > 5);
    let mixed = shown(Mixed::new);
    assert!(in_order(&mixed) && mixed.streams > 5 && mixed.leases > 5);
    let unordered = shown(Unordered::new);
    assert!(!in_order(&unordered) && unordered.streams > 5 && unordered.leases > 5);
}
