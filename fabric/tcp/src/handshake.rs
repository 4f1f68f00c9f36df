//! The handshake of a new connection (`docs/spec/tcp.md`): bytes in, bytes out. Both sides prove that they know the
//! job's secret, and send the position at which the stream between them resumes.
//!
//! Nothing here reads more than [`wants`](Server::wants) says, so that what follows the handshake stays in the socket.

mod bytes;
mod client;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, ClientStep};
pub use server::{Proven, Server, ServerStep};

use crate::secret::Secret;
use rustix::rand::{GetRandomFlags, getrandom};
use taffrail_fabric::Incarnation;

/// Length of a HELLO in bytes.
pub(crate) const HELLO: usize = 80;
/// Length of a CHALLENGE in bytes.
pub(crate) const CHALLENGE: usize = 40;
/// Length of a PROOF in bytes.
pub(crate) const PROOF: usize = 64;
/// Length of a WELCOME in bytes.
pub(crate) const WELCOME: usize = 72;

const VERSION: u16 = 1;
const CLIENT: &[u8] = b"taffrail tcp 1 client";
const SERVER: &[u8] = b"taffrail tcp 1 server";

/// Random bytes that are used once.
pub type Nonce = [u8; 32];

/// Random bytes.
pub(crate) fn nonce() -> Nonce {
    let mut bytes = Nonce::default();
    let mut there = 0;
    while there < bytes.len() {
        // It fails on no system that has sockets, and waits only while that starts.
        there += getrandom(&mut bytes[there..], GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes
}

/// Identity of this process.
#[derive(Clone, Debug)]
pub struct Identity {
    /// A digest of the job's name, to distinguish jobs: not secret.
    pub job: [u8; 16],
    /// What proves that a process belongs to the job.
    pub secret: Secret,
    /// Its rank.
    pub rank: u32,
    /// Which start of the rank it is.
    pub incarnation: Incarnation,
}

/// Where the stream between two processes stands, as one of them says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The name that this side has given to the stream, not 0.
    pub session: u64,
    /// The name that the other side has given to it; 0 if this side has not heard it.
    pub peer_session: u64,
    /// Bytes of the stream that this side has received.
    pub received: u64,
    /// How many connections of the other side this side has accepted for this stream.
    pub accepted: u32,
}

/// What the server says to a client that has proven itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stream resumes over this connection, or begins.
    Welcome,
    /// The server's own connection to the client takes precedence, or is in use already.
    Elsewhere,
    /// The server has ended the stream that the client names, or talks to this incarnation no more.
    Ended,
    /// The client was looking for another incarnation of the server.
    Incarnation,
    /// The server knows of a later incarnation of the client.
    Superseded,
}

impl Verdict {
    const ALL: [Verdict; 5] = [
        Verdict::Welcome,
        Verdict::Elsewhere,
        Verdict::Ended,
        Verdict::Incarnation,
        Verdict::Superseded,
    ];

    fn code(self) -> u32 {
        self as u32
    }
}

/// Why a handshake was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Not a handshake.
    #[error("{0} is not what this protocol begins with")]
    Garbage(&'static str),
    /// Another version of the protocol.
    #[error("it speaks version {got} of the handshake; this is version {}", VERSION)]
    Version {
        /// Its version.
        got: u16,
    },
    /// A process of another job.
    #[error("it belongs to another job")]
    Job,
    /// A rank that there is not, or another than was called.
    #[error("it calls itself rank {from} and looks for rank {to}")]
    Rank {
        /// The rank that it says it is.
        from: u32,
        /// The rank that it has called.
        to: u32,
    },
    /// It does not know the secret.
    #[error("it does not know the job's secret")]
    Secret,
}
