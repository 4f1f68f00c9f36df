//! The engine: protocols over a fabric, a piece in each file.
//!
//! Down: [`send`] decides how a message leaves, [`policy::tx`] what is kept of it, [`tx_queue`] when; up: [`core`] matches
//! what arrives, and [`fetch`] moves what was only announced. [`progress`] polls and sends. [`call`] takes a call of
//! the program as far as it gets: nothing here waits.

pub(crate) mod active;
pub(crate) mod answer;
pub(crate) mod atomic;
pub(crate) mod call;
pub(crate) mod channels;
pub(crate) mod claim;
pub(crate) mod core;
pub(crate) mod departures;
pub(crate) mod direct;
pub(crate) mod fetch;
pub(crate) mod finalize;
pub(crate) mod immediate;
pub(crate) mod kind;
pub(crate) mod loan;
pub(crate) mod log;
pub(crate) mod multi;
pub(crate) mod named;
pub(crate) mod one_sided;
pub(crate) mod peer;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod receive;
pub(crate) mod request;
pub(crate) mod send;
pub(crate) mod sink;
pub(crate) mod spin;
pub(crate) mod store;
pub(crate) mod tx_queue;
pub(crate) mod view;
pub(crate) mod ways;

#[cfg(test)]
mod tests;

use crate::Rank;
use crate::clock::Clock;
use channels::Channels;
use core::Core;
use loan::{Back, Return};
use named::Named;
use policy::Policy;
use pool::{Block, Pool};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use taffrail_fabric::{Fabric, SendMemory};
use ways::Way;

/// Sizes and choices of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes of a piece of a message that leaves without asking.
    pub(crate) piece: usize,
    /// Bytes of a piece of a message that was asked for.
    pub(crate) long_piece: usize,
    /// Bytes of a piece of a long message that is logged.
    pub(crate) logged_piece: usize,
    /// Longer messages are announced.
    pub(crate) eager_max: usize,
    /// How long messages come, where that can be, if it is not left to the costs.
    pub(crate) way: Option<Way>,
    /// Unexpected bytes of one peer above which it is told to announce.
    pub(crate) unexpected: usize,
}

/// The protocols of one rank: messages, matching, one-sided access and, by its policy, message logging.
///
/// It never waits, reads no clock but [`Clock`], and does no input or output but through the fabric and the
/// policy's host.
pub(crate) struct Engine<F, P> {
    pub(crate) fabric: F,
    pub(crate) core: Core<P>,
    pub(crate) channels: Channels,
    /// Ranks that frames or fragments wait to be sent to.
    pub(crate) peers_with_backlog: Vec<Rank>,
    /// Bytes of long messages sent without asking since the last poll for that reason.
    pub(crate) bytes_since_poll: usize,
    pub(crate) back: Arc<Back>,
    /// Empty: the memory in which `back` collects next.
    pub(crate) came_back: Vec<Return>,
    pub(crate) pool: Pool,
    /// Our loans that are out: to whom, and what.
    pub(crate) loans: FxHashMap<u64, (Rank, Block)>,
    pub(crate) last_loan: u64,
    /// Receives to nowhere, of discarded messages that are still arriving.
    pub(crate) discarding: Vec<u32>,
    /// Memory that peers may reach by [`RemoteMemory`](one_sided::RemoteMemory).
    pub(crate) registered: HashMap<u32, (Exposed, usize)>,
    /// Memory that peers may reach by a name.
    pub(crate) named: FxHashMap<u64, Named>,
    pub(crate) sizes: Sizes,
    /// Messages of up to this many bytes leave whole, without asking.
    pub(crate) short: usize,
    /// Progress calls so far, and when the peers were looked at last.
    pub(crate) turns: u32,
    pub(crate) checked: Instant,
}

/// The address of registered memory.
#[derive(Clone, Copy)]
pub(crate) struct Exposed(pub(crate) *mut u8);

// SAFETY: whoever registers memory vouches for it, for any thread that has the engine.
unsafe impl Send for Exposed {}

// SAFETY: raw pointers in requests belong to whoever started them and vouches for their memory, in
// whatever thread the engine then is; everything else is owned.
unsafe impl<F: Send, P: Send> Send for Engine<F, P> {}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// The engine of a rank in a job of `size`, over a fabric.
    pub(crate) fn new(fabric: F, policy: P, size: u32, sizes: Sizes, clock: Clock) -> Self {
        Engine {
            core: Core::new(policy, size, sizes.unexpected, clock),
            channels: Channels::new(size),
            peers_with_backlog: Vec::new(),
            bytes_since_poll: 0,
            back: Arc::new(Back::default()),
            came_back: Vec::new(),
            pool: Pool::default(),
            loans: FxHashMap::default(),
            last_loan: 0,
            discarding: Vec::new(),
            registered: HashMap::new(),
            named: FxHashMap::default(),
            short: sizes.piece.min(sizes.eager_max),
            sizes,
            turns: 0,
            checked: clock.now(),
            fabric,
        }
    }

    /// This rank.
    #[inline]
    pub(crate) fn rank(&self) -> Rank {
        self.fabric.me().0
    }

    /// How many ranks the job has.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.core.peers.len() as u32
    }
}

/// No eager message is longer than this, whatever the settings say.
pub(crate) const EAGER_LIMIT: usize = 1 << 20;

/// The same of a message that is logged: it is copied in any case, and each piece may leave while the
/// next is copied.
pub(crate) const EAGER_LOGGED: usize = 8 << 20;

/// A logged message that is longer than this leaves in long pieces.
pub(crate) const LONG_LOGGED: usize = 128 << 10;
