//! What is left of the contract.

use super::state::{Event, From, Operation};
use super::{Defect, Faulty};
use crate::{
    Arming, Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Lease, Limits, Memory,
    MemoryError, PeerId, Reach, Refused, RegionId, RemoteKey, Segment, SegmentId, SendMemory, Sent,
    Sink, Source, Token, UserBuf, UserBytes, Wait,
};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::Duration;

impl<F: Fabric, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool>
    Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    /// Starts a get or put under a token of our own.
    fn transfer(
        &mut self,
        peer: PeerId,
        token: Token,
        start: impl FnOnce(&mut F, usize, Token) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if self.state.refuses() {
            return Err(Refused::Busy);
        }
        let up = !self.state.ended.contains_key(&peer);
        if up && self.state.spoils(Defect::CompleteOnly) {
            self.state.push(peer, Event::Moved(token, Ok(())));
            return Ok(());
        }
        let more = usize::from(self.state.has(Defect::OneByteMore));
        let own = self.state.start(Operation::Of(peer, token));
        let result = start(&mut self.inner, more, own);
        if result.is_err() {
            self.state.operations.remove(&own);
        }
        result
    }
}

impl<F: Fabric, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool> Fabric
    for Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    const ORDERED: bool = F::ORDERED && IN_ORDER;
    const STREAMS: bool = STREAMING;
    const LEASES: bool = LEASING;

    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        self.send_or_defer(to, head, source)
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.progress(sink, |inner, state| inner.poll(state))
    }

    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.progress(sink, |inner, state| inner.check(state))
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        if self.state.disconnected.insert(peer) {
            self.inner.disconnect(peer, why.clone());
            self.state.drop_messages(peer, &why);
        }
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        if self.state.has(Defect::DrainedEarly) || self.state.has(Defect::DrainedNever) {
            return self.state.has(Defect::DrainedEarly);
        }
        let outgoing = &mut self.state.outgoing.iter();
        let reads = outgoing.any(|one| one.to == peer && matches!(one.from, From::User(..)));
        let writes = self.state.rests.iter().any(|rest| rest.peer == peer);
        !reads && !writes && self.inner.drained(peer, of)
    }

    fn flushed(&self, to: PeerId) -> bool {
        self.state.waiting.get(&to).is_none_or(|&count| count == 0) && self.inner.flushed(to)
    }

    fn abandon_in_child(&mut self) {
        self.inner.abandon_in_child();
    }

    fn is_active(&self) -> bool {
        self.state.is_busy() || self.inner.is_active()
    }

    fn return_lease(&mut self, Lease(lease): Lease) {
        self.state.retire(lease);
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        self.inner.incarnation(peer)
    }

    fn linked_incarnation(&self, peer: PeerId) -> Incarnation {
        self.inner.linked_incarnation(peer)
    }

    fn was_linked(&self, peer: PeerId) -> bool {
        self.inner.was_linked(peer)
    }

    fn connect(&mut self, peer: PeerId) {
        self.inner.connect(peer);
    }

    fn peer_finished(&mut self, peer: PeerId) {
        self.inner.peer_finished(peer);
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        let (region, at, keep) = self.inner.alloc(len)?;
        self.state.regions.insert(region);
        if self.state.has(Defect::Dirty) && len > 0 {
            // SAFETY: at least one byte was allocated, which nobody else has yet.
            unsafe { at.write(1) };
        }
        Ok((region, at, keep))
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        let region = self.inner.register(memory)?;
        self.state.regions.insert(region);
        Ok(region)
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        if self.state.has(Defect::HoldRegion) && !self.state.ended.is_empty() {
            return Err(MemoryError::Unknown { region: region.0, offset: 0 });
        }
        if self.state.has(Defect::Linger) && self.state.regions.contains(&region) {
            return Ok(());
        }
        self.inner.deregister(region)
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        self.transfer(from, token, |inner, more, token| {
            // SAFETY: the caller's promise; by a defect a byte more, in tests that have one.
            let into = unsafe { UserBuf::new(into.as_ptr(), into.len() + more) };
            inner.get(from, key, offset, into, token)
        })
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        self.transfer(to, token, |inner, more, token| {
            // SAFETY: as of `get`.
            let source = unsafe { UserBytes::new(source.as_ptr(), source.len() + more) };
            inner.put(to, key, offset, source, token)
        })
    }

    // All else is done by the fabric below.

    fn me(&self) -> PeerId {
        self.inner.me()
    }

    fn limits(&self, peer: PeerId) -> &Limits {
        self.inner.limits(peer)
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        self.inner.adopt(segment)
    }

    fn uses(&self, segment: SegmentId) -> bool {
        self.inner.uses(segment)
    }

    fn send_cost(&self, to: PeerId) -> Cost {
        self.inner.send_cost(to)
    }

    fn non_temporal_cost(&self, to: PeerId) -> Option<Cost> {
        self.inner.non_temporal_cost(to)
    }

    fn non_temporal(&mut self, to: PeerId, yes: bool) {
        self.inner.non_temporal(to, yes);
    }

    fn in_child(&self) -> bool {
        self.inner.in_child()
    }

    fn knows(&self, peer: PeerId) -> bool {
        self.inner.knows(peer)
    }

    fn shares_process(&self, peer: PeerId) -> bool {
        self.inner.shares_process(peer)
    }

    fn process_id(&self, peer: PeerId) -> Option<i32> {
        self.inner.process_id(peer)
    }

    fn address_of(&self, peer: PeerId) -> Option<&str> {
        self.inner.address_of(peer)
    }

    fn answers_fast(&self, to: PeerId) -> bool {
        self.inner.answers_fast(to)
    }

    fn reach(&self, peer: PeerId, key: &RemoteKey) -> Reach {
        self.inner.reach(peer, key)
    }

    fn get_cost(&self, from: PeerId, reach: Reach) -> Result<Cost, Denied> {
        self.inner.get_cost(from, reach)
    }

    fn put_cost(&self, to: PeerId, reach: Reach) -> Result<Cost, Denied> {
        self.inner.put_cost(to, reach)
    }

    fn key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        self.inner.key(to, region, offset)
    }

    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        self.inner.bare_key(to, memory)
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        self.inner.map(from, key, len)
    }

    fn footprint(&self) -> usize {
        self.inner.footprint()
    }
}

impl<F: SendMemory, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool> SendMemory
    for Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    fn segment_len(&self) -> usize {
        self.inner.segment_len()
    }

    fn max_segments(&self) -> usize {
        self.inner.max_segments()
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        self.inner.take()
    }

    fn prepare(&mut self) -> bool {
        self.inner.prepare()
    }

    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.inner.write(segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.inner.read(segment, at, len)
    }

    fn segment(&self, id: SegmentId) -> Segment {
        self.inner.segment(id)
    }

    fn release(&mut self, segment: SegmentId) {
        self.inner.release(segment);
    }
}

impl<F: Wait, const IN_ORDER: bool, const STREAMING: bool, const LEASING: bool> Wait
    for Faulty<F, IN_ORDER, STREAMING, LEASING>
{
    fn arm(&mut self) -> Arming {
        if self.state.is_busy() {
            return Arming::Ready;
        }
        let arming = self.inner.arm();
        if arming == Arming::Armed && self.state.has(Defect::LoseWakeUp) {
            self.inner.disarm();
            self.state.is_armed_in_name = true;
        }
        arming
    }

    fn disarm(&mut self) {
        self.state.is_armed_in_name = false;
        self.inner.disarm();
    }

    fn sleep(&mut self, limit: Duration) {
        if self.state.has(Defect::NeverSleep) {
            return;
        }
        if std::mem::take(&mut self.state.is_armed_in_name) && self.inner.arm() == Arming::Ready {
            return std::thread::sleep(limit);
        }
        self.inner.sleep(limit);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.inner.fd()
    }
}
