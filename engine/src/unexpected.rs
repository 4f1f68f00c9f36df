//! The bytes of messages that arrived before their receives.

use taffrail_fabric::Payload;
use taffrail_logging::mutant;

/// Entries above this many bytes give their memory back when released.
const KEEP: usize = 64 * 1024;

/// Buffers, reused.
#[derive(Default)]
pub(crate) struct UnexpectedBuffers {
    entries: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl UnexpectedBuffers {
    /// Takes in a payload from byte `skip` on, the beginning of `whole` bytes.
    pub(crate) fn put(&mut self, payload: &Payload<'_>, skip: usize, whole: usize) -> u32 {
        let entry = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Vec::new());
            self.entries.len() as u32 - 1
        });
        self.entries[entry as usize].reserve(whole);
        extend(&mut self.entries[entry as usize], payload, skip);
        entry
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
        bytes.shrink_to(KEEP);
        self.free.push(entry);
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
