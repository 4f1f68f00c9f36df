//! The payload log of a process that has ended, which the next one of its rank takes over as far as the
//! checkpoint that it goes on from refers to it.

use super::not_set_up;
use crate::Error;
use crate::engine::log::host::{PreviousLog, PreviousLogError};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use taffrail_logging::store::{Left, Location};

/// What it has left.
#[derive(Debug)]
pub(crate) struct PreviousFiles {
    left: Left,
    memory: File,
    spill: File,
    /// Bytes of a segment.
    size: u64,
}

/// The files that a payload log is in, which outlive its process.
#[derive(Debug)]
pub(crate) struct LogFiles {
    /// The memory that messages leave from.
    pub(crate) memory: Arc<OwnedFd>,
    /// Where the segments of the log are.
    pub(crate) places: OwnedFd,
    /// What there was no memory for.
    pub(crate) spill: OwnedFd,
}

impl PreviousFiles {
    /// # Errors
    /// [`Error::Setup`] when it cannot be read.
    pub(super) fn open(files: &LogFiles, size: usize) -> Result<PreviousFiles, Error> {
        let not_read = |error| not_set_up(PreviousLogError(error));
        let open = |file: &OwnedFd| file.try_clone().map(File::from).map_err(not_read);
        let left = Left::read(&open(&files.places)?).map_err(not_read)?;
        let (memory, spill) = (open(&files.memory)?, open(&files.spill)?);
        Ok(PreviousFiles { left, memory, spill, size: size as u64 })
    }
}

impl PreviousLog for PreviousFiles {
    fn read(&self, mut place: u64, mut into: &mut [u8]) -> Result<bool, PreviousLogError> {
        while !into.is_empty() {
            let (number, at) = (place / self.size, place % self.size);
            let now = into.len().min((self.size - at) as usize);
            let (part, rest) = into.split_at_mut(now);
            match self.left.place(number) {
                None => return Ok(false),
                Some(Location::Memory(segment)) => {
                    self.memory.read_exact_at(part, u64::from(segment) * self.size + at)
                }
                Some(Location::File) => self.spill.read_exact_at(part, place),
            }
            .map_err(PreviousLogError)?;
            place += now as u64;
            into = rest;
        }
        Ok(true)
    }
}
