//! The log over a host of vectors: what a disk, a logger or the process before may do wrong.

mod again;
mod exchange;
mod fail_stop;
mod neighbours;
mod pages;
mod taken_over;
mod verdicts;

use super::host::vectors::{EventVec, PreviousVec, SpillMap, Vectors};
pub(super) use super::host::vectors::{config, parts};
use super::host::{LogParts, LoggingConfig, PAGE_RUNS};
use super::*;
use crate::call::{Call, Operation, Outcome};
use crate::clock::Clock;
use crate::core::Deferred;
use crate::flow::{FlowControl, UnreceivedLimits};
use crate::frame::{Frame, Throttle};
use crate::policy::protocol::Recovery;
use crate::{Data, Dest, Engine, Error, NotNow, Pattern, Sizes};
use std::task::Poll;
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{
    Body, Fabric, Fault, Head, LinkEvent, Payload, PeerId, SendMemory, Sink, Source, Take, Token,
};
use taffrail_logging::{Entry, MsgId, Restart, RestartPhase};

/// Rank 0 of three ranks, of which the first two are a set.
fn open(parts: LogParts<Vectors>, segment: usize) -> Logging<Vectors> {
    Logging::open(&config([0, 0, 1], segment), parts, 0, segment).unwrap()
}

const INLINE: usize = 200;
const PIECE: usize = 16 << 10;

/// Logs messages to rank 2, some of them in fragments, and fills pages with them.
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
        let seq = k as u32;
        let entry = Entry { context: 5, seq, payload };
        log.outbound.keep(2, entry);
        (entry, bytes)
    });
    messages.collect()
}

/// A peer starts again, reports what it has, and dies once more, all before this rank does anything. Whether
/// messages to its next incarnation leave before that has reported what it has.
fn leave_after_a_second_death() -> bool {
    let mut engine = engine(mesh(3).remove(0));
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 1);
    report(&mut engine, 1);
    engine.core.peer_suspended(2);
    engine.run_deferred();
    let leave = engine.core.log().outbound.is_ready(2);
    engine.core.peer_restarted(2, 2);
    report(&mut engine, 2);
    engine.run_deferred();
    assert!(engine.core.log().outbound.is_ready(2));
    leave
}

/// Rank 0 of three.
pub(super) fn engine(fabric: Loopback) -> Engine<Loopback, Logging<Vectors>> {
    engine_with(fabric, parts())
}

pub(super) fn engine_with(
    fabric: Loopback,
    parts: LogParts<Vectors>,
) -> Engine<Loopback, Logging<Vectors>> {
    let log = open(parts, fabric.segment_len());
    engine_of(fabric, log)
}

fn engine_of<F: Fabric + SendMemory>(
    fabric: F,
    log: Logging<Vectors>,
) -> Engine<F, Logging<Vectors>> {
    let sizes = Sizes {
        fragment: PIECE,
        rndv_fragment: PIECE,
        by_peer: false,
        logged_fragment: PIECE,
        eager_max: PIECE,
        way: None,
        unexpected: 1 << 20,
        unexpected_max: usize::MAX,
    };
    Engine::new(fabric, log, 3, sizes, Clock::new(std::time::Instant::now))
}

/// RESTART1 comes from this incarnation of rank 2.
pub(super) fn report(engine: &mut Engine<Loopback, Logging<Vectors>>, incarnation: u32) {
    let restart = Restart::new(RestartPhase::First, incarnation, Received::default());
    Logging::restart_received(&mut engine.core, 2, &Payload::of(&restart.encode())).unwrap();
}

#[test]
fn what_the_dead_have_reported_is_not_believed() {
    assert!(!leave_after_a_second_death());
}

/// Whether an incarnation that was replaced is believed: its RESTART1, and its connection.
fn former_is_believed() -> (bool, bool) {
    let mut engine = engine(mesh(3).remove(0));
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 2);
    report(&mut engine, 1);
    engine.run_deferred();
    let reports = engine.core.log().outbound.is_ready(2);
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 1);
    (reports, !engine.core.peers[2].is_away())
}

#[test]
fn an_incarnation_that_was_replaced_is_not_believed() {
    assert_eq!(former_is_believed(), (false, false));
}

/// The phases of the restart exchange that have come to a rank.
struct Phases(Vec<RestartPhase>);

impl Sink for Phases {
    fn message(&mut self, _: PeerId, head: Head, body: Body<'_>) -> Take {
        if let (crate::frame::kind::RESTART, Body::Whole(payload)) = (head.kind, body) {
            self.0.push(Restart::decode(&payload.to_vec()).unwrap().phase);
        }
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}
    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}
    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}

/// What comes to a peer that is away while a checkpoint is taken, when it is back.
fn sent_after_a_checkpoint() -> Vec<RestartPhase> {
    let mut mesh = mesh(3);
    let mut peer = mesh.remove(2);
    let mut engine = engine(mesh.remove(0));
    engine.core.numbers.count(MsgId { source: 2, context: 5, seq: 0 });
    engine.core.peer_suspended(2);
    assert!(engine.begin_checkpoint().unwrap());
    let mut call = Call::new(Operation::Checkpoint(&[]));
    assert!(matches!(engine.advance(&mut call), Poll::Ready(Ok(_))));
    engine.core.peer_restarted(2, 1);
    report(&mut engine, 1);
    engine.run_deferred();
    let mut phases = Phases(Vec::new());
    while peer.poll(&mut phases) > 0 {}
    phases.0
}

#[test]
fn a_checkpoint_that_a_peer_has_missed_is_reported_again() {
    assert_eq!(sent_after_a_checkpoint(), [RestartPhase::Committed, RestartPhase::Second]);
}

/// The messages that have come to a rank, by their kinds.
#[derive(Default)]
pub(super) struct Kinds(Vec<u8>);

impl Sink for Kinds {
    fn message(&mut self, _: PeerId, head: Head, _: Body<'_>) -> Take {
        self.0.push(head.kind);
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}
    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}
    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}

/// How many messages have come to each peer of rank 0.
pub(super) fn came_to(peers: &mut [Loopback]) -> Vec<usize> {
    let mut seen = Vec::new();
    for peer in peers {
        let mut kinds = Kinds::default();
        while peer.poll(&mut kinds) > 0 {}
        seen.push(kinds.0.len());
    }
    seen
}

fn probe(engine: &mut Engine<Loopback, Logging<Vectors>>) -> Poll<Result<Outcome, Error>> {
    engine.advance(&mut Call::new(Operation::Probe(&Pattern::any_source(7))))
}

/// Rank 0 writes one event more than its ring has room for, and then sends messages and polls. Whether
/// something leaves, a call is decided or a message is taken in before that event has room; afterwards all of it does.
fn something_passes_an_event() -> bool {
    let mut peers = mesh(3);
    let mut engine = engine(peers.remove(0));
    engine.core.log().events.sink.capacity = 2;
    let head = Head { kind: crate::frame::kind::EAGER, tag: 7, ..Head::default() };
    peers[0].send(PeerId(0), head, Source::Bytes(b"ahoy")).unwrap();
    engine.progress();
    for _ in 0..3 {
        assert!(
            probe(&mut engine).is_ready(),
            "the event that has no room is that of the last of these"
        );
    }
    assert_eq!(engine.core.log().events.written(), 3);
    let mut passes = probe(&mut engine).is_ready();
    for to in [1, 2] {
        let dest = Dest { rank: to, context: 0, tag: 1, data: Data::NONE };
        // SAFETY: the bytes are constant.
        unsafe { engine.start_send(dest, b"ahoy".as_ptr(), 4, false).unwrap() };
    }
    engine.tx().post_frame(1, crate::frame::Frame::LoanReturn { loan: 1 }, &[]);
    peers[1].send(PeerId(0), Head { tag: 8, ..head }, Source::Bytes(b"ahoy")).unwrap();
    for _ in 0..3 {
        engine.progress();
    }
    passes |= came_to(&mut peers) != [0, 0];
    passes |= engine.core.matcher.unexpected().count() > 1;
    let written = engine.core.log().events.written();
    // The logger takes what there is.
    engine.core.log().events.sink.taken = 2;
    engine.progress();
    engine.progress();
    if !passes {
        assert_eq!(written, 3);
        assert_eq!(came_to(&mut peers), [2, 1]);
        assert_eq!(engine.core.matcher.unexpected().count(), 2);
        assert!(probe(&mut engine).is_ready());
    }
    passes
}

#[test]
fn nothing_passes_an_event_that_has_no_room() {
    assert!(!something_passes_an_event());
}

/// The link of a rank with another of its set breaks, and nobody has died. Whether it waits for that one to start again.
fn waits_for_a_lost_fellow() -> bool {
    let mut engine = engine(mesh(3).remove(0));
    let lost = LinkEvent::Broken(Fault::Lost("cut".into()));
    engine.core.link(PeerId(1), lost);
    let peer = &engine.core.peers[1];
    assert_ne!(peer.is_away(), peer.fault.is_some());
    peer.is_away()
}

#[test]
fn a_lost_link_within_a_set_is_a_failure() {
    assert!(!waits_for_a_lost_fellow());
}

/// More messages of a peer are here than may be. Whether this incarnation of the rank stops the peer, to which all messages
/// are sent again at once that it had before.
fn stops_a_peer(incarnation: u32, is_in_part: bool) -> bool {
    let mut engine = engine(mesh(3).remove(0));
    limit(&mut engine, 2 << 20);
    let core = &mut engine.core;
    core.policy.incarnation = incarnation;
    if is_in_part {
        // It was started again, and sends the rest. What came behind that is here.
        core.policy.inbound.began(MsgId { source: 2, context: 0, seq: 0 });
    }
    core.grow_unreceived(2, 8, 2 << 20);
    core.deferred.pop().is_some()
}

#[test]
fn a_peer_that_has_to_send_again_what_is_here_in_part_is_not_stopped() {
    assert!(!stops_a_peer(0, true));
}

#[test]
fn who_was_started_again_stops_nobody() {
    assert!(stops_a_peer(0, false) && !stops_a_peer(1, false));
}

/// What unreceived messages may take.
fn limit(engine: &mut Engine<Loopback, Logging<Vectors>>, memory: usize) {
    let limits = UnreceivedLimits { me: 0, ranks: 3, announce: 1 << 20, memory };
    engine.core.flow = FlowControl::new(limits);
}

/// A peer that was throttled has died. Whether its next incarnation, which knows nothing of that, is sent THROTTLE.
fn throttles_the_next_incarnation(throttle: Throttle) -> bool {
    let mut engine = engine(mesh(3).remove(0));
    limit(&mut engine, if throttle == Throttle::Stop { 2 << 20 } else { usize::MAX });
    let core = &mut engine.core;
    core.grow_unreceived(2, 2 << 20, 2 << 20);
    core.grow_unreceived(2, 1, 1);
    let is_throttle = |action: Deferred| matches!(action, Deferred::Answer { to: 2, frame: Frame::Throttle { what } } if what == throttle);
    assert!(core.deferred.pop().is_some_and(is_throttle), "more than the limit");
    assert!(core.deferred.pop().is_none(), "once");
    core.peer_suspended(2);
    core.grow_unreceived(2, 1, 1);
    core.deferred.pop().is_some_and(is_throttle)
}

#[test]
fn who_was_throttled_before_it_died_is_throttled_again() {
    assert!(throttles_the_next_incarnation(Throttle::Announce));
    assert!(throttles_the_next_incarnation(Throttle::Stop));
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn a_lost_link_within_a_set_is_taken_for_a_death() {
        assert!(with(Mutant::LinkTakenForVerdict, waits_for_a_lost_fellow));
    }

    #[test]
    fn something_passes_an_event_that_has_no_room() {
        assert!(with(Mutant::EventPassed, something_passes_an_event));
    }

    #[test]
    fn what_the_dead_have_reported_is_believed() {
        assert!(with(Mutant::OldIncarnationBelieved, leave_after_a_second_death));
    }

    #[test]
    fn an_incarnation_that_was_replaced_is_believed() {
        assert_eq!(with(Mutant::OldIncarnationMet, former_is_believed), (true, true));
    }

    #[test]
    fn a_peer_is_stopped_by_who_was_started_again() {
        assert!(with(Mutant::ReplayStops, || stops_a_peer(1, false)));
    }

    #[test]
    fn the_next_incarnation_is_not_throttled() {
        for throttle in [Throttle::Announce, Throttle::Stop] {
            assert!(!with(Mutant::ThrottleKept, || throttles_the_next_incarnation(throttle)));
        }
    }

    #[test]
    fn a_missed_checkpoint_is_not_reported() {
        let sent = with(Mutant::CommittedNotRepeated, sent_after_a_checkpoint);
        assert_eq!(sent, [RestartPhase::Second]);
    }
}
