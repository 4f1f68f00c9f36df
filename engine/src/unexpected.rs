//! The bytes of messages that arrived before their receives: copied into buffers, or kept in the receive buffers of the
//! fabric (`docs/spec/seam.md`, section 3).

use crate::peer::Peer;
use taffrail_fabric::{Lease, Payload};
use taffrail_logging::mutant;

/// Bytes of memory that free entries keep, all together.
const SPARE_MAX: usize = 1 << 20;

/// An entry that has more than twice what a message needs, and this much more, is not used for it: the rest would be idle for as long
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
/// *Invariant:* an entry belongs to one message that waits, or is free. A receive buffer of the fabric belongs to one message
/// that waits, or is in `returns`, or is the fabric's.
#[derive(Default)]
pub(crate) struct UnexpectedBuffers {
    entries: Vec<Vec<u8>>,
    free: Vec<u32>,
    /// The memory that free entries have.
    spare: usize,
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
        let entry = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Vec::new());
            self.entries.len() as u32 - 1
        });
        let bytes = &mut self.entries[entry as usize];
        self.spare -= bytes.capacity();
        if bytes.capacity() > 2 * whole + SLACK {
            *bytes = Vec::new();
        }
        bytes.reserve_exact(whole);
        extend(bytes, payload, skip);
        entry
    }

    /// The memory that an entry takes, in bytes.
    pub(crate) fn memory(&self, entry: u32) -> usize {
        size_of::<Vec<u8>>() + block_bytes(self.entries[entry as usize].capacity())
    }

    /// How many entries there are, free ones included.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Replaces what is here of an entry by a payload from byte `skip` on.
    pub(crate) fn begin_again(&mut self, entry: u32, payload: &Payload<'_>, skip: usize) {
        if !mutant!(RefillAppended) {
            self.entries[entry as usize].clear();
        }
        extend(&mut self.entries[entry as usize], payload, skip);
    }

    /// Adds a payload at the end of an entry.
    pub(crate) fn append(&mut self, entry: u32, payload: &Payload<'_>) {
        extend(&mut self.entries[entry as usize], payload, 0);
    }

    /// The bytes of an entry that are there.
    pub(crate) fn get(&self, entry: u32) -> &[u8] {
        &self.entries[entry as usize]
    }

    /// Takes an entry's bytes out.
    pub(crate) fn take(&mut self, entry: u32) -> Vec<u8> {
        self.free.push(entry);
        std::mem::take(&mut self.entries[entry as usize])
    }

    /// Gives an entry back.
    pub(crate) fn release(&mut self, entry: u32) {
        let bytes = &mut self.entries[entry as usize];
        bytes.clear();
        if self.spare + bytes.capacity() > SPARE_MAX {
            *bytes = Vec::new();
        }
        self.spare += bytes.capacity();
        self.free.push(entry);
    }

    /// Gives all memory back, if no message waits.
    pub(crate) fn trim(&mut self) {
        if self.free.len() == self.entries.len() {
            (self.entries, self.free, self.spare) = Default::default();
        }
    }
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
