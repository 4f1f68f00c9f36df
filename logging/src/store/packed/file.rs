//! The memory that a `process` logger fills.

use super::copy::Copying;
use super::{BlockError, HEAD, block_len, check, packed_header, unpack};
use crate::store::file::{FILE_HEADER, FileError, Owner, check_header};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The memory that the blocks of a rank are appended to.
#[derive(Debug)]
pub(in crate::store) struct PackedFile {
    file: File,
    name: String,
    owner: Owner,
    records: u64,
    end: u64,
}

impl PackedFile {
    /// Goes through a store, and cuts off what the logger before was still writing when it was killed.
    /// Returns how many bytes that were.
    ///
    /// # Errors
    /// [`FileError`]; the store is left as it is.
    pub(in crate::store) fn open(
        file: File,
        name: String,
        owner: Owner,
    ) -> Result<(Self, u64), FileError> {
        let (records, end) = (0, FILE_HEADER as u64);
        let mut store = PackedFile { file, name, owner, records, end };
        let len = store.file.metadata().map_err(store.os("fstat"))?.len();
        let read = |at, into: &mut [u8]| store.file.read_exact_at(into, at);
        check_header(&store.name, len, read, packed_header(owner))?;
        while let Some(block) = store.read(store.end, len)? {
            let clock = store.records + 1;
            let count = unpack(owner.rank, clock, &block);
            store.records += count.map_err(|what| store.damaged(clock, what))?;
            store.end += block.len() as u64;
        }
        let cut = len - store.end;
        if cut > 0 {
            store.file.set_len(store.end).map_err(store.os("ftruncate"))?;
        }
        Ok((store, cut))
    }

    /// The block at this place, if all of it is there.
    fn read(&self, at: u64, len: u64) -> Result<Option<Vec<u8>>, FileError> {
        let mut block = vec![0; HEAD];
        if len - at < HEAD as u64 {
            return Ok(None);
        }
        self.file.read_exact_at(&mut block, at).map_err(self.os("pread"))?;
        let whole = block_len(&block);
        if len - at < whole as u64 {
            return Ok(None);
        }
        block.resize(whole, 0);
        self.file.read_exact_at(&mut block[HEAD..], at + HEAD as u64).map_err(self.os("pread"))?;
        Ok(Some(block))
    }

    /// How many records there are, which is the clock of the last one.
    pub(in crate::store) fn records(&self) -> u64 {
        self.records
    }

    /// What errors call it.
    pub(in crate::store) fn name(&self) -> &str {
        &self.name
    }

    /// The file, to write at [`end`](Self::end).
    pub(in crate::store) fn file(&self) -> &File {
        &self.file
    }

    /// Where the next block goes.
    pub(in crate::store) fn end(&self) -> u64 {
        self.end
    }

    /// The block was written at the end.
    pub(in crate::store) fn grown(&mut self, records: u64, block: &[u8]) {
        self.records += records;
        self.end += block.len() as u64;
    }

    /// Copies all blocks. Returns where the next one goes.
    ///
    /// # Errors
    /// [`FileError`], also when a block is damaged.
    pub(in crate::store) fn copy(&self, into: &File) -> Result<u64, FileError> {
        let mut copy = Copying::begin(into, &self.name, self.owner)?;
        while let Some(block) = self.read(copy.end, self.end)? {
            let count = check(self.owner.rank, copy.clock, &block);
            let count = count.map_err(|what| self.damaged(copy.clock, what))?;
            copy.add(u64::from(count), &block)?;
        }
        Ok(copy.end)
    }

    fn damaged(&self, clock: u64, what: BlockError) -> FileError {
        FileError::Block { file: self.name.clone(), clock, what }
    }

    fn os(&self, call: &'static str) -> impl FnOnce(std::io::Error) -> FileError + use<> {
        let file = self.name.clone();
        move |error| FileError::Os { file, call, error }
    }
}
