//! The restart exchange where a rank lacks much of what it was sent.

use super::*;
use crate::frame::kind;
use std::time::{Duration, Instant};

/// The messages of the restart exchange that have come to a rank, and how many frames these took.
#[derive(Default)]
struct Exchange {
    begun: Option<Restart>,
    whole: Vec<Restart>,
    frames: usize,
}

impl Sink for Exchange {
    fn message(&mut self, _: PeerId, head: Head, body: Body<'_>) -> Take {
        if let (kind::RESTART, Body::Whole(payload)) = (head.kind, body) {
            let piece = Restart::decode(&payload.to_vec()).unwrap();
            self.whole.extend(Restart::join(&mut self.begun, piece).unwrap());
            self.frames += 1;
        }
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}
    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}
    fn link(&mut self, _: PeerId, _: LinkEvent) {}
}

/// Long messages that have been announced to rank 0, and that nobody has received: more than one frame of any fabric names.
const ANNOUNCED: u32 = 50_000;

#[test]
fn what_one_frame_does_not_name_goes_in_several() {
    let mut mesh = mesh(3);
    let mut peer = mesh.remove(2);
    let mut engine = engine(mesh.remove(0));
    let announced = (0..ANNOUNCED).map(|seq| MsgId { source: 2, context: 0, seq });
    announced.for_each(|message| engine.core.log().inbound.began(message));
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 1);
    report(&mut engine, 1);
    let (mut exchange, begin) = (Exchange::default(), Instant::now());
    while exchange.whole.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} frames came", exchange.frames);
        _ = engine.progress();
        while peer.poll(&mut exchange) > 0 {}
    }
    let all: Vec<(u16, u32)> = (0..ANNOUNCED).map(|seq| (0, seq)).collect();
    assert_eq!(exchange.whole[0].received.missing, all);
    assert!(exchange.frames > 10, "{} frames", exchange.frames);
}

/// Hands over a RESTART1 of rank 2 in pieces, of which the link loses all but the first `arrive`.
fn hand_over(engine: &mut Engine<Loopback, Logging<Vectors>>, incarnation: u32, arrive: usize) {
    let channels = (0..100).map(|context| (context, 1)).collect();
    let received = Received { channels, missing: Vec::new() };
    let restart = Restart::new(RestartPhase::First, incarnation, received);
    for piece in restart.pieces(200).take(arrive) {
        let bytes = piece.encode();
        Logging::restart_received(&mut engine.core, 2, &Payload::of(&bytes)).unwrap();
        engine.run_deferred();
    }
}

#[test]
fn the_first_pieces_are_not_all_of_it() {
    let mut engine = engine(mesh(3).remove(0));
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 1);
    hand_over(&mut engine, 1, 3);
    assert!(!engine.core.log().outbound.is_ready(2));
    // The rest is lost with its link: the next one begins anew.
    engine.core.peer_suspended(2);
    engine.core.peer_restarted(2, 2);
    hand_over(&mut engine, 2, usize::MAX);
    assert!(engine.core.log().outbound.is_ready(2));
}

#[test]
#[should_panic(expected = "length of a frame")]
fn a_frame_that_is_too_long_does_not_wait_for_ever() {
    let mut engine = engine(mesh(3).remove(0));
    let longest = engine.fabric.limits(PeerId(2)).max_message;
    engine.tx().post_frame(2, Frame::Finalize, &vec![0; longest + 1]);
}
