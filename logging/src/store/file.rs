//! The event file: the records of one rank, one after the other (`docs/logging.md`, section 9).
//!
//! The same format lies on a disk, in the memory that a `process` logger fills, and in what is handed
//! to a restarted rank.

use crate::event::{RECORD, RecordError};
use crate::{Clocked, Event, Rank};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes before the first record.
pub const FILE_HEADER: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFEVTS");
const VERSION: u32 = 1;
/// A file is read in pieces of so many bytes.
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
    /// It does not matter: no damage of any kind was to be expected here.
    Anything,
}

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Behind::Record { clock, at } => {
                write!(f, "the file is damaged, record {clock} is whole behind it at byte {at}")
            }
            Behind::Anything => write!(f, "the events of this rank cannot be replayed"),
        }
    }
}

/// The first bytes of a file.
pub fn file_header(owner: Owner) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&owner.rank.to_le_bytes());
    bytes[16..24].copy_from_slice(&owner.job.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The events of a file that is whole, such as a download. `name` is what errors call it.
///
/// # Errors
/// [`FileError`], naming the field or the record: whatever is not exactly what was written.
pub fn read_events(owner: Owner, name: &str, bytes: &[u8]) -> Result<Vec<Clocked>, FileError> {
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
    };
    match scan.events(|event| events.push(event))? {
        (_, None) => Ok(events),
        (clock, Some(what)) => {
            Err(FileError::Record { file: name.into(), clock, what, behind: Behind::Anything })
        }
    }
}

/// The file that the events of a rank are appended to.
#[derive(Debug)]
pub struct EventFile {
    file: File,
    name: String,
    owner: Owner,
    records: u64,
}

impl EventFile {
    /// Opens the file of a rank in this folder; makes it first if it is not there. It is there, with
    /// its header, after a crash at any time, or not at all.
    ///
    /// # Errors
    /// [`FileError`]; a damaged file is left as it is.
    pub fn open_in(folder: &Path, owner: Owner) -> Result<(Self, u64), FileError> {
        let path = folder.join(format!("rank-{}.events", owner.rank));
        let name = path.display().to_string();
        let os = |call| {
            let file = name.clone();
            move |error| FileError::Os { file, call, error }
        };
        let open = || OpenOptions::new().read(true).write(true).open(&path);
        let file = match open() {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let new = path.with_extension("events.new");
                let made = File::create(&new).map_err(os("open"))?;
                made.write_all_at(&file_header(owner), 0).map_err(os("pwrite"))?;
                made.sync_all().map_err(os("fsync"))?;
                std::fs::rename(&new, &path).map_err(os("rename"))?;
                let folder = File::open(folder).map_err(os("open of its folder"))?;
                folder.sync_all().map_err(os("fsync of its folder"))?;
                open().map_err(os("open"))?
            }
            Err(e) => return Err(os("open")(e)),
        };
        EventFile::open(file, name, owner)
    }

    /// Goes through a file and cuts off its torn end: what was being written when the logger or the
    /// node died, and was not announced as stable. Returns how many bytes that were.
    ///
    /// # Errors
    /// [`FileError`] when a record is damaged that is no torn end; the file is left as it is.
    pub fn open(file: File, name: String, owner: Owner) -> Result<(Self, u64), FileError> {
        let os = |call| {
            let file = name.clone();
            move |error| FileError::Os { file, call, error }
        };
        let len = file.metadata().map_err(os("fstat"))?.len();
        let scan = Scan {
            owner,
            name: &name,
            len,
            read: |at, into: &mut [u8]| file.read_exact_at(into, at),
        };
        let (clock, torn) = scan.events(drop)?;
        let records = clock - 1;
        let end = offset(records);
        if torn.is_some() {
            file.set_len(end).map_err(os("ftruncate"))?;
        }
        Ok((EventFile { file, name, owner, records }, len - end))
    }

    /// How many records there are, which is the clock of the last one.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whose events these are.
    pub fn owner(&self) -> Owner {
        self.owner
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

    /// So many records were written at the end, and will stay there.
    pub(super) fn grown(&mut self, records: u64) {
        self.records += records;
    }

    /// Copies the header and all records, then `more` records that are to follow.
    ///
    /// # Errors
    /// [`FileError::Os`].
    pub fn copy(&self, more: &[u8], into: &File) -> Result<u64, FileError> {
        let os = |call| move |error| FileError::Os { file: self.name.clone(), call, error };
        let (mut at, mut piece) = (0, vec![0; PIECE]);
        while at < self.end() {
            let len = PIECE.min((self.end() - at) as usize);
            self.file.read_exact_at(&mut piece[..len], at).map_err(os("pread"))?;
            into.write_all_at(&piece[..len], at).map_err(os("pwrite of a copy"))?;
            at += len as u64;
        }
        into.write_all_at(more, at).map_err(os("pwrite of a copy"))?;
        Ok(at + more.len() as u64)
    }
}

fn offset(records: u64) -> u64 {
    (FILE_HEADER + RECORD * records as usize) as u64
}

/// A way through a file.
struct Scan<'a, R> {
    owner: Owner,
    name: &'a str,
    len: u64,
    read: R,
}

impl<R: Fn(u64, &mut [u8]) -> IoResult<()>> Scan<'_, R> {
    /// Tells of all good records. Returns the clock of the first one that is not there, and what is
    /// there instead, if anything is: then nothing behind that is good.
    fn events(
        &self,
        mut each: impl FnMut(Clocked),
    ) -> Result<(u64, Option<RecordError>), FileError> {
        self.header()?;
        let (mut clock, mut at, mut piece) = (1, FILE_HEADER as u64, vec![0; PIECE]);
        while at < self.len {
            let len = (PIECE as u64).min(self.len - at) as usize;
            self.get(at, &mut piece[..len])?;
            let (records, rest) = piece[..len].as_chunks::<RECORD>();
            for record in records {
                match Event::decode(self.owner.rank, record) {
                    Ok((got, event)) if got == clock => each(Clocked { clock, event }),
                    Ok((got, _)) => return Err(self.misplaced(clock, got)),
                    Err(what) => return self.torn(clock, what).map(|()| (clock, Some(what))),
                }
                clock += 1;
            }
            if !rest.is_empty() {
                return Ok((clock, Some(RecordError::Short { clock, got: rest.len() })));
            }
            at += len as u64;
        }
        Ok((clock, None))
    }

    fn header(&self) -> Result<(), FileError> {
        let wrong = |field, expected, got| {
            Err(FileError::Header { file: self.name.into(), field, expected, got })
        };
        if self.len < FILE_HEADER as u64 {
            return wrong("length in bytes, at least", FILE_HEADER as u64, self.len);
        }
        let mut got = [0; FILE_HEADER];
        self.get(0, &mut got)?;
        let expected = file_header(self.owner);
        let fields = [("magic", 0..8), ("version", 8..12), ("rank", 12..16), ("job", 16..24)];
        for (field, at) in fields.into_iter().chain([("zeros", 24..28), ("checksum", 28..32)]) {
            let (expected, got) = (number(&expected[at.clone()]), number(&got[at]));
            if expected != got {
                return wrong(field, expected, got);
            }
        }
        Ok(())
    }

    /// A record is not good. Only an end that was being written may be so: nothing good is behind it,
    /// at any byte, for bytes may be missing.
    fn torn(&self, clock: u64, what: RecordError) -> Result<(), FileError> {
        let file = || self.name.to_owned();
        if !matches!(what, RecordError::Empty | RecordError::Damaged { .. }) {
            return Err(FileError::Record { file: file(), clock, what, behind: Behind::Anything });
        }
        let (start, mut piece) = (offset(clock - 1) + 1, vec![0; PIECE]);
        let mut at = start;
        while at + RECORD as u64 <= self.len {
            let len = (PIECE as u64).min(self.len - at) as usize;
            self.get(at, &mut piece[..len])?;
            for (skip, bytes) in piece[..len].windows(RECORD).enumerate() {
                let Some(record) = bytes.first_chunk::<RECORD>() else { continue };
                if let Ok((found, _)) = Event::decode(self.owner.rank, record) {
                    let behind = Behind::Record { clock: found, at: at + skip as u64 };
                    return Err(FileError::Record { file: file(), clock, what, behind });
                }
            }
            at += (len - RECORD + 1) as u64;
        }
        Ok(())
    }

    fn misplaced(&self, clock: u64, got: u64) -> FileError {
        FileError::Misplaced { file: self.name.into(), clock, got }
    }

    fn get(&self, at: u64, into: &mut [u8]) -> Result<(), FileError> {
        let os = |error| FileError::Os { file: self.name.into(), call: "pread", error };
        (self.read)(at, into).map_err(os)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The error of a call, as [`Errno`] where it is one.
pub(super) fn errno(error: &Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
