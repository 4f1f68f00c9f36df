//! Composites of loopbacks for the tests.

use crate::Composite;
use std::time::Duration;
use taffrail_fabric::conformance::Bench;
use taffrail_fabric::faulty::{Faults, Mixed, Trouble};
use taffrail_fabric::loopback::{Loopback, mesh};
use taffrail_fabric::{
    Arming, Body, Fabric, Fault, Head, Incarnation, Limits, LinkEvent, Memory, PeerId, Refused,
    Sent, Sink, Source, Take, Token, UserBuf, Wait,
};
use taffrail_tcp::TcpFabric;

/// Ranks 0 and 1 are on one node, 2 and 3 on the next; or each rank is on its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    Pairs,
    Each,
}

/// For each rank its near fabric and the ranks that this connects, the highest first.
pub fn nears(n: usize, nodes: Nodes) -> Vec<(Loopback, Vec<PeerId>)> {
    let ranks: Vec<PeerId> = (0..n as u32).map(PeerId).collect();
    let mut all = Vec::new();
    for node in ranks.chunks(if nodes == Nodes::Pairs { 2 } else { 1 }) {
        let node: Vec<PeerId> = node.iter().rev().copied().collect();
        let mut fabrics = mesh(node.len());
        fabrics.reverse();
        all.extend(fabrics.into_iter().map(|fabric| (fabric, node.clone())));
    }
    all
}

/// A composite for each rank.
pub fn composites<Near: Fabric + Wait, Far: Fabric + Wait>(
    nodes: Nodes,
    near: impl Fn(Loopback) -> Near,
    fars: Vec<Far>,
) -> Vec<Composite<Near, Far>> {
    let ranks = fars.len() as u32;
    let parts = nears(fars.len(), nodes).into_iter().zip(fars);
    let composites = parts.map(|((fabric, node), far)| {
        Composite::new(near(fabric), far, ranks, &node).expect("two fabrics of one rank")
    });
    composites.collect()
}

/// A far mesh that has given some names of regions away.
pub fn far_mesh(n: usize) -> Vec<Loopback> {
    let mut fars = mesh(n);
    for _ in 0..3 {
        // SAFETY: no bytes are reached through it.
        let nothing = unsafe { UserBuf::new(std::ptr::dangling_mut(), 0) };
        fars[0].register(Memory::host(nothing)).expect("a loopback registers everything");
    }
    fars
}

const PATIENCE: Duration = Duration::from_secs(3);

/// Loopbacks on both sides.
pub struct Plain(pub Nodes);

impl Bench for Plain {
    type Fabric = Composite<Loopback, Loopback>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        composites(self.0, |fabric| fabric, far_mesh(n))
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Both sides have receive buffers that can be kept, and sends that end later.
pub struct Troubled(pub Nodes);

impl Bench for Troubled {
    type Fabric = Composite<Mixed<Loopback>, Mixed<Loopback>>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        let trouble = Trouble { later: true, ..Trouble::default() };
        let mixed = |fabric| Mixed::new(fabric, Faults::trouble(trouble));
        composites(self.0, mixed, mesh(n).into_iter().map(mixed).collect())
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Sockets on the far side.
pub struct Sockets(pub Nodes);

impl Bench for Sockets {
    type Fabric = Composite<Loopback, TcpFabric>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        let fars = taffrail_tcp::over_unix(n as u32, taffrail_tcp::Config::default());
        composites(self.0, |fabric| fabric, fars.expect("few connections"))
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Counts its polls, and may have no links.
pub struct Counted {
    pub inner: Loopback,
    pub polls: usize,
    pub is_active: bool,
}

impl Fabric for Counted {
    fn me(&self) -> PeerId {
        self.inner.me()
    }

    fn limits(&self, peer: PeerId) -> &Limits {
        self.inner.limits(peer)
    }

    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        self.inner.send(to, head, source)
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.polls += 1;
        self.inner.poll(sink)
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        self.inner.disconnect(peer, why);
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        self.inner.drained(peer, of)
    }

    fn abandon_in_child(&mut self) {
        self.inner.abandon_in_child();
    }

    fn is_active(&self) -> bool {
        self.is_active
    }
}

impl Wait for Counted {
    fn arm(&mut self) -> Arming {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn sleep(&mut self, limit: Duration) {
        self.inner.sleep(limit);
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.fd()
    }
}

/// Four ranks of two nodes, with far fabrics that count.
pub fn counted(is_active: bool) -> Vec<Composite<Loopback, Counted>> {
    let fars = mesh(4).into_iter().map(|inner| Counted { inner, polls: 0, is_active });
    composites(Nodes::Pairs, |fabric| fabric, fars.collect())
}

/// What was handed over.
#[derive(Default)]
pub struct Seen {
    pub messages: Vec<(u32, u32)>,
    pub links: Vec<(u32, LinkEvent)>,
    pub moved: Vec<(Token, Result<(), Fault>)>,
}

impl Sink for Seen {
    fn message(&mut self, from: PeerId, head: Head, _: Body<'_>) -> Take {
        self.messages.push((from.0, head.seq));
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.moved.push((token, result));
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        self.links.push((peer.0, event));
    }
}

/// Sends an empty message.
pub fn send<F: Fabric>(fabric: &mut F, to: u32, seq: u32) -> Result<Sent, Refused> {
    fabric.send(PeerId(to), Head { seq, ..Head::default() }, Source::Bytes(&[]))
}

/// Polls once; what was handed over is in `seen`.
pub fn poll(fabric: &mut impl Fabric, seen: &mut Seen) {
    let events = fabric.poll(seen);
    assert!(events < 100, "{events} events in one poll");
}
