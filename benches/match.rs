//! What a message costs in the engine, at various depths of its queues.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use taffrail_matching::{Arrival, Envelope, Matcher, Posted, Posting};

const DEPTHS: [u64; 3] = [1, 100, 10_000];

/// Spreads consecutive numbers over `0..depth`, so that no order of the queue helps.
fn scatter(n: u64, depth: u64) -> u64 {
    n.wrapping_mul(7919) % depth
}

/// A constant number of receives is posted: one message arrives, its receive is posted anew.
fn arrive_and_post(c: &mut Criterion) {
    type Kind = (&'static str, fn(u64) -> Posting);
    let kinds: [Kind; 3] = [
        ("named", |tag| Posting { source: Some(1), tag, ..Posting::default() }),
        ("any source", |tag| Posting { source: None, tag, ..Posting::default() }),
        ("masked", |tag| Posting {
            source: Some(1),
            tag,
            ignore: 0xff << 48,
            ..Posting::default()
        }),
    ];
    for (name, posting) in kinds {
        let mut group = c.benchmark_group(format!("arrive and post, {name}"));
        for depth in DEPTHS {
            let mut matcher: Matcher<u32, u32> = Matcher::new();
            for tag in 0..depth {
                assert!(matches!(matcher.post(posting(tag), 0), Posted::Queued(_)));
            }
            let mut seq = 0u32;
            group.bench_function(BenchmarkId::from_parameter(depth), |b| {
                b.iter(|| {
                    let tag = scatter(seq.into(), depth);
                    let envelope = Envelope { source: 1, tag, seq, len: 8, ..Envelope::default() };
                    seq = seq.wrapping_add(1);
                    let Arrival::Matched(token) = matcher.arrive(black_box(&envelope)) else {
                        panic!("the receive of tag {tag} is posted");
                    };
                    let Posted::Queued(id) = matcher.post(black_box(posting(tag)), token) else {
                        panic!("no message waits");
                    };
                    id
                });
            });
        }
    }
}

/// A constant number of messages waits: one is received, another arrives.
fn unexpected(c: &mut Criterion) {
    let mut group = c.benchmark_group("unexpected");
    for depth in DEPTHS {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let mut seq = 0u32;
        let mut arrive = |matcher: &mut Matcher<u32, u32>, tag| {
            let envelope = Envelope { source: 1, tag, seq, len: 8, ..Envelope::default() };
            seq = seq.wrapping_add(1);
            assert_eq!(matcher.arrive(black_box(&envelope)), Arrival::Unmatched);
            matcher.store_unexpected(&envelope, seq);
        };
        (0..depth).for_each(|tag| arrive(&mut matcher, tag));
        let mut n = 0;
        group.bench_function(BenchmarkId::from_parameter(depth), |b| {
            b.iter(|| {
                let tag = scatter(n, depth);
                n += 1;
                let posting = Posting { source: Some(1), tag, ..Posting::default() };
                let Posted::Matched(_, payload) = matcher.post(black_box(posting), 0) else {
                    panic!("the message of tag {tag} waits");
                };
                arrive(&mut matcher, tag);
                payload
            });
        });
    }
}

criterion_group!(benches, arrive_and_post, unexpected);
criterion_main!(benches);
