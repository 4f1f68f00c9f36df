//! Calls of a rank that resumes from a checkpoint, and polls on both sides of one.

use super::host::LogParts;
use super::host::vectors::{ReplayedVec, Vectors};
use super::tests::{engine, engine_with, parts};
use super::*;
use crate::call::{Call, Operation, Outcome, Over};
use crate::frame::kind;
use crate::{Data, Dest, Engine, Pattern};
use std::task::Poll;
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Fabric, Head, PeerId, Source};
use taffrail_logging::{Event, LoggedEvent, MsgId};

type Rank0 = Engine<Loopback, Logging<Vectors>>;

/// Rank 0 resumes from a checkpoint, and a message of rank 2 that was here then is still to come. With its peers.
fn resumed() -> (Rank0, Vec<Loopback>) {
    let mut peers = mesh(3);
    let mut engine = engine(peers.remove(0));
    engine.core.numbers.of_mut(2).expected.set(0, 1);
    engine.core.log().inbound.lies_ahead(MsgId { source: 2, context: 0, seq: 0 });
    (engine, peers)
}

fn send(peer: &mut Loopback, tag: u64) {
    let head = Head { kind: kind::EAGER, tag, ..Head::default() };
    peer.send(PeerId(0), head, Source::Bytes(b"ahoy")).unwrap();
}

/// Whether a probe answers before the message is here that the program may have seen.
fn a_probe_answers_early() -> bool {
    let (mut engine, mut peers) = resumed();
    let pattern = Pattern::any_source(7);
    let mut call = Call::new(Operation::Probe(&pattern));
    let early = engine.advance(&mut call).is_ready();
    send(&mut peers[1], 7);
    engine.progress();
    if !early {
        let Poll::Ready(Ok(Outcome::Seen(seen))) = engine.advance(&mut call) else {
            panic!("it is here");
        };
        assert_eq!((seen.source, seen.tag), (2, 7));
    }
    early
}

#[test]
fn a_probe_waits_until_all_is_here() {
    assert!(!a_probe_answers_early());
}

/// Whether another call waits for that, though what it waits for is here.
fn a_wait_waits_for_it() -> bool {
    let (mut engine, mut peers) = resumed();
    let mut into = [0; 4];
    // SAFETY: `into` outlives the receive.
    let request = unsafe { engine.start_recv(Pattern::new(1, 3), into.as_mut_ptr(), 4).unwrap() };
    send(&mut peers[0], 3);
    engine.progress();
    let requests = [engine.handle(request)];
    let waited = engine.advance(&mut Call::new(Operation::WaitAny(&requests)));
    assert!(engine.core.log().inbound.is_to_come(MsgId { source: 2, context: 0, seq: 0 }));
    waited.is_pending()
}

#[test]
fn other_calls_do_not_wait_for_that() {
    assert!(!a_wait_waits_for_it());
}

/// A poll takes the last completion, and then a checkpoint is taken. Whether the next poll, which is empty, is counted: a
/// rank that resumes from the checkpoint counts it.
fn counts_after_a_checkpoint() -> bool {
    let mut peers = mesh(3);
    let mut engine = engine(peers.remove(0));
    let to = Dest { rank: 1, context: 0, tag: 1, data: Data::NONE };
    // SAFETY: the bytes are constant.
    let request = unsafe { engine.start_send(to, b"ahoy".as_ptr(), 4, false).unwrap() };
    engine.core.requests.track(request);
    assert!(matches!(engine.poll_at_once(1), Ok(Over::Next)));
    assert!(engine.core.requests.take_next().is_some());
    assert!(engine.begin_checkpoint().unwrap());
    assert!(matches!(engine.poll_at_once(1), Ok(Over::Nothing)));
    engine.core.log().recorder.has_polled()
}

#[test]
fn a_checkpoint_ends_that_all_was_shown() {
    assert!(counts_after_a_checkpoint());
}

/// Whether a rank that repeats what it did takes a checkpoint.
fn saves_in_a_replay() -> bool {
    let event = LoggedEvent { clock: 1, event: Event::Found { polls: 0, index: 0 } };
    let replayed = ReplayedVec(vec![event].into());
    let mut peers = mesh(3);
    let mut engine = engine_with(peers.remove(0), LogParts { replayed, ..parts() });
    engine.begin_checkpoint().unwrap()
}

#[test]
fn there_is_no_checkpoint_in_a_replay() {
    assert!(!saves_in_a_replay());
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn a_probe_does_not_wait() {
        assert!(with(Mutant::ProbesBeforeAllIsHere, a_probe_answers_early));
    }

    #[test]
    fn every_call_waits() {
        assert!(with(Mutant::NoCallsBeforeAllIsHere, a_wait_waits_for_it));
    }

    #[test]
    fn there_is_one_in_a_replay() {
        assert!(with(Mutant::CheckpointInReplay, saves_in_a_replay));
    }

    #[test]
    fn what_was_shown_counts_behind_a_checkpoint() {
        assert!(!with(Mutant::DrainedAcrossCheckpoint, counts_after_a_checkpoint));
    }
}
