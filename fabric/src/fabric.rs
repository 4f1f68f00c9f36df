//! The trait that a backend implements.

use crate::memory::{Keep, Memory, RegionId, RemoteKey, Segment, SegmentId, UserBuf, UserBytes};
use crate::sink::{Lease, Sink};
use crate::{Cost, Denied, Fault, Head, Incarnation, Limits, MemoryError, PeerId, Refused, Token};
use std::ptr::NonNull;

/// Where the payload of a message comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// One run of bytes, copied or sent before [`send`](Fabric::send) returns.
    Bytes(&'a [u8]),
    /// Several runs, one behind the other, as [`Bytes`](Self::Bytes).
    Parts(&'a [&'a [u8]]),
    /// Bytes of a log segment of this fabric's [`SendMemory`](crate::SendMemory), or of one that it has
    /// [adopted](Fabric::adopt). They stay unchanged until the segment is released, so that they are never copied.
    Log(LogRange),
    /// Bytes that are in the program's memory now, and will be in the log.
    BeforeLog(&'a BeforeLog<'a>),
    /// User memory, which the fabric may read until it says [`Sink::sent`] with this token.
    User(UserBytes, Token),
}

/// Bytes that are sent before they are written into the log, which is done while they are on their way.
///
/// After the fabric has accepted them the caller writes them to `ranges`, before it calls anything of the fabric but
/// [`send`](Fabric::send) and [`SendMemory::write`](crate::SendMemory::write). From then on they are as a [`Source::Log`]: unchanged until the
/// segments are released. `send` itself may read `parts` only: so what it sends and what it copies comes from there, and
/// for the rest it may keep the ranges in place of a copy.
#[derive(Clone, Copy, Debug)]
pub struct BeforeLog<'a> {
    /// The bytes, one part behind the other.
    pub parts: &'a [&'a [u8]],
    /// Where the log will have them, in the same order and of the same length together.
    pub ranges: &'a [LogRange],
}

/// A run of bytes within one log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    /// The segment.
    pub segment: SegmentId,
    /// Offset of the first byte within the segment.
    pub at: usize,
    /// Length in bytes.
    pub len: usize,
}

/// How memory of a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By loads and stores: it is mapped, or can be.
    Mapped,
    /// By the kernel, which copies from one process to the other.
    Kernel,
    /// By a device.
    Device,
}

/// When the source of an accepted message may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// At once. The only answer to all sources but [`Source::User`].
    Now,
    /// When [`Sink::sent`] says so.
    Later,
}

/// A byte mover: what a backend implements and the engine runs on. Seven methods have no default.
///
/// The contract, checked by the conformance suite for every backend (`docs/spec/seam.md`, section 2):
/// - A message arrives once and whole, or not at all. If [`ORDERED`](Self::ORDERED), the messages of one peer
///   arrive in the order in which they were sent.
/// - [`send`](Self::send) never blocks. After [`Refused::Busy`] nothing was sent; polling makes room.
/// - What happens to the link with one peer affects no other peer.
/// - A fabric reports links. Whether a peer is dead, was restarted or has finished is not its business
///   ([`Membership`](crate::Membership)).
pub trait Fabric {
    /// Messages of one peer arrive in the order in which they were sent.
    const ORDERED: bool = true;
    /// Messages may be handed over before all of their bytes are here ([`Body::Stream`](crate::Body::Stream)).
    const STREAMS: bool = false;
    /// Messages may be handed over in buffers that the sink can keep ([`Body::Leased`](crate::Body::Leased)).
    const LEASES: bool = false;

    /// The [`PeerId`] of this process.
    fn me(&self) -> PeerId;

    /// What this fabric can do for a peer. The engine copies what it needs for each message into its own state of
    /// the peer.
    fn limits(&self, peer: PeerId) -> &Limits;

    /// Sends one message of at most [`Limits::max_message`] bytes.
    ///
    /// # Errors
    /// [`Refused::Busy`] when there is no room now, [`Refused::Failed`] when there is no link with the peer,
    /// [`Refused::TooLong`] when the payload is longer than one message may be. Nothing was sent then, and
    /// [`Sink::sent`] is not called.
    ///
    /// # Panics
    /// If a [`Source::Log`] or [`Source::BeforeLog`] names a segment that was released, or bytes outside of it.
    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused>;

    /// Hands everything that arrived or completed to `sink`, up to a bounded number, and returns how many things
    /// those were. Makes progress with gets, puts and sends under way.
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize;

    /// Whether this fabric is to be polled by [`poll_apart`](Self::poll_apart) now instead of [`poll`](Self::poll). For a
    /// fabric with two poll functions, one inlined and one out of line, that needs the latter now. The caller passes each
    /// of them a sink of its own: the call out of line takes the address of its sink, and a sink with an address cannot
    /// stay in registers in the inlined poll.
    fn polls_apart(&self) -> bool {
        false
    }

    /// As [`poll`](Self::poll), out of line. Called only while [`polls_apart`](Self::polls_apart).
    fn poll_apart<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.poll(sink)
    }

    /// Ends all traffic with a peer: it has broken a rule of those above the fabric, or is dead by
    /// [`Membership`](crate::Membership). Nothing of it is handed over afterwards but the completions of what is
    /// under way, and [`LinkEvent::Broken`](crate::LinkEvent::Broken) with this fault, unless the end of the link
    /// was reported before.
    fn disconnect(&mut self, peer: PeerId, why: Fault);

    /// Whether nothing of this incarnation of a peer, and no device on its behalf, can still read or write memory
    /// of this process (*drained-before-reuse*). `false` while the link is up.
    fn drained(&self, peer: PeerId, of: Incarnation) -> bool;

    /// Whether everything that was accepted for a peer is out of this process's hands. What is not is lost when the
    /// fabric is dropped: a process that leaves in good order polls until it is. Always so in fabrics that put
    /// messages where the peer finds them.
    fn flushed(&self, to: PeerId) -> bool {
        let _ = to;
        true
    }

    /// This process is a forked child of the one that opened the fabric: drops all links without a word to peers or
    /// device, which belong to the parent (*abandon-in-child*). The fabric is not used afterwards.
    fn abandon_in_child(&mut self);

    /// Checks that are too slow for every poll, such as system calls that find broken links. To be called
    /// every few milliseconds during a wait. Returns how many things were handed to `sink`.
    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        let _ = sink;
        0
    }

    /// Whether a poll may find something: a link is up or in the making, or there is something to report. A fabric of
    /// which this is `false` is [checked](Self::check) now and then, and not polled.
    fn is_active(&self) -> bool {
        true
    }

    /// Gives back a receive buffer that the sink has [kept](crate::Take::Keep).
    fn return_lease(&mut self, lease: Lease) {
        let Lease(_) = lease;
    }

    /// The incarnation of a peer that the link connects with, or has connected with last. The default is for
    /// fabrics with peers that never restart.
    fn incarnation(&self, peer: PeerId) -> Incarnation {
        let _ = peer;
        Incarnation::default()
    }

    /// The same, of a link that was not [reported](crate::LinkEvent::Up) yet as well: which incarnation
    /// [`disconnect`](Self::disconnect) would mean.
    fn linked_incarnation(&self, peer: PeerId) -> Incarnation {
        self.incarnation(peer)
    }

    /// Whether there is or was a link with this peer. Where it is `false`, nothing of the peer is under way to here: a link
    /// is made when something is sent, by this process or by the peer. The default is for fabrics that are connected with
    /// all peers when they are opened.
    fn was_linked(&self, peer: PeerId) -> bool {
        let _ = peer;
        true
    }

    /// Begins a link with the incarnation of a peer that runs now, as the first send does: this process has something for it, or waits for
    /// something of it. Does nothing where there is a link or one is being made, and where that incarnation was
    /// [disconnected](Self::disconnect). A link with a later incarnation than the one known is reported when it is up. The default
    /// is for fabrics whose peers connect by themselves.
    fn connect(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// By [`Membership`](crate::Membership) this peer has closed its endpoint in good order: what is on its way is still handed
    /// over, and a link with it that is lost, also one that was lost before, ends as closed. For fabrics that make lost links anew.
    fn peer_finished(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// Makes a log segment of another fabric's memory a possible source of sends and gets. Called once for each
    /// segment as the log grows.
    ///
    /// # Errors
    /// [`MemoryError`], saying what was asked for and what there is.
    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        let _ = segment;
        Ok(())
    }

    /// Whether a send or a peer's get still reads this log segment: it must not be written again until then.
    fn uses(&self, segment: SegmentId) -> bool {
        let _ = segment;
        false
    }

    /// Cost of sending a long message in fragments.
    fn send_cost(&self, to: PeerId) -> Cost {
        let _ = to;
        Cost::linear(2000.0, 5.0)
    }

    /// Cost of the same with [non-temporal](Self::non_temporal) copies; `None` where there are none.
    fn non_temporal_cost(&self, to: PeerId) -> Option<Cost> {
        let _ = to;
        None
    }

    /// Whether the next long payload to a peer is copied with non-temporal stores, which is cheaper when the two
    /// processors share no cache.
    fn non_temporal(&mut self, to: PeerId, yes: bool) {
        let _ = (to, yes);
    }

    /// Whether this process is a forked child of the one that opened the fabric, and has nothing to do with it.
    fn in_child(&self) -> bool {
        false
    }

    /// Whether this number has a peer. `false` only in fabrics that number their peers as they connect, for a number
    /// without a peer.
    fn knows(&self, peer: PeerId) -> bool {
        let _ = peer;
        true
    }

    /// Whether a peer is known to be in this process, so that its thread may be the one that waits for it.
    fn shares_process(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }

    /// The process of a peer, while it is connected, if it is to be seen from here.
    fn process_id(&self, peer: PeerId) -> Option<i32> {
        let _ = peer;
        None
    }

    /// The address of a peer, in fabrics that number their peers as they connect; `None` for a number without a peer.
    fn address_of(&self, peer: PeerId) -> Option<&str> {
        let _ = peer;
        None
    }

    /// Whether an answer to the last message sent to a peer is expected within a cache-line handover, so that a
    /// poll before that only disturbs it.
    fn answers_fast(&self, to: PeerId) -> bool {
        let _ = to;
        false
    }

    /// How memory behind a key is reached.
    fn reach(&self, peer: PeerId, key: &RemoteKey) -> Reach {
        let _ = (peer, key);
        Reach::Device
    }

    /// Cost of reading memory of a peer that is reached so, or why that is impossible.
    ///
    /// # Errors
    /// [`Denied`] with the reason, and what would help.
    fn get_cost(&self, from: PeerId, reach: Reach) -> Result<Cost, Denied> {
        let _ = reach;
        Err(self.limits(from).not_offered("get"))
    }

    /// Cost of writing memory of a peer that is reached so, or why that is impossible.
    ///
    /// # Errors
    /// [`Denied`] with the reason, and what would help.
    fn put_cost(&self, to: PeerId, reach: Reach) -> Result<Cost, Denied> {
        let _ = reach;
        Err(self.limits(to).not_offered("put"))
    }

    /// Registers memory of the program, so that peers may get from it and put to it until
    /// [`deregister`](Self::deregister).
    ///
    /// # Errors
    /// [`MemoryError::Kind`] for memory of a kind that this fabric does not reach, such as a GPU's; others say what
    /// was asked for and what there is.
    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        let _ = memory;
        Err(MemoryError::NotOffered { what: "registration" })
    }

    /// Allocates memory that peers reach at the lowest cost this fabric knows, zeroed, aligned to a page at least.
    /// It is given up by [`deregister`](Self::deregister), and unmapped when the last clone of its [`Keep`] is
    /// dropped as well.
    ///
    /// # Errors
    /// [`MemoryError`], saying what was asked for and what there is.
    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        let _ = len;
        Err(MemoryError::NotOffered { what: "allocation" })
    }

    /// Ends a registration. Gets and puts under way on it fail or finish; none touches it later.
    ///
    /// # Errors
    /// [`MemoryError::Unknown`] when there is no such region.
    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        Err(MemoryError::Unknown { region: region.0, offset: 0 })
    }

    /// The key under which `to` reaches `region` from byte `offset` on. The peer can resolve it by the time a
    /// message sent after this call arrives.
    ///
    /// # Errors
    /// [`MemoryError::Unknown`] when there is no such region or the offset lies outside; [`MemoryError::NotOffered`]
    /// when the fabric lets no peer, or not this one, reach memory of this process.
    fn key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        let _ = (to, region, offset);
        Err(MemoryError::NotOffered { what: "keys" })
    }

    /// A key for memory that was never registered, if this fabric can reach such (shared memory can, through the
    /// kernel). `None` where it cannot.
    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        let _ = (to, memory);
        None
    }

    /// Starts to read bytes behind `key`, from byte `offset` on, until `into` is full. [`Sink::moved`] reports the end.
    ///
    /// # Errors
    /// [`Refused`]; nothing was started then.
    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        let _ = (key, offset, into, token);
        Err(self.limits(from).not_offered("get").into())
    }

    /// Starts to write `source` behind `key`, from byte `offset` on. [`Sink::moved`] reports that the peer can see
    /// the bytes.
    ///
    /// # Errors
    /// [`Refused`]; nothing was started then.
    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        let _ = (key, offset, source, token);
        Err(self.limits(to).not_offered("put").into())
    }

    /// A view of `len` bytes of a peer's allocated memory, without moving them. The view stays mapped until the
    /// last clone of its [`Keep`] is dropped, whatever becomes of the peer or of this fabric.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        let _ = (key, len);
        Err(self.limits(from).not_offered("a view"))
    }

    /// Bytes of shared memory that this process provides.
    fn footprint(&self) -> usize {
        0
    }
}
