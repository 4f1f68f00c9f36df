//! A fixed workload to count instructions with: one named receive is posted and its message
//! arrives, a million times.
//!
//! `valgrind --tool=callgrind target/release/examples/hot_path`; the total, divided by a million, is
//! the cost of a message, the loop included.

use std::hint::black_box;
use taffrail_matching::{Arrival, Envelope, Matcher, Posted, Posting};

const MESSAGES: u32 = 1_000_000;

fn main() {
    let mut matcher: Matcher<u32, u32> = Matcher::new();
    let posting = Posting { source: Some(1), context: 0, tag: 42, ..Posting::default() };
    let mut envelope = Envelope { source: 1, tag: 42, len: 8, ..Envelope::default() };
    for seq in 0..MESSAGES {
        envelope.seq = seq;
        let Posted::Queued(_) = matcher.post(*black_box(&posting), seq) else {
            panic!("message {seq}: nothing can have arrived yet");
        };
        let Arrival::Matched(token) = matcher.arrive(black_box(&envelope)) else {
            panic!("message {seq}: its receive is posted");
        };
        assert_eq!(token, seq, "another receive than the one posted");
    }
}
