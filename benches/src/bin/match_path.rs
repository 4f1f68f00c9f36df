//! Fixed workloads to count instructions with, of a million messages each. The argument names one:
//!
//! - `alone` (also without an argument): a receive is posted and its message arrives;
//! - `window`: 64 receives with the same key are posted, then their messages arrive;
//! - `tags`: receives with 10 000 different tags are posted; each message that arrives has its receive
//!   posted anew.
//!
//! `valgrind --tool=callgrind target/release/match_path window`; the total, divided by a
//! million, is the cost of a message, the loop included. Run by itself it prints nanoseconds.

use std::hint::black_box;
use std::time::Instant;
use taffrail_matching::{Arrival, Envelope, Matcher, Posted, Posting};

const MESSAGES: u32 = 1_000_000;

fn main() {
    let workload = std::env::args().nth(1).unwrap_or_else(|| "alone".into());
    // The same collisions in each run.
    let matcher = Matcher::with_seed(1);
    let start = Instant::now();
    match workload.as_str() {
        "alone" => window(matcher, 1),
        "window" => window(matcher, 64),
        "tags" => tags(matcher, 10_000),
        other => panic!("expected the workload alone, window or tags, got {other:?}"),
    }
    println!("{workload}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(MESSAGES));
}

#[inline(always)] // the loop then costs what it costs alone
fn window(mut matcher: Matcher<u32, u32>, depth: u32) {
    let posting = Posting { source: Some(1), tag: 42, ..Posting::default() };
    let mut envelope = Envelope { source: 1, tag: 42, len: 8, ..Envelope::default() };
    for first in (0..MESSAGES).step_by(depth as usize) {
        for seq in first..first + depth {
            post(&mut matcher, &posting, seq);
        }
        for seq in first..first + depth {
            envelope.seq = seq;
            assert_eq!(arrive(&mut matcher, &envelope), seq, "another receive than the first");
        }
    }
}

fn tags(mut matcher: Matcher<u32, u32>, depth: u32) {
    let mut posting = Posting { source: Some(1), ..Posting::default() };
    let mut envelope = Envelope { source: 1, len: 8, ..Envelope::default() };
    for tag in 0..depth {
        posting.tag = tag.into();
        post(&mut matcher, &posting, tag);
    }
    for seq in 0..MESSAGES {
        // In an order that the order of the queue does not help.
        let tag = seq.wrapping_mul(7919) % depth;
        (envelope.seq, envelope.tag) = (seq, tag.into());
        assert_eq!(arrive(&mut matcher, &envelope), tag, "another receive than the tag's");
        posting.tag = tag.into();
        post(&mut matcher, &posting, tag);
    }
}

#[inline(always)]
fn post(matcher: &mut Matcher<u32, u32>, posting: &Posting, token: u32) {
    let Posted::Queued(_) = matcher.post(*black_box(posting), token) else {
        panic!("receive {token}: no message waits");
    };
}

#[inline(always)]
fn arrive(matcher: &mut Matcher<u32, u32>, envelope: &Envelope) -> u32 {
    let Arrival::Matched(token) = matcher.arrive(black_box(envelope)) else {
        panic!("message {}: its receive is posted", envelope.seq);
    };
    token
}
