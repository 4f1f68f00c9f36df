//! A peer that writes bytes and not messages, and a sink that notes everything.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use taffrail_fabric::{
    Body, Fabric, Fault, Head, Incarnation, LinkEvent, PeerId, Sink, Take, Token, UserBuf,
};
use taffrail_tcp::{Config, Connection, TcpFabric};

/// A frame, written by the specification and not by the crate.
pub fn frame(kind: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x54, 0x46, 1, kind];
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(0x0102_0304_0506_0708_u64.to_le_bytes());
    bytes.extend(seq.to_le_bytes());
    bytes.extend([0x0a, 0x0b, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// The head that [`frame`] writes.
pub fn head(kind: u8, seq: u32) -> Head {
    Head { kind, context: 0x0b0a, seq, tag: 0x0102_0304_0506_0708 }
}

pub fn goodbye() -> Vec<u8> {
    let mut bytes = vec![0; 24];
    bytes[..3].copy_from_slice(&[0x54, 0x46, 2]);
    bytes
}

/// Bytes that differ from their neighbours.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed * 31 + at * 7 + at / 251) as u8).collect()
}

/// Rank 0, with raw ends for ranks 1 and up.
pub fn rank_0(peers: u32, config: Config) -> (TcpFabric, Vec<UnixStream>) {
    let mut ends = Vec::new();
    let connections = (1..=peers).map(|peer| {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        ends.push(there);
        connection(peer, 0, here)
    });
    let fabric = TcpFabric::new(PeerId(0), peers + 1, connections.collect(), config);
    (fabric.expect("connected sockets"), ends)
}

pub fn connection(peer: u32, incarnation: u32, socket: impl Into<OwnedFd>) -> Connection {
    let (peer, incarnation) = (PeerId(peer), Incarnation(incarnation));
    Connection { peer, incarnation, socket: socket.into() }
}

/// A call of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Sender, head, the bytes that are here, and the length of the rest.
    Message(u32, Head, Vec<u8>, usize),
    Sent(u64, Result<(), Fault>),
    Moved(u64, Result<(), Fault>),
    Link(u32, LinkEvent),
}

/// Notes everything; wants the rest of a stream in `rest`, if there is such memory.
#[derive(Debug, Default)]
pub struct Notes {
    pub events: Vec<Event>,
    pub rest: Option<Vec<u8>>,
}

impl Sink for Notes {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        let left = body.len() - body.here().len();
        self.events.push(Event::Message(from.0, head, body.here().to_vec(), left));
        match &mut self.rest {
            // SAFETY: the vector is neither moved nor read before `moved`, and outlives the polls of the test.
            Some(rest) if left > 0 => unsafe {
                Take::Rest(UserBuf::new(rest.as_mut_ptr(), rest.len()), Token(u64::from(head.seq)))
            },
            _ => Take::Done,
        }
    }

    fn sent(&mut self, token: Token, result: Result<(), Fault>) {
        self.events.push(Event::Sent(token.0, result));
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.events.push(Event::Moved(token.0, result));
    }

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        self.events.push(Event::Link(peer.0, event));
    }
}

impl Notes {
    /// Polls until nothing more comes of it.
    pub fn settle(&mut self, fabric: &mut TcpFabric) {
        let mut quiet = 0;
        while quiet < 5 {
            quiet = if fabric.poll(self) == 0 { quiet + 1 } else { 0 };
        }
    }

    /// The events since the last call.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}
