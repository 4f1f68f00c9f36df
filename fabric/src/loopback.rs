//! The contract of [`Fabric`] in its plainest form: queues under one lock, inside one process.
//!
//! This is the executable specification that a backend's author can step through, and what the
//! conformance suite is tested against: as it should be, and with each of its bad [`Manners`]. It
//! is no transport: every message takes the one lock.

use crate::{
    Arming, Caps, Cost, Denied, Fabric, Fault, Head, MemoryError, Payload, PeerId, Refused,
    RegionId, RemoteKey, Sink, Token,
};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const CAPS: Caps = Caps {
    name: "loopback",
    max_message: 64 << 10,
    inline: 40,
    ordered: true,
    maps: true,
    piece: 16 << 10,
};
/// Messages of one peer that wait at another.
const ROOM: usize = 64;
const COST: Cost = Cost { latency_ns: 1000.0, bytes_per_ns: 5.0 };
const PAGE: usize = 4096;

/// What the network does wrong, to about one event in a hundred. A suite that does not notice is
/// worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Nothing.
    Good,
    /// A message gets lost.
    Lose,
    /// A message overtakes the one before it.
    Reorder,
    /// A message arrives twice.
    Duplicate,
    /// A byte of a long message changes.
    Corrupt,
    /// A message loses its last byte.
    Truncate,
    /// The highest bit of a head's tag is not carried.
    ForgetBit,
    /// A message arrives although its sender was told that there is no room.
    SendWhenBusy,
    /// There is always room.
    NeverBusy,
    /// No room towards one peer means no room towards any.
    AllBusy,
    /// An armed sleeper is not woken.
    LoseWakeUp,
    /// Sleeping does not sleep.
    NeverSleep,
    /// A get or put ends twice.
    CompleteTwice,
    /// A get or put says that it has ended, and never began.
    CompleteOnly,
    /// A get or put moves a byte too many.
    OneByteMore,
    /// Memory can be reached after it was deregistered.
    Linger,
    /// The news of a peer's end overtakes its last message.
    FailEarly,
    /// A peer's end is told twice.
    FailTwice,
    /// A peer's end is not told.
    FailNever,
    /// Recycled memory is not zeroed.
    Dirty,
}

/// A fabric for peers inside one process.
pub struct Loopback {
    me: usize,
    net: Arc<Mutex<Net>>,
    alarm: Arc<OwnedFd>,
}

struct Net {
    seats: Vec<Seat>,
    next_region: u32,
    manners: Manners,
    events: usize,
}

struct Seat {
    inbox: VecDeque<Event>,
    waiting_from: Vec<usize>,
    regions: HashMap<u32, Region>,
    views: Vec<(u32, Arc<Pages>)>,
    alarm: Arc<OwnedFd>,
    armed: bool,
    gone: bool,
}

enum Event {
    Message(PeerId, Head, Vec<u8>),
    Completed(Token, Result<(), Fault>),
    Failed(PeerId, Fault),
}

#[derive(Clone)]
struct Region {
    at: *mut u8,
    len: usize,
    /// Keeps allocated memory; registered memory is the caller's.
    pages: Option<Arc<Pages>>,
}

// SAFETY: the memory is reached under the lock of `Net` only, by raw copies.
unsafe impl Send for Region {}

struct Pages(NonNull<u8>, Layout);

// SAFETY: plain memory, released by whoever drops the last reference.
unsafe impl Send for Pages {}
// SAFETY: as above; no reference to the bytes exists.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated by `alloc` below with this very layout.
        unsafe { dealloc(self.0.as_ptr(), self.1) };
    }
}

/// `n` fabrics connected with each other.
pub fn mesh(n: usize, manners: Manners) -> Vec<Loopback> {
    use rustix::event::{EventfdFlags, eventfd};
    let seat = |_| Seat {
        inbox: VecDeque::new(),
        waiting_from: vec![0; n],
        regions: HashMap::new(),
        views: Vec::new(),
        alarm: Arc::new(
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a descriptor"),
        ),
        armed: false,
        gone: false,
    };
    let seats: Vec<Seat> = (0..n).map(seat).collect();
    let alarms: Vec<_> = seats.iter().map(|seat| seat.alarm.clone()).collect();
    let net = Arc::new(Mutex::new(Net { seats, next_region: 1, manners, events: 0 }));
    let join = |(me, alarm)| Loopback { me, net: net.clone(), alarm };
    alarms.into_iter().enumerate().map(join).collect()
}

impl Net {
    /// Whether the next event is the one that these bad manners spoil.
    fn spoils(&mut self, manners: Manners) -> bool {
        self.events += usize::from(self.manners == manners);
        self.manners == manners && self.events.is_multiple_of(97)
    }

    fn deliver(&mut self, to: usize, event: Event) {
        self.seats[to].inbox.push_back(event);
        if self.seats[to].armed && !self.spoils(Manners::LoseWakeUp) {
            // It fails when the counter is full, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&*self.seats[to].alarm, &1u64.to_ne_bytes());
        }
    }

    fn message(&mut self, from: usize, to: usize, mut head: Head, mut payload: Vec<u8>) {
        if self.spoils(Manners::Lose) {
            return;
        }
        let len = payload.len();
        if len > 100 && self.spoils(Manners::Corrupt) {
            payload[len / 2] ^= 0x10;
        }
        if len > 0 && self.spoils(Manners::Truncate) {
            payload.pop();
        }
        if self.manners == Manners::ForgetBit {
            head.tag &= u64::MAX >> 1;
        }
        let peer = PeerId(from as u32);
        if self.spoils(Manners::Duplicate) {
            self.deliver(to, Event::Message(peer, head, payload.clone()));
            self.seats[to].waiting_from[from] += 1;
        }
        self.deliver(to, Event::Message(peer, head, payload));
        self.seats[to].waiting_from[from] += 1;
        let count = self.seats[to].inbox.len();
        if count > 1 && self.spoils(Manners::Reorder) {
            self.seats[to].inbox.swap(count - 1, count - 2);
        }
    }

    /// Copies `len` bytes between `near` and the memory behind `key`.
    ///
    /// # Safety
    /// `near` is valid for `len` bytes.
    unsafe fn copy(
        &mut self,
        owner: usize,
        key: &RemoteKey,
        offset: u64,
        (near, len, put): (*mut u8, usize, bool),
    ) -> Result<(), Fault> {
        let far = self.find(owner, key, offset, len)?;
        if self.spoils(Manners::CompleteOnly) {
            return Ok(());
        }
        let len = len + usize::from(self.manners == Manners::OneByteMore);
        let (source, target) = if put { (near, far) } else { (far, near) };
        // SAFETY: `near` as promised by the caller, `far` lies inside of a region (`find`).
        unsafe { source.copy_to(target, len) };
        Ok(())
    }

    /// Where the memory behind a key is, if `len` bytes from `offset` on lie inside of its region.
    fn find(
        &self,
        owner: usize,
        key: &RemoteKey,
        offset: u64,
        len: usize,
    ) -> Result<*mut u8, Fault> {
        let (id, start) = parse(key);
        let no = |why: &str| Fault::NoSuchMemory(format!("region {id} of {owner}: {why}"));
        let seat = self.seats.get(owner).ok_or_else(|| no("no such peer"))?;
        let region = seat.regions.get(&id).ok_or_else(|| no("never was, or was deregistered"))?;
        let from = start.checked_add(offset).filter(|&from| from <= region.len as u64);
        let from = from.ok_or_else(|| no("the offset lies outside"))? as usize;
        if len > region.len - from {
            return Err(no(&format!("{len} bytes from {from} on, it has {}", region.len)));
        }
        Ok(region.at.wrapping_add(from))
    }
}

fn parse(key: &RemoteKey) -> (u32, u64) {
    let (id, start) = (&key.0[..4], &key.0[8..16]);
    let id = u32::from_le_bytes(id.try_into().expect("four bytes"));
    (id, u64::from_le_bytes(start.try_into().expect("eight bytes")))
}

impl Loopback {
    fn net(&self) -> MutexGuard<'_, Net> {
        // A test that panics elsewhere must not hide its reason behind a second panic here.
        self.net.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add(&mut self, region: Region) -> RegionId {
        let mut net = self.net();
        let id = net.next_region;
        net.next_region += 1;
        net.seats[self.me].regions.insert(id, region);
        RegionId(id)
    }

    /// # Safety
    /// As [`Fabric::get`] and [`Fabric::put`].
    unsafe fn transfer(
        &mut self,
        peer: PeerId,
        key: &RemoteKey,
        offset: u64,
        near: (*mut u8, usize, bool),
        token: Token,
    ) -> Result<(), Refused> {
        let mut net = self.net();
        if net.seats[peer.index()].gone {
            return Err(Refused::Failed(Fault::Closed));
        }
        // SAFETY: as promised by the caller.
        let result = unsafe { net.copy(peer.index(), key, offset, near) };
        if net.spoils(Manners::CompleteTwice) {
            net.deliver(self.me, Event::Completed(token, result.clone()));
        }
        net.deliver(self.me, Event::Completed(token, result));
        Ok(())
    }
}

impl Fabric for Loopback {
    fn caps(&self) -> &Caps {
        &CAPS
    }

    fn me(&self) -> PeerId {
        PeerId(self.me as u32)
    }

    fn peers(&self) -> usize {
        self.net().seats.len()
    }

    fn send(&mut self, to: PeerId, head: Head, payload: &[u8]) -> Result<(), Refused> {
        self.send_gather(to, head, &[payload])
    }

    fn send_gather(&mut self, to: PeerId, head: Head, parts: &[&[u8]]) -> Result<(), Refused> {
        let got = parts.iter().map(|part| part.len()).sum();
        if got > CAPS.max_message {
            return Err(Refused::TooLong { got, limit: CAPS.max_message });
        }
        let (me, to, mut net) = (self.me, to.index(), self.net());
        if net.seats[to].gone {
            return Err(Refused::Failed(Fault::Closed));
        }
        let full = |seat: &Seat| seat.waiting_from[me] >= ROOM;
        let busy = match net.manners {
            Manners::NeverBusy => false,
            Manners::AllBusy => net.seats.iter().any(full),
            _ => full(&net.seats[to]),
        };
        if !busy || net.spoils(Manners::SendWhenBusy) {
            net.message(me, to, head, parts.concat());
        }
        if busy { Err(Refused::Busy) } else { Ok(()) }
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = Vec::new();
        {
            let mut net = self.net();
            let seat = &mut net.seats[self.me];
            let count = seat.inbox.len().min(16);
            events.extend(seat.inbox.drain(..count));
            for event in &events {
                if let Event::Message(from, ..) = event {
                    seat.waiting_from[from.index()] -= 1;
                }
            }
        }
        let count = events.len();
        for event in events {
            match event {
                Event::Message(from, head, bytes) => sink.message(from, head, Payload::of(&bytes)),
                Event::Completed(token, result) => sink.completed(token, result),
                Event::Failed(peer, why) => sink.failed(peer, why),
            }
        }
        count
    }

    fn check<S: Sink>(&mut self, _: &mut S) -> usize {
        // Peers of the same process tell when they leave; they do not die alone.
        0
    }

    fn send_cost(&self, _: PeerId) -> Cost {
        COST
    }

    fn get_cost(&self, _: PeerId, _: &RemoteKey, _: usize) -> Result<Cost, Denied> {
        Ok(COST)
    }

    fn put_cost(&self, _: PeerId, _: &RemoteKey, _: usize) -> Result<Cost, Denied> {
        Ok(COST)
    }

    unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, MemoryError> {
        Ok(self.add(Region { at, len, pages: None }))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>), MemoryError> {
        let short = || MemoryError::Short {
            what: "memory",
            need: len as u64,
            have: "the allocator has less".into(),
            remedy: "ask for less",
        };
        let layout = Layout::from_size_align(len.max(1), PAGE).map_err(|_| short())?;
        // SAFETY: the layout is not of size 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(short)?;
        if self.net().manners == Manners::Dirty {
            // SAFETY: at least one byte was allocated.
            unsafe { at.as_ptr().write(1) };
        }
        let pages = Some(Arc::new(Pages(at, layout)));
        Ok((self.add(Region { at: at.as_ptr(), len, pages }), at))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        let mut net = self.net();
        let unknown = MemoryError::Unknown { region: region.0, offset: 0 };
        if net.manners == Manners::Linger && net.seats[self.me].regions.contains_key(&region.0) {
            return Ok(());
        }
        net.seats[self.me].regions.remove(&region.0).map(drop).ok_or(unknown)
    }

    fn remote_key(
        &mut self,
        _: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        let unknown = MemoryError::Unknown { region: region.0, offset: offset as u64 };
        let net = self.net();
        let known = net.seats[self.me].regions.get(&region.0).filter(|r| offset <= r.len);
        known.ok_or(unknown)?;
        let mut key = RemoteKey([0; RemoteKey::LEN]);
        key.0[..4].copy_from_slice(&region.0.to_le_bytes());
        key.0[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
        Ok(key)
    }

    fn bare_key(&mut self, _: PeerId, _: *const u8, _: usize) -> Option<RemoteKey> {
        None
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
        // SAFETY: as promised by the caller.
        unsafe { self.transfer(from, key, offset, (into, len, false), token) }
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
        // SAFETY: as promised by the caller; a put only reads from `source`.
        unsafe { self.transfer(to, key, offset, (source.cast_mut(), len, true), token) }
    }

    fn map(&mut self, from: PeerId, key: &RemoteKey, len: usize) -> Result<NonNull<u8>, Denied> {
        let mut net = self.net();
        let denied = |why| Denied { what: "a view", why, remedy: "get the bytes instead" };
        let at = net.find(from.index(), key, 0, len).map_err(|fault| denied(fault.to_string()))?;
        let id = parse(key).0;
        let region = net.seats[from.index()].regions[&id].clone();
        let pages = region.pages.ok_or_else(|| denied("the memory was not allocated".into()))?;
        net.seats[self.me].views.push((id, pages));
        NonNull::new(at).ok_or_else(|| denied("the region is at no address".into()))
    }

    fn unmap(&mut self, _: PeerId, key: &RemoteKey) {
        let mut net = self.net();
        let views = &mut net.seats[self.me].views;
        if let Some(at) = views.iter().position(|&(id, _)| id == parse(key).0) {
            views.swap_remove(at);
        }
    }

    fn arm(&mut self) -> Arming {
        let mut net = self.net();
        let seat = &mut net.seats[self.me];
        seat.armed = seat.inbox.is_empty();
        if seat.armed { Arming::Armed } else { Arming::Ready }
    }

    fn disarm(&mut self) {
        self.net().seats[self.me].armed = false;
        // Empty is as good as read.
        let _ = rustix::io::read(&*self.alarm, &mut [0; 8]);
    }

    fn sleep(&mut self, limit: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if self.net().manners != Manners::NeverSleep {
            let limit = Timespec::try_from(limit).ok();
            // A signal ends the wait early, which callers reckon with.
            let _ = poll(&mut [PollFd::new(&self.alarm, PollFlags::IN)], limit.as_ref());
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let (me, mut net) = (self.me, self.net());
        net.seats[me].gone = true;
        net.seats[me].regions.clear();
        for to in (0..net.seats.len()).filter(|&to| to != me) {
            let news = || Event::Failed(PeerId(me as u32), Fault::Closed);
            match net.manners {
                Manners::FailNever => continue,
                Manners::FailEarly => net.seats[to].inbox.push_front(news()),
                Manners::FailTwice => net.deliver(to, news()),
                _ => {}
            }
            if net.manners != Manners::FailEarly {
                net.deliver(to, news());
            }
        }
    }
}
