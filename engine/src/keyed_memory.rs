//! Memory that peers reach by a name which the program has given to it, instead of a key that they
//! were given: what runtimes need whose keys are their own. The target's engine does it, when the
//! target makes progress.

use super::memory::{Access, MemoryName, TargetAddr, Way};
use super::request::Stage;
use crate::Engine;
use crate::Exposed;
use crate::policy::Policy;
use crate::{Data, Error, Rank, Status};
use taffrail_fabric::{Fabric, SendMemory};

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
        let own = is_own.then(|| self.rma.named((name, address), len as u64, way.access()));
        let own = own.transpose().map_err(|why| why.error((name, address)))?;
        let request = self.core.requests.start(Stage::OneSided, rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = Status { source: rank, tag: 0, len, data: Data::NONE };
        if own.is_none() && len > 0 {
            let place = TargetAddr { region: name, keyed: true, offset: address };
            self.tx().ask_target(way, rank, request, place);
            return Ok(request);
        }
        slot.stage = Stage::Done;
        if let Some(own) = own {
            let (from, to) = if way == Way::Get { (own, at) } else { (at, own) };
            // SAFETY: the caller's promise; `named` has found the range in exposed memory. The
            // two may overlap.
            unsafe { std::ptr::copy(from, to, len) };
        }
        Ok(request)
    }

    /// Ends that memory has a name.
    pub fn forget_named(&mut self, name: u64) -> bool {
        let is_known = self.rma.forget(name);
        if is_known {
            self.tx().end_answers(MemoryName::Key(name));
        }
        is_known
    }
}
