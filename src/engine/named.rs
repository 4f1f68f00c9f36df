//! Memory that peers reach by a name which the program has given to it, instead of a key that they
//! were told: what runtimes need whose keys are their own. The target's engine does it, when the
//! target makes progress.

use super::one_sided::{MemoryName, Way};
use super::request::Stage;
use crate::endpoint::Exposed;
use crate::{Data, Endpoint, Error, Rank, Status};
use taffrail_fabric::MemoryError;

/// The context of requests that name memory.
pub(crate) const NAMED: u16 = 0x8000;

/// Memory of ours: `len` bytes, of which peers call the first `start`.
pub(crate) struct Named {
    pub(crate) at: Exposed,
    pub(crate) len: usize,
    pub(crate) start: u64,
}

impl Endpoint {
    /// Starts a get or put of memory that has a name.
    ///
    /// # Safety
    /// `len` bytes at `at` stay valid (for writes, of a get) until the request is finished.
    pub(crate) unsafe fn start_named(
        &mut self,
        way: Way,
        rank: Rank,
        (name, address): (u64, u64),
        at: *mut u8,
        len: usize,
    ) -> Result<u32, Error> {
        self.check_access(rank)?;
        let own = (rank == self.rank()).then(|| self.named_memory(name, address, len as u64));
        if own == Some(None) && len > 0 {
            return Err(MemoryError::Unknown { region: name as u32, offset: address }.into());
        }
        let request = self.core.requests.start(Stage::OneSided, rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = Status { source: rank, tag: 0, len, data: Data::NONE };
        if own.is_none() && len > 0 {
            self.ask_target(way, rank, request, (NAMED, name), address);
            return Ok(request);
        }
        slot.stage = Stage::Done;
        if let Some(Some(own)) = own {
            let (from, to) = if way == Way::Get { (own, at) } else { (at, own) };
            // SAFETY: the caller's promise; `named_memory` has found the range in exposed memory. The
            // two may overlap.
            unsafe { std::ptr::copy(from, to, len) };
        }
        Ok(request)
    }

    /// Memory of ours with this name, if there is such.
    pub(crate) fn named_memory(&self, name: u64, address: u64, len: u64) -> Option<*mut u8> {
        let named = self.named.get(&name)?;
        let offset = address.checked_sub(named.start)?;
        let end = offset.checked_add(len)?;
        // SAFETY: the offset lies inside the exposed range.
        (len > 0 && end <= named.len as u64).then(|| unsafe { named.at.0.add(offset as usize) })
    }

    /// Ends that memory has a name.
    pub(crate) fn forget_named(&mut self, name: u64) -> bool {
        let is_known = self.named.remove(&name).is_some();
        if is_known {
            self.end_answers(MemoryName::Key(name));
        }
        is_known
    }
}
