//! A simulated fabric for the suite: polls drive the schedule, and a lock stands around it, for the suite uses threads.

use fastrand::Rng;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use taffrail_fabric::conformance::Bench;
use taffrail_fabric::{
    Arming, Cost, Denied, Fabric, Fault, Head, Incarnation, Keep, Lease, Limits, Memory,
    MemoryError, PeerId, Reach, Refused, RegionId, RemoteKey, Segment, SegmentId, SendMemory, Sent,
    Sink, Source, Token, UserBuf, UserBytes, Wait,
};
use taffrail_sim::fabric::{Settings, SimFabric, SimNet};

/// Steps that one poll does at the most.
const STEPS_MAX: usize = 6;

/// Meshes so far: each has a schedule of its own.
static MESHES: AtomicU64 = AtomicU64::new(0);

/// A network that polls drive.
struct Shared<const O: bool, const S: bool, const L: bool> {
    net: SimNet<O, S, L>,
    random: Rng,
    armed: Vec<bool>,
    alarms: Vec<Arc<OwnedFd>>,
}

impl<const O: bool, const S: bool, const L: bool> Shared<O, S, L> {
    /// Makes some random steps of the possible ones. Returns their number.
    fn drive(&mut self) -> usize {
        let steps = self.net.calm();
        if steps.is_empty() {
            return 0;
        }
        let most = self.random.usize(..=STEPS_MAX);
        (0..most).filter(|_| self.net.step(steps[self.random.usize(..steps.len())])).count()
    }

    /// Wakes processes that are armed and have something to do.
    fn wake(&mut self) {
        for (rank, alarm) in self.alarms.iter().enumerate() {
            if self.armed[rank] && self.net.concerns(rank) {
                // It fails when the counter is full, and then the descriptor is readable anyway.
                let _ = rustix::io::write(&**alarm, &1u64.to_ne_bytes());
            }
        }
        let violations = self.net.violations();
        assert!(violations.is_empty(), "{violations:?}");
    }
}

pub struct Driven<const O: bool, const S: bool, const L: bool> {
    rank: usize,
    limits: Limits,
    fabric: ManuallyDrop<SimFabric<O, S, L>>,
    shared: Arc<Mutex<Held<O, S, L>>>,
    alarm: Arc<OwnedFd>,
}

/// What is behind the lock, last handle on the network included.
struct Held<const O: bool, const S: bool, const L: bool>(Shared<O, S, L>);

// SAFETY: all handles on a network (`Shared::net`, `Driven::fabric`) are used, cloned and dropped under the one lock
// of the mesh, but the last: it is dropped with the lock itself, when no `Driven` is left.
unsafe impl<const O: bool, const S: bool, const L: bool> Send for Held<O, S, L> {}
// SAFETY: as above.
unsafe impl<const O: bool, const S: bool, const L: bool> Send for Driven<O, S, L> {}

impl<const O: bool, const S: bool, const L: bool> Driven<O, S, L> {
    fn lock(shared: &Mutex<Held<O, S, L>>) -> MutexGuard<'_, Held<O, S, L>> {
        // A test that panics elsewhere must not hide its reason behind a second panic here.
        shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn read<T>(&self, f: impl FnOnce(&SimFabric<O, S, L>) -> T) -> T {
        let _held = Self::lock(&self.shared);
        f(&self.fabric)
    }

    fn call<T>(&mut self, f: impl FnOnce(&mut SimFabric<O, S, L>) -> T) -> T {
        let mut held = Self::lock(&self.shared);
        let result = f(&mut self.fabric);
        held.0.wake();
        result
    }
}

impl<const O: bool, const S: bool, const L: bool> Drop for Driven<O, S, L> {
    fn drop(&mut self) {
        let mut held = Self::lock(&self.shared);
        // SAFETY: it is not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.fabric) };
        if !std::thread::panicking() {
            held.0.wake();
        }
    }
}

/// A bench of networks with these settings.
pub struct Simulated<const O: bool, const S: bool, const L: bool>(pub Settings);

impl<const O: bool, const S: bool, const L: bool> Bench for Simulated<O, S, L> {
    type Fabric = Driven<O, S, L>;

    fn mesh(&self, n: usize) -> Vec<Self::Fabric> {
        let net = SimNet::new(n, self.0.clone());
        let fabrics: Vec<_> = (0..n).map(|rank| net.open(rank)).collect();
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let alarms: Vec<_> =
            (0..n).map(|_| Arc::new(eventfd(0, flags).expect("a descriptor"))).collect();
        let random = Rng::with_seed(MESHES.fetch_add(1, Ordering::Relaxed));
        let shared = Shared { net, random, armed: vec![false; n], alarms: alarms.clone() };
        let shared = Arc::new(Mutex::new(Held(shared)));
        let join = |((rank, fabric), alarm): ((usize, SimFabric<O, S, L>), _)| Driven {
            rank,
            limits: fabric.limits(PeerId(0)).clone(),
            fabric: ManuallyDrop::new(fabric),
            shared: shared.clone(),
            alarm,
        };
        fabrics.into_iter().enumerate().zip(alarms).map(join).collect()
    }
}

impl<const O: bool, const S: bool, const L: bool> Fabric for Driven<O, S, L> {
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
        self.call(|fabric| fabric.send(to, head, source))
    }

    fn poll<K: Sink>(&mut self, sink: &mut K) -> usize {
        let mut held = Self::lock(&self.shared);
        let steps = held.0.drive();
        let count = self.fabric.poll(sink);
        held.0.wake();
        steps + count
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        self.call(|fabric| fabric.disconnect(peer, why));
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        self.read(|fabric| fabric.drained(peer, of))
    }

    fn flushed(&self, to: PeerId) -> bool {
        self.read(|fabric| fabric.flushed(to))
    }

    fn abandon_in_child(&mut self) {
        self.call(Fabric::abandon_in_child);
    }

    fn return_lease(&mut self, lease: Lease) {
        self.call(|fabric| fabric.return_lease(lease));
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        self.read(|fabric| fabric.incarnation(peer))
    }

    fn linked_incarnation(&self, peer: PeerId) -> Incarnation {
        self.read(|fabric| fabric.linked_incarnation(peer))
    }

    fn was_linked(&self, peer: PeerId) -> bool {
        self.read(|fabric| fabric.was_linked(peer))
    }

    fn connect(&mut self, peer: PeerId) {
        self.call(|fabric| fabric.connect(peer));
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        self.call(|fabric| fabric.adopt(segment))
    }

    fn uses(&self, segment: SegmentId) -> bool {
        self.read(|fabric| fabric.uses(segment))
    }

    fn reach(&self, peer: PeerId, key: &RemoteKey) -> Reach {
        self.read(|fabric| fabric.reach(peer, key))
    }

    fn get_cost(&self, from: PeerId, reach: Reach) -> Result<Cost, Denied> {
        self.read(|fabric| fabric.get_cost(from, reach))
    }

    fn put_cost(&self, to: PeerId, reach: Reach) -> Result<Cost, Denied> {
        self.read(|fabric| fabric.put_cost(to, reach))
    }

    fn register(&mut self, memory: Memory) -> Result<RegionId, MemoryError> {
        self.call(|fabric| fabric.register(memory))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        self.call(|fabric| fabric.alloc(len))
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        self.call(|fabric| fabric.deregister(region))
    }

    fn key(&mut self, to: PeerId, region: RegionId, at: usize) -> Result<RemoteKey, MemoryError> {
        self.call(|fabric| fabric.key(to, region, at))
    }

    fn bare_key(&mut self, to: PeerId, memory: UserBytes) -> Option<RemoteKey> {
        self.call(|fabric| fabric.bare_key(to, memory))
    }

    fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: UserBuf,
        token: Token,
    ) -> Result<(), Refused> {
        self.call(|fabric| fabric.get(from, key, offset, into, token))
    }

    fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: UserBytes,
        token: Token,
    ) -> Result<(), Refused> {
        self.call(|fabric| fabric.put(to, key, offset, source, token))
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        self.call(|fabric| fabric.map(from, key, len))
    }
}

impl<const O: bool, const S: bool, const L: bool> SendMemory for Driven<O, S, L> {
    fn segment_len(&self) -> usize {
        self.read(SendMemory::segment_len)
    }

    fn max_segments(&self) -> usize {
        self.read(SendMemory::max_segments)
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        self.call(SendMemory::take)
    }

    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.call(|fabric| fabric.write(segment, at, bytes));
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        let _held = Self::lock(&self.shared);
        SendMemory::read(&*self.fabric, segment, at, len)
    }

    fn release(&mut self, segment: SegmentId) {
        self.call(|fabric| fabric.release(segment));
    }
}

impl<const O: bool, const S: bool, const L: bool> Wait for Driven<O, S, L> {
    fn arm(&mut self) -> Arming {
        let mut held = Self::lock(&self.shared);
        // What has woken it before is no news. Empty is as good as read.
        let _ = rustix::io::read(&*self.alarm, &mut [0; 8]);
        let is_ready = held.0.net.concerns(self.rank);
        held.0.armed[self.rank] = !is_ready;
        if is_ready { Arming::Ready } else { Arming::Armed }
    }

    fn disarm(&mut self) {
        Self::lock(&self.shared).0.armed[self.rank] = false;
        // Empty is as good as read.
        let _ = rustix::io::read(&*self.alarm, &mut [0; 8]);
    }

    fn sleep(&mut self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        // A signal ends the wait early, which callers reckon with.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.alarm, PollFlags::IN)], limit.as_ref());
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }
}
