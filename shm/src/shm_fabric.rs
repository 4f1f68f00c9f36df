//! [`ShmFabric`]: the [`Fabric`](taffrail_fabric::Fabric) between processes of one node.

mod fabric;
mod polling;
mod sending;

use crate::fork_guard::ForkGuard;
use crate::layout::Layout;
use crate::liveness::{Event, Watch};
use crate::memory::Shared;
use crate::open::PeerSlots;
use crate::outbox::{OutboxAllocator, SEGMENT};
use crate::pair::PeerLink;
use crate::regions::Regions;
use crate::rejoin::RejoinListener;
use crate::ring::INLINE;
use crate::socket::Address;
use crate::sync::{AtomicU32, AtomicU64};
use crate::transfer::Transfers;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use taffrail_fabric::{Cost, Fault, Head, Limits, PeerId};

/// Bytes of the outbox that are fetched for the next message while this one is read. None are fetched behind a
/// payload of this length: often it is a fragment, and the next one is written at once.
pub(crate) const OWN_AHEAD: usize = 16384;

/// The fabric's own kinds of messages.
pub(crate) const ASSIST: u8 = 64;
const GOODBYE: u8 = 65;

/// Rings polled all the time, at most.
const HOT: usize = 8;
/// Messages over a cold ring that make it hot, if there is a place.
const HEAT: u32 = 16;
/// More than a ring holds.
pub(crate) const MAX_SLOTS: usize = 512;
/// Messages taken from one ring before the next has its turn.
const TURN: usize = 32;

/// Whether a message of this kind is for the sink.
#[inline]
fn is_message(kind: u8) -> bool {
    kind < Head::KINDS
}

/// What bytes cost on this host; see [`Config::costs`](crate::Config).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Through the outbox: two copies, overlapped.
    pub outbox: Cost,
    /// The same, copied past the caches.
    pub streaming: Cost,
    /// Out of the peer's memory by the kernel, both sides moving.
    pub kernel: Cost,
    /// Out of the peer's mapped memory.
    pub mapped: Cost,
    /// Bytes of a piece of a long message.
    pub piece: usize,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            outbox: Cost::linear(300.0, 24.0),
            streaming: Cost::linear(450.0, 16.0),
            kernel: Cost::linear(1500.0, 20.0),
            mapped: Cost::linear(200.0, 28.0),
            piece: 16 * 1024,
        }
    }
}

/// The fabric between the processes of one node. Made by [`Setup`](crate::Setup).
pub struct ShmFabric {
    pub(crate) me: PeerId,
    pub(crate) pairs: Vec<PeerLink>,
    /// Peers with rings that every poll reads.
    hot: Vec<PeerId>,
    pub(crate) window: OutboxAllocator,
    /// Segments that [`prepare_kept`](Self::prepare_kept) has in advance.
    pub(crate) ahead: usize,
    pub(crate) transfers: Transfers,
    /// Failed peers that no poll has reported yet, and peers with a call under way.
    pub(crate) failed_peers: Vec<PeerId>,
    armed: *const AtomicU32,
    dirty: *const AtomicU64,
    /// Words of the bitmap that are looked at.
    pub(crate) dirty_words: usize,
    pub(crate) outbox: Shared,
    pub(crate) regions: Regions,
    limits: Limits,
    pub(crate) costs: Costs,
    pub(crate) watch: Watch,
    events: Vec<(u32, Event)>,
    pub(crate) doorbell: OwnedFd,
    /// Somebody asked for the descriptor, so waits have to make it readable.
    fd_wanted: Cell<bool>,
    fork_guard: ForkGuard,
    pub(crate) inbox: Shared,
    pub(crate) layout: Layout,
    /// Where ranks that were started again come in, if they may be.
    pub(crate) listener: Option<RejoinListener>,
    /// The peer slots of an open job.
    pub(crate) peer_slots: Option<Box<PeerSlots>>,
    pub(crate) address: Address,
    /// What peers look for in our memory when they try whether they can read it.
    _cookie: Box<u64>,
}

// SAFETY: the pointers lead into mappings owned by the fabric itself, which is used by one
// thread at a time.
unsafe impl Send for ShmFabric {}

/// What [`Setup`](crate::Setup) has put together.
pub(crate) struct Parts {
    pub(crate) me: PeerId,
    pub(crate) address: Address,
    pub(crate) listener: Option<RejoinListener>,
    pub(crate) peer_slots: Option<Box<PeerSlots>>,
    pub(crate) layout: Layout,
    pub(crate) pairs: Vec<PeerLink>,
    pub(crate) inbox: Shared,
    pub(crate) outbox: Shared,
    /// Segments of the outbox that may be kept from the beginning.
    pub(crate) kept: usize,
    pub(crate) doorbell: OwnedFd,
    pub(crate) watch: Watch,
    pub(crate) costs: Costs,
    pub(crate) fork_guard: ForkGuard,
    pub(crate) cookie: Box<u64>,
}

/// What a fabric can do whose long messages move fastest in pieces of this length.
fn limits(piece: usize) -> Limits {
    let piece = piece.clamp(4096, SEGMENT);
    Limits {
        fabric: "shm",
        max_message: SEGMENT,
        inline: INLINE,
        fragment: piece,
        rndv_fragment: 2 * piece,
        maps: true,
        // What the kernel reads and writes for a peer, it does not ask us about.
        guards: false,
        copies_sends: false,
    }
}

impl ShmFabric {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            me,
            address,
            listener,
            peer_slots,
            layout,
            pairs,
            inbox,
            outbox,
            kept,
            doorbell,
            watch,
            costs,
            fork_guard,
            cookie,
        } = parts;
        // SAFETY: both words lie inside the layout, which is the inbox's size.
        let (armed, dirty) = unsafe {
            (inbox.as_ptr().add(layout.armed()).cast(), inbox.as_ptr().add(layout.dirty(0)).cast())
        };
        let segments = |bytes: usize| (bytes / SEGMENT) as u32;
        let count = segments(outbox.len()) - kept as u32;
        let mut window = OutboxAllocator::new(count, segments(outbox.limit()));
        window.add_spare(kept as u32);
        let is_open = peer_slots.is_some();
        let mut fabric = ShmFabric {
            me,
            pairs,
            hot: Vec::with_capacity(HOT),
            window,
            ahead: 0,
            transfers: Transfers::default(),
            failed_peers: Vec::new(),
            armed,
            dirty,
            dirty_words: if is_open { me.index() / 64 + 1 } else { layout.dirty_words() },
            outbox,
            regions: Regions::default(),
            limits: limits(costs.piece),
            costs,
            watch,
            events: Vec::new(),
            doorbell,
            // Connections and answers are announced by a descriptor only.
            fd_wanted: Cell::new(is_open),
            fork_guard,
            inbox,
            layout,
            listener,
            peer_slots,
            address,
            _cookie: cookie,
        };
        if !is_open && fabric.pairs.len() <= HOT + 1 {
            for r in (0..fabric.pairs.len()).filter(|&r| r != me.index()) {
                fabric.heat_up(PeerId(r as u32));
            }
        }
        fabric
    }

    /// Whether this is still the process that opened the fabric, and not a forked child of it.
    #[inline]
    pub fn is_parent(&self) -> bool {
        self.fork_guard.is_parent()
    }

    /// What became of a peer; `None` while it lives, or is called.
    pub fn fault(&self, peer: PeerId) -> Option<&Fault> {
        self.pairs[peer.index()].cold.fault.as_ref()
    }

    /// How many peers there are, this process included.
    pub fn peers(&self) -> usize {
        self.pairs.len()
    }

    /// Sends a peer that is still connected the goodbye.
    pub(crate) fn say_goodbye(&mut self, to: PeerId) {
        let pair = &mut self.pairs[to.index()];
        if to != self.me && pair.open && pair.writer.has_room(1) {
            pair.writer.put_short(Head { kind: GOODBYE, ..Head::default() }, &[]);
            pair.notify();
        }
    }
}

impl Drop for ShmFabric {
    /// Says goodbye, so that peers need not take this for a failure.
    fn drop(&mut self) {
        if !self.is_parent() {
            return;
        }
        for to in (0..self.pairs.len() as u32).map(PeerId) {
            self.say_goodbye(to);
        }
    }
}
