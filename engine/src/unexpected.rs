//! The bytes of messages that arrived before their receives: copied into buffers, or kept in the receive buffers of the
//! fabric (`docs/spec/seam.md`, section 3).

use crate::peer::Peer;
use taffrail_fabric::{Lease, Payload};
use taffrail_logging::mutant;
use taffrail_matching::Pieces;

/// Bytes of memory that spare buffers take, all together.
const SPARE_MAX: usize = 1 << 20;

/// A buffer that has more than twice what a message needs, and this much more, is not used for it: the rest would be idle for as long
/// as that waits.
const SLACK: usize = 256;

/// Receive buffers of the fabric that messages of one peer may keep.
const KEPT_MAX: u8 = 16;

/// A message in a receive buffer of the fabric, which is returned when the message has been copied to its receive.
pub struct KeptMessage {
    payload: Payload<'static>,
    lease: Lease,
}

impl KeptMessage {
    pub(crate) fn payload(&self) -> &Payload<'_> {
        &self.payload
    }
}

/// Buffers, reused.
///
/// *Invariant:* an entry belongs to one message that waits. A receive buffer of the fabric belongs to one message
/// that waits, or is in `returns`, or is the fabric's.
#[derive(Default)]
pub(crate) struct UnexpectedBuffers {
    entries: Pieces<Vec<u8>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// The memory that they take.
    spare_bytes: usize,
    /// Receive buffers of the fabric that the next turn returns.
    returns: Vec<Lease>,
}

impl UnexpectedBuffers {
    /// Whether the receive buffer of an unexpected message of this length is kept. Copying a short message costs less than
    /// a buffer that the fabric lacks.
    pub(crate) fn may_keep(peer: &Peer, len: usize) -> bool {
        len > peer.inline() && peer.kept_leases < KEPT_MAX
    }

    /// Keeps the receive buffer of a message of a peer. The answer to the fabric is [`Take::Keep`](taffrail_fabric::Take::Keep)
    /// with this lease.
    pub(crate) fn keep(
        &mut self,
        peer: &mut Peer,
        payload: &Payload<'_>,
        lease: &Lease,
    ) -> KeptMessage {
        peer.kept_leases += 1;
        let lease = Lease(lease.0);
        if mutant!(LeaseReturnedEarly) {
            self.returns.push(Lease(lease.0));
        }
        // SAFETY: the fabric's answer is `Keep`. The payload is read before the lease is in `returns`, and never by a
        // destructor, so not after the fabric is gone.
        KeptMessage { payload: unsafe { payload.kept() }, lease }
    }

    /// A kept message of a peer was copied: the fabric gets its receive buffer back.
    pub(crate) fn give_back(&mut self, peer: &mut Peer, kept: KeptMessage) {
        peer.kept_leases -= 1;
        if mutant!(LeaseReturnedTwice) {
            self.returns.push(Lease(kept.lease.0));
        }
        if !mutant!(LeaseReturnedEarly) && !mutant!(LeaseNotReturned) {
            self.returns.push(kept.lease);
        }
    }

    /// The receive buffers that are to be returned now.
    pub(crate) fn returns(&mut self) -> impl Iterator<Item = Lease> {
        self.returns.drain(..)
    }

    /// Takes in a payload from byte `skip` on, the beginning of `whole` bytes.
    pub(crate) fn put(&mut self, payload: &Payload<'_>, skip: usize, whole: usize) -> u32 {
        let mut bytes = match self.spare.pop() {
            Some(bytes) => {
                self.spare_bytes -= spare_bytes(&bytes);
                bytes
            }
            None => Vec::new(),
        };
        if bytes.capacity() > 2 * whole + SLACK {
            bytes = Vec::new();
        }
        bytes.reserve_exact(whole);
        extend(&mut bytes, payload, skip);
        self.entries.insert(bytes)
    }

    /// The memory that an entry takes, in bytes.
    pub(crate) fn memory(&self, entry: u32) -> usize {
        let capacity = self.entries.get(entry).map_or(0, Vec::capacity);
        Pieces::<Vec<u8>>::SLOT_BYTES + block_bytes(capacity)
    }

    /// Replaces what is here of an entry by a payload from byte `skip` on.
    pub(crate) fn begin_again(&mut self, entry: u32, payload: &Payload<'_>, skip: usize) {
        let Some(bytes) = self.entries.get_mut(entry) else { return };
        if !mutant!(RefillAppended) {
            bytes.clear();
        }
        extend(bytes, payload, skip);
    }

    /// Adds a payload at the end of an entry.
    pub(crate) fn append(&mut self, entry: u32, payload: &Payload<'_>) {
        if let Some(bytes) = self.entries.get_mut(entry) {
            extend(bytes, payload, 0);
        }
    }

    /// The bytes of an entry that are there.
    pub(crate) fn get(&self, entry: u32) -> &[u8] {
        self.entries.get(entry).map_or(&[], Vec::as_slice)
    }

    /// Takes an entry's bytes out.
    pub(crate) fn take(&mut self, entry: u32) -> Vec<u8> {
        self.entries.remove(entry).unwrap_or_default()
    }

    /// Gives an entry back.
    pub(crate) fn release(&mut self, entry: u32) {
        let mut bytes = self.take(entry);
        let memory = spare_bytes(&bytes);
        if bytes.capacity() > 0 && self.spare_bytes + memory <= SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
            self.spare_bytes += memory;
        }
    }
}

/// The memory of a spare buffer, with its place among the others, of which up to half is not in use.
fn spare_bytes(bytes: &Vec<u8>) -> usize {
    block_bytes(bytes.capacity()) + 2 * size_of::<Vec<u8>>()
}

/// The memory that the heap needs for `len` bytes: it puts a word in front, and its blocks are multiples of 16 bytes, at least 32.
pub(crate) fn block_bytes(len: usize) -> usize {
    match len {
        0 => 0,
        len => (len + size_of::<usize>()).next_multiple_of(16).max(32),
    }
}

fn extend(bytes: &mut Vec<u8>, payload: &Payload<'_>, skip: usize) {
    let more = payload.len() - skip;
    bytes.reserve(more);
    let have = bytes.len();
    // SAFETY: there is room for `more` bytes behind the first `have`, and all of them are written.
    unsafe {
        payload.copy_part(skip, bytes.as_mut_ptr().add(have), more);
        bytes.set_len(have + more);
    }
}
