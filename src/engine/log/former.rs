//! The payload log of a process that has ended, which the next one of its rank takes over as far as the
//! checkpoint that it goes on from refers to it.

use crate::Error;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use taffrail_logging::store::{Left, Place};

/// What it has left.
#[derive(Debug)]
pub(crate) struct Former {
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

impl Former {
    /// # Errors
    /// [`Error::Setup`] when it cannot be read.
    pub(crate) fn open(files: &LogFiles, size: usize) -> Result<Former, Error> {
        let open = |file: &OwnedFd| file.try_clone().map(File::from).map_err(not_read);
        let left = Left::read(&open(&files.places)?).map_err(not_read)?;
        let (memory, spill) = (open(&files.memory)?, open(&files.spill)?);
        Ok(Former { left, memory, spill, size: size as u64 })
    }

    /// Reads bytes of its payload_log from a place on. `false`: they were given up, nobody needs them.
    ///
    /// # Errors
    /// [`Error::Setup`] when they cannot be read.
    pub(super) fn read(&self, mut place: u64, mut into: &mut [u8]) -> Result<bool, Error> {
        while !into.is_empty() {
            let (number, at) = (place / self.size, place % self.size);
            let now = into.len().min((self.size - at) as usize);
            let (part, rest) = into.split_at_mut(now);
            match self.left.place(number) {
                None => return Ok(false),
                Some(Place::Memory(segment)) => {
                    self.memory.read_exact_at(part, u64::from(segment) * self.size + at)
                }
                Some(Place::File) => self.spill.read_exact_at(part, place),
            }
            .map_err(not_read)?;
            place += now as u64;
            into = rest;
        }
        Ok(true)
    }
}

fn not_read(error: std::io::Error) -> Error {
    Error::Setup(format!("the log of the process before this one cannot be read: {error}"))
}
