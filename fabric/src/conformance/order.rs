//! Messages from one peer arrive in the order sent, whatever the others do.

use super::Bench;
use super::mesh::{Deadline, Seen, limits, peer, poll};
use super::seed::Seeded;
use super::stream::Stream;
use crate::{Fabric, Payload, Refused, Sent, Source};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One end of a stream with every peer, in both directions.
struct Node<F> {
    fabric: F,
    out: Vec<Stream>,
    into: Vec<Stream>,
    seen: Seen,
    quota: u64,
}

impl<F: Fabric> Node<F> {
    /// A node that will send `quota` messages to each peer, itself included.
    fn new(fabric: F, ranks: usize, seed: u64, quota: u64) -> Self {
        let (me, caps) = (fabric.me(), limits(&fabric).clone());
        let peers = || (0..ranks).map(peer);
        let out = peers().map(|to| Stream::new(seed, me, to, &caps)).collect();
        let into = peers().map(|from| Stream::new(seed, from, me, &caps)).collect();
        Node { fabric, out, into, seen: Seen::default(), quota }
    }

    /// Sends up to `burst` messages to one peer. Whether any went out.
    fn burst(&mut self, to: usize, burst: usize) -> bool {
        let stream = &mut self.out[to];
        let before = stream.count;
        for _ in 0..burst {
            if stream.count == self.quota {
                break;
            }
            let (head, payload) = stream.next();
            match self.fabric.send(peer(to), head, Source::Bytes(payload)) {
                Ok(sent) => {
                    assert_eq!(sent, Sent::Now);
                    stream.count += 1;
                }
                Err(Refused::Busy) => break,
                Err(refused) => panic!("message {before} to {to}: {refused}"),
            }
        }
        stream.count > before
    }

    /// Polls once and checks what has arrived. Whether anything has.
    fn poll(&mut self) -> bool {
        let moved = poll(&mut self.fabric, &mut self.seen) > 0;
        for (from, head, bytes) in self.seen.messages.drain(..) {
            self.into[from.index()].receive(head, Payload::of(&bytes));
        }
        let Seen { sent, completed, failed, .. } = &self.seen;
        assert!(sent.is_empty() && completed.is_empty(), "ended: {sent:?}, {completed:?}");
        assert!(failed.is_empty(), "links that ended: {failed:?}");
        moved
    }

    fn done(&self) -> bool {
        self.out.iter().chain(&self.into).all(|stream| stream.count == self.quota)
    }

    fn progress(&self) -> String {
        let counts = |streams: &[Stream]| streams.iter().map(|s| s.count).collect::<Vec<_>>();
        format!(
            "{} sent {:?} and received {:?} of {} messages each",
            self.fabric.me(),
            counts(&self.out),
            counts(&self.into),
            self.quota
        )
    }
}

/// One thread steps five ranks in random order, each with streams to and from all others.
pub fn interleaved_peers<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut nodes: Vec<_> =
        bench.mesh(5).into_iter().map(|fabric| Node::new(fabric, 5, random.seed(), 500)).collect();
    let mut deadline = Deadline::after(bench.patience());
    while !nodes.iter().all(Node::done) {
        let node = &mut nodes[random.usize(..5)];
        let moved = match random.u8(..3) {
            0 => node.poll(),
            _ => node.burst(random.usize(..5), random.usize(1..40)),
        };
        if moved {
            deadline = Deadline::after(bench.patience());
        } else {
            deadline.check(nodes.iter().map(Node::progress).collect::<Vec<_>>().join("; "));
        }
    }
    nothing_follows(nodes);
}

/// Four threads at once, more than most test machines have cores to spare.
pub fn threads<B: Bench>(bench: &B) {
    let random = Seeded::new();
    let (seed, patience) = (random.seed(), bench.patience());
    let fabrics = bench.mesh(4);
    let (done, total) = (AtomicUsize::new(0), fabrics.len());
    let nodes = std::thread::scope(|scope| {
        let threads: Vec<_> = fabrics
            .into_iter()
            .map(|fabric| {
                let done = &done;
                scope.spawn(move || {
                    run(Node::new(fabric, total, seed, 2000), seed, done, total, patience)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    });
    nothing_follows(nodes);
}

fn run<F: Fabric>(
    mut node: Node<F>,
    seed: u64,
    done: &AtomicUsize,
    total: usize,
    patience: Duration,
) -> Node<F> {
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(node.fabric.me().0));
    let mut deadline = Deadline::after(patience);
    let mut counted = false;
    // A rank that is done keeps polling: its peers may need that to be done as well.
    while done.load(Ordering::Relaxed) < total {
        let mut moved = node.poll();
        moved |= node.burst(random.usize(..total), random.usize(1..60));
        if !counted && node.done() {
            counted = true;
            done.fetch_add(1, Ordering::Relaxed);
        }
        if moved {
            deadline = Deadline::after(patience);
        } else {
            deadline.check(node.progress());
            std::thread::yield_now();
        }
    }
    node
}

/// A message beyond the quota is a duplicate, or one that nobody sent.
fn nothing_follows<F: Fabric>(mut nodes: Vec<Node<F>>) {
    for _ in 0..100 {
        for node in &mut nodes {
            node.poll();
            let extra = node.into.iter().find(|stream| stream.count > node.quota);
            assert!(extra.is_none(), "more messages than were sent: {}", node.progress());
        }
    }
}
