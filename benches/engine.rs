//! One message of 8 bytes from one engine to another: sent, polled, matched, received, over the fabric of one lock. What
//! the fabric costs is the same in all, so that their differences are those of the engine.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::time::{Duration, Instant};
use taffrail_engine::log::Logging;
use taffrail_engine::log::host::LogParts;
use taffrail_engine::log::host::vectors::{EventVec, ReplayedVec, SpillMap, Vectors, config};
use taffrail_engine::policy::{NoLogging, Policy};
use taffrail_engine::{Clock, Data, Dest, Engine, Pattern, Sizes};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{Fabric, SendMemory, Source};

/// Messages of one pair of engines: a log of that many stays in memory.
const MESSAGES: u64 = 10_000;
const CONTEXT: u16 = 3;
const TAG: u64 = 7;

type Pair<P> = [Engine<Loopback, P>; 2];

fn pair<P: Policy>(policy: impl Fn(u32, usize) -> P) -> Pair<P> {
    let engine = |fabric: Loopback| {
        let piece = fabric.limits(fabric.me()).fragment;
        let sizes = Sizes {
            fragment: piece,
            rndv_fragment: piece,
            by_peer: false,
            logged_fragment: piece,
            eager_max: piece,
            way: None,
            unexpected: 1 << 20,
            unexpected_max: usize::MAX,
        };
        let policy = policy(fabric.me().0, fabric.segment_len());
        Engine::new(fabric, policy, 2, sizes, Clock::new(Instant::now))
    };
    let [first, second] = mesh(2).try_into().ok().expect("two fabrics");
    [first, second].map(engine)
}

/// The log of a rank whose peer is in another set. Events are stable at once.
fn log(rank: u32, segment: usize) -> Logging<Vectors> {
    let events = EventVec { capacity: u64::MAX, stable_at_once: true, ..EventVec::default() };
    let parts = LogParts {
        events,
        gated: false,
        replayed: ReplayedVec::default(),
        held: None,
        spill: SpillMap::default(),
        checkpoints: None,
        restart: None,
    };
    Logging::open(&config([0, 1], segment), parts, rank, segment).expect("a log")
}

/// Sends a message of 8 bytes and receives it, into a receive that was posted before, or that finds it.
fn message<P: Policy>([from, to]: &mut Pair<P>, number: u64, is_posted: bool) {
    let dest = Dest { rank: 1, context: CONTEXT, tag: TAG, data: Data::NONE };
    let pattern = Pattern { source: Some(0), context: CONTEXT, tag: TAG, ignore: 0 };
    let mut into = [0; 8];
    let post = |to: &mut Engine<Loopback, P>, into: &mut [u8; 8]| {
        // SAFETY: the receive is finished before its memory goes.
        unsafe { to.start_recv(pattern, into.as_mut_ptr(), 8) }.expect("a receive")
    };
    let posted = is_posted.then(|| post(to, &mut into));
    let bytes = number.to_ne_bytes();
    assert!(from.send_now(&dest, Source::Bytes(&bytes), 8).expect("the peer lives"));
    to.progress();
    let request = posted.unwrap_or_else(|| post(to, &mut into));
    while !to.core.requests.get(request).stage.is_over() {
        to.progress();
        from.progress();
    }
    let status = to.core.requests.finish(request).expect("a message");
    assert_eq!((status.len, into), (8, bytes));
}

/// The time of so many messages, in pairs of engines of which each moves a bounded number.
fn time<P: Policy>(messages: u64, new: impl Fn() -> Pair<P>, is_posted: bool) -> Duration {
    let mut took = Duration::ZERO;
    let mut left = messages;
    while left > 0 {
        let mut pair = new();
        let now = left.min(MESSAGES);
        let start = Instant::now();
        (0..now).for_each(|number| message(&mut pair, number, is_posted));
        took += start.elapsed();
        left -= now;
    }
    took
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("message of 8 bytes");
    group.throughput(Throughput::Elements(1));
    for (name, is_posted) in [("posted", true), ("unexpected", false)] {
        group.bench_function(format!("unlogged, {name}"), |b| {
            b.iter_custom(|n| time(n, || pair(|_, _| NoLogging), is_posted));
        });
        group.bench_function(format!("logged, {name}"), |b| {
            b.iter_custom(|n| time(n, || pair(log), is_posted));
        });
    }
}

criterion_group!(benches, messages);
criterion_main!(benches);
