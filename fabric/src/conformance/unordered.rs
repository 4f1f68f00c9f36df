//! Fabrics without an order: each message arrives once and whole.

use super::mesh::{Deadline, Mesh, Seen, accepted, limits, peer, poll};
use super::seed::Seeded;
use super::stream::Stream;
use super::{Bench, pattern};
use crate::{Fabric, Fault, Head, Payload, PeerId, Refused, Source};
use std::collections::HashSet;

/// Messages of each rank to each.
const QUOTA: u64 = 800;

/// A rank that sends to all, itself included, and checks what arrives.
struct Node<F> {
    fabric: F,
    seen: Seen,
    out: Vec<Stream>,
    into: Vec<Stream>,
    got: HashSet<(PeerId, u32)>,
}

impl<F: Fabric> Node<F> {
    fn new(fabric: F, ranks: usize, seed: u64) -> Self {
        let (me, caps) = (fabric.me(), limits(&fabric).clone());
        let out = (0..ranks).map(|to| Stream::new(seed, me, peer(to), &caps)).collect();
        let into = (0..ranks).map(|from| Stream::new(seed, peer(from), me, &caps)).collect();
        Node { fabric, seen: Seen::default(), out, into, got: HashSet::new() }
    }

    fn step(&mut self, to: usize, burst: usize) -> bool {
        let mut moved = poll(&mut self.fabric, &mut self.seen) > 0;
        for (from, head, bytes) in self.seen.messages.drain(..) {
            assert!(u64::from(head.seq) < QUOTA, "{head:?} was never sent");
            assert!(self.got.insert((from, head.seq)), "message {} of {from} twice", head.seq);
            let stream = &mut self.into[from.index()];
            stream.count = head.seq.into();
            stream.receive(head, Payload::of(&bytes));
        }
        let stream = &mut self.out[to];
        for _ in 0..burst {
            if stream.count == QUOTA {
                break;
            }
            let (head, bytes) = stream.next();
            match self.fabric.send(peer(to), head, Source::Bytes(bytes)) {
                Ok(_) => stream.count += 1,
                Err(Refused::Busy) => break,
                Err(refused) => panic!("to {to}: {refused}"),
            }
            moved = true;
        }
        moved
    }

    fn is_done(&self) -> bool {
        self.got.len() as u64 == QUOTA * self.out.len() as u64
            && self.out.iter().all(|stream| stream.count == QUOTA)
    }
}

/// Three ranks, each with messages to and from all: every one arrives once, with its head and its bytes.
pub fn each_once<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let seed = random.seed();
    let mut nodes: Vec<_> =
        bench.mesh(3).into_iter().map(|fabric| Node::new(fabric, 3, seed)).collect();
    let mut deadline = Deadline::after(bench.patience());
    while !nodes.iter().all(Node::is_done) {
        let (rank, to, burst) = (random.usize(..3), random.usize(..3), random.usize(1..30));
        if nodes[rank].step(to, burst) {
            deadline = Deadline::after(bench.patience());
        } else {
            deadline.check("messages that were sent");
        }
    }
    // One that arrives twice may come later.
    for round in 0..300 {
        nodes[round % 3].step(0, 0);
    }
}

/// All that a peer has sent comes before the end of its link.
pub fn all_before_the_end<B: Bench>(bench: &B) {
    for round in 0..20 {
        let mut mesh = Mesh::new(bench, 2);
        let mut sent = HashSet::new();
        for number in 0..30u64 {
            let (head, bytes) = (Head { tag: number, ..Head::default() }, [number as u8; 40]);
            match accepted(mesh.at(1), peer(0), head, Source::Bytes(&bytes)) {
                Ok(_) => drop(sent.insert(number)),
                Err(Refused::Busy) => break,
                Err(refused) => panic!("message {number}: {refused}"),
            }
        }
        mesh.fabrics[1] = None;
        mesh.until("the end of the link", |mesh| !mesh.seen[0].failed.is_empty());
        assert_eq!(mesh.seen[0].failed, [(peer(1), Fault::Closed)]);
        for (_, head, bytes) in std::mem::take(&mut mesh.seen[0].messages) {
            assert!(sent.remove(&head.tag), "round {round}: message {} was not sent", head.tag);
            let expected = [head.tag as u8; 40];
            pattern::assert_same(&bytes, &expected, format_args!("message {}", head.tag));
        }
        assert!(sent.is_empty(), "round {round}: {sent:?} did not arrive");
        mesh.assert_nothing_more();
    }
}
