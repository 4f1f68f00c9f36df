//! How a rank of the conformance suite gets its line.
#![allow(dead_code, reason = "no test program uses both kinds of lines")]

use taffrail_fabric::conformance::Seat;
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Take, Token};
use taffrail_shm::{Config, Setup, ShmFabric};

fn setup(seat: &Seat<'_>, open: bool) -> Setup {
    Setup::new(Config { open, ..Config::new(seat.rank(), seat.size()) })
        .expect("memory and a listener")
}

fn addresses(seat: &mut Seat<'_>, mine: &str) -> Vec<String> {
    let all = seat.exchange(mine.as_bytes()).into_iter();
    all.map(|address| String::from_utf8(address).expect("addresses are text")).collect()
}

/// The line of this seat, connected with all others.
pub fn join(seat: &mut Seat<'_>) -> ShmFabric {
    let setup = setup(seat, false);
    let addresses = addresses(seat, setup.address());
    setup.connect(&addresses).expect("a connection with every peer")
}

/// An open line for this seat, that calls all others, as they call it.
pub fn join_open(seat: &mut Seat<'_>) -> ShmFabric {
    let mut line = setup(seat, true).open().expect("an open line");
    let mine = line.address().to_owned();
    for (rank, address) in (0..).zip(addresses(seat, &mine)) {
        // Seats are given in this order, so they are the ranks.
        assert_eq!(line.call(&address), Ok(PeerId(rank)));
    }
    while !(0..line.peers() as u32).all(|rank| line.is_met(PeerId(rank))) {
        line.check(&mut Meeting);
        std::thread::yield_now();
    }
    seat.exchange(&[]);
    // What is left of the calls that were not answered, since others were.
    line.check(&mut Meeting);
    // Nobody begins, or dies, before that.
    seat.exchange(&[]);
    line
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
