//! The fabric of one process.

use super::coverage::Situation;
use super::leases::Leases;
use super::ram::{Pages, Span};
use super::segments::Segments;
use super::state::{Content, Net};
use super::transfers::Asked;
use super::{Mutant, Settings};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use taffrail_fabric::{
    Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Lease, Limits, Memory, MemoryError,
    PeerId, Reach, Refused, RegionId, RemoteKey, Segment, SegmentId, SendMemory, Sent, Sink,
    Source, Token, UserBuf, UserBytes,
};

const COST: Cost = Cost::linear(1000.0, 5.0);

/// The fabric of one process of a [`SimNet`](super::SimNet). What it sends arrives, and what it has under way moves,
/// when the schedule says so. Dropped while its process lives, it closes in good order.
pub struct SimFabric<const ORDERED: bool, const STREAMS: bool, const LEASES: bool> {
    net: Rc<RefCell<Net>>,
    pub(super) rank: usize,
    incarnation: u32,
    pub(super) limits: Limits,
    segments: Segments,
    pub(super) leases: Leases,
    is_abandoned: bool,
}

impl<const ORDERED: bool, const STREAMS: bool, const LEASES: bool>
    SimFabric<ORDERED, STREAMS, LEASES>
{
    pub(super) fn new(net: Rc<RefCell<Net>>, rank: usize) -> Self {
        let (limits, segments, incarnation) = {
            let net = net.borrow();
            let Settings { segment_len, max_segments, .. } = net.settings;
            let segments = Segments::new(segment_len, max_segments);
            (net.settings.limits(), segments, net.processes[rank].incarnation)
        };
        let leases = Leases::default();
        SimFabric { net, rank, incarnation, limits, segments, leases, is_abandoned: false }
    }

    /// Runs `f` with the network.
    ///
    /// # Panics
    /// If the process of this fabric is dead.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Net) -> T) -> T {
        let mut net = self.net.borrow_mut();
        let is_ours = net.processes[self.rank].incarnation == self.incarnation;
        assert!(is_ours && net.lives(self.rank), "a dead process has called its fabric");
        f(&mut net)
    }

    fn refused(&self, what: &'static str) -> Denied {
        self.with(|net| net.reach(Situation::GetRefused));
        self.limits.not_offered(what)
    }

    fn start(&mut self, asked: Asked<'_>) -> Result<(), Refused> {
        if self.with(|net| net.settings.reach.is_none()) {
            return Err(self.refused(if asked.is_get { "get" } else { "put" }).into());
        }
        self.with(|net| net.start(asked))
    }

    fn cost(&self, what: &'static str) -> Result<Cost, Denied> {
        match self.with(|net| net.settings.reach) {
            Some(_) => Ok(COST),
            None => Err(self.limits.not_offered(what)),
        }
    }
}

impl<const O: bool, const S: bool, const L: bool> Fabric for SimFabric<O, S, L> {
    const ORDERED: bool = O;
    const STREAMS: bool = S;
    const LEASES: bool = L;

    fn me(&self) -> PeerId {
        PeerId(self.rank as u32)
    }

    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        let (content, token) = match source {
            Source::Bytes(bytes) => (Content::Owned(bytes.to_vec()), None),
            Source::Parts(parts) => (Content::Owned(parts.concat()), None),
            Source::BeforeLog(before) => (Content::Owned(before.parts.concat()), None),
            Source::Log(range) => (self.segments.content(range), None),
            Source::User(bytes, token) => {
                let later = self.with(|net| net.settings.later_from);
                let is_later = later.is_some_and(|from| bytes.len() >= from);
                let content = Content::of_user(Span::of_bytes(bytes));
                (content, is_later.then_some(token))
            }
        };
        let sent = self.with(|net| net.send((self.rank, to.index()), head, content, token))?;
        if let Source::BeforeLog(before) = source {
            self.segments.expect(before);
        }
        Ok(sent)
    }

    fn poll<K: Sink>(&mut self, sink: &mut K) -> usize {
        self.segments.check_promised();
        let most = self.with(|net| net.settings.poll_max);
        let mut count = 0;
        while count < most
            && let Some(ready) = self.with(|net| net.next_ready(self.rank))
        {
            self.hand_over(ready, sink);
            count += 1;
        }
        count
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        self.with(|net| net.disconnect(self.rank, peer.index(), why));
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        self.with(|net| net.is_drained(self.rank, peer.index(), of))
    }

    fn flushed(&self, to: PeerId) -> bool {
        self.with(|net| {
            let flight = &net.channel(self.rank, to.index()).flight;
            !net.settings.holds || flight.is_empty()
        })
    }

    fn abandon_in_child(&mut self) {
        self.is_abandoned = true;
    }

    fn in_child(&self) -> bool {
        self.is_abandoned
    }

    fn return_lease(&mut self, Lease(lease): Lease) {
        self.leases.give_back(lease);
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        self.with(|net| Incarnation(net.end(self.rank, peer.index()).incarnation))
    }

    fn was_linked(&self, peer: PeerId) -> bool {
        self.with(|net| net.was_linked(self.rank, peer.index()))
    }

    fn connect(&mut self, peer: PeerId) {
        self.with(|net| net.ask(self.rank, peer.index()));
    }

    fn linked_incarnation(&self, peer: PeerId) -> Incarnation {
        self.with(|net| net.linked_incarnation(self.rank, peer.index()))
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        self.segments.adopt(segment);
        Ok(())
    }

    fn uses(&self, segment: SegmentId) -> bool {
        self.segments.in_flight(segment)
            || self.with(|net| self.segments.is_reached(segment, net, self.rank))
    }

    fn reach(&self, _: PeerId, _: &RemoteKey) -> Reach {
        self.with(|net| net.settings.reach).unwrap_or(Reach::Device)
    }

    fn send_cost(&self, _: PeerId) -> Cost {
        COST
    }

    fn get_cost(&self, _: PeerId, _: Reach) -> Result<Cost, Denied> {
        self.cost("get")
    }

    fn put_cost(&self, _: PeerId, _: Reach) -> Result<Cost, Denied> {
        self.cost("put")
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        let span = Span::of_buf(memory.expect_host(self.limits.fabric)?);
        Ok(RegionId(self.with(|net| net.add_region(self.rank, span, false))))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        let pages = Pages::new(len).ok_or_else(|| MemoryError::Short {
            what: "memory",
            need: len as u64,
            have: "the allocator has less".into(),
            remedy: "ask for less",
        })?;
        let span = Span::of_pages(&pages, len);
        let region = self.with(|net| net.add_region(self.rank, span, true));
        Ok((RegionId(region), pages.at(), pages))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        self.with(|net| net.deregister(self.rank, region.0))
    }

    fn key(&mut self, to: PeerId, id: RegionId, offset: usize) -> Result<RemoteKey, MemoryError> {
        self.with(|net| {
            let region = net.processes[self.rank].regions.get(&id.0);
            let known = region.is_some_and(|region| offset <= region.span.len());
            match known {
                true => Ok(net.key(to, id.0, offset)),
                false => Err(MemoryError::Unknown { region: id.0, offset: offset as u64 }),
            }
        })
    }

    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        self.with(|net| {
            net.settings.bare_keys.then(|| {
                let region = net.add_region(self.rank, Span::of_bytes(memory), false);
                net.key(to, region, 0)
            })
        })
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        let (by, with, near) = (self.rank, from.index(), Span::of_buf(into));
        self.start(Asked { by, with, key, offset, near, token, is_get: true })
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        let (by, with, near) = (self.rank, to.index(), Span::of_bytes(source));
        self.start(Asked { by, with, key, offset, near, token, is_get: false })
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        if !self.limits.maps {
            return Err(self.refused("a view"));
        }
        let (at, seen) = self.with(|net| net.view((self.rank, from.index()), key, len))?;
        Ok((at, seen))
    }
}

impl<const O: bool, const S: bool, const L: bool> SendMemory for SimFabric<O, S, L> {
    fn segment_len(&self) -> usize {
        self.segments.len()
    }

    fn max_segments(&self) -> usize {
        self.segments.most()
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        let free = self.with(|net| {
            let (reuses, keeps) = (net.has(Mutant::SegmentReused), net.has(Mutant::SegmentKept));
            let free = self.segments.next(|one| {
                let is_used =
                    self.segments.in_flight(one) || self.segments.is_reached(one, net, self.rank);
                reuses || !keeps && !is_used
            });
            if free.is_some() {
                net.reach(Situation::SegmentAgain);
            } else if self.segments.is_full() {
                net.reach(Situation::SegmentsUsedUp);
            }
            free
        });
        match free.is_none() && self.segments.is_full() {
            true => self.segments.none_free(),
            false => Ok(Some(self.segments.take(free))),
        }
    }

    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.segments.write(segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.segments.read(segment, at, len)
    }

    fn release(&mut self, segment: SegmentId) {
        if self.segments.in_flight(segment) {
            self.with(|net| net.reach(Situation::ReleasedInFlight));
        }
        self.segments.release(segment);
    }
}

impl<const O: bool, const S: bool, const L: bool> Drop for SimFabric<O, S, L> {
    fn drop(&mut self) {
        let mut net = self.net.borrow_mut();
        let is_ours = net.processes[self.rank].incarnation == self.incarnation;
        if !self.is_abandoned && is_ours && net.lives(self.rank) {
            net.close(self.rank);
        }
    }
}
