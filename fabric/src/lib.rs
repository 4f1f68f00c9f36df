//! What a byte mover under Taffrail can do, what it costs, and the suite that checks it.
//!
//! A [`Fabric`] moves messages of a bounded size to peers and, where it can, reads and writes
//! registered memory of theirs. Everything that has to do with tags, ordering across contexts,
//! protocols for long messages or logging is the engine's business above it; everything that has
//! to do with rings, queue pairs, completion queues and system calls is the fabric's business
//! below it. Capabilities and costs are data ([`Limits`], [`Cost`]), so that the engine chooses a
//! protocol by arithmetic and can explain the choice. `docs/spec/seam.md` is the contract in full.
//!
//! Dispatch is static: the engine is generic over the fabric, and a fabric's
//! [`poll`](Fabric::poll) is generic over the [`Sink`] that receives what has arrived.

#![warn(missing_docs)]

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod faulty;
#[cfg(feature = "conformance")]
pub mod loopback;

mod copying;
mod cost;
mod error;
mod fabric;
mod membership;
mod memory;
mod payload;
mod sink;
mod wait;
pub mod words;

pub use copying::{copy, skew};
pub use cost::{BadTable, Cost, Denied, Limits};
pub use error::{Fault, MemoryError, Refused};
pub use fabric::{BeforeLog, Fabric, LogRange, Reach, Sent, Source};
pub use membership::{ByLink, Incarnation, Life, Membership};
pub use memory::{
    Keep, Memory, MemoryKind, RegionId, RemoteKey, Segment, SegmentId, SendMemory, UserBuf,
    UserBytes,
};
pub use payload::Payload;
pub use sink::{Body, Lease, LinkEvent, Sink, Take};
pub use wait::{Arming, Wait};

/// A peer of this fabric: its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The peer as an index into a table of peers.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for PeerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The fixed 15 bytes that travel beside every payload. A fabric carries them unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// What the message is; the engine's numbering, below [`Head::KINDS`].
    pub kind: u8,
    /// The context (communicator) the message belongs to.
    pub context: u16,
    /// The low 32 bits of the sequence number of the channel (source, destination, context), or
    /// whatever else `kind` says.
    pub seq: u32,
    /// The tag, or whatever else `kind` says.
    pub tag: u64,
}

impl Head {
    /// Kinds are below this number; a fabric may use the rest of the byte for messages of its own.
    pub const KINDS: u8 = 64;
}

/// Names a send, get, put or rest of a message until it is complete ([`Sink::sent`], [`Sink::moved`]). Chosen by the
/// caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);
