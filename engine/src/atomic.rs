//! Atomic operations on named memory of a peer. The target's engine does them, when the target makes
//! progress.

use super::core::broken;
use super::frame::Frame;
use super::memory::{Access, TargetAddr};
use super::request::Stage;
use super::rma::Serving;
use crate::Engine;
use crate::arithmetic::{Atomic, AtomicOp};
use crate::policy::Policy;
use crate::{Data, Error, Rank, Status};
use std::sync::{Mutex, PoisonError};
use taffrail_fabric::{Fabric, SendMemory};

/// In the word of an operation: the target is to answer with what was there.
const FETCH: u64 = 1 << 16;

/// Memory may be exposed by several endpoints, which may belong to several threads: one operation at a
/// time in the whole process.
static ALONE: Mutex<()> = Mutex::new(());

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Starts an operation on memory that has a name. What was there before goes to `fetched`, unless
    /// that is null.
    ///
    /// # Safety
    /// Bytes of all elements at `fetched` stay valid for writes until the request is finished.
    pub unsafe fn start_atomic(
        &mut self,
        rank: Rank,
        (name, address): (u64, u64),
        atomic: Atomic,
        operands: &[u8],
        fetched: *mut u8,
    ) -> Result<u32, Error> {
        assert_eq!(operands.len(), atomic.operand_bytes(), "bytes of the operands");
        self.check_access(rank)?;
        let len = atomic.len();
        let place = (name, address);
        let needed = access(&atomic, !fetched.is_null());
        let own = (rank == self.rank()).then(|| self.rma.named(place, len as u64, needed));
        let own = own.transpose().map_err(|why| why.error(place))?;
        let request = self.core.requests.start(Stage::Done, rank, fetched, len);
        let slot = self.core.requests.get(request);
        slot.status = Status { source: rank, tag: 0, len, data: Data::NONE };
        if let Some(at) = own {
            // SAFETY: `named` has found the range in exposed memory.
            let old = unsafe { change(at, &atomic, operands) };
            if !fetched.is_null() {
                // SAFETY: the caller's promise.
                unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), fetched, len) };
            }
            return Ok(request);
        }
        let fetch = if fetched.is_null() { 0 } else { FETCH };
        slot.stage = if fetch == 0 { Stage::AskedPut } else { Stage::AskedGet };
        let place = TargetAddr { region: name, keyed: true, offset: address };
        let (name, what) = (slot.name(request), atomic.word() | fetch);
        self.tx().post_frame(rank, Frame::Atomic { name, place, what }, operands);
        Ok(request)
    }
}

impl<F: Fabric + SendMemory, P: Policy> Serving<'_, F, P> {
    /// Does an operation on our memory for a peer.
    pub(crate) fn serve_atomic(
        &mut self,
        from: Rank,
        name: u64,
        place: TargetAddr,
        what: u64,
        operands: &[u8],
    ) {
        let known = Atomic::from_word(what & !FETCH);
        let Some(atomic) = known.filter(|known| operands.len() == known.operand_bytes()) else {
            let expected = "an operation that there is, and its operands";
            return self.tx.core.protocol_error(from, broken("atomic operation", expected, what));
        };
        let needed = access(&atomic, what & FETCH != 0);
        let at = match self.rma.named((place.region, place.offset), atomic.len() as u64, needed) {
            Ok(at) => at,
            Err(why) => return self.tx.post_frame(from, Frame::NakKey { name, why }, &[]),
        };
        // SAFETY: `named` has found the range in exposed memory, whose owner has agreed that
        // peers write to it.
        let old = unsafe { change(at, &atomic, operands) };
        if what & FETCH != 0 {
            self.tx.post_frame(from, Frame::RndvData { to: name, offset: 0 }, &old);
        } else {
            self.tx.post_frame(from, Frame::Ack { name }, &[]);
        }
    }
}

/// What an operation does with the memory.
fn access(atomic: &Atomic, fetches: bool) -> Access {
    match (atomic.op(), fetches) {
        (AtomicOp::Read, _) => Access::Read,
        (_, false) => Access::Write,
        (_, true) => Access::Both,
    }
}

/// Does an operation, and returns what was there before.
///
/// # Safety
/// The elements are at `at`, and peers may write there.
unsafe fn change(at: *mut u8, atomic: &Atomic, operands: &[u8]) -> Vec<u8> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's promise. They are copied, since the program may look at them meanwhile.
    let old = unsafe {
        let mut old = vec![0; atomic.len()];
        std::ptr::copy_nonoverlapping(at, old.as_mut_ptr(), old.len());
        old
    };
    let new = atomic.apply(&old, operands);
    if new != old {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), at, new.len()) };
    }
    old
}
