//! The composite as a [`Fabric`]: each call goes to the fabric of the peer's route.

use super::{Composite, FAR_RAIL, NEAR_RAIL};
use crate::leases::Side;
use crate::mutant::Mutant;
use crate::regions::{Region, under};
use crate::routes::Route;
use crate::side::NearSink;
use std::ptr::NonNull;
use taffrail_fabric::{
    Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Lease, Limits, Memory, MemoryError,
    PeerId, Reach, Refused, RegionId, RemoteKey, Segment, SegmentId, Sent, Sink, Source, Token,
    UserBuf, UserBytes,
};

/// One call for a peer, to the fabric of its route, which has a name for the peer.
macro_rules! routed {
    ($self:ident, $peer:ident, $call:ident $(, $argument:expr)*) => {
        match $self.names.routes.of($peer) {
            Route::Near(number) => $self.near.$call(number $(, $argument)*),
            Route::Far => $self.far.$call($peer $(, $argument)*),
        }
    };
}

impl<Near: Fabric, Far: Fabric> Fabric for Composite<Near, Far> {
    const ORDERED: bool = Near::ORDERED && Far::ORDERED;
    const STREAMS: bool = Near::STREAMS || Far::STREAMS;
    const LEASES: bool = Near::LEASES || Far::LEASES;

    #[inline]
    fn me(&self) -> PeerId {
        self.me
    }

    #[inline]
    fn limits(&self, peer: PeerId) -> &Limits {
        routed!(self, peer, limits)
    }

    #[inline(always)]
    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        match self.names.routes.of(to) {
            Route::Near(number) => self.near.send(number, head, source),
            Route::Far => {
                // The answer lies in memory of its own, so that the near fabric's stays in registers.
                let sent = self.send_far(to, head, source)?;
                Ok(sent)
            }
        }
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = self.near.poll(&mut NearSink::<S, Near, Far>::new(sink, &mut self.names));
        if self.is_far_active || Mutant::FarWithoutLink.lives() {
            events += self.poll_far(events, sink);
        }
        events
    }

    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = self.near.check(&mut NearSink::<S, Near, Far>::new(sink, &mut self.names));
        if !self.watch.is_for_both() {
            return events;
        }
        if !self.is_far_active {
            // Nobody else finds that a peer connects.
            self.names.has_changed = true;
        }
        // Those that the near fabric has reported are refused as well.
        events += self.with_far(sink, |far, sink| far.poll(sink) + far.check(sink));
        events
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        if Mutant::DisconnectNear.lives() {
            return self.near.disconnect(peer, why);
        }
        match self.names.routes.of(peer) {
            Route::Near(number) => self.near.disconnect(number, why),
            Route::Far => {
                self.far.disconnect(peer, why);
                // It has that to report.
                self.far_has_something();
            }
        }
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        let before = self.names.routes.before(peer);
        let is_drained = before.is_none_or(|number| self.near.drained(number, of));
        match self.names.routes.of(peer) {
            Route::Far if Mutant::DrainedAtOnce.lives() => true,
            _ => is_drained && routed!(self, peer, drained, of),
        }
    }

    fn flushed(&self, to: PeerId) -> bool {
        match self.names.routes.of(to) {
            Route::Far if Mutant::FlushedAtOnce.lives() => true,
            _ => routed!(self, to, flushed),
        }
    }

    fn abandon_in_child(&mut self) {
        self.near.abandon_in_child();
        self.far.abandon_in_child();
    }

    fn is_active(&self) -> bool {
        self.near.is_active() || self.far.is_active()
    }

    fn return_lease(&mut self, lease: Lease) {
        let (side, lease) = match (Near::LEASES, Far::LEASES) {
            (true, true) => self.names.leases.remove(lease),
            (true, false) => (Side::Near, lease),
            (false, _) => (Side::Far, lease),
        };
        match (side == Side::Near) != Mutant::LeaseToOther.lives() {
            true => self.near.return_lease(lease),
            false => self.far.return_lease(lease),
        }
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        // Of a rank that was of this node the last link may be that one.
        let before = self.names.routes.before(peer).map(|number| self.near.incarnation(number));
        before.unwrap_or_default().max(routed!(self, peer, incarnation))
    }

    fn linked_incarnation(&self, peer: PeerId) -> Incarnation {
        let before =
            self.names.routes.before(peer).map(|number| self.near.linked_incarnation(number));
        before.unwrap_or_default().max(routed!(self, peer, linked_incarnation))
    }

    fn was_linked(&self, peer: PeerId) -> bool {
        self.names.routes.before(peer).is_some() || routed!(self, peer, was_linked)
    }

    fn connect(&mut self, peer: PeerId) {
        routed!(self, peer, connect);
        self.far_has_something();
    }

    fn peer_finished(&mut self, peer: PeerId) {
        routed!(self, peer, peer_finished);
        // It may have that to report.
        self.far_has_something();
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        self.near.adopt(segment)?;
        self.far.adopt(segment)
    }

    fn uses(&self, segment: SegmentId) -> bool {
        self.near.uses(segment) || self.far.uses(segment)
    }

    fn send_cost(&self, to: PeerId) -> Cost {
        routed!(self, to, send_cost)
    }

    fn non_temporal_cost(&self, to: PeerId) -> Option<Cost> {
        routed!(self, to, non_temporal_cost)
    }

    #[inline]
    fn non_temporal(&mut self, to: PeerId, yes: bool) {
        routed!(self, to, non_temporal, yes);
    }

    #[inline(always)]
    fn in_child(&self) -> bool {
        self.near.in_child() || self.far.in_child()
    }

    fn knows(&self, peer: PeerId) -> bool {
        routed!(self, peer, knows)
    }

    fn shares_process(&self, peer: PeerId) -> bool {
        routed!(self, peer, shares_process)
    }

    fn process_id(&self, peer: PeerId) -> Option<i32> {
        routed!(self, peer, process_id)
    }

    fn address_of(&self, peer: PeerId) -> Option<&str> {
        routed!(self, peer, address_of)
    }

    #[inline]
    fn answers_fast(&self, to: PeerId) -> bool {
        routed!(self, to, answers_fast)
    }

    fn reach(&self, peer: PeerId, key: &RemoteKey) -> Reach {
        match self.resolve(peer, key) {
            Ok((Route::Near(number), key)) => self.near.reach(number, &key),
            Ok((Route::Far, key)) => self.far.reach(peer, &key),
            Err(_) => Reach::Device,
        }
    }

    fn get_cost(&self, from: PeerId, reach: Reach) -> Result<Cost, Denied> {
        routed!(self, from, get_cost, reach)
    }

    fn put_cost(&self, to: PeerId, reach: Reach) -> Result<Cost, Denied> {
        routed!(self, to, put_cost, reach)
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        let (near, far) = (self.near.register(memory), self.far.register(memory));
        match (near, far) {
            (Err(why), Err(_)) => Err(why),
            (near, far) => Ok(self.regions.add(Region { near, far })),
        }
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        let (near, at, keep) = self.near.alloc(len)?;
        // SAFETY: the near fabric keeps it mapped until it is deregistered, and this one deregisters both.
        let memory = Memory::host(unsafe { UserBuf::new(at.as_ptr(), len) });
        let far = self.far.register(memory);
        Ok((self.regions.add(Region { near: Ok(near), far }), at, keep))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        let Region { near, far } = self.regions.remove(region)?;
        // The near fabric may have the memory that the far one reads.
        let far = match far {
            Ok(far) if !Mutant::RegionLeft.lives() => self.far.deregister(far),
            _ => Ok(()),
        };
        let near = near.map_or(Ok(()), |near| self.near.deregister(near));
        far.and(near).map_err(under(region))
    }

    fn key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        let both = self.regions.get(region, offset as u64)?;
        let key = match self.names.routes.of(to) {
            Route::Near(number) => self.near.key(number, both.near.clone()?, offset),
            Route::Far if Mutant::KeyOfOtherFabric.lives() => {
                self.near.key(PeerId(0), both.near.clone()?, offset).map(of_far_rail)
            }
            Route::Far => self.far.key(to, both.far.clone()?, offset).map(of_far_rail),
        };
        key.map_err(under(region))
    }

    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        match self.names.routes.of(to) {
            Route::Near(number) => self.near.bare_key(number, memory),
            Route::Far => self.far.bare_key(to, memory).map(of_far_rail),
        }
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        match self.resolve(from, key)? {
            (Route::Near(number), key) => self.near.get(number, &key, offset, into, token),
            (Route::Far, key) => self.far.get(from, &key, offset, into, token),
        }
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        match self.resolve(to, key)? {
            (Route::Near(number), key) => self.near.put(number, &key, offset, source, token),
            (Route::Far, key) => self.far.put(to, &key, offset, source, token),
        }
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        match self.resolve(from, key)? {
            (Route::Near(number), key) => self.near.map(number, &key, len),
            (Route::Far, key) => self.far.map(from, &key, len),
        }
    }

    fn footprint(&self) -> usize {
        self.near.footprint() + self.far.footprint()
    }
}

/// A key of the far fabric, under a rail that the near one does not have.
fn of_far_rail(key: RemoteKey) -> RemoteKey {
    match Mutant::KeyOfWrongRail.lives() {
        true => key.on_rail(NEAR_RAIL),
        false => key.on_rail(key.rail() + FAR_RAIL),
    }
}
