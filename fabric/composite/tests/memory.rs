//! What a peer of another node costs a whole endpoint that has never spoken to it.

#[path = "common/sizes.rs"]
mod sizes;

use sizes::SIZES;
use std::net::Ipv4Addr;
use taffrail_composite::Composite;
use taffrail_engine::log::Logging;
use taffrail_engine::log::host::vectors::{Vectors, config, parts};
use taffrail_engine::policy::{NoLogging, Policy};
use taffrail_engine::{Clock, Engine};
use taffrail_fabric::conformance::CountingHeap;
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Incarnation, PeerId, SendMemory};
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Config, Contact, Interface, Listener, Secret, TcpFabric};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// One rank of a node of its own.
fn fabric(ranks: u32) -> Composite<Loopback, TcpFabric> {
    let listener = Listener::bind(&Interface::Address(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
    let incarnation = Incarnation(0);
    let contact = Contact { address: Some(listener.address()), incarnation };
    let me = Identity { job: [7; 16], secret: Secret::new([42; 32]), rank: 0, incarnation };
    let contacts = vec![contact; ranks as usize];
    let far = TcpFabric::open(me, listener, contacts, Config::DEFAULT).unwrap();
    let near = mesh(1).pop().unwrap();
    Composite::new(near, far, ranks, &[PeerId(0)]).unwrap()
}

/// Each rank is a set of its own.
fn log(ranks: u32, segment: usize) -> Box<Logging<Vectors>> {
    let config = config((0..ranks).collect::<Vec<_>>(), segment);
    Box::new(Logging::open(&config, parts(), 0, segment).unwrap())
}

fn endpoint<P: Policy>(
    ranks: u32,
    policy: impl Fn(usize) -> P,
) -> Engine<Composite<Loopback, TcpFabric>, P> {
    let fabric = fabric(ranks);
    let policy = policy(fabric.segment_len());
    Engine::new(fabric, policy, ranks, SIZES, Clock::new(std::time::Instant::now))
}

/// What one more rank costs an endpoint.
fn cost(endpoint_bytes: impl Fn(u32) -> usize) -> usize {
    endpoint_bytes(1);
    let each = (endpoint_bytes(10_001) - endpoint_bytes(1)) / 10_000;
    assert!(each > 50, "{each} bytes: something is not counted");
    each
}

#[test]
fn a_peer_that_was_never_spoken_to_costs_little() {
    let unlogged = cost(|ranks| CountingHeap::taken_by(|| endpoint(ranks, |_| NoLogging)));
    let logged = cost(|ranks| {
        CountingHeap::taken_by(|| endpoint(ranks, |segment| Some(log(ranks, segment))))
    });
    println!("a peer that was never spoken to: {unlogged} bytes, {logged} with logging");
    assert!(unlogged <= 256 && logged <= 384, "{unlogged} bytes, {logged} with logging");
}
