//! The line as a [`Fabric`].

use super::{Line, TURN};
use crate::mailbox::MAIL;
use crate::ring::{INLINE, LEAD, slots_for};
use crate::sync::Ordering;
use crate::wait::{self, ON_FD, ON_FUTEX};
use crate::watch::Event;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::Duration;
use taffrail_fabric::{
    Arming, Caps, Cost, Denied, Fabric, Fault, Head, Keep, MemoryError, PeerId, Refused, RegionId,
    RemoteKey, SegmentId, Sink, Token,
};

impl Fabric for Line {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn me(&self) -> PeerId {
        self.me
    }

    fn peers(&self) -> usize {
        self.pairs.len()
    }

    #[inline]
    fn send(&mut self, to: PeerId, head: Head, payload: &[u8]) -> Result<(), Refused> {
        debug_assert!(head.kind < Head::KINDS);
        if payload.len() <= LEAD {
            self.room(to, 1)?;
            let pair = &mut self.pairs[to.index()];
            if payload.len() > MAIL || !pair.mail(head, payload) {
                pair.writer.put_short(head, payload);
                pair.own_ahead(1);
            }
            pair.notify();
            return Ok(());
        }
        self.send_longer(to, head, payload)
    }

    fn send_gather(&mut self, to: PeerId, head: Head, parts: &[&[u8]]) -> Result<(), Refused> {
        debug_assert!(head.kind < Head::KINDS);
        let len = parts.iter().map(|p| p.len()).sum();
        if len > INLINE {
            return self.send_pooled(to, head, parts, len);
        }
        self.room(to, slots_for(len))?;
        let pair = &mut self.pairs[to.index()];
        pair.writer.put_parts(head, parts, len);
        pair.notify();
        Ok(())
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
        if self.unsettled() {
            events += self.settle(sink);
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
        happened += self.open_door(sink);
        happened += self.meet();
        if self.unsettled() {
            happened += self.settle(sink);
        }
        happened
    }

    fn cut_off(&mut self, peer: PeerId, fault: Fault) {
        self.cut(peer, fault);
    }

    fn send_cost(&self, to: PeerId) -> Cost {
        let _ = to;
        self.costs.outbox
    }

    fn get_cost(&self, from: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied> {
        let _ = len;
        self.way(from, key)
    }

    fn put_cost(&self, to: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied> {
        let _ = len;
        self.way(to, key)
    }

    unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, MemoryError> {
        Ok(self.regions.register(at, len))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        self.regions.alloc(len)
    }

    fn keep_segment(&mut self) -> Result<SegmentId, MemoryError> {
        self.keep()
    }

    fn prepare_segment(&mut self) -> bool {
        self.prepare()
    }

    #[inline(always)]
    fn write_segment(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.write_kept(segment, at, bytes);
    }

    fn read_segment(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.kept(segment, at, len)
    }

    #[inline]
    fn send_segment(
        &mut self,
        to: PeerId,
        head: Head,
        segment: SegmentId,
        at: usize,
        len: usize,
    ) -> Result<(), Refused> {
        self.send_kept(to, head, segment, at, len)
    }

    fn give_back_segment(&mut self, segment: SegmentId) {
        self.window.give_back(segment.0);
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        self.give_up(region);
        self.regions.deregister(region, &mut self.pairs)
    }

    fn remote_key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        self.regions.key(region, offset, &mut self.pairs[to.index()])
    }

    fn bare_key(&mut self, to: PeerId, at: *const u8, len: usize) -> Option<RemoteKey> {
        let _ = len;
        let pair = &self.pairs[to.index()];
        (pair.open || pair.is_awaited()).then(|| crate::regions::bare_key(at))
    }

    unsafe fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: *mut u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.start_get(from, key, offset, into, len, token) }
    }

    unsafe fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: *const u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.start_put(to, key, offset, source, len, token) }
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        self.start_map(from, key, len)
    }

    fn arm(&mut self) -> Arming {
        let how = if self.fd_wanted.get() { ON_FD } else { ON_FUTEX };
        // Whoever rang last has put the word back, and nobody else has emptied the eventfd.
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
