//! The two kinds of rings: slots between processes of a node, and events between a rank and its logger. Both ends are in
//! one thread: what is measured is the software and not the way between two caches.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::Duration;
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Source, Take, Token};
use taffrail_logging::store::{
    Batch, Durability, Memory, RingReader, RingShape, RingWriter, create_memory,
};
use taffrail_logging::{Event, MsgId};
use taffrail_shm::{Config, Setup, ShmFabric};

/// A line of two ranks, both in this process.
fn lines() -> [ShmFabric; 2] {
    let setup = |rank| {
        let config = Config { patience: Duration::from_secs(30), ..Config::new(rank, 2) };
        Setup::new(config).expect("memory for a line")
    };
    let [first, second] = [0, 1].map(setup);
    let addresses = [&first, &second].map(|setup| setup.address().to_owned());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.connect(&addresses).expect("the first rank"));
        let first = first.connect(&addresses).expect("the second rank");
        [first, other.join().expect("no panic")]
    })
}

/// Copies what arrives, as a receive does.
struct Copy {
    bytes: Vec<u8>,
    messages: usize,
}

impl Sink for Copy {
    fn message(&mut self, _: PeerId, _: Head, body: Body<'_>) -> Take {
        let (Body::Whole(payload) | Body::Leased(payload, _)) = &body else {
            unreachable!("a line hands messages over whole")
        };
        payload.read(&mut self.bytes);
        self.messages += 1;
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        assert!(matches!(event, LinkEvent::Up(_)), "{peer}: {event:?}");
    }
}

/// One message: written into the ring by its sender, polled and copied by its receiver.
fn shm(c: &mut Criterion) {
    let mut group = c.benchmark_group("shm ring");
    let [mut from, mut to] = lines();
    for len in [0, 8, 200, 4096, 16_384] {
        let payload = vec![1; len];
        let mut sink = Copy { bytes: vec![0; len], messages: 0 };
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| {
                let source = Source::Bytes(black_box(&payload));
                from.send(PeerId(1), Head::default(), source).expect("room in the ring");
                let before = sink.messages;
                while sink.messages == before {
                    to.poll(&mut sink);
                }
            });
        });
        assert_eq!(sink.bytes, payload);
    }
}

/// One event: pushed by the rank, taken by the logger a batch at a time.
fn events(c: &mut Criterion) {
    const BATCH: u64 = 1024;
    let shape = RingShape { rank: 0, job: 9, capacity: 4 * BATCH, durability: Durability::Process };
    let file = create_memory("ring", shape.bytes()).expect("memory for a ring");
    let map = || Memory::map(file.as_fd(), shape.bytes()).expect("the ring");
    shape.lay_out(&map());
    let mut writer = RingWriter::attach(map(), shape).expect("a ring");
    let mut reader = RingReader::attach(map(), shape, 0).expect("a ring");
    let mut group = c.benchmark_group("event ring");
    group.throughput(Throughput::Elements(1));
    let (mut clock, mut batch) = (0, Batch::default());
    group.bench_function("push", |b| {
        b.iter(|| {
            let message = MsgId { source: 1, context: 3, seq: clock as u32 };
            let event = Event::Matched { polls: 0, post: clock as u32, message };
            clock = writer.push(black_box(&event)).expect("the logger has taken its batch");
            if clock.is_multiple_of(BATCH) {
                reader.read(clock - BATCH, clock, &mut batch).expect("what was written");
                reader.keep(clock);
                batch = Batch::default();
            }
        });
    });
}

criterion_group!(benches, shm, events);
criterion_main!(benches);
