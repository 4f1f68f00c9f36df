//! [`ShmFabric`] as a [`Fabric`].

use super::{ShmFabric, TURN};
use crate::liveness::Event;
use crate::outbox::SEGMENT;
use crate::regions::Key;
use crate::sync::Ordering;
use crate::wait::{self, ON_FD, ON_FUTEX};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::Duration;
use taffrail_fabric::{
    Arming, BeforeLog, Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Limits, LogRange,
    Memory, MemoryError, PeerId, Reach, Refused, RegionId, RemoteKey, Segment, SegmentId,
    SendMemory, Sent, Sink, Source, Token, UserBuf, UserBytes, Wait,
};

impl Fabric for ShmFabric {
    #[inline]
    fn me(&self) -> PeerId {
        self.me
    }

    #[inline]
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    #[inline(always)]
    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        debug_assert!(head.kind < Head::KINDS);
        match source {
            Source::Bytes(payload) => self.send_bytes(to, head, payload)?,
            Source::Parts(parts) | Source::BeforeLog(&BeforeLog { parts, .. }) => {
                self.send_parts(to, head, parts)?;
            }
            Source::Log(LogRange { segment, at, len }) => {
                self.send_kept(to, head, segment, at, len)?;
            }
            Source::User(bytes, _) => {
                // SAFETY: as promised where the bytes were named; they are copied before this returns.
                let bytes = unsafe { bytes.as_slice() };
                self.send_bytes(to, head, bytes)?;
            }
        }
        Ok(Sent::Now)
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = 0;
        let mut k = 0;
        while k < self.hot.len() {
            let peer = self.hot[k];
            events += self.drain(peer, TURN, sink);
            // A peer that was cut off is gone from the list, and another stands in its place.
            k += (self.hot.get(k) == Some(&peer)) as usize;
        }
        for word in 0..self.dirty_words {
            // SAFETY: inside the inbox.
            if unsafe { &*self.dirty.add(word) }.load(Ordering::Relaxed) != 0 {
                events += self.sweep(word, sink);
            }
        }
        if self.has_pending() {
            events += self.flush_completions(sink);
        }
        events
    }

    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        self.watch.poll_dead_or_readable(&mut events);
        let mut happened = 0;
        for (rank, event) in events.drain(..) {
            let peer = PeerId(rank);
            self.read_socket(peer);
            if let Event::HungUp = event {
                happened += self.end(peer, sink);
            }
        }
        self.events = events;
        self.regions.retry(&mut self.pairs);
        self.cool_down();
        happened += self.open_listener(sink);
        happened += self.meet();
        if self.has_pending() {
            happened += self.flush_completions(sink);
        }
        happened
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        self.cut(peer, why);
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        // A later incarnation comes in only when nothing of the one before is left.
        self.has_let_go(peer) || self.pairs[peer.index()].cold.incarnation > of.0
    }

    fn abandon_in_child(&mut self) {
        // The fork guard has seen the fork: `drop` says nothing, and what is mapped ends with the child.
        debug_assert!(!self.is_parent());
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        Incarnation(self.pairs[peer.index()].cold.incarnation)
    }

    fn send_cost(&self, _: PeerId) -> Cost {
        self.costs.outbox
    }

    fn non_temporal_cost(&self, _: PeerId) -> Option<Cost> {
        Some(self.costs.streaming)
    }

    #[inline]
    fn non_temporal(&mut self, to: PeerId, yes: bool) {
        self.pairs[to.index()].non_temporal = yes;
    }

    #[inline(always)]
    fn in_child(&self) -> bool {
        !self.is_parent()
    }

    fn knows(&self, peer: PeerId) -> bool {
        self.peer_slots.is_none() || self.address_of(peer).is_some()
    }

    fn shares_process(&self, peer: PeerId) -> bool {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        peer == self.me || self.process_id(peer) == Some(own)
    }

    fn process_id(&self, peer: PeerId) -> Option<i32> {
        let maps = self.pairs.get(peer.index())?.cold.mapped.as_ref()?;
        Some(maps.link.pid()).filter(|&pid| pid > 0)
    }

    fn address_of(&self, peer: PeerId) -> Option<&str> {
        ShmFabric::address_of(self, peer)
    }

    /// An answer to what went into the mailbox comes by mail, too.
    #[inline]
    fn answers_fast(&self, to: PeerId) -> bool {
        self.pairs[to.index()].has_mailed()
    }

    fn reach(&self, peer: PeerId, key: &RemoteKey) -> Reach {
        let is_mapped = peer == self.me || Key::decode(key).is_some_and(|key| key.region != 0);
        if is_mapped { Reach::Mapped } else { Reach::Kernel }
    }

    fn get_cost(&self, from: PeerId, reach: Reach) -> Result<Cost, Denied> {
        self.way(from, reach)
    }

    fn put_cost(&self, to: PeerId, reach: Reach) -> Result<Cost, Denied> {
        self.way(to, reach)
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        let buf = memory.expect_host(self.limits.fabric)?;
        Ok(self.regions.register(buf.as_ptr(), buf.len()))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        self.regions.alloc(len)
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        self.give_up(region);
        self.regions.deregister(region, &mut self.pairs)
    }

    fn key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        self.regions.key(region, offset, &mut self.pairs[to.index()])
    }

    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        let pair = &self.pairs[to.index()];
        (pair.open || pair.is_awaited()).then(|| crate::regions::bare_key(memory.as_ptr()))
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        self.start_get(from, key, offset, into, token)
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        self.start_put(to, key, offset, source, token)
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        self.start_map(from, key, len)
    }

    fn footprint(&self) -> usize {
        self.inbox.len() + self.outbox.len() + self.regions.allocated()
    }
}

impl SendMemory for ShmFabric {
    fn segment_len(&self) -> usize {
        SEGMENT
    }

    fn max_segments(&self) -> usize {
        self.outbox.limit() / SEGMENT
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        self.take_kept()
    }

    fn prepare(&mut self) -> bool {
        self.prepare_kept()
    }

    #[inline(always)]
    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.write_kept(segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.kept(segment, at, len)
    }

    fn segment(&self, id: SegmentId) -> Segment {
        self.kept_segment(id)
    }

    fn release(&mut self, segment: SegmentId) {
        self.window.give_back(segment.0);
    }
}

impl Wait for ShmFabric {
    fn arm(&mut self) -> Arming {
        let how = if self.fd_wanted.get() { ON_FD } else { ON_FUTEX };
        // The last peer that rang has cleared the word, and only this process empties the eventfd.
        self.silence();
        self.armed().store(how, Ordering::SeqCst);
        crate::wait::fence_writers();
        if self.anything() {
            self.disarm();
            return Arming::Ready;
        }
        Arming::Armed
    }

    fn disarm(&mut self) {
        if self.armed().swap(0, Ordering::SeqCst) != ON_FUTEX {
            self.silence();
        }
    }

    fn sleep(&mut self, limit: Duration) {
        match self.armed().load(Ordering::Acquire) {
            ON_FUTEX => wait::sleep(self.armed(), limit),
            ON_FD => wait::sleep_on(self.watch.fd(), limit),
            _ => {}
        }
        self.disarm();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        if !self.fd_wanted.replace(true) {
            // A wait that was prepared before anybody asked is to make it readable as well.
            let armed = self.armed();
            let _ = armed.compare_exchange(ON_FUTEX, ON_FD, Ordering::SeqCst, Ordering::SeqCst);
        }
        self.watch.fd()
    }
}
