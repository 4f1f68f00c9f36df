//! What peers cost that are seldom spoken to, or never.

#[path = "common/lazy.rs"]
mod lazy;

use lazy::{Count, contact, fabrics, identity, listener, send};
use std::time::{Duration, Instant};
use taffrail_fabric::conformance::CountingHeap;
use taffrail_fabric::{Fabric, Head, PeerId};
use taffrail_tcp::{Config, TcpFabric};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

fn open(ranks: usize) -> TcpFabric {
    let listener = listener();
    let contacts = vec![contact(listener.address(), 0); ranks];
    TcpFabric::open(identity(0, 0), listener, contacts, Config::DEFAULT).expect("a rank")
}

/// One test, since the count is the whole process's.
#[test]
fn a_peer_costs_little_until_it_is_spoken_to_and_not_much_when_it_is_idle() {
    let measure = |ranks| CountingHeap::taken_by(|| open(ranks));
    measure(1);
    let each = (measure(10_001) - measure(1)) / 10_000;
    println!("a peer that was never spoken to: {each} bytes");
    assert!(each <= 256, "{each} bytes");

    const PEERS: usize = 64;
    let mut all = fabrics(PEERS as u32 + 1, Config::DEFAULT);
    let mut counts: Vec<_> = all.iter().map(|_| Count::default()).collect();
    let before = CountingHeap::bytes();
    // Enough of all lengths to leave behind what stays: unacknowledged bytes, buffers. The last ones are short, then long.
    let short_last = [8, 100, 1000, 3000, 65_536, 262_144, 5000, 200, 4000].repeat(3);
    for lengths in [&short_last[..], &[262_144], &[40_000, 262_144, 262_144]] {
        for &len in lengths {
            exchange(&mut all, &mut counts, len);
        }
        // What is left is acknowledged when nothing has come for some polls.
        (0..200).for_each(|_| turn(&mut all, &mut counts));
        let after = CountingHeap::bytes();
        // Each link has two ends, and both are here.
        let each = after.saturating_sub(before) / PEERS / 2;
        let last = lengths.last().expect("some");
        println!("an idle peer, behind a message of {last} bytes: {each} bytes");
        assert!(each <= 64 << 10, "{each} bytes");
        assert!(each > 100, "{each} bytes: something is not counted");
    }

    quiet_again();

    // A poll costs one system call, whatever the number of idle peers.
    let mut quiet = open(2);
    let poll = |fabric: &mut TcpFabric, count: &mut Count| {
        let time = || {
            let start = Instant::now();
            for _ in 0..200 {
                fabric.poll(count);
            }
            start.elapsed()
        };
        std::iter::repeat_with(time).take(100).min().expect("many")
    };
    // What is under way has settled by then.
    let many = poll(&mut all[0], &mut counts[0]);
    let one = poll(&mut quiet, &mut Count::default());
    println!("200 polls: {one:?} with no peer, {many:?} with {PEERS} idle ones");
    assert!(many < one * 4, "{one:?} with no peer, {many:?} with {PEERS} idle ones");
}

/// Rank 0 and each of its peers send each other a message, and receive it.
fn exchange(all: &mut [TcpFabric], counts: &mut [Count], len: usize) {
    let bytes = vec![1; len];
    let (peers, expected) = (all.len() - 1, counts[1].0 + 1);
    for peer in 1..=peers {
        let (zero, other) = (PeerId(0), PeerId(peer as u32));
        send(&mut all[0], &mut counts[0], other, Head::default(), &bytes);
        send(&mut all[peer], &mut counts[peer], zero, Head::default(), &bytes);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while counts[0].0 < expected * peers || counts[1..].iter().any(|one| one.0 < expected) {
        turn(all, counts);
        assert!(Instant::now() < deadline, "stuck");
    }
}

fn turn(all: &mut [TcpFabric], counts: &mut [Count]) {
    all.iter_mut().zip(counts).for_each(|(fabric, count)| _ = fabric.poll(count));
}

/// What a peer has not acknowledged while it was the lively one it does when it is quiet.
fn quiet_again() {
    let mut pair = fabrics(2, Config::DEFAULT);
    let mut got = [Count::default(), Count::default()];
    let mut exchange = |messages: usize| {
        let before = CountingHeap::bytes();
        let expected = got[1].0 + messages;
        for _ in 0..messages {
            send(&mut pair[0], &mut got[0], PeerId(1), Head::default(), &[1; 1000]);
            turn(&mut pair, &mut got);
        }
        while got[1].0 < expected {
            turn(&mut pair, &mut got);
        }
        (0..200).for_each(|_| turn(&mut pair, &mut got));
        CountingHeap::bytes().saturating_sub(before)
    };
    exchange(1);
    let kept = exchange(40);
    println!("of 40 KB to a peer that is quiet again {kept} bytes are kept");
    assert!(kept < 20 << 10, "{kept} bytes");
}
