//! The part of the payload log that is not in memory.

use super::host::{SpillError, SpillStore};
use crate::Error;
use taffrail_fabric::MemoryError;

/// Segments in the spill store, and those on their way there.
pub(crate) struct SpilledSegments<S> {
    pub(crate) spill: S,
    /// Segments that are being written: the number of the write, and theirs.
    writes: Vec<(usize, u64)>,
}

impl<S: SpillStore> SpilledSegments<S> {
    pub(crate) fn new(spill: S) -> Self {
        SpilledSegments { spill, writes: Vec::new() }
    }

    /// Whether a segment is being written.
    pub(crate) fn writes(&self, number: u64) -> bool {
        self.writes.iter().any(|(_, under_way)| *under_way == number)
    }

    /// A segment is not needed any more.
    pub(crate) fn forget(&self, number: u64, size: usize) {
        if let Err(error) = self.spill.forget(number * size as u64, size as u64) {
            tracing::debug!(%error, "the file of sent messages keeps room that it does not need");
        }
    }

    /// How many segments are being written.
    pub(crate) fn under_way(&self) -> usize {
        self.writes.len()
    }

    /// Begins to write a segment. `false` if all writes that can be are under way.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no file, or it takes nothing.
    pub(crate) fn begin(&mut self, number: u64, bytes: &[u8]) -> Result<bool, Error> {
        let at = number * bytes.len() as u64;
        // SAFETY: a kept segment is not written again, and it is given back only in `reap`, when the
        // write is over.
        let begun = unsafe { self.spill.begin(at, bytes) };
        match begun.map_err(refused)? {
            Some(write) => {
                self.writes.push((write, number));
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The numbers of segments that are in the file by now; waits for one if `wait`. And the error of a
    /// write that has failed, if one has: its segment stays in memory, and is lost to others.
    pub(crate) fn reap(&mut self, wait: bool) -> (Vec<u64>, Result<(), Error>) {
        let mut written = Vec::new();
        let mut result = Ok(());
        if self.writes.is_empty() {
            return (written, result);
        }
        for (write, ended) in self.spill.finished(wait) {
            let Some(at) = self.writes.iter().position(|(w, _)| *w == write) else { continue };
            let (_, number) = self.writes.swap_remove(at);
            match ended {
                Ok(()) => written.push(number),
                Err(error) => result = Err(refused(error)),
            }
        }
        (written, result)
    }

    /// Reads bytes of the payload log from a place on.
    ///
    /// # Errors
    /// [`Error::Memory`] when the file cannot be read.
    pub(crate) fn read(&self, place: u64, into: &mut [u8]) -> Result<(), Error> {
        self.spill.read(place, into).map_err(refused)
    }
}

pub(crate) fn refused(error: SpillError) -> Error {
    Error::Memory(MemoryError::Refused {
        what: "the log of sent messages",
        why: error.to_string(),
        remedy: "give it more memory with --log-memory, or a folder with more room (TAFFRAIL_SPILL)",
    })
}
