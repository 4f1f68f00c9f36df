//! What a roster says of peers, in place of their links.

use super::*;
use crate::frame::kind;
use crate::tests::Verdicts;
use taffrail_fabric::{Head, Incarnation, Life, Source};

/// An engine that has heard this of rank 2, whose link is up, and the fabric of that.
fn heard(life: Life) -> (Engine<Loopback, Logging<Vectors>>, Loopback) {
    let mut mesh = mesh(3);
    let peer = mesh.remove(2);
    let mut engine = engine(mesh.remove(0));
    engine.set_membership(Box::new(Verdicts(vec![(PeerId(2), life)])));
    engine.check();
    (engine, peer)
}

/// Whether a message is taken in that a process sends of which the roster has said that it is dead.
fn the_dead_are_heard() -> bool {
    let (mut engine, mut dead) = heard(Life::Dead(Incarnation(0)));
    assert!(engine.core.peers[2].is_away());
    let head = Head { kind: kind::EAGER, context: 3, seq: 0, tag: 1 };
    let is_sent = dead.send(PeerId(0), head, Source::Bytes(b"late")).is_ok();
    assert_eq!(is_sent, mutant!(DeadStillHeard), "whether the link is still up");
    (0..10).for_each(|_| _ = engine.progress());
    engine.core.matcher.unexpected().count() > 0
}

#[test]
fn nothing_of_the_dead_is_taken_in() {
    assert!(!the_dead_are_heard());
}

#[test]
fn a_restart_is_the_death_of_the_former_incarnation() {
    let (engine, _peer) = heard(Life::Restarted(Incarnation(1)));
    assert!(engine.core.peers[2].is_away());
}

#[test]
fn what_the_link_knows_changes_nothing() {
    let (engine, _peer) = heard(Life::Restarted(Incarnation(0)));
    assert!(!engine.core.peers[2].is_away() && engine.core.peers[2].fault.is_none());
}

/// A link was lost before its peer had closed it, and the roster says that the peer has finished.
#[test]
fn a_rank_that_has_finished_is_not_waited_for() {
    let (mut engine, _peer) = heard(Life::Restarted(Incarnation(0)));
    engine.core.link(PeerId(2), LinkEvent::Broken(Fault::Lost("cut".into())));
    assert!(engine.core.peers[2].is_away());
    engine.set_membership(Box::new(Verdicts(vec![(PeerId(2), Life::Finished)])));
    engine.check();
    assert_eq!(engine.core.peers[2].fault(), Some(&Fault::Closed));
}

#[cfg(mutants)]
#[test]
fn the_dead_are_heard_by_a_mutant() {
    use taffrail_logging::mutants::{Mutant, with};
    assert!(with(Mutant::DeadStillHeard, the_dead_are_heard));
}
