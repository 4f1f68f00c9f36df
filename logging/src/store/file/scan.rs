//! Going through an event file, record by record.

use super::{Behind, End, FILE_HEADER, FileError, Owner, PIECE, file_header, offset};
use crate::event::{RECORD, RecordError};
use crate::{Event, LoggedEvent};
use std::io::Result as IoResult;

/// A way through a file.
pub(super) struct Scan<'a, R> {
    pub owner: Owner,
    pub name: &'a str,
    /// Bytes of the file.
    pub len: u64,
    /// Reads bytes from a place that are all there.
    pub read: R,
    pub end: End,
}

impl<R: Fn(u64, &mut [u8]) -> IoResult<()>> Scan<'_, R> {
    /// Reports all valid records, and returns their number. What is behind
    /// them, if anything is, may be cut off.
    pub fn events(&self, mut each: impl FnMut(LoggedEvent)) -> Result<u64, FileError> {
        check_header(self.name, self.len, &self.read, file_header(self.owner))?;
        let most = match self.end {
            End::Cut { clock, .. } => offset(clock),
            End::Torn | End::Whole => u64::MAX,
        };
        let (mut clock, mut at, mut piece) = (1, FILE_HEADER as u64, vec![0; PIECE]);
        let end = self.len.min(most);
        while at < end {
            let len = (PIECE as u64).min(end - at) as usize;
            self.get(at, &mut piece[..len])?;
            let (records, rest) = piece[..len].as_chunks::<RECORD>();
            for record in records {
                match Event::decode(self.owner.rank, record) {
                    Ok((got, event)) if got == clock => each(LoggedEvent { clock, event }),
                    Ok((got, _)) => return Err(self.misplaced(clock, got)),
                    Err(what) => return self.torn(clock, what).map(|()| clock - 1),
                }
                clock += 1;
            }
            if !rest.is_empty() {
                let what = RecordError::Short { clock, got: rest.len() };
                return self.torn(clock, what).map(|()| clock - 1);
            }
            at += len as u64;
        }
        match self.end {
            End::Cut { clock: last, .. } if clock <= last => {
                let what = RecordError::Short { clock, got: 0 };
                self.torn(clock, what).map(|()| clock - 1)
            }
            _ => Ok(clock - 1),
        }
    }

    /// A record is not good. Only an end that was being written may be so: nothing good is behind it,
    /// at any byte, for bytes may be missing.
    fn torn(&self, clock: u64, what: RecordError) -> Result<(), FileError> {
        let file = || self.name.to_owned();
        let refused = |behind| Err(FileError::Record { file: file(), clock, what, behind });
        match (self.end, what) {
            (End::Cut { number, .. }, _) => return refused(Behind::Cut { number }),
            (End::Torn, RecordError::Short { .. }) => return Ok(()),
            (End::Torn, RecordError::Empty | RecordError::Damaged { .. }) => {}
            _ => return refused(Behind::Anything),
        }
        let (start, mut piece) = (offset(clock - 1) + 1, vec![0; PIECE]);
        let mut at = start;
        while at + RECORD as u64 <= self.len {
            let len = (PIECE as u64).min(self.len - at) as usize;
            self.get(at, &mut piece[..len])?;
            for (skip, bytes) in piece[..len].windows(RECORD).enumerate() {
                let Some(record) = bytes.first_chunk::<RECORD>() else { continue };
                if let Ok((found, _)) = Event::decode(self.owner.rank, record) {
                    return refused(Behind::Record { clock: found, at: at + skip as u64 });
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

/// Whether a file of this length begins with this header, field by field.
///
/// # Errors
/// [`FileError::Header`] naming the field that does not; [`FileError::Os`].
pub fn check_header(
    name: &str,
    len: u64,
    read: impl FnOnce(u64, &mut [u8]) -> IoResult<()>,
    expected: [u8; FILE_HEADER],
) -> Result<(), FileError> {
    let wrong =
        |field, expected, got| Err(FileError::Header { file: name.into(), field, expected, got });
    if len < FILE_HEADER as u64 {
        return wrong("length in bytes, at least", FILE_HEADER as u64, len);
    }
    let mut got = [0; FILE_HEADER];
    let os = |error| FileError::Os { file: name.into(), call: "pread", error };
    read(0, &mut got).map_err(os)?;
    let fields = [("magic", 0..8), ("version", 8..12), ("rank", 12..16), ("job", 16..24)];
    for (field, at) in fields.into_iter().chain([("zeros", 24..28), ("checksum", 28..32)]) {
        let (expected, got) = (number(&expected[at.clone()]), number(&got[at]));
        if expected != got {
            return wrong(field, expected, got);
        }
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
