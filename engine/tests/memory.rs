//! What a peer costs a whole endpoint over sockets that was never spoken to.

use std::net::Ipv4Addr;
use taffrail_engine::policy::NoLogging;
use taffrail_engine::{Clock, Engine, Sizes};
use taffrail_fabric::Incarnation;
use taffrail_fabric::conformance::CountingHeap;
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Config, Contact, Interface, Listener, Secret, TcpFabric};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

fn endpoint(ranks: u32) -> Engine<TcpFabric, NoLogging> {
    let listener = Listener::bind(&Interface::Address(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
    let incarnation = Incarnation(0);
    let contact = Contact { address: Some(listener.address()), incarnation };
    let me = Identity { job: [7; 16], secret: Secret::new([42; 32]), rank: 0, incarnation };
    let contacts = vec![contact; ranks as usize];
    let fabric = TcpFabric::open(me, listener, contacts, Config::DEFAULT).unwrap();
    let sizes = Sizes {
        fragment: 1024,
        rndv_fragment: 2048,
        by_peer: true,
        logged_fragment: 1024,
        eager_max: 8192,
        way: None,
        unexpected: 1 << 20,
        unexpected_max: usize::MAX,
    };
    Engine::new(fabric, NoLogging, ranks, sizes, Clock::new(std::time::Instant::now))
}

#[test]
fn a_peer_that_was_never_spoken_to_costs_little() {
    let measure = |ranks| CountingHeap::taken_by(|| endpoint(ranks));
    measure(1);
    let each = (measure(10_001) - measure(1)) / 10_000;
    println!("a peer that was never spoken to: {each} bytes");
    assert!(each > 50, "{each} bytes: something is not counted");
    assert!(each <= 256, "{each} bytes");
}
