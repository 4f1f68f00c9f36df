//! What the endpoints of jobs stand on: shared memory, and sockets to the ranks of other nodes if there are any.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::Duration;
use taffrail_composite::Composite;
use taffrail_fabric::{
    Arming, Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Lease, Limits, Memory,
    MemoryError, PeerId, Reach, Refused, RegionId, RemoteKey, Segment, SegmentId, SendMemory, Sent,
    Sink, Source, Token, UserBuf, UserBytes, Wait,
};
use taffrail_shm::{ForkGuard, ShmFabric};
use taffrail_tcp::TcpFabric;

/// Shared memory for the ranks of this node, sockets for all others.
type OverNodes = Composite<ShmFabric, TcpFabric>;

/// The fabric of the endpoints that a [`Job`](crate::Job) opens.
///
/// A job whose ranks are all on one node has shared memory alone: a call is one comparison away from it. What concerns
/// several nodes is out of line.
pub struct JobFabric {
    me: PeerId,
    /// That of this fabric, so that what asks on every call need not ask first where the ranks are.
    fork_guard: ForkGuard,
    span: Span,
}

/// Where the ranks of a job are.
///
/// The tag is a byte of its own, since to find it in another field takes more instructions.
#[expect(clippy::large_enum_variant, reason = "on one node a message takes one load less")]
#[repr(u8)]
enum Span {
    Node(ShmFabric),
    Nodes(Box<OverNodes>),
}

impl JobFabric {
    /// Of a job that is on one node.
    ///
    /// # Errors
    /// There is no memory.
    #[doc(hidden)]
    pub fn on_node(shm: ShmFabric) -> Result<JobFabric, MemoryError> {
        Ok(JobFabric { me: shm.me(), fork_guard: ForkGuard::new()?, span: Span::Node(shm) })
    }

    /// Of a job that is on several.
    ///
    /// # Errors
    /// There is no memory.
    #[doc(hidden)]
    pub fn over_nodes(nodes: OverNodes) -> Result<JobFabric, MemoryError> {
        let (me, fork_guard) = (nodes.me(), ForkGuard::new()?);
        Ok(JobFabric { me, fork_guard, span: Span::Nodes(Box::new(nodes)) })
    }

    /// The shared memory of a job that is on one node: every open job is.
    pub(crate) fn shm_mut(&mut self) -> Option<&mut ShmFabric> {
        match &mut self.span {
            Span::Node(shm) => Some(shm),
            Span::Nodes(_) => None,
        }
    }
}

/// One call of the fabric that there is.
macro_rules! there {
    (mut $self:ident, $call:ident $(, $argument:expr)*) => {
        match &mut $self.span {
            Span::Node(shm) => shm.$call($($argument),*),
            Span::Nodes(nodes) => nodes.$call($($argument),*),
        }
    };
    ($self:ident, $call:ident $(, $argument:expr)*) => {
        match &$self.span {
            Span::Node(shm) => shm.$call($($argument),*),
            Span::Nodes(nodes) => nodes.$call($($argument),*),
        }
    };
}

#[cold]
#[inline(never)]
fn send_bytes_over_nodes(
    nodes: &mut OverNodes,
    to: PeerId,
    (kind, context): (u8, u16),
    (seq, tag): (u32, u64),
    bytes: &[u8],
) -> Result<Sent, Refused> {
    nodes.send(to, Head { kind, context, seq, tag }, Source::Bytes(bytes))
}

#[cold]
#[inline(never)]
fn send_over_nodes(
    nodes: &mut OverNodes,
    to: PeerId,
    head: Head,
    source: Source<'_>,
) -> Result<Sent, Refused> {
    nodes.send(to, head, source)
}

#[cold]
#[inline(never)]
fn poll_nodes<S: Sink>(nodes: &mut OverNodes, sink: &mut S) -> usize {
    nodes.poll(sink)
}

impl Fabric for JobFabric {
    const ORDERED: bool = OverNodes::ORDERED && ShmFabric::ORDERED;
    const STREAMS: bool = OverNodes::STREAMS || ShmFabric::STREAMS;
    const LEASES: bool = OverNodes::LEASES || ShmFabric::LEASES;

    #[inline(always)]
    fn me(&self) -> PeerId {
        self.me
    }

    fn limits(&self, peer: PeerId) -> &Limits {
        there!(self, limits, peer)
    }

    #[inline(always)]
    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        match &mut self.span {
            Span::Node(shm) => shm.send(to, head, source),
            Span::Nodes(nodes) => {
                // The answer lies in memory of its own, so that the other arm's stays in registers; and the head of a
                // message of bytes is handed over in parts, since it would be written to memory for both arms.
                let Head { kind, context, seq, tag } = head;
                let sent = match source {
                    Source::Bytes(bytes) => {
                        send_bytes_over_nodes(nodes, to, (kind, context), (seq, tag), bytes)?
                    }
                    source => send_over_nodes(nodes, to, head, source)?,
                };
                Ok(sent)
            }
        }
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        match &mut self.span {
            Span::Node(shm) => shm.poll(sink),
            Span::Nodes(nodes) => poll_nodes(nodes, sink),
        }
    }

    #[inline(always)]
    fn polls_apart(&self) -> bool {
        matches!(self.span, Span::Nodes(_))
    }

    fn poll_apart<S: Sink>(&mut self, sink: &mut S) -> usize {
        match &mut self.span {
            // Polled by `poll` alone.
            Span::Node(_) => 0,
            Span::Nodes(nodes) => nodes.poll(sink),
        }
    }

    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        there!(mut self, check, sink)
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        there!(mut self, disconnect, peer, why);
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        there!(self, drained, peer, of)
    }

    fn flushed(&self, to: PeerId) -> bool {
        there!(self, flushed, to)
    }

    fn abandon_in_child(&mut self) {
        there!(mut self, abandon_in_child);
    }

    fn is_active(&self) -> bool {
        there!(self, is_active)
    }

    fn return_lease(&mut self, lease: Lease) {
        there!(mut self, return_lease, lease);
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        there!(self, incarnation, peer)
    }

    fn linked_incarnation(&self, peer: PeerId) -> Incarnation {
        there!(self, linked_incarnation, peer)
    }

    fn was_linked(&self, peer: PeerId) -> bool {
        there!(self, was_linked, peer)
    }

    fn connect(&mut self, peer: PeerId) {
        there!(mut self, connect, peer);
    }

    fn peer_finished(&mut self, peer: PeerId) {
        there!(mut self, peer_finished, peer);
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        there!(mut self, adopt, segment)
    }

    fn uses(&self, segment: SegmentId) -> bool {
        there!(self, uses, segment)
    }

    fn send_cost(&self, to: PeerId) -> Cost {
        there!(self, send_cost, to)
    }

    fn non_temporal_cost(&self, to: PeerId) -> Option<Cost> {
        there!(self, non_temporal_cost, to)
    }

    #[inline]
    fn non_temporal(&mut self, to: PeerId, yes: bool) {
        there!(mut self, non_temporal, to, yes);
    }

    #[inline(always)]
    fn in_child(&self) -> bool {
        !self.fork_guard.is_parent()
    }

    fn knows(&self, peer: PeerId) -> bool {
        there!(self, knows, peer)
    }

    fn shares_process(&self, peer: PeerId) -> bool {
        there!(self, shares_process, peer)
    }

    fn process_id(&self, peer: PeerId) -> Option<i32> {
        there!(self, process_id, peer)
    }

    fn address_of(&self, peer: PeerId) -> Option<&str> {
        match &self.span {
            Span::Node(shm) => Fabric::address_of(shm, peer),
            Span::Nodes(nodes) => nodes.address_of(peer),
        }
    }

    #[inline]
    fn answers_fast(&self, to: PeerId) -> bool {
        there!(self, answers_fast, to)
    }

    fn reach(&self, peer: PeerId, key: &RemoteKey) -> Reach {
        match &self.span {
            Span::Node(shm) => Fabric::reach(shm, peer, key),
            Span::Nodes(nodes) => nodes.reach(peer, key),
        }
    }

    fn get_cost(&self, from: PeerId, reach: Reach) -> Result<Cost, Denied> {
        there!(self, get_cost, from, reach)
    }

    fn put_cost(&self, to: PeerId, reach: Reach) -> Result<Cost, Denied> {
        there!(self, put_cost, to, reach)
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        there!(mut self, register, memory)
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        there!(mut self, alloc, len)
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        there!(mut self, deregister, region)
    }

    fn key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        there!(mut self, key, to, region, offset)
    }

    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        there!(mut self, bare_key, to, memory)
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        there!(mut self, get, from, key, offset, into, token)
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        there!(mut self, put, to, key, offset, source, token)
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        there!(mut self, map, from, key, len)
    }

    fn footprint(&self) -> usize {
        there!(self, footprint)
    }
}

impl SendMemory for JobFabric {
    fn segment_len(&self) -> usize {
        there!(self, segment_len)
    }

    fn max_segments(&self) -> usize {
        there!(self, max_segments)
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        match &mut self.span {
            Span::Node(shm) => SendMemory::take(shm),
            Span::Nodes(nodes) => SendMemory::take(&mut **nodes),
        }
    }

    fn prepare(&mut self) -> bool {
        there!(mut self, prepare)
    }

    #[inline(always)]
    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        there!(mut self, write, segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        there!(self, read, segment, at, len)
    }

    fn segment(&self, id: SegmentId) -> Segment {
        there!(self, segment, id)
    }

    fn release(&mut self, segment: SegmentId) {
        there!(mut self, release, segment);
    }
}

impl Wait for JobFabric {
    fn arm(&mut self) -> Arming {
        there!(mut self, arm)
    }

    fn disarm(&mut self) {
        there!(mut self, disarm);
    }

    fn sleep(&mut self, limit: Duration) {
        there!(mut self, sleep, limit);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        there!(self, fd)
    }
}
