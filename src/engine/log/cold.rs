//! The part of the payload log that is in a file.

use crate::Error;
use std::fs::File;
use std::path::PathBuf;
use taffrail_fabric::MemoryError;
use taffrail_logging::store::Spill;

/// Segments in a file, and those on their way there.
#[derive(Default)]
pub(super) struct Cold {
    /// The file that was given for it, until it is needed.
    given: Option<File>,
    spill: Option<Spill>,
    /// Segments that are being written: the number of the write, and theirs.
    writes: Vec<(usize, u64)>,
}

impl Cold {
    /// In this file, or, if none is given, in one that is made when it is needed.
    pub(super) fn new(given: Option<File>) -> Cold {
        Cold { given, ..Cold::default() }
    }

    /// Whether a segment is being written.
    pub(super) fn writes(&self, number: u64) -> bool {
        self.writes.iter().any(|(_, under_way)| *under_way == number)
    }

    /// A segment is not needed any more.
    pub(super) fn forget(&self, number: u64, size: usize) {
        let Some(spill) = &self.spill else { return };
        if let Err(error) = spill.forget(number * size as u64, size as u64) {
            tracing::debug!(%error, "the file of sent messages keeps room that it does not need");
        }
    }

    /// How many segments are being written.
    pub(super) fn under_way(&self) -> usize {
        self.writes.len()
    }

    /// Begins to write a segment. `false` if all writes that can be are under way.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no file, or it takes nothing.
    pub(super) fn begin(&mut self, number: u64, bytes: &[u8]) -> Result<bool, Error> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => {
                let spill = match self.given.take() {
                    Some(file) => Spill::to(file),
                    None => create()?,
                };
                tracing::info!("the log of sent messages goes on in a file");
                none.insert(spill)
            }
        };
        let at = number * bytes.len() as u64;
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

    /// The numbers of segments that are in the file by now; waits for one if `wait`. And the error of a
    /// write that has failed, if one has: its segment stays in memory, and is lost to others.
    pub(super) fn reap(&mut self, wait: bool) -> (Vec<u64>, Result<(), Error>) {
        let mut written = Vec::new();
        let Some(spill) = &mut self.spill else { return (written, Ok(())) };
        let mut result = Ok(());
        for (write, ended) in spill.finished(wait) {
            let Some(at) = self.writes.iter().position(|(w, _)| *w == write) else { continue };
            let (_, number) = self.writes.swap_remove(at);
            match ended {
                Ok(()) => written.push(number),
                Err(error) => result = Err(refused("writing to its file", &error)),
            }
        }
        (written, result)
    }

    /// Reads bytes of the payload log from a place on.
    ///
    /// # Errors
    /// [`Error::Memory`] when the file cannot be read.
    #[expect(clippy::expect_used, reason = "bytes that are not in memory were written to the file")]
    pub(super) fn read(&self, place: u64, into: &mut [u8]) -> Result<(), Error> {
        let spill = self.spill.as_ref().expect("what is not in memory is in the file");
        spill.read(place, into).map_err(|error| refused("reading its file", &error))
    }
}

/// A file that is gone with this process.
fn create() -> Result<Spill, Error> {
    let folder = std::env::var_os("TAFFRAIL_SPILL");
    let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
    Spill::create(&folder)
        .map_err(|error| refused(&format!("creating a file in {}", folder.display()), &error))
}

pub(super) fn refused(what: &str, error: &std::io::Error) -> Error {
    Error::Memory(MemoryError::Refused {
        what: "the log of sent messages",
        why: format!("{what} failed: {error}"),
        remedy: "give it more memory with --log-memory, or a folder with more room (TAFFRAIL_SPILL)",
    })
}
