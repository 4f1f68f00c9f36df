//! What all fabrics of a mesh share, under one lock.

use crate::{Fault, Head, PeerId, RemoteKey, Token};
use std::alloc::{Layout, dealloc};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

pub(super) struct Net {
    pub(super) members: Vec<Member>,
    pub(super) next_region: u32,
}

pub(super) struct Member {
    pub(super) inbox: VecDeque<Event>,
    pub(super) waiting_from: Vec<usize>,
    pub(super) regions: HashMap<u32, Region>,
    /// Peers it will have no more to do with, and why.
    pub(super) cut: HashMap<usize, Fault>,
    /// Peers with an end that was reported to it.
    pub(super) notified: HashSet<usize>,
    pub(super) alarm: Arc<OwnedFd>,
    pub(super) armed: bool,
    /// Why it is gone, as its peers see it.
    pub(super) gone: Option<Fault>,
    /// For each peer: a clone for every view that it has of memory here.
    pub(super) viewers: Vec<Arc<()>>,
}

pub(super) enum Event {
    Message(PeerId, Head, Vec<u8>),
    Completed(Token, Result<(), Fault>),
    Failed(PeerId, Fault),
}

#[derive(Clone)]
pub(super) struct Region {
    pub(super) at: *mut u8,
    pub(super) len: usize,
    /// Keeps allocated memory; registered memory is the caller's.
    pub(super) pages: Option<Arc<Pages>>,
}

// SAFETY: the memory is reached under the lock of `Net` only, by raw copies.
unsafe impl Send for Region {}

pub(super) struct Pages(pub(super) NonNull<u8>, pub(super) Layout);

// SAFETY: plain memory, released with the last reference.
unsafe impl Send for Pages {}
// SAFETY: as above; no reference to the bytes exists.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated by `alloc` with this very layout.
        unsafe { dealloc(self.0.as_ptr(), self.1) };
    }
}

impl Net {
    /// Why there is no traffic between two ranks, if so.
    pub(super) fn apart(&self, me: usize, peer: usize) -> Option<Fault> {
        let cut = self.members[me].cut.get(&peer).cloned();
        let has_cut = self.members[peer].cut.contains_key(&me);
        cut.or(self.members[peer].gone.clone()).or(has_cut.then_some(Fault::Closed))
    }

    /// Ends a rank, and reports to the others why.
    pub(super) fn leave(&mut self, me: usize, why: &Fault) {
        self.members[me].gone.get_or_insert_with(|| why.clone());
        // What was allocated can be viewed as long as anybody has its key.
        self.members[me].regions.retain(|_, region| region.pages.is_some());
        for to in (0..self.members.len()).filter(|&to| to != me) {
            self.notify(to, me, why.clone());
        }
    }

    /// Whether a peer has views of memory here.
    pub(super) fn is_viewed(&self, me: usize, peer: usize) -> bool {
        let is_alive = self.members[peer].gone != Some(Fault::Died);
        is_alive && Arc::strong_count(&self.members[me].viewers[peer]) > 1
    }

    /// Reports to `me` that `peer` is gone, unless it knows.
    pub(super) fn notify(&mut self, me: usize, peer: usize, why: Fault) {
        if self.members[me].notified.insert(peer) {
            self.deliver(me, Event::Failed(PeerId(peer as u32), why));
        }
    }

    pub(super) fn deliver(&mut self, to: usize, event: Event) {
        self.members[to].inbox.push_back(event);
        if self.members[to].armed {
            // It fails when the counter is full, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&*self.members[to].alarm, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn message(&mut self, from: usize, to: usize, head: Head, payload: Vec<u8>) {
        self.deliver(to, Event::Message(PeerId(from as u32), head, payload));
        self.members[to].waiting_from[from] += 1;
    }

    /// Copies `len` bytes between `near` and the memory behind `key`.
    ///
    /// # Safety
    /// `near` is valid for `len` bytes.
    pub(super) unsafe fn copy(
        &mut self,
        owner: usize,
        key: &RemoteKey,
        offset: u64,
        (near, len, put): (*mut u8, usize, bool),
    ) -> Result<(), Fault> {
        let far = self.find(owner, key, offset, len)?;
        let (source, target) = if put { (near, far) } else { (far, near) };
        // SAFETY: `near` as promised by the caller, `far` lies inside of a region (`find`).
        unsafe { source.copy_to(target, len) };
        Ok(())
    }

    /// Where the memory behind a key is, if `len` bytes from `offset` on lie inside of its region.
    pub(super) fn find(
        &self,
        owner: usize,
        key: &RemoteKey,
        offset: u64,
        len: usize,
    ) -> Result<*mut u8, Fault> {
        let (id, start) =
            parse(key).ok_or_else(|| Fault::NoSuchMemory("no key of this fabric".into()))?;
        let no = |why: &str| Fault::NoSuchMemory(format!("region {id} of {owner}: {why}"));
        let member = self.members.get(owner).ok_or_else(|| no("no such peer"))?;
        let region = member.regions.get(&id).ok_or_else(|| no("never was, or was deregistered"))?;
        let from = start.checked_add(offset).filter(|&from| from <= region.len as u64);
        let from = from.ok_or_else(|| no("the offset lies outside"))? as usize;
        if len > region.len - from {
            return Err(no(&format!("{len} bytes from {from} on, it has {}", region.len)));
        }
        Ok(region.at.wrapping_add(from))
    }
}

/// The key of a region from a place on, which says whether the region was allocated.
pub(super) fn key_of(region: u32, start: u64, is_allocated: bool) -> RemoteKey {
    let key = [u64::from(region), start, u64::from(is_allocated)].map(u64::to_le_bytes);
    RemoteKey::new(0, key.as_flattened())
}

/// The region of a key, and where it begins within; `None` if no rail of ours has made it.
pub(super) fn parse(key: &RemoteKey) -> Option<(u32, u64)> {
    let (region, start, _) = words(key)?;
    Some((u32::try_from(region).ok()?, start))
}

/// Whether a key is of memory that was allocated.
pub(super) fn is_allocated(key: &RemoteKey) -> bool {
    words(key).is_some_and(|(_, _, is_allocated)| is_allocated != 0)
}

fn words(key: &RemoteKey) -> Option<(u64, u64, u64)> {
    let (words, rest) = key.of_rail().as_chunks::<8>();
    let [region, start, kind] = *<&[[u8; 8]; 3]>::try_from(words).ok()?;
    let number = u64::from_le_bytes;
    rest.is_empty().then_some((number(region), number(start), number(kind)))
}
