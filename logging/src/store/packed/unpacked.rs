//! What is handed to a rank that is started again, while it is read.

use super::{BlockError, HEAD, Packer, block_len, packed_header, unpack, word};
use crate::LoggedEvent;
use crate::store::file::{FILE_HEADER, FileError, Owner, check_header, file_header};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// The events of a packed store that is whole, such as a download, in their order. They are taken out of it
/// one by one, since all of them may be many times as long.
#[derive(Clone, Debug, Default)]
pub struct Unpacked {
    bytes: Arc<Vec<u8>>,
    at: usize,
    /// Events that are left of this block.
    left: u32,
    packer: Packer,
    /// The clock of the event before the next, and of the last.
    clock: u64,
    last: u64,
}

impl Unpacked {
    /// Goes through the bytes of a store. `name` is what errors call it.
    ///
    /// # Errors
    /// [`FileError`], naming the field or the block: whatever is not exactly what was written.
    pub fn new(owner: Owner, name: &str, bytes: Vec<u8>) -> Result<Unpacked, FileError> {
        let read = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at as usize..][..into.len()]);
            Ok(())
        };
        check_header(name, bytes.len() as u64, read, packed_header(owner))?;
        let (mut rest, mut last) = (&bytes[FILE_HEADER..], 0);
        while !rest.is_empty() {
            let whole = rest.get(..HEAD).map_or(HEAD, block_len);
            let block = rest.get(..whole).ok_or(BlockError::Short { got: rest.len() });
            let count = block.and_then(|block| unpack(owner.rank, last + 1, block));
            last += count.map_err(|what| {
                let (file, clock) = (name.to_owned(), last + 1);
                FileError::Block { file, clock, what }
            })?;
            rest = &rest[whole..];
        }
        let (bytes, at) = (Arc::new(bytes), FILE_HEADER);
        Ok(Unpacked { bytes, at, last, ..Unpacked::default() })
    }

    /// The clock of the last event, 0 if there is none.
    pub fn last_clock(&self) -> u64 {
        self.last
    }

    /// Writes them as an event file, if none was taken out yet.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write_to(self, owner: Owner, file: &File) -> std::io::Result<()> {
        let mut file = BufWriter::new(file);
        file.write_all(&file_header(owner))?;
        for LoggedEvent { clock, event } in self {
            file.write_all(&event.encode(owner.rank, clock))?;
        }
        file.flush()
    }

    /// Those behind this clock.
    pub fn behind(mut self, clock: u64) -> Unpacked {
        while self.clock < clock.min(self.last) {
            self.next();
        }
        self
    }
}

impl Iterator for Unpacked {
    type Item = LoggedEvent;

    #[inline]
    #[expect(clippy::expect_used, reason = "the bytes were decoded once when this was made")]
    fn next(&mut self) -> Option<LoggedEvent> {
        while self.left == 0 {
            self.left = word(self.bytes.get(self.at..self.at + HEAD)?, 4);
            self.at += HEAD;
            self.packer = Packer::default();
        }
        let mut rest = &self.bytes[self.at..];
        let event = self.packer.unpack(&mut rest).expect("it was gone through before");
        self.at = self.bytes.len() - rest.len();
        self.left -= 1;
        self.clock += 1;
        Some(LoggedEvent { clock: self.clock, event })
    }
}
