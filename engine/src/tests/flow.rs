//! Senders that are far ahead of their receivers wait, and the memory of these stays within its limit.

use super::{Plain, engines};
use crate::core::MESSAGE;
use crate::flow::{FlowControl, UnreceivedLimits};
use crate::frame::{Frame, Throttle};
use crate::peer::{Peer, Queued, Waiting};
use crate::policy::Policy;
use crate::unexpected::block_bytes;
use crate::{CONTEXTS, Data, Dest, Engine, Pattern, Rank};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Fabric, Fault, SendMemory, Source};

/// What unreceived messages of all peers may take.
const LIMIT: usize = 64 << 10;
/// Messages that take several times as much.
const COUNT: u64 = 3000;
/// What comes of a message that has 8 bytes, with the block of the heap and its entry in the list of buffers.
const EACH: usize = MESSAGE + 25 + 32;

/// Engines whose unreceived messages may take `limit` bytes.
fn limited(ranks: usize, limit: usize) -> Vec<Plain<Loopback>> {
    let mut engines = engines(mesh(ranks));
    for (me, engine) in (0..).zip(&mut engines) {
        set_limit(engine, me, limit);
    }
    engines
}

fn set_limit<F, P>(engine: &mut Engine<F, P>, me: Rank, memory: usize) {
    let ranks = engine.core.peers.len() as u32;
    let limits = UnreceivedLimits { me, ranks, announce: 1 << 20, memory };
    engine.core.flow = FlowControl::new(limits);
}

fn to(rank: Rank, tag: u64) -> Dest {
    Dest { rank, context: 3, tag, data: Data::NONE }
}

fn turn<F: Fabric + SendMemory, P: Policy>(engines: &mut [Engine<F, P>]) {
    engines.iter_mut().for_each(|engine| _ = engine.progress());
}

/// Starts a send whose bytes live as long as the test.
fn start<F: Fabric + SendMemory, P: Policy>(
    engine: &mut Engine<F, P>,
    to: Dest,
    bytes: &'static [u8],
    sync: bool,
) -> u32 {
    // SAFETY: the bytes live for ever.
    unsafe { engine.start_send(to, bytes.as_ptr(), bytes.len(), sync) }.unwrap()
}

/// Starts sends of 8 bytes, the tags of which count them.
fn start_all<F: Fabric + SendMemory, P: Policy>(
    engine: &mut Engine<F, P>,
    rank: Rank,
    count: u64,
) -> Vec<u32> {
    (0..count)
        .map(|tag| start(engine, to(rank, tag), Box::leak(Box::new(tag.to_le_bytes())), false))
        .collect()
}

/// Receives 8 bytes, if they come within a number of turns.
fn receive<F: Fabric + SendMemory, P: Policy>(
    engines: &mut [Engine<F, P>],
    me: usize,
    (from, tag): (Rank, u64),
) -> Option<u64> {
    let into = Box::leak(Box::new([0; 8]));
    let from = Pattern { source: Some(from), context: 3, tag, ignore: 0 };
    // SAFETY: the memory lives for ever.
    let request = unsafe { engines[me].start_recv(from, into.as_mut_ptr(), 8) }.unwrap();
    for _ in 0..1000 {
        if engines[me].core.requests.get(request).stage.is_over() {
            engines[me].core.requests.finish(request).unwrap();
            return Some(u64::from_le_bytes(*into));
        }
        turn(engines);
    }
    None
}

fn are_over(engine: &mut Plain<Loopback>, requests: &[u32]) -> bool {
    requests.iter().all(|&request| engine.core.requests.get(request).stage.is_over())
}

/// A rank sends far more than its peer has room for, which then receives. Whether all of it has come; the most memory that it
/// took.
fn all_has_come() -> (bool, usize) {
    let mut engines = limited(2, LIMIT);
    let sends = start_all(&mut engines[0], 1, COUNT);
    let mut most = 0;
    let mut look = |engines: &mut [Plain<Loopback>]| {
        turn(engines);
        most = most.max(engines[1].core.flow.memory());
    };
    (0..100).for_each(|_| look(&mut engines));
    for tag in 0..COUNT {
        look(&mut engines);
        if receive(&mut engines, 1, (0, tag)) != Some(tag) {
            return (false, most);
        }
    }
    assert_eq!(engines[1].core.flow.memory(), 0);
    assert!(are_over(&mut engines[0], &sends));
    turn(&mut engines);
    assert!(!engines[0].core.peers[1].is_stopped(), "it may send again");
    (true, most)
}

#[test]
fn who_is_far_ahead_waits() {
    let (all, most) = all_has_come();
    assert!(all, "a sender was not let go");
    // What was on the way when it was stopped comes on top.
    assert!((LIMIT / 2..LIMIT + LIMIT / 4).contains(&most), "{most} bytes");
}

/// Many peers share the limit, and each of them gets on.
#[test]
fn peers_share_what_there_is() {
    const PEERS: u32 = 7;
    let mut engines = limited(PEERS as usize + 1, LIMIT);
    for peer in 1..=PEERS {
        start_all(&mut engines[peer as usize], 0, COUNT / 4);
    }
    (0..100).for_each(|_| turn(&mut engines));
    let memory = engines[0].core.flow.memory();
    assert!((LIMIT / 2..3 * LIMIT).contains(&memory), "{memory} bytes");
    let held =
        |engine: &Plain<Loopback>, peer: u32| engine.core.peers[peer as usize].unreceived.memory;
    assert!((1..=PEERS).all(|peer| held(&engines[0], peer) > 0));
    // What others leave free is for the one that stays.
    for peer in 2..=PEERS {
        for tag in 0..COUNT / 4 {
            assert_eq!(receive(&mut engines, 0, (peer, tag)), Some(tag));
        }
    }
    (0..100).for_each(|_| turn(&mut engines));
    assert!(held(&engines[0], 1) > LIMIT / 2, "{} bytes", held(&engines[0], 1));
}

/// A rank whose messages are withheld receives a synchronous message, and one that it has announced is fetched. Whether both
/// come to their end while the messages stay withheld.
fn answers_pass() -> bool {
    let mut engines = limited(2, LIMIT);
    let long = start(&mut engines[0], to(1, 1 << 40), &[3; 20_000], false);
    start_all(&mut engines[0], 1, COUNT);
    let sync = start(&mut engines[1], to(0, 7), &[5; 8], true);
    (0..100).for_each(|_| turn(&mut engines));
    assert!(engines[0].core.peers[1].withheld() > 0 || cfg!(mutants));
    let into = Box::leak(vec![0; 20_000].into_boxed_slice());
    let from = Pattern { source: Some(0), context: 3, tag: 1 << 40, ignore: 0 };
    // SAFETY: the memory lives for ever.
    let got = unsafe { engines[1].start_recv(from, into.as_mut_ptr(), into.len()) }.unwrap();
    assert_eq!(receive(&mut engines, 0, (1, 7)), Some(u64::from_le_bytes([5; 8])));
    (0..1000).for_each(|_| turn(&mut engines));
    assert!(engines[0].core.peers[1].is_stopped());
    are_over(&mut engines[1], &[sync, got]) && are_over(&mut engines[0], &[long])
}

#[test]
fn answers_pass_messages_that_are_withheld() {
    assert!(answers_pass());
}

#[test]
fn two_ranks_that_flood_each_other_both_get_on() {
    let mut engines = limited(2, LIMIT);
    let sends = [start_all(&mut engines[0], 1, COUNT), start_all(&mut engines[1], 0, COUNT)];
    (0..100).for_each(|_| turn(&mut engines));
    assert!(engines.iter().zip([1, 0]).all(|(engine, peer)| engine.core.peers[peer].is_stopped()));
    for tag in 0..COUNT {
        assert_eq!(receive(&mut engines, 0, (1, tag)), Some(tag));
    }
    for tag in 0..COUNT {
        assert_eq!(receive(&mut engines, 1, (0, tag)), Some(tag));
    }
    assert!(engines.iter_mut().zip(&sends).all(|(engine, sends)| are_over(engine, sends)));
}

/// `docs/tuning.md` and `docs/wire.md` say so.
#[test]
fn a_message_takes_this_much_beside_its_buffer() {
    assert_eq!(MESSAGE, 150);
}

/// It waits with its sender, and its RTS here.
#[test]
fn an_announced_message_takes_its_announcement() {
    let mut engines = limited(2, LIMIT);
    let long = Box::leak(vec![7; 40_000].into_boxed_slice());
    start(&mut engines[0], to(1, 5), long, false);
    (0..10).for_each(|_| turn(&mut engines));
    let rts = MESSAGE + block_bytes(size_of::<crate::frame::Rts>());
    assert_eq!(engines[1].unreceived_bytes(), rts);
    let into = Box::leak(vec![0; 40_000].into_boxed_slice());
    let from = Pattern { source: Some(0), context: 3, tag: 5, ignore: 0 };
    // SAFETY: the memory lives for ever.
    let request = unsafe { engines[1].start_recv(from, into.as_mut_ptr(), into.len()) }.unwrap();
    while !engines[1].core.requests.get(request).stage.is_over() {
        turn(&mut engines);
    }
    assert!(into == long && engines[1].unreceived_bytes() == 0);
}

/// The program never polls: its messages leave at once, into room that there always is.
#[test]
fn who_does_not_poll_hears_of_it_all_the_same() {
    const POLL_EVERY: usize = 4096;
    let mut engines = limited(2, LIMIT);
    let mut sent = 0;
    while engines[0].send_now(&to(1, 0), Source::Bytes(&[0; 8]), 8).unwrap() {
        sent += 1;
        assert!(sent < 10 * POLL_EVERY, "it is never stopped");
        engines[1].progress();
    }
    assert!((LIMIT / EACH / 2..=POLL_EVERY).contains(&sent), "{sent} messages");
    assert!(engines[0].core.peers[1].is_stopped());
}

/// Messages of the library are not stopped: those who wait for them may have to receive others only then.
#[test]
fn the_librarys_own_messages_pass() {
    let mut engines = limited(2, LIMIT);
    start_all(&mut engines[0], 1, COUNT);
    (0..100).for_each(|_| turn(&mut engines));
    let own = start(&mut engines[0], Dest { context: CONTEXTS, ..to(1, 0) }, &[1; 8], false);
    (0..10).for_each(|_| turn(&mut engines));
    assert!(engines[0].core.peers[1].withheld() > 0);
    assert!(are_over(&mut engines[0], &[own]));
    let mut here = engines[1].core.matcher.unexpected();
    assert!(here.any(|(_, envelope, _)| envelope.context == CONTEXTS));
}

/// A receiver that finalises takes what was withheld, and keeps none of it.
#[test]
fn who_finalises_lets_its_peers_go() {
    let mut engines = limited(2, LIMIT);
    let sends = start_all(&mut engines[0], 1, COUNT);
    (0..100).for_each(|_| turn(&mut engines));
    engines[0].begin_to_finalize();
    assert!(engines[0].core.peers[1].has_withheld() && !engines[0].is_finalized());
    let before = engines[1].core.flow.memory();
    engines[1].begin_to_finalize();
    (0..1000).for_each(|_| turn(&mut engines));
    assert!(are_over(&mut engines[0], &sends));
    assert!(engines[1].core.flow.memory() <= before);
    sends.iter().for_each(|&send| _ = engines[0].core.requests.finish(send));
    assert!(engines.iter().all(Plain::is_finalized));
}

/// A sender whose program computes while all of its synchronous sends are received does not read their acknowledgements meanwhile.
#[test]
fn who_does_not_read_many_answers_is_not_cut_off() {
    const MANY: u64 = 300_000;
    let mut engines = limited(2, 512 << 20);
    let sends: Vec<u32> =
        (0..MANY).map(|_| start(&mut engines[0], to(1, 0), &[1; 8], true)).collect();
    while engines[1].core.matcher.counts().unexpected < MANY as usize {
        turn(&mut engines);
    }
    let into = Box::leak(Box::new([0; 8]));
    for _ in 0..MANY {
        let from = Pattern { source: Some(0), context: 3, tag: 0, ignore: 0 };
        // SAFETY: the memory lives for ever.
        let request = unsafe { engines[1].start_recv(from, into.as_mut_ptr(), 8) }.unwrap();
        engines[1].core.requests.finish(request).unwrap();
    }
    assert!(engines[1].core.peers[0].answers() > 1 << 18, "the sender has read them");
    while !are_over(&mut engines[0], &sends[MANY as usize - 1..]) {
        turn(&mut engines);
    }
    assert!(are_over(&mut engines[0], &sends));
}

/// A peer that does not stop is cut off, when it has sent more than can have been on the way.
#[test]
fn who_does_not_stop_is_cut_off() {
    const ON_THE_WAY: usize = 128 << 20;
    let mut engine = limited(2, LIMIT).remove(0);
    engine.core.grow_unreceived(1, 8, LIMIT);
    engine.core.grow_unreceived(1, 8, ON_THE_WAY);
    engine.core.check_buffer_limit(1).unwrap();
    engine.core.grow_unreceived(1, 8, 1);
    match engine.core.check_buffer_limit(1) {
        Err(Fault::Protocol { place, .. }) => assert_eq!(place, "unexpected messages"),
        other => panic!("{other:?}"),
    }
    // Messages of a rank to itself are its own.
    engine.core.grow_unreceived(0, 8, 2 * ON_THE_WAY);
    engine.core.check_buffer_limit(0).unwrap();
}

fn small(frame: Frame) -> Waiting {
    Waiting::free(Queued::Small { frame, body: Vec::new(), request: None })
}

fn eager(seq: u32, sent: usize) -> Waiting {
    let msg = crate::frame::MsgHead { context: 3, seq, tag: 0 };
    Waiting::free(Queued::Eager { msg, request: 0, sent })
}

/// What leaves, in order: numbers of messages, `a` for an ACK, `f` for FINALIZE.
fn leaving(peer: &mut Peer) -> String {
    let mut all = String::new();
    while let Some(waiting) = peer.front() {
        match &waiting.frame {
            Queued::Eager { msg, .. } => all += &msg.seq.to_string(),
            Queued::Small { frame: Frame::Ack { .. }, .. } => all += "a",
            Queued::Small { frame: Frame::Finalize, .. } => all += "f",
            _ => panic!("another frame"),
        }
        peer.pop_front();
    }
    assert!(!peer.has_backlog());
    all
}

/// Messages keep their order, the one that has begun is sent, answers pass, and FINALIZE comes last.
#[test]
fn what_is_withheld_keeps_its_order() {
    let ack = || small(Frame::Ack { name: 1 });
    let finalize = || small(Frame::Finalize);
    let mut peer = Peer::default();
    for waiting in [eager(0, 64), eager(1, 0), ack(), eager(2, 0)] {
        peer.push(waiting);
    }
    peer.obey(Throttle::Stop);
    for waiting in [eager(3, 0), ack(), finalize()] {
        peer.push(waiting);
    }
    assert_eq!(leaving(&mut peer), "0aa");
    assert_eq!(peer.withheld(), 4);
    assert!(!peer.is_clear() && !peer.is_clear_for_frame(&Frame::Finalize));
    assert!(peer.is_clear_for_frame(&Frame::Ack { name: 1 }));
    peer.push(ack());
    assert!(peer.obey(Throttle::Announce) && peer.forces_rendezvous());
    assert_eq!(leaving(&mut peer), "a123f");
    assert!(!peer.obey(Throttle::Off), "nothing was withheld");
    // Without messages before it FINALIZE leaves.
    for first in [true, false] {
        peer.obey(if first { Throttle::Off } else { Throttle::Stop });
        peer.push(finalize());
        peer.obey(Throttle::Stop);
        assert_eq!(leaving(&mut peer), "f");
    }
    // The connection has ended.
    peer.push(eager(4, 0));
    peer.drop_backlog();
    assert!(!peer.has_withheld());
}

#[cfg(mutants)]
mod by_mutants {
    use super::*;
    use taffrail_logging::mutants::{Mutant, with};

    #[test]
    fn a_sender_is_not_let_go() {
        assert!(!with(Mutant::StopNotLifted, all_has_come).0);
    }

    #[test]
    fn a_sender_does_not_stop() {
        let (all, most) = with(Mutant::StopIgnored, all_has_come);
        assert!(all && most > 2 * LIMIT, "{most} bytes");
    }

    #[test]
    fn answers_do_not_pass() {
        assert!(!with(Mutant::AnswersWithheld, answers_pass));
    }
}
