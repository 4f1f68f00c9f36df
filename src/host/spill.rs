//! The file of the segments of a payload log that there is no memory for.

use crate::engine::log::host::{SpillError, SpillStore, Spilled};
use std::fs::File;
use std::path::PathBuf;
use taffrail_logging::store::{Ended, SegmentMap, Spill};

/// A file that the launcher has given, or else one that is made when it is needed and gone with this process.
#[derive(Debug, Default)]
pub(crate) struct SpillFile {
    /// The file that was given, until it is needed.
    given: Option<File>,
    spill: Option<Spill>,
    /// Where the next process of this rank finds the segments, if it may need them.
    places: Option<SegmentMap>,
}

impl SpillFile {
    /// In this file, with the segments written down for the next process of the rank.
    pub(super) fn given(file: File, places: SegmentMap) -> Self {
        SpillFile { given: Some(file), spill: None, places: Some(places) }
    }
}

impl SpillStore for SpillFile {
    unsafe fn begin(&mut self, place: u64, bytes: &[u8]) -> Result<Option<usize>, SpillError> {
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
        // SAFETY: the caller's promise.
        unsafe { spill.begin(place, bytes) }.map_err(SpillError::Write)
    }

    #[expect(clippy::expect_used, reason = "what is not in memory was written to the file")]
    fn begin_read(&mut self, place: u64, len: usize) -> Result<Option<usize>, SpillError> {
        let spill = self.spill.as_mut().expect("a write that has ended began with a file");
        spill.begin_read(place, len).map_err(SpillError::Read)
    }

    fn finished(&mut self) -> Vec<(usize, Result<Spilled, SpillError>)> {
        let Some(spill) = &mut self.spill else { return Vec::new() };
        let ended = spill.finished().into_iter().map(|(number, ended)| {
            let ended = match ended {
                Ended::Write(result) => {
                    result.map(|()| Spilled::Written).map_err(SpillError::Write)
                }
                Ended::Read(result) => result.map(Spilled::Read).map_err(SpillError::Read),
            };
            (number, ended)
        });
        ended.collect()
    }

    fn forget(&self, place: u64, len: u64) -> Result<(), SpillError> {
        let Some(spill) = &self.spill else { return Ok(()) };
        spill.forget(place, len).map_err(SpillError::Forget)
    }

    fn is_in_memory(&self, memory: u32, number: u64) {
        if let Some(places) = &self.places {
            places.takes(memory, number);
        }
    }

    fn left_memory(&self, memory: u32) {
        if let Some(places) = &self.places {
            places.leaves(memory);
        }
    }

    fn is_spilled(&self, number: u64, is: bool) -> Result<(), SpillError> {
        let noted = self.places.as_ref().map_or(Ok(()), |places| places.in_file(number, is));
        noted.map_err(SpillError::Note)
    }
}

/// A file that is gone with this process.
fn create() -> Result<Spill, SpillError> {
    let folder = std::env::var_os("TAFFRAIL_SPILL");
    let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
    Spill::create(&folder)
        .map_err(|error| SpillError::Create { folder: folder.display().to_string(), error })
}
