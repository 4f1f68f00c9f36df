//! Peers that have finished, by the word of a membership, and whose links were lost before their goodbye had arrived.

use super::{Plain, Verdicts, engines};
use crate::{Data, Dest};
use std::time::{Duration, Instant};
use taffrail_fabric::{Fabric, Fault, Incarnation, Life, PeerId, Source};
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Config, Contact, Interface, Listener, Secret, TcpFabric};

/// Fabrics of ranks that make their connections by themselves.
pub(crate) fn lazy(ranks: u32, patience: Duration) -> Vec<TcpFabric> {
    let listen = |_| Listener::bind(&Interface::Address([127, 0, 0, 1].into()), 0).unwrap();
    let listeners: Vec<Listener> = (0..ranks).map(listen).collect();
    let incarnation = Incarnation(0);
    let contact = |of: &Listener| Contact { address: Some(of.address()), incarnation };
    let contacts: Vec<Contact> = listeners.iter().map(contact).collect();
    let config = Config { patience, has_membership: true, ..Config::DEFAULT };
    let open = |(rank, listener)| {
        let me = Identity { job: [7; 16], secret: Secret::new([42; 32]), rank, incarnation };
        TcpFabric::open(me, listener, contacts.clone(), config).unwrap()
    };
    (0..).zip(listeners).map(open).collect()
}

/// Two of these; rank 0 has a message of rank 1.
fn linked(patience: Duration) -> [Plain<TcpFabric>; 2] {
    let mut engines = engines(lazy(2, patience));
    let to = Dest { rank: 0, context: 3, tag: 0, data: Data::NONE };
    assert!(engines[1].send_now(&to, Source::Bytes(b"hello"), 5).unwrap());
    until("a message", || {
        engines.iter_mut().for_each(|engine| _ = engine.progress());
        engines[0].core.matcher.unexpected().count() > 0
    });
    engines.try_into().ok().expect("two")
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "stuck: {what}");
        std::thread::yield_now();
    }
}

/// Why rank 1 is gone for rank 0: its connection is lost and nobody listens there, and it has finished, which is known before
/// or behind that.
fn end_of_finished(is_known_before: bool, patience: Duration) -> Option<Fault> {
    let [mut engine, mut peer] = linked(patience);
    let finished = || Box::new(Verdicts(vec![(PeerId(1), Life::Finished)]));
    if is_known_before {
        engine.set_membership(finished());
        engine.check();
        assert_eq!(engine.core.peers[1].fault, None, "its last messages may be under way");
    }
    peer.fabric.abandon_in_child();
    if !is_known_before {
        (0..10).for_each(|_| _ = engine.progress());
        assert_eq!(engine.core.peers[1].fault, None, "it may be back");
        engine.set_membership(finished());
        engine.check();
    }
    until("the end of the peer", || {
        engine.progress();
        engine.core.peers[1].fault.is_some()
    });
    engine.core.peers[1].fault().cloned()
}

#[test]
fn a_finished_peer_whose_link_is_lost_has_closed() {
    for is_known_before in [true, false] {
        let fault = end_of_finished(is_known_before, Config::DEFAULT.patience);
        assert_eq!(fault, Some(Fault::Closed), "known before: {is_known_before}");
    }
}

#[cfg(mutants)]
#[test]
fn a_mutant_takes_a_finished_peer_for_a_failed_one() {
    use taffrail_logging::mutants::{Mutant, with};
    for is_known_before in [true, false] {
        let end = || end_of_finished(is_known_before, Duration::from_millis(300));
        let fault = with(Mutant::FinishedUnknown, end);
        assert!(matches!(fault, Some(Fault::Lost(_))), "{fault:?}");
    }
}
