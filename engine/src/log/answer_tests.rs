//! Answers to synchronous messages of a peer that dies: none of them is for its next incarnation, which asks again. And an RTS
//! at the gate.

use super::host::vectors::Vectors;
use super::tests::{came_to, engine, engine_with, parts, report};
use super::*;
use crate::call::{Call, Operation};
use crate::frame::{Frame, MsgHead, Throttle};
use crate::{Data, Dest, Engine, Pattern};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Fabric, PeerId, Source};

type Rank0 = Engine<Loopback, Logging<Vectors>>;

/// An engine whose frames wait for events, and whose events are not stable yet.
fn gated_engine(fabric: Loopback) -> Rank0 {
    let mut gated = parts();
    gated.gated = true;
    gated.events.stable_at_once = false;
    engine_with(fabric, gated)
}

/// A probe finds no message, which is an event.
fn find_nothing(engine: &mut Rank0) {
    let probe = engine.advance(&mut Call::new(Operation::Probe(&Pattern::any_source(7))));
    assert!(probe.is_ready());
}

/// Rank 2 is killed, starts again, and reports what it has. What comes to it from then on, beside its part of the exchange.
fn answers_to_the_next(
    engine: &mut Rank0,
    peer: Loopback,
    between: impl FnOnce(&mut Rank0),
    after: impl FnOnce(&mut Rank0),
) -> usize {
    engine.core.peer_suspended(2);
    between(engine);
    engine.core.peer_restarted(2, 1);
    report(engine, 1);
    engine.run_deferred();
    after(engine);
    engine.progress();
    // RESTART2 comes in any case.
    came_to(&mut [peer])[0] - 1
}

/// A message came, and it is matched when its sender has started again: whether the name that the dead one gave it is answered.
fn a_stale_name_is_answered() -> bool {
    let mut mesh = mesh(3);
    let mut peer = mesh.remove(2);
    let mut engine = engine(mesh.remove(0));
    let msg = MsgHead { context: 0, seq: 0, tag: 7 };
    let frame = Frame::EagerSync { msg, name: 1 };
    let front = frame.front().to_vec();
    peer.send(PeerId(0), frame.head(), Source::Parts(&[&front, b"ahoy"])).unwrap();
    engine.progress();
    assert_eq!(engine.core.matcher.unexpected().count(), 1);
    let mut into = [0; 4];
    let receive = |engine: &mut Rank0| {
        // SAFETY: `into` outlives the receive, which completes at once.
        unsafe { engine.start_recv(Pattern::new(2, 7), into.as_mut_ptr(), 4).unwrap() };
    };
    answers_to_the_next(&mut engine, peer, |_| {}, receive) > 0
}

#[test]
fn the_names_of_the_dead_are_not_answered() {
    assert!(!a_stale_name_is_answered());
}

/// A message was matched in the poll that finds its sender dead: whether the next incarnation gets the answer.
fn a_stale_answer_is_sent() -> bool {
    let mut mesh = mesh(3);
    let peer = mesh.remove(2);
    let mut engine = engine(mesh.remove(0));
    engine.core.deferred.acknowledge(2, 1);
    answers_to_the_next(&mut engine, peer, |_| {}, |_| {}) > 0
}

#[test]
fn answers_that_are_not_sent_die_with_their_peer() {
    assert!(!a_stale_answer_is_sent());
}

/// A message is matched when its sender is dead, and the event is not stable: whether the next incarnation gets the answer.
fn an_answer_waits_for_the_next() -> bool {
    let mut mesh = mesh(3);
    let peer = mesh.remove(2);
    let mut engine = gated_engine(mesh.remove(0));
    let acknowledge = |engine: &mut Rank0| {
        find_nothing(engine);
        engine.core.deferred.acknowledge(2, 1);
        engine.run_deferred();
        let log = &mut engine.core.policy;
        log.events.sink.stable_at_once = true;
    };
    answers_to_the_next(&mut engine, peer, acknowledge, |_| {}) > 0
}

#[test]
fn no_answer_waits_for_the_next_incarnation() {
    assert!(!an_answer_waits_for_the_next());
}

/// A throttled rank sends a message, and an event before it is not stable: whether the RTS leaves.
fn an_rts_passes_the_gate() -> bool {
    let mut mesh = mesh(3);
    let peer = mesh.remove(2);
    let mut engine = gated_engine(mesh.remove(0));
    find_nothing(&mut engine);
    engine.core.peers[2].obey(Throttle::Announce);
    let bytes = [7; 10_000];
    let to = Dest { rank: 2, context: 0, tag: 1, data: Data::NONE };
    // SAFETY: the bytes outlive the engine.
    unsafe { engine.start_send(to, bytes.as_ptr(), bytes.len(), false).unwrap() };
    engine.progress();
    let mut peer = [peer];
    let passes = came_to(&mut peer)[0] > 0;
    engine.core.policy.events.sink.stable_at_once = true;
    engine.progress();
    assert!(passes || came_to(&mut peer)[0] == 1, "it leaves when the event is stable");
    passes
}

#[test]
fn an_rts_waits_for_the_gate() {
    assert!(!an_rts_passes_the_gate());
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn the_names_of_the_dead_are_answered() {
        assert!(with(Mutant::StaleNamesKept, a_stale_name_is_answered));
    }

    #[test]
    fn answers_to_the_dead_are_sent() {
        assert!(with(Mutant::StaleAnswersKept, a_stale_answer_is_sent));
    }

    #[test]
    fn an_rts_does_not_wait() {
        assert!(with(Mutant::RtsUngated, an_rts_passes_the_gate));
    }

    #[test]
    fn answers_to_the_dead_wait() {
        assert!(with(Mutant::AnswerToDeadGated, an_answer_waits_for_the_next));
    }
}
