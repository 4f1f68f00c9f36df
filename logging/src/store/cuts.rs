//! The cut file of a set: up to where the event files of its members are to be believed
//! (`docs/logging.md`, section 9).

use super::file::Folder;
use crate::Rank;
use crate::cut::{Cut, CutError, Set};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;

/// Why the cut file of a set is not used.
#[derive(Debug, thiserror::Error)]
pub enum CutFileError {
    /// The operating system refused.
    #[error("cut file {file}: {call} failed: {error}")]
    Os {
        /// The file.
        file: String,
        /// The system call.
        call: &'static str,
        /// Its error.
        error: Error,
    },
    /// What is in it is no cut of this set.
    #[error("cut file {file}: {what}")]
    Cut {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: CutError,
    },
    /// It is not there, but should be.
    #[error(
        "cut file {file} is not there, but rank {rank} of its set has {records} records: it was removed, and nobody knows which of them are to be believed"
    )]
    Missing {
        /// The file.
        file: String,
        /// A rank of the set.
        rank: Rank,
        /// How many records its event file has.
        records: u64,
    },
}

/// The name of the cut file of this set.
pub(super) fn cut_file_name(set: &Set) -> String {
    format!("set-{}.cuts", set.number)
}

/// The cut file of a set.
#[derive(Debug)]
pub(super) struct CutFile {
    file: File,
    name: String,
    set: Set,
    last: Cut,
}

impl CutFile {
    /// Opens the file of a set in this folder, if it is there, and syncs it: the last cut in it will
    /// stay.
    ///
    /// # Errors
    /// [`CutFileError`]; the file is left as it is.
    pub fn open_in(
        folder: &(impl Folder + ?Sized),
        set: Set,
    ) -> Result<Option<Self>, CutFileError> {
        let name = folder.display(&cut_file_name(&set));
        let os = |call| {
            let file = name.clone();
            move |error| CutFileError::Os { file, call, error }
        };
        let file = match folder.open(&cut_file_name(&set)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(os("open"))?,
        };
        file.sync_data().map_err(os("fdatasync"))?;
        // One byte more shows that it is longer.
        let len = file.metadata().map_err(os("fstat"))?.len().min(set.file() as u64 + 1);
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0).map_err(os("pread"))?;
        match Cut::last(&set, &bytes) {
            Ok(last) => Ok(Some(CutFile { file, name, set, last })),
            Err(what) => Err(CutFileError::Cut { file: name, what }),
        }
    }

    /// Makes the file, with the cut before the first event.
    ///
    /// # Errors
    /// [`CutFileError::Os`].
    ///
    /// # Panics
    /// If these are not as many ranks as the set has.
    pub fn make_in(
        folder: &(impl Folder + ?Sized),
        set: Set,
        ranks: Vec<Rank>,
    ) -> Result<Self, CutFileError> {
        let file_name = cut_file_name(&set);
        let name = folder.display(&file_name);
        let os = |call, error| CutFileError::Os { file: name.clone(), call, error };
        let last = Cut::none(ranks);
        let (at, cut) = last.encode(&set);
        let mut bytes = vec![0; set.file()];
        bytes[at as usize..][..cut.len()].copy_from_slice(&cut);
        folder.make(&file_name, &bytes).map_err(|(call, error)| os(call, error))?;
        let file = folder.open(&file_name).map_err(|error| os("open", error))?;
        Ok(CutFile { file, name, set, last })
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last cut that was made.
    pub fn last(&self) -> &Cut {
        &self.last
    }

    /// The file, to write the next cut to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The cut after the last one, and where its bytes go. All records that it names must be synced
    /// before it is written.
    pub fn next(&self, clocks: Vec<(Rank, u64)>) -> (Cut, u64, Vec<u8>) {
        let cut = Cut { number: self.last.number + 1, clocks };
        let (at, bytes) = cut.encode(&self.set);
        (cut, at, bytes)
    }

    /// This cut was written and synced.
    pub fn made(&mut self, cut: Cut) {
        debug_assert_eq!(cut.number, self.last.number + 1);
        self.last = cut;
    }
}
