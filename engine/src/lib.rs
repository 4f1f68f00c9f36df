//! The engine: protocols over a fabric, one in each file.
//!
//! Sending: [`send`] chooses the protocol of a message, [`policy::tx`] what is logged of it, and [`tx`] queues and transmits
//! it. Receiving: [`core`] matches what arrives, and [`rendezvous`] moves announced messages. [`progress`] polls and sends. [`call`] takes a call of
//! the program as far as it gets: nothing here waits.

// Rustdoc of the engine is for its authors: links to private items stay.
#![allow(rustdoc::private_intra_doc_links)]

mod arithmetic;
mod clock;
mod error;
mod names;

pub mod active;
mod atomic;
pub mod call;
pub mod claim;
pub mod core;
mod departures;
mod finalize;
mod flow;
mod frame;
mod immediate;
pub mod keyed_memory;
pub mod lending;
pub mod loan;
pub mod log;
pub mod memory;
pub mod multi;
mod multi_recv;
pub mod one_sided;
#[cfg(any(test, feature = "vectors"))]
mod parsed_frame;
pub mod peer;
pub mod policy;
mod pool;
mod progress;
pub mod receive;
mod recovery;
mod recv_record;
mod rendezvous;
pub mod rendezvous_path;
mod reply_delay;
pub mod request;
pub mod rma;
mod send;
mod sink;
pub mod tx;
mod unexpected;
pub mod unposted_recv;
mod verdict;
pub mod view;

#[cfg(test)]
mod tests;

pub use arithmetic::{Atomic, AtomicOp, AtomicType};
pub use call::{Ended, Over};
pub use clock::Clock;
pub use error::{Error, NotNow};
pub use frame::kind;
pub use names::{Data, Dest, Pattern, Rank, Request, Status};
#[cfg(any(test, feature = "vectors"))]
pub use parsed_frame::ParsedFrame;
pub use rma::Exposed;
pub use send::bytes;

/// Contexts from here on are the library's own; programs use `0..CONTEXTS`. They begin where the two highest
/// bits say so, which alone separate contexts where immediate data take the others. It is not checked: a
/// message in one of the others may be taken for one of a collective operation.
pub const CONTEXTS: u16 = 0xc000;

use core::Core;
use flow::UnreceivedLimits;
use immediate::Immediate;
use lending::Lending;
use policy::Policy;
use rendezvous_path::RndvPath;
use rma::Rma;
use std::time::Instant;
use taffrail_fabric::{Fabric, PeerId, SendMemory};
use tx::TxState;

/// Sizes and choices of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes of a fragment of a message that leaves without asking.
    pub fragment: usize,
    /// Bytes of a fragment of a message that was asked for.
    pub rndv_fragment: usize,
    /// These two do not hold: messages have fragments as the fabric of their peer moves them fastest.
    pub by_peer: bool,
    /// Bytes of a fragment of a long message that is logged.
    pub logged_fragment: usize,
    /// Longer messages are announced.
    pub eager_max: usize,
    /// How long messages come, where that can be, if it is not left to the costs.
    pub way: Option<RndvPath>,
    /// Threshold of unexpected bytes of one peer, above which it announces long messages.
    pub unexpected: usize,
    /// Bytes of memory that messages may take here which nobody has received: peers that send more are stopped.
    pub unexpected_max: usize,
}

/// The protocols of one rank: messages, matching, one-sided access and, by its policy, message logging.
///
/// It never waits, reads no clock but [`Clock`], and does no input or output but through the fabric and the
/// policy's host.
pub struct Engine<F, P> {
    /// What moves the bytes.
    pub fabric: F,
    /// What a poll of the fabric works on.
    pub core: Core<P>,
    /// What sending keeps.
    pub tx: TxState,
    /// Loans and buffers.
    pub lending: Lending,
    /// Memory that peers reach.
    pub rma: Rma,
    /// Receives to nowhere, of discarded messages that are still arriving.
    pub(crate) discarding: Vec<u32>,
    /// Sizes and choices, as they were given.
    pub sizes: Sizes,
    /// Progress calls so far, and when the peers were looked at last.
    pub turns: u32,
    /// How many things have happened in them: a wait in which this grows is not in vain.
    pub happened: u64,
    pub(crate) checked: Instant,
}

// SAFETY: raw pointers in requests belong to the caller that started them and vouches for their memory, in
// whatever thread the engine then is; everything else is owned.
unsafe impl<F: Send, P: Send> Send for Engine<F, P> {}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// The engine of a rank in a job of `size`, over a fabric.
    pub fn new(fabric: F, policy: P, size: u32, sizes: Sizes, clock: Clock) -> Self {
        let limits = UnreceivedLimits {
            me: fabric.me().0,
            ranks: size,
            announce: sizes.unexpected,
            memory: sizes.unexpected_max,
        };
        let mut engine = Engine {
            core: Core::new(policy, size, limits, clock),
            tx: TxState::default(),
            lending: Lending::default(),
            rma: Rma::default(),
            discarding: Vec::new(),
            sizes,
            turns: 0,
            happened: 0,
            checked: clock.now(),
            fabric,
        };
        (0..size).for_each(|rank| engine.learn_limits(rank));
        engine
    }

    /// Takes over what the fabric can do for a peer.
    pub(crate) fn learn_limits(&mut self, rank: Rank) {
        let limits = self.fabric.limits(PeerId(rank));
        self.core.peers[rank as usize].set_limits(limits, &self.sizes);
    }

    /// Others may come at any time, and of contexts only the two highest bits are distinguished: an open job.
    pub fn open(&mut self) {
        self.core.immediate = Immediate::OPEN;
        self.core.accepts_new_peers = true;
    }

    /// Whether messages in this context are distinguished from those in others.
    #[inline]
    pub fn tells_context(&self, context: u16) -> bool {
        self.core.immediate.context(context) == context
    }

    /// Drops deferred actions and the backlog: a fuzz target plays the peers, and receives nothing.
    #[cfg(fuzzing)]
    pub fn forget_pending(&mut self) {
        self.tx.clear();
        self.core.deferred.clear();
    }

    /// This rank.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.fabric.me().0
    }

    /// How many ranks the job has.
    #[inline]
    pub fn size(&self) -> u32 {
        self.core.peers.len() as u32
    }

    /// The memory that messages take here which nobody has received, in bytes: what [`Sizes::unexpected_max`] limits.
    pub fn unreceived_bytes(&self) -> usize {
        self.core.flow.memory()
    }
}

/// No eager message is longer than this, whatever the settings say.
pub const EAGER_LIMIT: usize = 1 << 20;

/// The same of a message that is logged: it is copied in any case, and each fragment may leave while the
/// next is copied.
pub const EAGER_LOGGED: usize = 8 << 20;

/// A logged message that is longer than this leaves in long fragments.
pub const LONG_LOGGED: usize = 128 << 10;
