//! What is handed to a rank that is started again, while it is written.

use super::{pack, packed_header};
use crate::Rank;
use crate::store::batch::Batch;
use crate::store::file::{EventFile, FileError, Owner};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Events of a block that is made of what was not packed.
const BLOCK: usize = 1 << 16;

/// Copies all events of an event file as blocks. Returns where the next one goes.
///
/// # Errors
/// [`FileError`], also when a record is damaged.
pub(in crate::store) fn copy_packed(
    file: &EventFile,
    owner: Owner,
    into: &File,
) -> Result<u64, FileError> {
    let mut copy = Copying::begin(into, file.name(), owner)?;
    let (mut events, mut result) = (Vec::with_capacity(BLOCK), Ok(()));
    file.events(owner, |event| {
        events.push(event);
        if events.len() == BLOCK && result.is_ok() {
            result = copy.pack(owner.rank, events.drain(..).collect());
        }
    })?;
    result.and_then(|()| copy.pack(owner.rank, events.into_iter().collect())).map(|()| copy.end)
}

/// A packed store that is being written.
pub(super) struct Copying<'a> {
    into: &'a File,
    /// What errors call that of which it is a copy.
    name: &'a str,
    /// Where the next block goes.
    pub(super) end: u64,
    /// The clock of the next event.
    pub(super) clock: u64,
}

impl<'a> Copying<'a> {
    pub(super) fn begin(into: &'a File, name: &'a str, owner: Owner) -> Result<Self, FileError> {
        let mut copy = Copying { into, name, end: 0, clock: 1 };
        copy.add(0, &packed_header(owner))?;
        Ok(copy)
    }

    fn pack(&mut self, rank: Rank, batch: Batch) -> Result<(), FileError> {
        let mut block = Vec::new();
        pack(rank, self.clock, &batch, &mut block);
        self.add(batch.len() as u64, &block)
    }

    pub(super) fn add(&mut self, events: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.into.write_all_at(bytes, self.end).map_err(|error| {
            let (file, call) = (self.name.to_owned(), "pwrite of a copy");
            FileError::Os { file, call, error }
        })?;
        self.end += bytes.len() as u64;
        self.clock += events;
        Ok(())
    }
}
