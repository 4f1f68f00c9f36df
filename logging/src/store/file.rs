//! The event file: the records of one rank, one after the other (`docs/logging.md`, section 9).
//!
//! So they lie on a disk and in the memory that a `node` logger fills: each at a place of its own, so that
//! those behind a cut can be written again. What a `process` logger fills, and what is handed to a restarted
//! rank, is [packed](super::packed).

mod scan;

use super::packed::{BlockError, copy_packed};
use crate::event::{RECORD, RecordError};
use crate::{Event, LoggedEvent, Rank};
use rustix::io::Errno;
use scan::Scan;
pub(super) use scan::check_header;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes before the first record.
pub const FILE_HEADER: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFEVTS");
const VERSION: u32 = 1;
/// A file is read in pieces of this many bytes.
const PIECE: usize = 1 << 18;

/// Whose events a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The rank.
    pub rank: Rank,
    /// Digest of the job's identity.
    pub job: u64,
}

/// Why a file of events is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("event file {file}: {call} failed: {error}")]
    Os {
        /// The file.
        file: String,
        /// The system call.
        call: &'static str,
        /// Its error.
        error: Error,
    },
    /// The header is not that of this rank's file.
    #[error(
        "event file {file}: {field}: expected {expected:#x}, got {got:#x}; it is damaged, or another job's: give a folder of its own to each job"
    )]
    Header {
        /// The file.
        file: String,
        /// Which field.
        field: &'static str,
        /// What it should be.
        expected: u64,
        /// What it is.
        got: u64,
    },
    /// A record is damaged, and it is not the torn end of the file.
    #[error("event file {file}, record {clock}: {what}; {behind}")]
    Record {
        /// The file.
        file: String,
        /// The clock that the record should have.
        clock: u64,
        /// What is wrong with it.
        what: RecordError,
        /// Why it is not the torn end of the file.
        behind: Behind,
    },
    /// Damaged memory of events.
    #[error("event store {file}, the block that begins with record {clock}: {what}")]
    Block {
        /// The store.
        file: String,
        /// The clock that its first record should have.
        clock: u64,
        /// What is wrong with it.
        what: BlockError,
    },
    /// A whole record, of another place.
    #[error("event file {file}, record {clock}: found record {got} in its place")]
    Misplaced {
        /// The file.
        file: String,
        /// The clock that the record should have.
        clock: u64,
        /// The clock that it has.
        got: u64,
    },
}

/// Where the records of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Wherever there are no more: the last one may be torn.
    Torn,
    /// Where the file ends, all of which is good.
    Whole,
    /// Where a cut of the set says. All that it names must be there, and nothing else counts.
    Cut {
        /// The clock of the last record.
        clock: u64,
        /// The number of the cut.
        number: u64,
    },
}

/// What lies behind a damaged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A good record.
    Record {
        /// Its clock.
        clock: u64,
        /// Where it begins, in bytes from the beginning of the file.
        at: u64,
    },
    /// A cut of the set, made after the record was synced.
    Cut {
        /// Its number.
        number: u64,
    },
    /// It does not matter: no damage of any kind was to be expected here.
    Anything,
}

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Behind::Record { clock, at } => {
                write!(f, "the file is damaged, record {clock} is whole behind it at byte {at}")
            }
            Behind::Cut { number } => {
                write!(f, "the file is damaged, cut {number} of its set has this record")
            }
            Behind::Anything => write!(f, "the events of this rank cannot be replayed"),
        }
    }
}

/// The first bytes of a file.
pub fn file_header(owner: Owner) -> [u8; FILE_HEADER] {
    header(MAGIC, VERSION, owner)
}

/// The first bytes of whatever has the events of a rank.
pub(super) fn header(magic: u64, version: u32, owner: Owner) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..8].copy_from_slice(&magic.to_le_bytes());
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..16].copy_from_slice(&owner.rank.to_le_bytes());
    bytes[16..24].copy_from_slice(&owner.job.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The events of a file that is whole. `name` is what errors call it.
///
/// # Errors
/// [`FileError`], naming the field or the record: whatever is not exactly what was written.
pub fn read_events(owner: Owner, name: &str, bytes: &[u8]) -> Result<Vec<LoggedEvent>, FileError> {
    let mut events = Vec::with_capacity(bytes.len() / RECORD);
    let scan = Scan {
        owner,
        name,
        len: bytes.len() as u64,
        read: |at, into: &mut [u8]| {
            let (at, len) = (at as usize, into.len());
            into.copy_from_slice(&bytes[at..at + len]);
            Ok(())
        },
        end: End::Whole,
    };
    scan.events(|event| events.push(event))?;
    Ok(events)
}

/// The file that the events of a rank are appended to.
#[derive(Debug)]
pub struct EventFile {
    file: File,
    name: String,
    records: u64,
}

impl EventFile {
    /// Opens the file of a rank in this folder; makes it first if it is not there. It is there, with
    /// its header, after a crash at any time, or not at all.
    ///
    /// # Errors
    /// [`FileError`]; a damaged file is left as it is.
    pub fn open_in(
        folder: &(impl Folder + ?Sized),
        owner: Owner,
        end: End,
    ) -> Result<(Self, u64), FileError> {
        let file_name = format!("rank-{}.events", owner.rank);
        let name = folder.display(&file_name);
        let os = |call, error| FileError::Os { file: name.clone(), call, error };
        let file = match folder.open(&file_name) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let header = file_header(owner);
                folder.make(&file_name, &header).map_err(|(call, error)| os(call, error))?;
                folder.open(&file_name)
            }
            opened => opened,
        };
        let file = file.map_err(|error| os("open", error))?;
        EventFile::open(file, name, owner, end)
    }

    /// Goes through a file and cuts off what is behind its end: what was being written when the logger
    /// or the node died, and was not announced as stable. Returns how many bytes that were.
    ///
    /// # Errors
    /// [`FileError`] when a record is damaged that is no torn end; the file is left as it is.
    pub fn open(
        file: File,
        name: String,
        owner: Owner,
        end: End,
    ) -> Result<(Self, u64), FileError> {
        let os = |call| {
            let file = name.clone();
            move |error| FileError::Os { file, call, error }
        };
        let len = file.metadata().map_err(os("fstat"))?.len();
        let read = |at, into: &mut [u8]| file.read_exact_at(into, at);
        let records = Scan { owner, name: &name, len, read, end }.events(drop)?;
        let cut = len - offset(records);
        if cut > 0 {
            file.set_len(offset(records)).map_err(os("ftruncate"))?;
        }
        Ok((EventFile { file, name, records }, cut))
    }

    /// How many records there are, which is the clock of the last one.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file, to write at [`end`](Self::end).
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Where the next record goes.
    pub(super) fn end(&self) -> u64 {
        offset(self.records)
    }

    /// The number of records that were written at the end, and will stay there.
    pub(super) fn grown(&mut self, records: u64) {
        self.records += records;
    }

    /// Nobody knows whether the records behind these were synced: they are written again.
    pub(super) fn go_back(&mut self, records: u64) {
        debug_assert!(records <= self.records);
        self.records = records;
    }

    /// Whatever is in the file is on disk.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        let os = |error| FileError::Os { file: self.name.clone(), call: "fdatasync", error };
        self.file.sync_data().map_err(os)
    }

    /// Reports all events.
    ///
    /// # Errors
    /// [`FileError`] when a record is damaged; what was reported is not to be believed.
    pub(super) fn events(
        &self,
        owner: Owner,
        mut each: impl FnMut(Event),
    ) -> Result<(), FileError> {
        let read = |at, into: &mut [u8]| self.file.read_exact_at(into, at);
        let scan = Scan { owner, name: &self.name, len: self.end(), read, end: End::Whole };
        scan.events(|event| each(event.event)).map(drop)
    }
}

/// Copies the first records of an event file as a [packed store](super::Unpacked), after a look at each of them.
///
/// # Errors
/// [`FileError`]: there are not that many, or one is damaged.
pub fn hand_out(
    file: File,
    name: &str,
    owner: Owner,
    records: u64,
    into: &File,
) -> Result<(), FileError> {
    let file = EventFile { file, name: name.to_owned(), records };
    copy_packed(&file, owner, into).map(drop)
}

fn offset(records: u64) -> u64 {
    records.saturating_mul(RECORD as u64).saturating_add(FILE_HEADER as u64)
}

/// Where the files of an event logger are. The simulator has one of memory.
pub trait Folder {
    /// A file that is there, to be read and written.
    ///
    /// # Errors
    /// That of the system call.
    fn open(&self, name: &str) -> IoResult<File>;

    /// Makes a file that is there with these bytes, after a crash at any time, or not at all.
    ///
    /// # Errors
    /// The system call and its error.
    fn make(&self, name: &str, bytes: &[u8]) -> Result<(), (&'static str, Error)>;

    /// What errors call a file.
    fn display(&self, name: &str) -> String;
}

impl Folder for Path {
    fn open(&self, name: &str) -> IoResult<File> {
        OpenOptions::new().read(true).write(true).open(self.join(name))
    }

    fn make(&self, name: &str, bytes: &[u8]) -> Result<(), (&'static str, Error)> {
        make(&self.join(name), bytes)
    }

    fn display(&self, name: &str) -> String {
        self.join(name).display().to_string()
    }
}

fn make(path: &Path, bytes: &[u8]) -> Result<(), (&'static str, Error)> {
    let mut new = path.to_owned();
    new.add_extension("new");
    let folder = path.parent().unwrap_or(Path::new("."));
    let made = File::create(&new).map_err(|e| ("open", e))?;
    made.write_all_at(bytes, 0).map_err(|e| ("pwrite", e))?;
    made.sync_all().map_err(|e| ("fsync", e))?;
    std::fs::rename(&new, path).map_err(|e| ("rename", e))?;
    let folder = File::open(folder).map_err(|e| ("open of its folder", e))?;
    folder.sync_all().map_err(|e| ("fsync of its folder", e))
}

/// The error of a call, as [`Errno`] where it is one.
pub(super) fn errno(error: &Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
