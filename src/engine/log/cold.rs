//! The part of the payload log that is in a file.

use crate::Error;
use std::path::PathBuf;
use taffrail_fabric::{Fabric, MemoryError, SegmentId};
use taffrail_logging::store::Spill;

/// Segments in a file, and those on their way there.
#[derive(Default)]
pub(super) struct Cold {
    spill: Option<Spill>,
    /// Segments that are being written: the number of the write, and theirs.
    writes: Vec<(usize, u32)>,
}

impl Cold {
    /// How many segments are being written.
    pub(super) fn under_way(&self) -> usize {
        self.writes.len()
    }

    /// Begins to write a segment. `false` if all writes that can be are under way.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no file, or it takes nothing.
    pub(super) fn begin(&mut self, number: u32, bytes: &[u8]) -> Result<bool, Error> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => {
                let folder = folder();
                let spill = Spill::create(&folder).map_err(|error| {
                    refused(&format!("creating a file in {}", folder.display()), &error)
                })?;
                tracing::info!(folder = %folder.display(), "the log of sent messages goes on in a file");
                none.insert(spill)
            }
        };
        let at = u64::from(number) * bytes.len() as u64;
        // SAFETY: a kept segment is not written again, and it is given back only in `reap`, when the
        // write is over.
        let begun = unsafe { spill.begin(at, bytes) };
        match begun.map_err(|error| refused("writing to its file", &error))? {
            Some(write) => {
                self.writes.push((write, number));
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Gives back the segments that are in the file; waits for one if `wait`.
    ///
    /// # Errors
    /// [`Error::Memory`] when a write has failed: its segment stays in memory, and is lost to others.
    pub(super) fn reap(
        &mut self,
        fabric: &mut impl Fabric,
        segments: &mut [Option<SegmentId>],
        wait: bool,
    ) -> Result<(), Error> {
        let Some(spill) = &mut self.spill else { return Ok(()) };
        let mut result = Ok(());
        for (write, ended) in spill.finished(wait) {
            let Some(at) = self.writes.iter().position(|(w, _)| *w == write) else { continue };
            let (_, number) = self.writes.swap_remove(at);
            match ended {
                Ok(()) => {
                    if let Some(segment) = segments[number as usize].take() {
                        fabric.give_back_segment(segment);
                    }
                }
                Err(error) => result = Err(refused("writing to its file", &error)),
            }
        }
        result
    }

    /// Reads a segment.
    ///
    /// # Errors
    /// [`Error::Memory`] when the file cannot be read.
    pub(super) fn read(&self, number: u32, size: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; size];
        let spill = self.spill.as_ref().expect("what is not in memory is in the file");
        spill
            .read(u64::from(number) * size as u64, &mut bytes)
            .map_err(|error| refused("reading its file", &error))?;
        Ok(bytes)
    }
}

/// Where the file is.
fn folder() -> PathBuf {
    std::env::var_os("TAFFRAIL_SPILL").map_or_else(std::env::temp_dir, PathBuf::from)
}

fn refused(what: &str, error: &std::io::Error) -> Error {
    Error::Memory(MemoryError::Short {
        what: "the log of sent messages",
        need: 0,
        have: format!("{what} failed: {error}"),
        remedy: "give it more memory with --log-memory, or a folder with more room (TAFFRAIL_SPILL)",
    })
}
