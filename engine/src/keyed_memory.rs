//! Memory that peers reach by a name which the program has given to it, instead of a key that they
//! were told: what runtimes need whose keys are their own. The target's engine does it, when the
//! target makes progress.

use super::frame::Place;
use super::one_sided::{MemoryName, Way};
use super::request::Stage;
use crate::Engine;
use crate::Exposed;
use crate::policy::Policy;
use crate::{Data, Error, Rank, Status};
use taffrail_fabric::{Fabric, Fault, MemoryError, SendMemory};

/// The context of requests that name memory.
pub(crate) const KEYED: u16 = 0x8000;

/// What peers may do with memory that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Write it, and change it by atomic operations that do not fetch.
    Write,
    /// All.
    Both,
}

impl Access {
    pub(crate) fn covers(self, needed: Access) -> bool {
        self as u8 & needed as u8 == needed as u8
    }
}

/// Memory of ours: `len` bytes, of which peers call the first `start`.
pub struct KeyedMemory {
    /// Its first byte.
    pub at: Exposed,
    /// Its length in bytes.
    pub len: usize,
    /// What peers call its first byte.
    pub start: u64,
    /// What they may do.
    pub access: Access,
}

/// Why memory is not reached; its number is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum NoMemory {
    /// There is none of that name, or not there.
    Unknown,
    /// It may not be reached in this way.
    NoAccess,
}

impl NoMemory {
    /// The reason that has this number.
    pub(crate) fn of(number: u16) -> Self {
        match number == NoMemory::NoAccess as u16 {
            true => NoMemory::NoAccess,
            false => NoMemory::Unknown,
        }
    }

    /// The fault of an operation that was answered so.
    pub(crate) fn fault(self) -> Fault {
        match self {
            NoMemory::NoAccess => Fault::NoAccess("its owner does not allow it"),
            NoMemory::Unknown => Fault::NoSuchMemory("the target knows no such region".into()),
        }
    }

    /// Of memory of our own.
    pub(crate) fn error(self, (name, address): (u64, u64)) -> Error {
        match self {
            NoMemory::Unknown => {
                MemoryError::Unknown { region: name as u32, offset: address }.into()
            }
            NoMemory::NoAccess => MemoryError::NoAccess { name }.into(),
        }
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Starts a get or put of memory that has a name.
    ///
    /// # Safety
    /// `len` bytes at `at` stay valid (for writes, of a get) until the request is finished.
    pub unsafe fn start_named(
        &mut self,
        way: Way,
        rank: Rank,
        (name, address): (u64, u64),
        at: *mut u8,
        len: usize,
    ) -> Result<u32, Error> {
        self.check_access(rank)?;
        let is_own = rank == self.rank() && len > 0;
        let own = is_own.then(|| self.named_memory((name, address), len as u64, way.access()));
        let own = own.transpose().map_err(|why| why.error((name, address)))?;
        let request = self.core.requests.start(Stage::OneSided, rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = Status { source: rank, tag: 0, len, data: Data::NONE };
        if own.is_none() && len > 0 {
            let place = Place { region: name, keyed: true, offset: address };
            self.ask_target(way, rank, request, place);
            return Ok(request);
        }
        slot.stage = Stage::Done;
        if let Some(own) = own {
            let (from, to) = if way == Way::Get { (own, at) } else { (at, own) };
            // SAFETY: the caller's promise; `named_memory` has found the range in exposed memory. The
            // two may overlap.
            unsafe { std::ptr::copy(from, to, len) };
        }
        Ok(request)
    }

    /// Memory of ours with this name, if there is such and it allows this.
    pub fn named_memory(
        &self,
        (name, address): (u64, u64),
        len: u64,
        needed: Access,
    ) -> Result<*mut u8, NoMemory> {
        let named = self.keyed_memory.get(&name).ok_or(NoMemory::Unknown)?;
        let offset = address.checked_sub(named.start).ok_or(NoMemory::Unknown)?;
        let end = offset.checked_add(len).filter(|&end| len > 0 && end <= named.len as u64);
        end.ok_or(NoMemory::Unknown)?;
        if !named.access.covers(needed) {
            return Err(NoMemory::NoAccess);
        }
        // SAFETY: the offset lies inside the exposed range.
        Ok(unsafe { named.at.0.add(offset as usize) })
    }

    /// Ends that memory has a name.
    pub fn forget_named(&mut self, name: u64) -> bool {
        let is_known = self.keyed_memory.remove(&name).is_some();
        if is_known {
            self.end_answers(MemoryName::Key(name));
        }
        is_known
    }
}
