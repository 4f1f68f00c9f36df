//! Memory of this rank that peers reach, by a region or by a name.

use crate::Engine;
use crate::keyed_memory::KeyedMemory;
use crate::lending::Lending;
use crate::memory::{Access, NoMemory, TargetAddr, Way};
use crate::tx::Tx;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::ptr::NonNull;
use taffrail_fabric::RegionId;

/// The address of registered memory.
#[derive(Clone, Copy)]
pub struct Exposed(pub *mut u8);

// SAFETY: the caller that registers memory vouches for it, for any thread that has the engine.
unsafe impl Send for Exposed {}

/// The memory of this rank that peers reach.
///
/// *Invariant:* the program vouches for each range from when it is entered until it is taken out, so that a range that is
/// found here may be read and written, as its [`Access`] says.
#[derive(Default)]
pub struct Rma {
    /// Memory that peers may reach by [`RemoteMemory`](crate::one_sided::RemoteMemory).
    registered: HashMap<u32, (Exposed, usize)>,
    /// Memory that peers may reach by a name.
    keyed: FxHashMap<u64, KeyedMemory>,
}

impl Rma {
    /// Peers may reach `len` bytes as this region.
    pub fn register(&mut self, region: RegionId, at: Exposed, len: usize) {
        self.registered.insert(region.0, (at, len));
    }

    /// Bytes of a region that peers may reach.
    pub fn registered_len(&self, region: RegionId) -> Option<usize> {
        self.registered.get(&region.0).map(|&(_, len)| len)
    }

    /// Peers may not reach a region any more. Whether they could.
    pub(crate) fn unregister(&mut self, region: RegionId) -> bool {
        self.registered.remove(&region.0).is_some()
    }

    /// Peers may reach memory by this name.
    pub fn expose(&mut self, name: u64, memory: KeyedMemory) {
        self.keyed.insert(name, memory);
    }

    /// Withdraws the name of keyed memory. Whether there was such a name.
    pub(crate) fn forget(&mut self, name: u64) -> bool {
        self.keyed.remove(&name).is_some()
    }

    /// Whether memory has this name.
    pub fn has(&self, name: u64) -> bool {
        self.keyed.contains_key(&name)
    }

    /// The memory of this rank with this name, if there is any and it allows this operation.
    pub fn named(
        &self,
        (name, address): (u64, u64),
        len: u64,
        needed: Access,
    ) -> Result<*mut u8, NoMemory> {
        let named = self.keyed.get(&name).ok_or(NoMemory::Unknown)?;
        let offset = address.checked_sub(named.start).ok_or(NoMemory::Unknown)?;
        let end = offset.checked_add(len).filter(|&end| len > 0 && end <= named.len as u64);
        end.ok_or(NoMemory::Unknown)?;
        if !named.access.covers(needed) {
            return Err(NoMemory::NoAccess);
        }
        // SAFETY: the offset lies inside the exposed range.
        Ok(unsafe { named.at.0.add(offset as usize) })
    }

    /// Memory of ours that a peer means, if it may be accessed so.
    pub(crate) fn find(
        &self,
        lending: &Lending,
        place: TargetAddr,
        len: u64,
        way: Way,
    ) -> Result<*mut u8, NoMemory> {
        let TargetAddr { region, keyed, offset } = place;
        match keyed {
            true => self.named((region, offset), len, way.access()),
            false => self.own(lending, region, offset, len).ok_or(NoMemory::Unknown),
        }
    }

    /// Registered memory of ours, or that of a buffer, if peers may access it.
    fn own(&self, lending: &Lending, region: u64, offset: u64, len: u64) -> Option<*mut u8> {
        let region = u32::try_from(region).ok()?;
        let Some(&(at, whole)) = self.registered.get(&region) else {
            let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
            return lending.reached(region, offset, len).map(NonNull::as_ptr);
        };
        let end = offset.checked_add(len)?;
        // SAFETY: the offset lies inside the registered range.
        (len > 0 && end <= whole as u64).then(|| unsafe { at.0.add(offset as usize) })
    }
}

/// What an operation on memory of this rank works on, which a peer has asked for: the memory, and the way back.
pub(crate) struct Serving<'a, F, P> {
    pub(crate) tx: Tx<'a, F, P>,
    pub(crate) rma: &'a Rma,
}

impl<F, P> Engine<F, P> {
    /// The view for what peers ask for.
    pub(crate) fn serving(&mut self) -> Serving<'_, F, P> {
        let Engine { fabric, core, tx: state, lending, sizes, rma, .. } = self;
        Serving { tx: Tx { fabric, core, state, lending, sizes }, rma }
    }
}
