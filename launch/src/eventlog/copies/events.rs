//! The events of a rank, as they come.

use super::super::stream::wrong;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::Result as IoResult;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use taffrail_logging::event::RECORD;
use taffrail_logging::store::{FILE_HEADER, Owner, file_header};

/// How far the file of a rank is written.
pub struct Written {
    pub file: Arc<File>,
    pub clock: u64,
    /// Of these, up to this one they belong to the copy.
    pub kept: u64,
}

impl Written {
    /// Records behind those that belong to the copy, without a gap.
    pub fn write(&mut self, clock: u64, bytes: &[u8]) -> IoResult<()> {
        if clock <= self.kept || clock > self.clock + 1 {
            let expected = format!("{} to {}", self.kept + 1, self.clock + 1);
            return Err(wrong("clock", expected, clock));
        }
        self.file.write_all_at(bytes, FILE_HEADER as u64 + (clock - 1) * RECORD as u64)?;
        self.clock = clock - 1 + (bytes.len() / RECORD) as u64;
        Ok(())
    }

    pub fn keep(&mut self, clock: u64) -> IoResult<()> {
        if clock < self.kept || clock > self.clock {
            let expected = format!("{} to {}", self.kept, self.clock);
            return Err(wrong("clock of a cut", expected, clock));
        }
        self.kept = clock;
        Ok(())
    }
}

/// One without events.
pub fn new_file(rank: u32, job: u64) -> IoResult<File> {
    let file = File::from(rustix::fs::memfd_create("taffrail-copy", MemfdFlags::CLOEXEC)?);
    file.write_all_at(&file_header(Owner { rank, job }), 0)?;
    Ok(file)
}
