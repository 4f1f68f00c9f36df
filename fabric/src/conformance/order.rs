//! Messages from one peer arrive in the order sent, whatever the others do.

use super::Bench;
use super::mesh::{Deadline, limits, peer};
use super::seed::Seeded;
use super::stream::Stream;
use crate::{
    Body, Fabric, Fault, Head, LinkEvent, PeerId, Refused, Sent, Sink, Source, Take, Token,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One end of a stream with every peer, in both directions.
struct Node<F> {
    fabric: F,
    out: Vec<Stream>,
    into: Inbox,
    quota: u64,
}

/// Checks what arrives.
struct Inbox(Vec<Stream>);

impl Sink for Inbox {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        self.0[from.index()].receive(head, *body.here());
        Take::Done
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent, and nothing was to be sent later");
    }

    fn moved(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} ended, and nothing was started");
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        panic!("the link with {peer}: {event:?}");
    }
}

impl<F: Fabric> Node<F> {
    /// A node that will send `quota` messages to each peer, itself included.
    fn new(fabric: F, ranks: usize, seed: u64, quota: u64) -> Self {
        let (me, caps) = (fabric.me(), limits(&fabric).clone());
        let peers = || (0..ranks).map(peer);
        let out = peers().map(|to| Stream::new(seed, me, to, &caps)).collect();
        let into = Inbox(peers().map(|from| Stream::new(seed, from, me, &caps)).collect());
        Node { fabric, out, into, quota }
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

    fn done(&self) -> bool {
        self.out.iter().chain(&self.into.0).all(|stream| stream.count == self.quota)
    }

    fn progress(&self) -> String {
        let counts = |streams: &[Stream]| streams.iter().map(|s| s.count).collect::<Vec<_>>();
        format!(
            "{} sent {:?} and received {:?} of {} messages each",
            self.fabric.me(),
            counts(&self.out),
            counts(&self.into.0),
            self.quota
        )
    }
}

/// One thread steps five ranks in random order, each with streams to and from all others.
pub fn interleaved_peers<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut nodes: Vec<_> =
        bench.mesh(5).into_iter().map(|fabric| Node::new(fabric, 5, random.seed(), 1500)).collect();
    let mut deadline = Deadline::after(bench.patience());
    while !nodes.iter().all(Node::done) {
        let node = &mut nodes[random.usize(..5)];
        let moved = match random.u8(..3) {
            0 => node.fabric.poll(&mut node.into) > 0,
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
                    run(Node::new(fabric, total, seed, 5000), seed, done, total, patience)
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
    // A rank that is done goes on polling: its peers may need that to be done as well.
    while done.load(Ordering::Relaxed) < total {
        let mut moved = node.fabric.poll(&mut node.into) > 0;
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
            node.fabric.poll(&mut node.into);
            let extra = node.into.0.iter().find(|stream| stream.count > node.quota);
            assert!(extra.is_none(), "more messages than were sent: {}", node.progress());
        }
    }
}
