//! What peers cost that are seldom spoken to, or never.

#[path = "common/lazy.rs"]
mod lazy;

use lazy::{Count, contact, fabrics, identity, listener, send};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use taffrail_fabric::{Fabric, Head, PeerId};
use taffrail_tcp::{Config, TcpFabric};

/// Counts the bytes that are allocated now.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it counts, and the system's allocator does the rest.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

fn open(ranks: usize) -> TcpFabric {
    let listener = listener();
    let contacts = vec![contact(listener.address(), 0); ranks];
    TcpFabric::open(identity(0, 0), listener, contacts, Config::DEFAULT).expect("a rank")
}

/// One test, since the count is the whole process's.
#[test]
fn a_peer_costs_little_until_it_is_spoken_to_and_not_much_when_it_is_idle() {
    let measure = |ranks| {
        let before = BYTES.load(Ordering::Relaxed);
        let fabric = black_box(open(ranks));
        let after = BYTES.load(Ordering::Relaxed);
        drop(fabric);
        after - before
    };
    measure(1);
    let each = (measure(10_001) - measure(1)) / 10_000;
    println!("a peer that was never spoken to: {each} bytes");
    assert!(each <= 256, "{each} bytes");

    const PEERS: usize = 64;
    let mut all = fabrics(PEERS as u32 + 1, Config::DEFAULT);
    let mut counts: Vec<_> = all.iter().map(|_| Count::default()).collect();
    let before = BYTES.load(Ordering::Relaxed);
    // Enough of all lengths to leave behind what stays: unacknowledged bytes, buffers.
    let lengths = [8, 100, 1000, 3000, 65_536, 5000, 200, 4000];
    let mut expected = 0;
    for len in lengths.repeat(3) {
        let bytes = vec![1; len];
        expected += PEERS;
        for peer in 1..=PEERS {
            let (zero, other) = (PeerId(0), PeerId(peer as u32));
            send(&mut all[0], &mut counts[0], other, Head::default(), &bytes);
            send(&mut all[peer], &mut counts[peer], zero, Head::default(), &bytes);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while counts[0].0 < expected || counts[1..].iter().any(|one| one.0 < expected / PEERS) {
            for (fabric, count) in all.iter_mut().zip(&mut counts) {
                fabric.poll(count);
            }
            assert!(Instant::now() < deadline, "stuck");
        }
    }
    let after = BYTES.load(Ordering::Relaxed);
    // Each link has two ends, and both are here.
    let each = after.saturating_sub(before) / PEERS / 2;
    println!("an idle peer: {each} bytes");
    assert!(each <= 64 << 10, "{each} bytes");
    assert!(each > 100, "{each} bytes: something is not counted");

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
