//! Where a logged rank cannot continue, its process ends, and is restarted: its program sees no error that a replay would not
//! repeat.

use super::*;
use taffrail_fabric::RemoteKey;

/// A message of a kind that does not exist comes from rank 2.
fn garbage() -> Engine<Loopback, Logging<Vectors>> {
    let mut ranks = mesh(3);
    let mut hostile = ranks.remove(2);
    let mut engine = engine(ranks.remove(0));
    let head = Head { kind: Head::KINDS - 1, ..Head::default() };
    hostile.send(PeerId(0), head, Source::Bytes(&[0; RemoteKey::MAX])).unwrap();
    for _ in 0..3 {
        engine.progress();
    }
    engine
}

#[test]
#[should_panic(expected = "the process ends: rank 2 has broken the protocol")]
fn garbage_ends_the_process() {
    garbage();
}

#[test]
#[should_panic(expected = "the process ends: rank 2 has broken the protocol")]
fn garbage_that_the_fabric_has_found_does_too() {
    let mut engine = engine(mesh(3).remove(0));
    let fault = Fault::Protocol { place: "a ring", expected: "1".into(), got: "2".into() };
    engine.core.link(PeerId(2), LinkEvent::Broken(fault));
}

/// Rank 2 is restarted from the beginning, and what its last checkpoint covered was dropped.
fn restarts_before_its_checkpoint() -> Engine<Loopback, Logging<Vectors>> {
    let mut engine = engine(mesh(3).remove(0));
    let covered = Received { channels: vec![(5, 10)], ..Received::default() };
    engine.core.log().links[2].exchanged().dropped = Some(covered);
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 1);
    report(&mut engine, 1);
    engine.run_deferred();
    engine
}

#[test]
#[should_panic(expected = "was restarted before its last checkpoint")]
fn a_peer_that_lacks_what_was_dropped_ends_the_process() {
    restarts_before_its_checkpoint();
}

#[test]
#[should_panic(expected = "a message of the log cannot be sent again")]
fn a_log_that_cannot_be_read_ends_the_process() {
    static BYTES: [u8; 40_000] = [7; 40_000];
    let mut spill = SpillMap::default();
    spill.is_unreadable = true;
    let mut ranks = mesh(3);
    let mut engine = engine_with(ranks.remove(0), LogParts { spill, ..parts() });
    let to = Dest { rank: 2, context: 0, tag: 1, data: Data::NONE };
    // More than the memory of the log.
    for _ in 0..64 * engine.fabric.segment_len() / BYTES.len() + 100 {
        while !engine.send_now(&to, Source::Bytes(&BYTES), BYTES.len()).unwrap() {}
        engine.progress();
    }
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 1);
    report(&mut engine, 1);
    for _ in 0..1000 {
        engine.progress();
    }
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn the_program_sees_garbage() {
        let engine = with(Mutant::GarbageSurvived, garbage);
        assert!(engine.core.peers[2].fault.is_some());
    }

    #[test]
    fn a_peer_lacks_what_was_dropped() {
        let engine = with(Mutant::DroppedNotMissed, restarts_before_its_checkpoint);
        assert!(!engine.core.peers[2].is_away());
    }
}
