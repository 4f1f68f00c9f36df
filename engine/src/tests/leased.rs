//! Unexpected messages that stay in the receive buffers of their fabric.

use super::{Plain, engines, seed};
use crate::core::Unexpected;
use crate::{Data, Dest, Error, Pattern};
use taffrail_fabric::Source;
use taffrail_fabric::faulty::{Faults, Leasing, Trouble};
use taffrail_fabric::loopback::{Loopback, mesh};

type Leased = Plain<Leasing<Loopback>>;

/// Receive buffers that messages of one peer may keep.
const MOST: usize = 16;
/// Longer than what is always copied.
const LEN: usize = 500;

/// Two ranks; rank 0 has sent messages of this length, whose tags are their numbers, to rank 1, where they wait.
fn waiting(count: u64, len: usize) -> Vec<Leased> {
    let faults = Faults::trouble(Trouble { seed: seed(), ..Trouble::default() });
    let mut engines =
        engines(mesh(2).into_iter().map(|fabric| Leasing::new(fabric, faults)).collect());
    for tag in 0..count {
        let to = Dest { rank: 1, context: 3, tag, data: Data::NONE };
        assert!(engines[0].send_now(&to, Source::Bytes(&bytes(tag, len)), len).unwrap());
        engines[1].progress();
    }
    assert_eq!(engines[1].core.matcher.unexpected().count() as u64, count);
    engines
}

fn bytes(tag: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| at as u8 ^ tag as u8).collect()
}

/// Messages that wait in receive buffers of the fabric.
fn kept(engine: &Leased) -> usize {
    let unexpected = engine.core.matcher.unexpected();
    unexpected.filter(|(.., found)| matches!(found, Unexpected::Kept(_))).count()
}

/// Receives the message with this tag, in memory of this length.
fn receive(engine: &mut Leased, tag: u64, room: usize) -> Result<Vec<u8>, Error> {
    let mut into = vec![0; room];
    let from = Pattern { source: Some(0), context: 3, tag, ignore: 0 };
    // SAFETY: the message is here, so that the receive is over before `into` is dropped.
    let request = unsafe { engine.start_recv(from, into.as_mut_ptr(), room).unwrap() };
    let status = engine.core.requests.finish(request)?;
    into.truncate(status.len);
    Ok(into)
}

#[test]
fn a_peer_keeps_a_bounded_number_of_receive_buffers() {
    let mut engines = waiting(300, LEN);
    assert_eq!(kept(&engines[1]), MOST, "of 300 messages");
    assert_eq!(engines[1].fabric.kept_leases(), MOST);
    let mut all = engines[1].core.matcher.unexpected();
    let found = all.find(|(.., found)| matches!(found, Unexpected::Kept(_)));
    let tag = found.expect("16 are kept").1.tag;
    drop(all);
    assert_eq!(receive(&mut engines[1], tag, LEN).unwrap(), bytes(tag, LEN));
    assert_eq!(engines[1].fabric.kept_leases(), MOST, "until the next turn");
    engines[1].progress();
    assert_eq!(engines[1].fabric.kept_leases(), MOST - 1);
    for other in (0..300).filter(|other| *other != tag) {
        assert_eq!(receive(&mut engines[1], other, LEN).unwrap(), bytes(other, LEN));
    }
    engines[1].progress();
    assert_eq!(engines[1].fabric.kept_leases(), 0);
    let peer = &engines[1].core.peers[0];
    assert_eq!((peer.kept_leases, peer.unreceived.memory), (0, 0));
}

#[test]
fn short_messages_are_copied() {
    let engines = waiting(100, 40);
    assert_eq!(kept(&engines[1]), 0);
}

#[test]
fn a_kept_message_outlives_its_sender() {
    let mut engines = waiting(40, LEN);
    drop(engines.remove(0));
    while engines[0].core.peers[0].fault.is_none() {
        engines[0].progress();
        engines[0].check();
    }
    assert!(kept(&engines[0]) > 0);
    for tag in 0..40 {
        assert_eq!(receive(&mut engines[0], tag, LEN).unwrap(), bytes(tag, LEN));
    }
    engines[0].progress();
    assert_eq!(engines[0].fabric.kept_leases(), 0);
}

#[test]
fn buffers_of_messages_that_are_cut_or_discarded_are_returned() {
    let mut engines = waiting(40, LEN);
    let engine = &mut engines[1];
    for tag in 0..20 {
        assert!(matches!(receive(engine, tag, 100), Err(Error::Truncated { len: LEN, .. })));
    }
    let waiting: Vec<_> = engine.core.matcher.unexpected().map(|(id, ..)| id).collect();
    waiting.into_iter().for_each(|id| engine.discard_claimed(id));
    engine.progress();
    assert_eq!(engine.fabric.kept_leases(), 0);
    assert_eq!(engine.core.matcher.unexpected().count(), 0);
}

/// Receives all of some messages; whether all have their bytes, and how many receive buffers the fabric lacks then.
fn received_and_lost() -> (bool, usize) {
    // No more than the fabric has returned buffers that stay readable.
    let mut engines = waiting(60, LEN);
    engines[1].progress();
    let engine = &mut engines[1];
    let mut is_right = true;
    for tag in 0..60 {
        is_right &= receive(engine, tag, LEN).unwrap() == bytes(tag, LEN);
    }
    engine.progress();
    (is_right, engine.fabric.kept_leases())
}

#[test]
fn every_kept_buffer_is_returned_when_its_message_was_copied() {
    assert_eq!(received_and_lost(), (true, 0));
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn a_buffer_is_returned_before_it_is_copied() {
        let (is_right, _) = with(Mutant::LeaseReturnedEarly, received_and_lost);
        assert!(!is_right);
    }

    #[test]
    fn a_buffer_is_not_returned() {
        assert_eq!(with(Mutant::LeaseNotReturned, received_and_lost), (true, MOST));
    }

    #[test]
    #[should_panic = "is returned, and is not kept"]
    fn a_buffer_is_returned_twice() {
        with(Mutant::LeaseReturnedTwice, received_and_lost);
    }
}
