//! The part of the payload log that is not in memory: what is on its way to the file, and back.

use super::host::{SpillError, SpillStore, Spilled};
use crate::{Error, NotNow};
use taffrail_fabric::MemoryError;

/// How often others find no room before what was read and not taken is dropped: who wanted it has died meanwhile, or has
/// no room towards its peer.
const PATIENCE: u32 = 1000;

/// Segments in the spill store, and those on their way there and back.
pub(crate) struct SpilledSegments<S> {
    pub(crate) spill: S,
    /// Segments that are being written: the number of the write, and theirs.
    writes: Vec<(usize, u64)>,
    reads: Vec<Read>,
    /// Reads under way of segments that were given up meanwhile.
    abandoned: usize,
}

/// Bytes that are read from the file, until they are taken.
struct Read {
    place: u64,
    len: usize,
    state: ReadState,
}

impl Read {
    fn is_under_way(&self) -> bool {
        matches!(self.state, ReadState::UnderWay(_))
    }
}

enum ReadState {
    /// The number of the read.
    UnderWay(usize),
    /// What it came to, and how often others have found no room since.
    Ended(Result<Vec<u8>, Error>, u32),
}

impl<S: SpillStore> SpilledSegments<S> {
    pub(crate) fn new(spill: S) -> Self {
        SpilledSegments { spill, writes: Vec::new(), reads: Vec::new(), abandoned: 0 }
    }

    /// Whether a segment is being written.
    pub(crate) fn writes(&self, number: u64) -> bool {
        self.writes.iter().any(|(_, under_way)| *under_way == number)
    }

    /// A segment is not needed any more. What was read of it is not either.
    pub(crate) fn forget(&mut self, number: u64, size: usize) {
        self.reads.retain(|read| {
            let stays = read.place / size as u64 != number;
            self.abandoned += usize::from(!stays && read.is_under_way());
            stays
        });
        if let Err(error) = self.spill.forget(number * size as u64, size as u64) {
            tracing::debug!(%error, "the file of sent messages keeps room that it does not need");
        }
    }

    /// How many segments are being written.
    pub(crate) fn under_way(&self) -> usize {
        self.writes.len()
    }

    /// Whether the end of a read or write makes room for a segment of `len` bytes: in memory, or in the store, which takes
    /// no more of them at once than it can.
    pub(crate) fn makes_room(&self, len: usize) -> bool {
        let frees = |read: &Read| read.is_under_way() || read.len == len;
        self.abandoned + self.writes.len() > 0 || self.reads.iter().any(frees)
    }

    /// How many reads of `len` bytes there are whose bytes were not taken yet.
    pub(crate) fn reads(&self, len: usize) -> usize {
        self.reads.iter().filter(|read| read.len == len).count()
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

    /// Begins to read `len` bytes from `from`, which are taken as those of `place`. Nothing begins while all reads and
    /// writes that can be are under way.
    ///
    /// # Errors
    /// [`Error::Memory`] when the file cannot be read.
    pub(crate) fn begin_read(&mut self, place: u64, from: u64, len: usize) -> Result<(), Error> {
        if let Some(read) = self.spill.begin_read(from, len).map_err(refused)? {
            self.reads.push(Read { place, len, state: ReadState::UnderWay(read) });
        }
        Ok(())
    }

    /// Takes what was read from a place; `None` if it is not being read.
    ///
    /// # Errors
    /// [`NotNow::Waits`] until the read has ended, and [`Error::Memory`] when it has failed.
    pub(crate) fn take(&mut self, place: u64, len: usize) -> Result<Option<Vec<u8>>, NotNow> {
        let is_it = |read: &Read| read.place == place && read.len == len;
        let Some(at) = self.reads.iter().position(is_it) else { return Ok(None) };
        if let ReadState::UnderWay(_) = self.reads[at].state {
            return Err(NotNow::Waits);
        }
        match self.reads.swap_remove(at).state {
            ReadState::UnderWay(_) => Ok(None),
            ReadState::Ended(result, _) => Ok(Some(result?)),
        }
    }

    /// There is no room yet for what was taken.
    pub(crate) fn put_back(&mut self, place: u64, bytes: Vec<u8>) {
        let len = bytes.len();
        self.reads.push(Read { place, len, state: ReadState::Ended(Ok(bytes), 0) });
    }

    /// Somebody has found no room: what nobody takes is dropped in the end.
    pub(crate) fn age(&mut self) {
        self.reads.retain_mut(|read| match &mut read.state {
            ReadState::UnderWay(_) => true,
            ReadState::Ended(_, age) => {
                *age += 1;
                *age < PATIENCE
            }
        });
    }

    /// The numbers of segments that are in the file by now. And the error of a write that has failed, if one has: its
    /// segment stays in memory, and is lost to others.
    pub(crate) fn reap(&mut self) -> (Vec<u64>, Result<(), Error>) {
        let mut written = Vec::new();
        let mut result = Ok(());
        if self.writes.is_empty() && self.reads.is_empty() && self.abandoned == 0 {
            return (written, result);
        }
        for (number, ended) in self.spill.finished() {
            if let Some(at) = self.writes.iter().position(|(write, _)| *write == number) {
                let (_, segment) = self.writes.swap_remove(at);
                match ended {
                    Ok(_) => written.push(segment),
                    Err(error) => result = Err(refused(error)),
                }
                continue;
            }
            let is_it =
                |read: &&mut Read| matches!(read.state, ReadState::UnderWay(n) if n == number);
            match self.reads.iter_mut().find(is_it) {
                Some(read) => {
                    let bytes = ended.map(Spilled::into_bytes).map_err(refused);
                    read.state = ReadState::Ended(bytes, 0);
                }
                None => self.abandoned = self.abandoned.saturating_sub(1),
            }
        }
        (written, result)
    }
}

pub(crate) fn refused(error: SpillError) -> Error {
    Error::Memory(MemoryError::Refused {
        what: "the log of sent messages",
        why: error.to_string(),
        remedy: "give it more memory with --log-memory, or a folder with more room (TAFFRAIL_SPILL)",
    })
}
