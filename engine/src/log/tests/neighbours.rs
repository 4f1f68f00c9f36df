//! The end of programs whose ranks have not all spoken with each other (*neighbours-only*): over sockets, which are connected when
//! something is sent, and with a roster.

use super::*;
use crate::log::host::EventSink;
use crate::tests::finished::{lazy, until};
use std::sync::{Arc, Mutex};
use taffrail_fabric::{Incarnation, Life, Membership};
use taffrail_logging::Event;
use taffrail_tcp::{Config, Contact, TcpFabric};

type Member = Engine<TcpFabric, Logging<Vectors>>;

/// What all rosters show of ranks.
type Board = Arc<Mutex<Vec<(u32, Life)>>>;

struct Roster {
    me: u32,
    incarnation: u32,
    heard: usize,
    board: Board,
}

impl Membership for Roster {
    fn poll(&mut self, verdict: &mut dyn FnMut(PeerId, Life)) {
        let board = self.board.lock().unwrap();
        let new = board[self.heard..].iter().filter(|&&(rank, _)| rank != self.me);
        new.for_each(|&(rank, life)| verdict(PeerId(rank), life));
        self.heard = board.len();
    }

    fn finalizing(&mut self) {
        self.board.lock().unwrap().push(finalizing(self.me, self.incarnation));
    }
}

const fn finalizing(rank: u32, incarnation: u32) -> (u32, Life) {
    (rank, Life::Finalizing(Incarnation(incarnation)))
}

const fn restarted(rank: u32, incarnation: u32) -> (u32, Life) {
    (rank, Life::Restarted(Incarnation(incarnation)))
}

/// Three ranks, each a set, at these incarnations.
fn ranks(incarnations: [u32; 3]) -> ([Member; 3], Board) {
    open(incarnations, false, parts)
}

fn open(
    incarnations: [u32; 3],
    causal: bool,
    parts: fn() -> LogParts<Vectors>,
) -> ([Member; 3], Board) {
    let board = Board::default();
    let rank = |(me, fabric): (u32, TcpFabric)| {
        let segment = fabric.segment_len();
        let incarnation = incarnations[me as usize];
        let config = LoggingConfig { causal, incarnation, ..config([0, 1, 2], segment) };
        let mut engine = engine_of(fabric, Logging::open(&config, parts(), me, segment).unwrap());
        engine.set_membership(Box::new(Roster { me, incarnation, heard: 0, board: board.clone() }));
        engine
    };
    let ranks: Vec<Member> = (0..).zip(lazy(3, Config::DEFAULT.patience)).map(rank).collect();
    (ranks.try_into().ok().expect("three"), board)
}

const HELLO: &[u8] = b"hello";

fn send(from: &mut Member, to: u32) {
    let to = Dest { rank: to, context: 3, tag: 0, data: Data::NONE };
    // SAFETY: the bytes are constant.
    unsafe { from.start_send(to, HELLO.as_ptr(), HELLO.len(), false) }.unwrap();
}

/// A receive from a rank, for which there is room.
fn receive(engine: &mut Member, source: u32, into: &mut [u8; 5]) -> u32 {
    receive_of(engine, Some(source), into)
}

fn receive_of(engine: &mut Member, source: Option<u32>, into: &mut [u8; 5]) -> u32 {
    let from = Pattern { source, context: 3, tag: 0, ignore: 0 };
    // SAFETY: the test keeps the room for as long as the engine.
    unsafe { engine.start_recv(from, into.as_mut_ptr(), into.len()) }.unwrap()
}

fn is_over(engine: &mut Member, request: u32) -> bool {
    engine.core.requests.get(request).stage.is_over()
}

/// Whether all ranks finalize, whose programs have completed.
fn all_leave(ranks: &mut [Member; 3]) -> bool {
    let start = std::time::Instant::now();
    ranks.iter_mut().for_each(|rank| _ = rank.begin_to_leave());
    let mut left = [false; 3];
    while left != [true; 3] && start.elapsed().as_secs() < 2 {
        for (rank, left) in ranks.iter_mut().zip(&mut left) {
            rank.progress();
            rank.check();
            *left |= Logging::have_all_left(rank);
        }
    }
    left == [true; 3]
}

#[test]
fn ranks_that_have_not_spoken_need_no_link_to_end() {
    let (mut ranks, board) = ranks([0; 3]);
    let mut rooms = [[0; 5]; 2];
    for (from, room) in (0..2_u32).zip(&mut rooms) {
        let [sender, receiver] = [from, from + 1].map(|rank| rank as usize);
        send(&mut ranks[sender], from + 1);
        let request = receive(&mut ranks[receiver], from, room);
        until("a message", || {
            ranks.iter_mut().for_each(|rank| _ = rank.progress());
            is_over(&mut ranks[receiver], request)
        });
    }
    assert!(all_leave(&mut ranks));
    assert_eq!(board.lock().unwrap().len(), 3, "each says it once");
    assert!(!ranks[0].fabric.was_linked(PeerId(2)) && !ranks[2].fabric.was_linked(PeerId(0)));
    assert!(ranks[0].fabric.was_linked(PeerId(1)));
}

/// Rank 1 depends on an event of rank 2 and cannot see that it is stable. Rank 0 has spoken with nobody.
#[test]
fn a_rank_that_depends_on_events_out_of_its_sight_sends_finalize_to_all() {
    let (mut ranks, board) = open([0; 3], true, parts);
    let mut rooms = [[0; 5]; 2];
    for (from, room) in [1_u32, 2].into_iter().zip(&mut rooms) {
        send(&mut ranks[from as usize], 3 - from);
        // Which message a receive of any source takes is an event.
        let receiver = (3 - from) as usize;
        let source = (from == 2).then_some(from);
        let request = receive_of(&mut ranks[receiver], source, room);
        until("a message", || {
            ranks.iter_mut().for_each(|rank| _ = rank.progress());
            is_over(&mut ranks[receiver], request)
        });
    }
    let of_last = &mut ranks[2].core.log().events.sink;
    of_last.taken = of_last.written();
    assert!(all_leave(&mut ranks));
    let board = board.lock().unwrap().clone();
    let is_published = |rank| board.contains(&finalizing(rank, 0));
    assert!(is_published(0) && is_published(2) && !is_published(1));
    assert!(ranks[1].fabric.was_linked(PeerId(0)));
    // What it learns behind its own end is no reason to connect.
    assert!(!ranks[0].fabric.was_linked(PeerId(2)) && !ranks[2].fabric.was_linked(PeerId(0)));
}

/// Rank 2 has an event that is not stable, and no link. Whether it publishes its end when the event is stable, and not before.
fn the_end_waits_for_the_event_logger() -> bool {
    let slow = || {
        let events = EventVec { stable_at_once: false, ..parts().events };
        LogParts { events, gated: true, ..parts() }
    };
    let (mut ranks, board) = open([0; 3], false, slow);
    let message = MsgId { source: 1, context: 3, seq: 0 };
    let sink = &mut ranks[2].core.log().events.sink;
    sink.push(&Event::Matched { polls: 0, post: 0, message }).unwrap();
    ranks[2].begin_to_leave();
    assert!(!Logging::have_all_left(&mut ranks[2]));
    let waits = board.lock().unwrap().is_empty();
    ranks[2].core.log().events.sink.taken = 1;
    assert!(!Logging::have_all_left(&mut ranks[2]));
    waits && board.lock().unwrap().len() == 1
}

#[test]
fn a_program_is_over_for_others_when_its_events_are_stable() {
    assert!(the_end_waits_for_the_event_logger());
}

/// Three ranks, of which the last is finalizing, and the rosters show it.
fn last_finalizing() -> ([Member; 3], Board) {
    let (mut ranks, board) = ranks([0; 3]);
    ranks[2].begin_to_leave();
    assert!(!Logging::have_all_left(&mut ranks[2]));
    assert_eq!(*board.lock().unwrap(), [finalizing(2, 0)]);
    (ranks, board)
}

/// Rank 2 is finalizing, and the rosters show it. Rank 0 sends it a message, and polls its roster afterwards. Whether all ranks finalize.
fn all_end_with_a_late_caller() -> bool {
    let (mut ranks, _) = last_finalizing();
    send(&mut ranks[0], 2);
    ranks[0].check();
    all_leave(&mut ranks)
}

#[test]
fn who_connects_with_a_program_that_is_over_hears_it_over_the_link() {
    assert!(all_end_with_a_late_caller());
}

/// The program of rank 2 completes right after a send to rank 0, while there is no connection between them. Whether rank 0 receives
/// the message.
fn the_last_message_is_received() -> bool {
    let (mut ranks, board) = ranks([0; 3]);
    let mut room = [0; 5];
    let request = receive(&mut ranks[0], 2, &mut room);
    send(&mut ranks[2], 0);
    ranks[2].begin_to_leave();
    assert!(!Logging::have_all_left(&mut ranks[2]));
    assert_eq!(board.lock().unwrap().is_empty(), !mutant!(FinalizingEarly));
    ranks[0].check();
    until("the end of the receive", || {
        for rank in &mut ranks {
            rank.progress();
            rank.check();
        }
        _ = Logging::have_all_left(&mut ranks[2]);
        is_over(&mut ranks[0], request)
    });
    let is_received = ranks[0].core.requests.finish(request).is_ok();
    assert_eq!(is_received, room == *HELLO);
    is_received
}

#[test]
fn a_program_is_over_when_all_it_has_sent_has_left() {
    assert!(the_last_message_is_received());
}

/// Rank 2 is restarted, with which rank 0 has never spoken, and finalizes. Whether rank 0 counts it, and knows its end also when a link
/// with it is reported late.
fn the_end_of_an_incarnation_stays_known() -> bool {
    let (mut ranks, board) = ranks([0, 0, 1]);
    let (own, log) = (&mut ranks[0], Logging::incarnations);
    board.lock().unwrap().extend([restarted(2, 1), finalizing(2, 1)]);
    own.check();
    assert!(!own.fabric.was_linked(PeerId(2)), "there is nothing to connect for");
    let is_counted = own.core.peers[2].is_finished && log(own.core.log()).eq([0, 0, 1]);
    own.core.peer_restarted(2, 1);
    let is_known = own.core.peers[2].is_finished;
    own.core.peer_restarted(2, 2);
    assert!(!own.core.peers[2].is_finished, "the next incarnation is not");
    is_counted && is_known
}

#[test]
fn a_restart_is_counted_without_a_link() {
    assert!(the_end_of_an_incarnation_stays_known());
}

/// Rank 2 has published its end when rank 1 is restarted, with which it has never spoken. Whether it does so once more.
fn the_end_is_published_again() -> bool {
    let (mut ranks, board) = last_finalizing();
    board.lock().unwrap().push(restarted(1, 1));
    for _ in 0..2 {
        ranks[2].check();
        assert!(!Logging::have_all_left(&mut ranks[2]));
    }
    let board = board.lock().unwrap();
    *board == [finalizing(2, 0), restarted(1, 1), finalizing(2, 0)]
}

#[test]
fn a_restarted_rank_learns_of_ends_that_were_published_before() {
    assert!(the_end_is_published_again());
}

/// Rank 1 is dead, with which rank 2 has spoken. Whether rank 2 publishes its end only when the next incarnation has FINALIZE.
fn the_end_waits_for_a_neighbour_that_is_restarted() -> bool {
    let (mut ranks, board) = ranks([0; 3]);
    send(&mut ranks[2], 1);
    until("a connection", || {
        ranks.iter_mut().for_each(|rank| _ = rank.progress());
        ranks[1].core.matcher.unexpected().count() > 0
    });
    board.lock().unwrap().push((1, Life::Dead(Incarnation(0))));
    ranks[2].check();
    ranks[2].begin_to_leave();
    assert!(!Logging::have_all_left(&mut ranks[2]));
    board.lock().unwrap().len() == 1
}

#[test]
fn a_program_is_over_for_others_when_restarted_neighbours_know_it() {
    assert!(the_end_waits_for_a_neighbour_that_is_restarted());
}

/// A later incarnation of rank 2 connects, and rank 0 has heard of no death: there was no link. Whether it holds what it sends until it
/// knows what that has.
#[test]
fn what_is_sent_to_an_incarnation_that_has_called_waits_for_the_exchange() {
    let (mut ranks, _) = ranks([0; 3]);
    ranks[0].core.peer_restarted(2, 1);
    send(&mut ranks[0], 2);
    assert!(!ranks[0].core.log().outbound.is_ready(2) && !ranks[0].core.peers[2].is_away());
    assert_eq!(ranks[0].core.peers[2].backlog_len(), 0);
}

/// Rank 2 was restarted before rank 0 has met it.
#[test]
fn what_is_sent_to_a_rank_that_was_restarted_early_waits_for_the_exchange() {
    let (mut ranks, _) = ranks([0, 0, 1]);
    let [first, _, restarted] = &mut ranks;
    let address = restarted.fabric.address();
    first.fabric.contact(PeerId(2), Contact { address, incarnation: Incarnation(1) });
    first.begin_exchange();
    send(first, 2);
    assert!(!first.core.log().outbound.is_ready(2) && first.fabric.was_linked(PeerId(2)));
    assert!(first.core.log().outbound.is_ready(1));
}

/// A link with the next incarnation of rank 2 is being made when its restart is heard of, and is still to be reported.
#[test]
fn an_incarnation_whose_link_is_still_to_be_reported_has_not_come_to_its_end() {
    let (mut ranks, board) = ranks([0, 0, 1]);
    let [first, _, restarted_rank] = &mut ranks;
    let address = restarted_rank.fabric.address();
    first.fabric.contact(PeerId(2), Contact { address, incarnation: Incarnation(1) });
    first.fabric.connect(PeerId(2));
    first.core.finalize_received(2);
    board.lock().unwrap().push(restarted(2, 1));
    first.check();
    assert!(first.fabric.was_linked(PeerId(2)) && !first.core.peers[2].is_finished);
}

#[cfg(mutants)]
#[test]
fn mutants_of_the_end_are_found() {
    use taffrail_logging::mutants::{Mutant, with};
    assert!(!with(Mutant::LateCallerNotAnswered, all_end_with_a_late_caller));
    assert!(!with(Mutant::FinalizingEarly, the_last_message_is_received));
    assert!(!with(Mutant::FinalizingUngated, the_end_waits_for_the_event_logger));
    assert!(!with(Mutant::RestartUncounted, the_end_of_an_incarnation_stays_known));
    assert!(!with(Mutant::FinalizingOnce, the_end_is_published_again));
    assert!(!with(Mutant::FinalizingEarly, the_end_waits_for_a_neighbour_that_is_restarted));
}
