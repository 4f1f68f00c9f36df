//! The log over a host of vectors: what a disk, a logger or the process before may do wrong.

use super::host::vectors::{CheckpointVec, EventVec, PreviousVec, ReplayedVec, SpillMap, Vectors};
use super::host::{LogParts, LoggingConfig};
use super::*;
use crate::clock::Clock;
use crate::{Engine, Sizes};
use taffrail_fabric::loopback::mesh;
use taffrail_fabric::{Payload, SendMemory};
use taffrail_logging::{Entry, Restart, RestartPhase};

/// A host that stores events without delay.
fn parts() -> LogParts<Vectors> {
    let events = EventVec { capacity: 1 << 20, stable_at_once: true, ..EventVec::default() };
    LogParts {
        events,
        gated: false,
        replayed: ReplayedVec::default(),
        held: Vec::new(),
        spill: SpillMap::default(),
        checkpoints: Some(CheckpointVec::default()),
        restart: None,
    }
}

/// Rank 0 of three ranks, of which the first two are a set.
fn open(parts: LogParts<Vectors>, segment: usize) -> Logging<Vectors> {
    let config = LoggingConfig {
        causal: false,
        all_events: false,
        sets: vec![0, 0, 1],
        incarnation: 0,
        memory: 64 * segment,
    };
    Logging::open(&config, parts, 0, segment).unwrap()
}

const INLINE: usize = 200;
const PIECE: usize = 16 << 10;

/// Logs messages to rank 2, some of them in pieces, and fills pages with them.
fn log_messages(
    log: &mut Logging<Vectors>,
    memory: &mut impl SendMemory,
) -> Vec<(Entry<LogEntry>, Vec<u8>)> {
    let lens = (0..300).map(|k| [40, 0, 3_000, 17, 40_000][k % 5] + k % 3);
    let messages = lens.enumerate().map(|(k, len)| {
        let bytes: Vec<u8> = (0..len).map(|i| (i + k) as u8).collect();
        if log.fills_page(2) {
            log.write_page(memory, 2).unwrap();
        }
        log.payload_log.prepare(memory, len, PIECE).unwrap();
        let kept = LogEntry::new(k as u64, len, len > PIECE, false, 0);
        let payload = log.payload_log.write_again(memory, &kept, &bytes, len <= INLINE).unwrap();
        let (seq, _) = log.outbound.number(2, 5);
        let entry = Entry { context: 5, seq, payload };
        log.outbound.keep(2, entry);
        (entry, bytes)
    });
    messages.collect()
}

/// The payload log of a process that has ended, as the next one sees it.
fn previous(log: &mut Logging<Vectors>, memory: &impl SendMemory, bytes: usize) -> PreviousVec {
    let mut left = vec![0; bytes];
    let size = memory.segment_len();
    for (k, part) in left.chunks_mut(size).enumerate() {
        log.payload_log.read(memory, (k * size) as u64, part).unwrap();
    }
    PreviousVec { bytes: left, given_up: None }
}

#[test]
fn what_the_process_before_has_logged_is_taken_over() {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    let messages = log_messages(&mut log, &mut memory);
    let (last, _) = messages.last().unwrap();
    let end = last.payload.at as usize + last.payload.bytes();
    let (table, left) = (log.table(2), previous(&mut log, &memory, end));

    let mut memory = mesh(1).remove(0);
    let mut next = open(parts(), memory.segment_len());
    next.take_over(&mut memory, 2, &table, &left, (INLINE, PIECE)).unwrap();
    let table = next.table(2);
    let mut taken = log_index::messages(&table, |at, into| {
        next.payload_log.read(&memory, at, into).map(|()| true)
    })
    .unwrap()
    .unwrap()
    .into_iter();
    for (entry, bytes) in &messages {
        let taken = taken.next().unwrap();
        assert_eq!((taken.context, taken.seq), (entry.context, entry.seq));
        assert_eq!(taken.payload.tag, entry.payload.tag);
        let mut here = vec![0; bytes.len()];
        let size = memory.segment_len() as u64;
        let (mut at, mut rest) = (taken.payload.at + taken.payload.prefix() as u64, &mut here[..]);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at_mut(rest.len().min((size - at % size) as usize));
            next.payload_log.read(&memory, at, part).unwrap();
            (at, rest) = (at + part.len() as u64, behind);
        }
        assert!(here == *bytes, "message {}", entry.seq);
    }
    assert!(taken.next().is_none());
}

#[test]
fn a_torn_log_of_the_process_before_is_named() {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    let messages = log_messages(&mut log, &mut memory);
    let (last, _) = messages.last().unwrap();
    let end = last.payload.at as usize + last.payload.bytes();
    let table = log.table(2);
    for torn in [0, 1000, end / 2, end - 1] {
        let mut left = previous(&mut log, &memory, end);
        left.bytes.truncate(torn);
        let mut next_memory = mesh(1).remove(0);
        let mut next = open(parts(), memory.segment_len());
        let error = next.take_over(&mut next_memory, 2, &table, &left, (INLINE, PIECE));
        let said = "the log of the process before this one cannot be read: unexpected end of file";
        assert!(error.unwrap_err().to_string().contains(said), "torn at {torn} of {end}");
    }
    // Of what was given up nobody will ask for anything.
    let left = PreviousVec { bytes: Vec::new(), given_up: Some(0) };
    let mut next_memory = mesh(1).remove(0);
    let mut next = open(parts(), memory.segment_len());
    next.take_over(&mut next_memory, 2, &table, &left, (INLINE, PIECE)).unwrap();
    assert_eq!(next.outbound.log(2).count(), 0);
}

#[test]
fn a_table_of_a_checkpoint_that_is_none_is_refused() {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    log_messages(&mut log, &mut memory);
    let table = log.table(2);
    let mut next = open(parts(), memory.segment_len());
    for len in [0, 7, 9, table.len() - 1] {
        let error = next.take_over(
            &mut memory,
            2,
            &table[..len],
            &PreviousVec { bytes: vec![0; 1 << 20], given_up: None },
            (INLINE, PIECE),
        );
        let said = "the checkpoint has no table for rank 2";
        assert!(error.unwrap_err().to_string().contains(said), "{len} bytes");
    }
}

/// A peer starts again, reports what it has, and dies once more, all before this rank does anything. Whether
/// messages to its next incarnation leave before that has reported what it has.
fn leave_after_a_second_death() -> bool {
    let fabric = mesh(3).remove(0);
    let log = open(parts(), fabric.segment_len());
    let sizes = Sizes {
        piece: PIECE,
        long_piece: PIECE,
        logged_piece: PIECE,
        eager_max: PIECE,
        way: None,
        unexpected: 1 << 20,
    };
    let mut engine = Engine::new(fabric, log, 3, sizes, Clock::new(std::time::Instant::now));
    let report = |engine: &mut Engine<_, Logging<Vectors>>, incarnation| {
        let restart =
            Restart { phase: RestartPhase::First, incarnation, received: Received::default() };
        engine.core.peer_restarted(2, incarnation);
        engine.core.restart(2, &Payload::of(&restart.encode())).unwrap();
    };
    engine.core.peer_suspended(2);
    report(&mut engine, 1);
    engine.core.peer_suspended(2);
    engine.run_deferred();
    let leave = engine.log().outbound.is_ready(2);
    report(&mut engine, 2);
    engine.run_deferred();
    assert!(engine.log().outbound.is_ready(2));
    leave
}

#[test]
fn what_the_dead_have_reported_is_not_believed() {
    assert!(!leave_after_a_second_death());
}

#[cfg(mutants)]
#[test]
fn what_the_dead_have_reported_is_believed_by_a_mutant() {
    use taffrail_logging::mutants::{Mutant, select};
    select(Some(Mutant::OldIncarnationBelieved)).unwrap();
    let leave = leave_after_a_second_death();
    select(None).unwrap();
    assert!(leave);
}
