//! What is written to others and read from them: frames between engines, frames between launcher and agents, records of
//! events, the restart exchange, and events that travel with messages.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use taffrail_agent::RankIncarnation;
use taffrail_agent::wire::{Decoder, Direction, Frame, Item, Stream, preamble};
use taffrail_engine::{ParsedFrame, kind};
use taffrail_fabric::Head;
use taffrail_logging::{Causal, Event, LoggedEvent, MsgId, Received, Restart, RestartPhase};

const EVENT: Event =
    Event::Matched { polls: 3, post: 17, message: MsgId { source: 1, context: 3, seq: 99 } };

fn records(c: &mut Criterion) {
    let mut group = c.benchmark_group("record of an event");
    group.bench_function("encode", |b| b.iter(|| black_box(&EVENT).encode(2, 1000)));
    let record = EVENT.encode(2, 1000);
    assert_eq!(Event::decode(2, &record), Ok((1000, EVENT)));
    group.bench_function("decode", |b| b.iter(|| Event::decode(2, black_box(&record))));
}

/// What engines send beside payloads: the head of a whole message, and the announcement of one whose memory can be read.
fn engine_frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame of the engine");
    let announcement: Vec<u8> = (1..=16 + 24).collect();
    for (name, kind, front) in [("EAGER", kind::EAGER, &[][..]), ("RTS", kind::RTS, &announcement)]
    {
        let head = Head { kind, context: 3, seq: 99, tag: 17 };
        let frame = ParsedFrame::decode(head, front).expect("a frame");
        let (encoded, bytes) = frame.encode();
        assert_eq!((encoded, &bytes[..]), (head, front));
        group.bench_function(format!("{name}, encode"), |b| b.iter(|| black_box(&frame).encode()));
        group.bench_function(format!("{name}, decode"), |b| {
            b.iter(|| ParsedFrame::decode(black_box(head), black_box(front)));
        });
    }
}

/// What a program prints, as an agent sends it to the launcher.
fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame of 256 bytes of output");
    let life = RankIncarnation::new(3, 1);
    let frame = Frame::Output { life, stream: Stream::Output, bytes: vec![b'a'; 256] };
    group.bench_function("encode", |b| b.iter(|| black_box(&frame).encode()));
    let bytes = frame.encode().expect("a short frame");
    let mut decoder = Decoder::new(Direction::Up);
    decoder.push(&preamble());
    assert!(matches!(decoder.next_item(), Ok(Some(Item::Preamble(_)))));
    group.bench_function("decode", |b| {
        b.iter(|| {
            decoder.push(black_box(&bytes));
            decoder.next_item()
        });
    });
    decoder.push(&bytes);
    assert_eq!(decoder.next_item(), Ok(Some(Item::Frame(frame))));
}

/// What a rank that was started again tells a peer, of 16 channels.
fn restarts(c: &mut Criterion) {
    let mut group = c.benchmark_group("restart exchange of 16 channels");
    let received = Received {
        channels: (0..16).map(|context| (context, 1000)).collect(),
        missing: vec![(3, 990), (4, 991)],
    };
    let restart = Restart::new(RestartPhase::First, 2, received);
    group.bench_function("encode", |b| b.iter(|| black_box(&restart).encode()));
    let bytes = restart.encode();
    group.bench_function("decode", |b| b.iter(|| Restart::decode(black_box(&bytes))));
    assert_eq!(Restart::decode(&bytes), Ok(restart));
}

/// One event, from the rank that writes it to another that it travels to, until it is stable.
fn piggybacks(c: &mut Criterion) {
    let (mut from, mut to) = (Causal::new(0, 2, 1024), Causal::new(1, 2, 1024));
    let (mut clock, mut bytes) = (0, Vec::new());
    c.bench_function("event that travels with a message", |b| {
        b.iter(|| {
            clock += 1;
            from.wrote(&LoggedEvent { clock, event: EVENT });
            assert!(from.piggyback(1, 1024, &mut bytes));
            to.received(0, black_box(&bytes)).expect("what was written");
            from.stable(0, clock);
            to.stable(0, clock);
        });
    });
    assert!(to.knows(0, clock));
}

criterion_group!(benches, engine_frames, records, frames, restarts, piggybacks);
criterion_main!(benches);
