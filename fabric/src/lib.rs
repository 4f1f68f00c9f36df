//! What a byte mover under Taffrail can do, what it costs, and the suite that checks it.
//!
//! A [`Fabric`] moves messages of a bounded size to peers and, where it can, reads and writes
//! registered memory of theirs. Everything that has to do with tags, ordering across contexts,
//! protocols for long messages or logging is the engine's business above it; everything that has
//! to do with rings, queue pairs, completion queues and system calls is the fabric's business
//! below it. Capabilities and costs are data ([`Caps`], [`Cost`]), so that the engine chooses a
//! protocol by arithmetic and can explain the choice.
//!
//! Dispatch is static: the engine is generic over the fabric, and a fabric's
//! [`poll`](Fabric::poll) is generic over the [`Sink`] that receives what has arrived.

#![warn(missing_docs)]

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod loopback;

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

mod copying;
mod cost;
mod error;
mod payload;
pub mod words;

pub use copying::{copy, skew};
pub use cost::{BadTable, Caps, Cost, Denied};
pub use error::{Fault, MemoryError, Refused};
pub use payload::Payload;

/// A peer of this fabric: its rank, `0..peers()`.
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

/// Names a get or put until it is [`completed`](Sink::completed). Chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// Names memory registered with, or allocated by, one fabric of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u32);

/// Names a segment of memory that messages leave from, of one fabric of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentId(pub u32);

/// What a peer must hold to reach a region: plain bytes, meaningful to the same kind of fabric only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey(pub [u8; RemoteKey::LEN]);

impl RemoteKey {
    /// Length of a key in bytes.
    pub const LEN: usize = 24;
}

/// Keeps memory mapped as long as it, or a clone of it, is there.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// Receives what [`Fabric::poll`] finds.
pub trait Sink {
    /// A message arrived. `payload` is valid during the call only; it may lie in memory that the
    /// peer can still write, so it is copied first and believed afterwards.
    fn message(&mut self, from: PeerId, head: Head, payload: Payload<'_>);

    /// The get or put named by `token` ended.
    fn completed(&mut self, token: Token, result: Result<(), Fault>);

    /// The peer will neither send nor receive any more. Said once for each peer (and each start of
    /// it), after every message it had handed over whole.
    fn failed(&mut self, peer: PeerId, why: Fault);

    /// A peer that had [`failed`](Self::failed) was started again, as this incarnation, and takes and
    /// sends messages from now on. Nothing of an earlier incarnation comes after this. Only by
    /// fabrics that were opened for that.
    fn restarted(&mut self, peer: PeerId, incarnation: u32) {
        let _ = (peer, incarnation);
    }
}

/// Whether a wait may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// Something is there already: poll instead.
    Ready,
    /// Nothing is there; whatever arrives from now on ends the wait.
    Armed,
}

/// A byte mover: what a backend implements and the engine runs on.
///
/// Contract, checked by the conformance suite for every backend:
/// - Messages from one peer arrive in the order sent, if [`Caps::ordered`]; each exactly once and
///   whole, or not at all.
/// - [`send`](Self::send) never blocks, and after `Ok` the payload may be reused at once. After
///   [`Refused::Busy`] nothing was sent; polling makes room.
/// - A dead peer makes its own traffic fail and no other's.
pub trait Fabric {
    /// What this fabric can do, for all peers alike.
    fn caps(&self) -> &Caps;

    /// This process's own [`PeerId`].
    fn me(&self) -> PeerId;

    /// How many peers there are, this process included.
    fn peers(&self) -> usize;

    /// Sends one message of at most [`Caps::max_message`] bytes.
    ///
    /// # Errors
    /// [`Refused::Busy`] when there is no room now, [`Refused::Failed`] when the peer is gone,
    /// [`Refused::TooLong`] when the payload is longer than one message may be.
    fn send(&mut self, to: PeerId, head: Head, payload: &[u8]) -> Result<(), Refused>;

    /// As [`send`](Self::send), the payload gathered from several places.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_gather(&mut self, to: PeerId, head: Head, parts: &[&[u8]]) -> Result<(), Refused>;

    /// Hands everything that arrived or ended to `sink`, up to some bounded number, and returns
    /// how many things that were. Makes progress with gets and puts under way.
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize;

    /// Slow checks that do not belong into every poll: whether peers live. To be called from time
    /// to time (milliseconds) by whoever waits. Returns how many things it handed to `sink`.
    fn check<S: Sink>(&mut self, sink: &mut S) -> usize;

    /// Ends all traffic with a peer that has broken a rule of those above the fabric.
    /// [`Sink::failed`] is still said, with this fault, unless it was before.
    fn cut_off(&mut self, peer: PeerId, fault: Fault);

    /// What sending a long message to `to` in pieces costs.
    fn send_cost(&self, to: PeerId) -> Cost;

    /// What reading `len` bytes behind `key` costs, or why it cannot be done.
    ///
    /// # Errors
    /// [`Denied`] with the reason, and what would help.
    fn get_cost(&self, from: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied>;

    /// What writing `len` bytes behind `key` costs, or why it cannot be done.
    ///
    /// # Errors
    /// [`Denied`] with the reason, and what would help.
    fn put_cost(&self, to: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied>;

    /// Registers memory of the caller, so that peers may get from and put to it.
    ///
    /// # Errors
    /// [`MemoryError`], saying what was asked for and what there is.
    ///
    /// # Safety
    /// `len` bytes from `at` stay valid until [`deregister`](Self::deregister), and peers may read
    /// and write them at any time until then.
    unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, MemoryError>;

    /// Allocates memory that peers reach at the lowest cost this fabric knows, zeroed, aligned to
    /// a page at least. It is given up by [`deregister`](Self::deregister), and unmapped when the
    /// last clone of its [`Keep`] is dropped as well.
    ///
    /// # Errors
    /// [`MemoryError`], saying what was asked for and what there is.
    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError>;

    /// Takes a segment of the memory that messages leave from: [`Caps::max_message`] bytes, to be
    /// [written](Self::write_segment) and [sent from](Self::send_segment) as often as wanted. It stays
    /// as it is until it is [given back](Self::give_back_segment): this is what a message log is made
    /// of. Of segments that were given back the one that is free the longest comes first.
    ///
    /// # Errors
    /// [`MemoryError::Short`], saying what is in use and what would help.
    fn keep_segment(&mut self) -> Result<SegmentId, MemoryError>;

    /// Does a little of what the next [`keep_segment`](Self::keep_segment) would have to wait for, if one
    /// is to be expected: to be called when there is nothing else to do. Whether anything was done.
    fn prepare_segment(&mut self) -> bool {
        false
    }

    /// Writes into a segment. What of it was sent before must not be written.
    ///
    /// # Panics
    /// If the segment was given back, or the bytes lie outside.
    fn write_segment(&mut self, segment: SegmentId, at: usize, bytes: &[u8]);

    /// Bytes of a segment.
    ///
    /// # Panics
    /// As [`write_segment`](Self::write_segment).
    fn read_segment(&self, segment: SegmentId, at: usize, len: usize) -> &[u8];

    /// As [`send`](Self::send), of bytes in a segment, which are not copied on this side.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Panics
    /// As [`write_segment`](Self::write_segment).
    fn send_segment(
        &mut self,
        to: PeerId,
        head: Head,
        segment: SegmentId,
        at: usize,
        len: usize,
    ) -> Result<(), Refused>;

    /// Gives a segment back. Messages sent from it that are not read yet arrive all the same.
    ///
    /// # Panics
    /// If it was given back before.
    fn give_back_segment(&mut self, segment: SegmentId);

    /// Ends a registration. Gets and puts under way on it fail or finish; none touches it later.
    ///
    /// # Errors
    /// [`MemoryError::Unknown`] when there is no such region.
    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError>;

    /// The key under which `to` reaches `region` from byte `offset` on. Makes sure that the peer
    /// can resolve it by the time a message sent after this call arrives.
    ///
    /// # Errors
    /// [`MemoryError::Unknown`] when there is no such region or the offset lies outside.
    fn remote_key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError>;

    /// A key for memory that was never registered, if this fabric can reach such (shared memory
    /// can, through the kernel). `None` where it cannot.
    fn bare_key(&mut self, to: PeerId, at: *const u8, len: usize) -> Option<RemoteKey>;

    /// Starts to read `len` bytes behind `key`, `offset` bytes in, into `into`.
    /// [`Sink::completed`] tells the end of it.
    ///
    /// # Errors
    /// [`Refused`]; nothing was started then.
    ///
    /// # Safety
    /// `into` is valid for writes of `len` bytes until completion.
    unsafe fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: *mut u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused>;

    /// Starts to write `len` bytes from `source` behind `key`, `offset` bytes in.
    /// [`Sink::completed`] tells that the bytes are there, for the peer to see.
    ///
    /// # Errors
    /// [`Refused`]; nothing was started then.
    ///
    /// # Safety
    /// `source` is valid for reads of `len` bytes until completion.
    unsafe fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: *const u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused>;

    /// Gives a view of `len` bytes of a peer's allocated memory without moving them, if this
    /// fabric can. The view stays mapped until the last clone of its [`Keep`] is dropped, whatever
    /// becomes of the peer or of this fabric.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied>;

    /// Prepares a wait: after [`Arming::Armed`], anything that arrives makes
    /// [`fd`](Self::fd) readable and ends [`sleep`](Self::sleep).
    fn arm(&mut self) -> Arming;

    /// Ends a wait's preparation. Polling does not need it.
    fn disarm(&mut self);

    /// Sleeps until something arrives or `limit` is over. To be called armed.
    fn sleep(&mut self, limit: Duration);

    /// A descriptor that polls readable while armed and something has arrived, or there is something
    /// that [`check`](Self::check) tells of.
    fn fd(&self) -> BorrowedFd<'_>;
}
