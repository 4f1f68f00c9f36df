//! Which ranks of the conformance suite share a node, and composites of shared memory and sockets between them.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use taffrail_composite::Composite;
use taffrail_fabric::conformance::Member;
use taffrail_fabric::{Incarnation, PeerId};
use taffrail_shm::{Setup, ShmFabric};
use taffrail_tcp::{Connection, TcpFabric};

/// The node of each rank.
#[derive(Clone, Copy)]
pub enum Nodes {
    /// All ranks on one.
    One,
    /// Each rank on its own.
    Each,
    /// Ranks 0 and 1 on one, 2 and 3 on the next.
    Pairs,
    /// Even ranks on one, odd ones on the other.
    Parity,
}

impl Nodes {
    fn of(self, rank: u32) -> u32 {
        match self {
            Nodes::One => 0,
            Nodes::Each => rank,
            Nodes::Pairs => rank / 2,
            Nodes::Parity => rank % 2,
        }
    }

    /// Whether two ranks are on different nodes.
    pub fn apart(self, one: u32, other: u32) -> bool {
        self.of(one) != self.of(other)
    }

    /// All ranks on the node of this one, in order. Where they do not follow each other, the highest comes first.
    pub fn fellows(self, rank: u32, ranks: u32) -> Vec<PeerId> {
        let here = |other: &u32| self.of(*other) == self.of(rank);
        let here = (0..ranks).filter(here).map(PeerId);
        match self {
            Nodes::Parity => here.rev().collect(),
            Nodes::One | Nodes::Each | Nodes::Pairs => here.collect(),
        }
    }
}

pub type Real = Composite<ShmFabric, TcpFabric>;

/// The fabric of this member: shared memory to those on its node, TCP to all others.
pub fn join(member: &mut Member<'_>, nodes: Nodes) -> Real {
    let (me, ranks) = (member.rank(), member.size());
    let node = nodes.fellows(me, ranks);
    let number = node.iter().position(|rank| rank.0 == me).expect("it is on its node") as u32;
    let setup = Setup::new(near(number, node.len() as u32)).expect("memory and a listener");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound");
    let all = member.exchange(format!("{port} {}", setup.address()).as_bytes());
    let all: Vec<(SocketAddr, String)> = all.iter().map(|bytes| parse(bytes)).collect();
    let names: Vec<String> = node.iter().map(|rank| all[rank.index()].1.clone()).collect();
    let near = setup.connect(&names).expect("a connection with every rank of the node");
    let far = connect(me, &all, &node, &listener);
    // Nobody begins, or dies, before all are connected.
    member.exchange(&[]);
    Composite::new(near, far, ranks, &node).expect("two fabrics of one rank")
}

fn parse(bytes: &[u8]) -> (SocketAddr, String) {
    let text = std::str::from_utf8(bytes).expect("addresses are text");
    let (port, name) = text.split_once(' ').expect("two addresses");
    (port.parse().expect("an address"), name.to_owned())
}

/// What shared memory is made from.
pub fn near(rank: u32, ranks: u32) -> taffrail_shm::Config {
    taffrail_shm::Config::new(rank, ranks)
}

/// Connections with all ranks of other nodes: a rank connects to the lower ones, and says which it is.
fn connect(
    me: u32,
    all: &[(SocketAddr, String)],
    node: &[PeerId],
    listener: &TcpListener,
) -> TcpFabric {
    let ranks = all.len() as u32;
    let mut connections = Vec::new();
    for rank in (0..ranks).filter(|&rank| !node.contains(&PeerId(rank))) {
        let (peer, stream) = if rank < me {
            let mut stream = TcpStream::connect(all[rank as usize].0).expect("a rank that listens");
            stream.write_all(&me.to_le_bytes()).expect("a rank that listens");
            (rank, stream)
        } else {
            let mut stream = listener.accept().expect("a rank that connects").0;
            let mut rank = [0; 4];
            stream.read_exact(&mut rank).expect("the rank that connects");
            (u32::from_le_bytes(rank), stream)
        };
        let incarnation = Incarnation::default();
        connections.push(Connection { peer: PeerId(peer), incarnation, socket: stream.into() });
    }
    // Few messages come in one piece.
    let config = taffrail_tcp::Config { whole: 64, ..taffrail_tcp::Config::default() };
    TcpFabric::new(PeerId(me), ranks, connections, config).expect("connected sockets")
}
