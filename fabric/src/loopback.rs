//! The contract of [`Fabric`] in its plainest form: queues under one lock, inside one process.
//!
//! This is the executable specification that a backend's author can step through, and what the
//! conformance suite is tested against: as it is, and with each [`Defect`](crate::faulty::Defect). It
//! is no transport: every message takes the one lock.

mod log;
mod net;

use log::Log;
use net::{Event, Member, Net, Pages, Region, is_allocated, key_of, parse};

use crate::{
    Arming, BeforeLog, Body, Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Limits,
    LinkEvent, LogRange, Memory, MemoryError, Payload, PeerId, Reach, Refused, RegionId, RemoteKey,
    Segment, SegmentId, SendMemory, Sent, Sink, Source, Token, UserBuf, UserBytes, Wait,
};
use std::alloc::{Layout, alloc_zeroed};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const LIMITS: Limits = Limits {
    fabric: "loopback",
    max_message: 64 << 10,
    inline: 40,
    fragment: 16 << 10,
    rndv_fragment: 32 << 10,
    maps: true,
    guards: true,
    copies_sends: false,
};
/// Messages of one peer that wait at another.
const ROOM: usize = 64;
const COST: Cost = Cost::linear(1000.0, 5.0);
const PAGE: usize = 4096;

/// A fabric for peers inside one process.
pub struct Loopback {
    me: usize,
    net: Arc<Mutex<Net>>,
    alarm: Arc<OwnedFd>,
    log: Log,
    is_abandoned: bool,
}

/// `n` fabrics connected with each other.
pub fn mesh(n: usize) -> Vec<Loopback> {
    use rustix::event::{EventfdFlags, eventfd};
    let member = |_| Member {
        inbox: VecDeque::new(),
        waiting_from: vec![0; n],
        regions: HashMap::new(),
        cut: HashMap::new(),
        notified: HashSet::new(),
        alarm: Arc::new(
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a descriptor"),
        ),
        armed: false,
        gone: None,
        viewers: std::iter::repeat_with(Arc::default).take(n).collect(),
    };
    let members: Vec<Member> = (0..n).map(member).collect();
    let alarms: Vec<_> = members.iter().map(|member| member.alarm.clone()).collect();
    let net = Arc::new(Mutex::new(Net { members, next_region: 1 }));
    let join = |(me, alarm)| Loopback {
        me,
        net: net.clone(),
        alarm,
        log: Log::default(),
        is_abandoned: false,
    };
    alarms.into_iter().enumerate().map(join).collect()
}

/// Ends ranks of a mesh from outside, as the kernel does.
pub struct Reaper(Arc<Mutex<Net>>);

impl Reaper {
    /// This rank is dead: its fabric is not used any more, and has said nothing.
    pub fn kill(&self, rank: PeerId) {
        lock(&self.0).leave(rank.index(), &Fault::Died);
    }
}

fn lock(net: &Mutex<Net>) -> MutexGuard<'_, Net> {
    // A test that panics elsewhere must not hide its reason behind a second panic here.
    net.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Loopback {
    /// What ends ranks of this mesh.
    pub fn reaper(&self) -> Reaper {
        Reaper(self.net.clone())
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        lock(&self.net)
    }

    fn silence(&self) {
        // Empty is as good as read.
        let _ = rustix::io::read(&*self.alarm, &mut [0; 8]);
    }

    fn send_copy(&mut self, to: PeerId, head: Head, payload: Vec<u8>) -> Result<Sent, Refused> {
        let got = payload.len();
        if got > LIMITS.max_message {
            return Err(Refused::TooLong { got, limit: LIMITS.max_message });
        }
        let (me, to, mut net) = (self.me, to.index(), self.net());
        if let Some(fault) = net.apart(me, to) {
            return Err(Refused::Failed(fault));
        }
        if net.members[to].waiting_from[me] >= ROOM {
            return Err(Refused::Busy);
        }
        net.message(me, to, head, payload);
        Ok(Sent::Now)
    }

    fn add(&mut self, region: Region) -> RegionId {
        let mut net = self.net();
        let id = net.next_region;
        net.next_region += 1;
        net.members[self.me].regions.insert(id, region);
        RegionId(id)
    }

    fn transfer(
        &mut self,
        peer: PeerId,
        key: &RemoteKey,
        offset: u64,
        near: (*mut u8, usize, bool),
        token: Token,
    ) -> Result<(), Refused> {
        let mut net = self.net();
        if let Some(fault) = net.apart(self.me, peer.index()) {
            return Err(Refused::Failed(fault));
        }
        // SAFETY: as promised where the memory was named.
        let result = unsafe { net.copy(peer.index(), key, offset, near) };
        net.deliver(self.me, Event::Completed(token, result));
        Ok(())
    }
}

impl Fabric for Loopback {
    fn me(&self) -> PeerId {
        PeerId(self.me as u32)
    }

    fn limits(&self, _: PeerId) -> &Limits {
        &LIMITS
    }

    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        let payload = match source {
            Source::Bytes(bytes) => bytes.to_vec(),
            Source::Parts(parts) | Source::BeforeLog(&BeforeLog { parts, .. }) => parts.concat(),
            Source::Log(range) => self.log.read(range).to_vec(),
            Source::User(bytes, _) => {
                // SAFETY: as promised where the bytes were named.
                unsafe { bytes.as_slice() }.to_vec()
            }
        };
        self.send_copy(to, head, payload)
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = Vec::new();
        {
            let mut net = self.net();
            let member = &mut net.members[self.me];
            let count = member.inbox.len().min(16);
            events.extend(member.inbox.drain(..count));
            for event in &events {
                if let Event::Message(from, ..) = event {
                    member.waiting_from[from.index()] -= 1;
                }
            }
        }
        let count = events.len();
        for event in events {
            match event {
                Event::Message(from, head, bytes) => {
                    let _ = sink.message(from, head, Body::Whole(Payload::of(&bytes)));
                }
                Event::Completed(token, result) => sink.moved(token, result),
                Event::Failed(peer, Fault::Closed) => sink.link(peer, LinkEvent::Closed),
                Event::Failed(peer, why) => sink.link(peer, LinkEvent::Broken(why)),
            }
        }
        count
    }

    fn disconnect(&mut self, peer: PeerId, fault: Fault) {
        let (me, peer, mut net) = (self.me, peer.index(), self.net());
        if net.apart(me, peer).is_none() {
            let member = &mut net.members[me];
            member.cut.insert(peer, fault.clone());
            member.inbox.retain(|e| !matches!(e, Event::Message(from, ..) if from.index() == peer));
            member.waiting_from[peer] = 0;
            net.notify(me, peer, fault);
            net.notify(peer, me, Fault::Closed);
        }
    }

    fn drained(&self, peer: PeerId, _: Incarnation) -> bool {
        let (me, peer, net) = (self.me, peer.index(), self.net());
        // A rank of another node reaches memory by views only: the one that starts a get or put does it, under the lock.
        net.apart(me, peer).is_some() && !net.is_viewed(me, peer)
    }

    fn abandon_in_child(&mut self) {
        self.is_abandoned = true;
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        self.log.adopt(segment);
        Ok(())
    }

    fn send_cost(&self, _: PeerId) -> Cost {
        COST
    }

    fn reach(&self, _: PeerId, key: &RemoteKey) -> Reach {
        if is_allocated(key) { Reach::Mapped } else { Reach::Device }
    }

    fn get_cost(&self, _: PeerId, _: Reach) -> Result<Cost, Denied> {
        Ok(COST)
    }

    fn put_cost(&self, _: PeerId, _: Reach) -> Result<Cost, Denied> {
        Ok(COST)
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        let buf = memory.expect_host(LIMITS.fabric)?;
        Ok(self.add(Region { at: buf.as_ptr(), len: buf.len(), pages: None }))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        let short = || MemoryError::Short {
            what: "memory",
            need: len as u64,
            have: "the allocator has less".into(),
            remedy: "ask for less",
        };
        let layout = Layout::from_size_align(len.max(1), PAGE).map_err(|_| short())?;
        // SAFETY: the layout is not of size 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(short)?;
        let pages = Arc::new(Pages(at, layout));
        let region = Region { at: at.as_ptr(), len, pages: Some(pages.clone()) };
        Ok((self.add(region), at, pages))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        let mut net = self.net();
        let unknown = MemoryError::Unknown { region: region.0, offset: 0 };
        net.members[self.me].regions.remove(&region.0).map(drop).ok_or(unknown)
    }

    fn key(
        &mut self,
        _: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        let unknown = MemoryError::Unknown { region: region.0, offset: offset as u64 };
        let net = self.net();
        let known = net.members[self.me].regions.get(&region.0).filter(|r| offset <= r.len);
        let is_allocated = known.ok_or(unknown)?.pages.is_some();
        Ok(key_of(region.0, offset as u64, is_allocated))
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        self.transfer(from, key, offset, (into.as_ptr(), into.len(), false), token)
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        // A put only reads from there.
        let near = (source.as_ptr().cast_mut(), source.len(), true);
        self.transfer(to, key, offset, near, token)
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        let net = self.net();
        let denied = |why| Denied { what: "a view", why, remedy: "get the bytes instead" };
        let at = net.find(from.index(), key, 0, len).map_err(|fault| denied(fault.to_string()))?;
        let region = parse(key).and_then(|(id, _)| net.members[from.index()].regions.get(&id));
        let pages = region.and_then(|region| region.pages.clone());
        let pages = pages.ok_or_else(|| denied("the memory was not allocated".into()))?;
        let at = NonNull::new(at).ok_or_else(|| denied("the region is at no address".into()))?;
        let viewer = net.members[from.index()].viewers[self.me].clone();
        Ok((at, Arc::new((pages, viewer))))
    }

    fn footprint(&self) -> usize {
        let net = self.net();
        let regions = net.members[self.me].regions.values();
        regions.filter(|region| region.pages.is_some()).map(|region| region.len).sum()
    }
}

impl SendMemory for Loopback {
    fn segment_len(&self) -> usize {
        log::SEGMENT
    }

    fn max_segments(&self) -> usize {
        usize::MAX
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        Ok(Some(self.log.take()))
    }

    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.log.write(segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.log.read(LogRange { segment, at, len })
    }

    fn segment(&self, id: SegmentId) -> Segment {
        self.log.segment(id)
    }

    fn release(&mut self, segment: SegmentId) {
        self.log.release(segment);
    }
}

impl Wait for Loopback {
    fn arm(&mut self) -> Arming {
        let mut net = self.net();
        // A rank that has polled since the alarm rang need not have disarmed.
        self.silence();
        let member = &mut net.members[self.me];
        member.armed = member.inbox.is_empty();
        if member.armed { Arming::Armed } else { Arming::Ready }
    }

    fn disarm(&mut self) {
        self.net().members[self.me].armed = false;
        self.silence();
    }

    fn sleep(&mut self, limit: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec::try_from(limit).ok();
        // A signal ends the wait early, which callers reckon with.
        let _ = poll(&mut [PollFd::new(&self.alarm, PollFlags::IN)], limit.as_ref());
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        self.net().leave(self.me, &Fault::Closed);
    }
}
