//! How a rank of the conformance suite gets its fabric.
#![allow(dead_code, reason = "no test program uses both kinds of jobs")]

use taffrail_fabric::conformance::Member;
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Take, Token};
use taffrail_shm::{Config, Setup, ShmFabric};

fn setup(member: &Member<'_>, open: bool) -> Setup {
    Setup::new(Config { open, ..Config::new(member.rank(), member.size()) })
        .expect("memory and a listener")
}

fn addresses(member: &mut Member<'_>, mine: &str) -> Vec<String> {
    let all = member.exchange(mine.as_bytes()).into_iter();
    all.map(|address| String::from_utf8(address).expect("addresses are text")).collect()
}

/// The fabric of this member, connected with all others.
pub fn join(member: &mut Member<'_>) -> ShmFabric {
    let setup = setup(member, false);
    let addresses = addresses(member, setup.address());
    setup.connect(&addresses).expect("a connection with every peer")
}

/// An open job for this member, that calls all others, as they call it.
pub fn join_open(member: &mut Member<'_>) -> ShmFabric {
    let mut fabric = setup(member, true).open().expect("an open job");
    let mine = fabric.address().to_owned();
    for (rank, address) in (0..).zip(addresses(member, &mine)) {
        // Seats are given in this order, so they are the ranks.
        assert_eq!(fabric.call(&address), Ok(PeerId(rank)));
    }
    while !(0..fabric.peers() as u32).all(|rank| fabric.is_met(PeerId(rank))) {
        fabric.check(&mut Meeting);
        std::thread::yield_now();
    }
    member.exchange(&[]);
    // What is left of the calls that were not answered, since others were.
    fabric.check(&mut Meeting);
    // Nobody begins, or dies, before that.
    member.exchange(&[]);
    fabric
}

/// While they meet nothing happens.
struct Meeting;

impl Sink for Meeting {
    fn message(&mut self, from: PeerId, head: Head, _: Body<'_>) -> Take {
        panic!("a message of {from} while they meet: {head:?}");
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent while they meet");
    }

    fn moved(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} has ended while they meet");
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        panic!("the link with {peer} while they meet: {event:?}");
    }
}
