//! Where the checkpoints of a rank are: a file that outlives its processes, in which the last one that was
//! committed stays whole while the next is written (`docs/logging.md`, section 14, has the bytes).
//!
//! It is memory, so it survives killed processes, as events of durability `process` do. Nothing is synced:
//! what a process has written is there for the next, in the order in which it was written.

use super::file::Owner;
use super::memory::{Memory, MemoryError};
use super::ring::Words;
use crate::{Position, Rank};
use rustix::fs::{FallocateFlags, SealFlags};
use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFCKPT");
const VERSION: u32 = 1;
/// The word that says which checkpoints may be announced begins at this byte.
const ANNOUNCE: u64 = 8;
/// Bytes before the checkpoints that are in use, as whole words.
const FRONT: usize = 16;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;
/// Bytes of a checkpoint before its position.
const HEADER: usize = 64;
/// The two places for checkpoints begin at one and two times this byte. Between them is nothing.
const PLACE: u64 = 1 << 40;
/// Parts that one call writes (Linux allows 1024).
const PARTS: usize = 1024;

/// The file.
#[derive(Debug)]
pub struct CheckpointFiles {
    file: File,
    owner: Owner,
    /// The number of the last checkpoint that is committed; 0: there is none.
    last: u64,
}

/// Which checkpoints may be announced, as a process reads it with every turn of progress.
#[derive(Debug)]
pub struct Announcements(Memory);

impl Announcements {
    /// Whether a checkpoint may be announced.
    pub fn may_announce(&self, number: u64) -> bool {
        let before = self.0.word(ANNOUNCE as usize / 8).load(Ordering::Acquire);
        before == 0 || number < before
    }
}

/// A committed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number, from 1.
    pub number: u64,
    /// The incarnation of the rank that took it.
    pub incarnation: u32,
    /// Where the rank was.
    pub position: Vec<u8>,
    /// What its program needs to go on.
    pub state: Vec<u8>,
}

/// The bytes of a checkpoint in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its number, from 1.
    pub number: u64,
    /// The incarnation of the rank that took it.
    pub incarnation: u32,
    /// Where it begins.
    pub at: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// What a checkpoint is, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its number, from 1.
    pub number: u64,
    /// The incarnation of the rank that took it.
    pub incarnation: u32,
    /// The clock of the last event before it.
    pub clock: u64,
}

/// Why the last checkpoint cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("the checkpoints of rank {rank}: reading failed: {error}")]
    Os {
        /// Whose they are.
        rank: Rank,
        /// Why.
        error: std::io::Error,
    },
    /// A field is not what it should be.
    #[error(
        "checkpoint {number} of rank {rank}: {field}: expected {expected:#x}, got {got:#x}; it was damaged after it had been committed, and nothing can take its place: others have dropped what it covers"
    )]
    Damaged {
        /// Whose it is.
        rank: Rank,
        /// Which one.
        number: u64,
        /// What of it.
        field: &'static str,
        /// What it should be.
        expected: u64,
        /// What it is.
        got: u64,
    },
}

/// What the header of a checkpoint says.
struct Header {
    incarnation: u32,
    position: u64,
    state: u64,
    body: u32,
}

impl CheckpointFiles {
    /// The checkpoints of a rank. An empty file is one without checkpoints.
    ///
    /// # Errors
    /// [`CheckpointError::Os`].
    pub fn open(file: File, owner: Owner) -> Result<CheckpointFiles, CheckpointError> {
        let last =
            committed(&file).map_err(|error| CheckpointError::Os { rank: owner.rank, error })?;
        Ok(CheckpointFiles { file, owner, last })
    }

    /// Looks for a checkpoint that somebody else has committed meanwhile. The number of the last one; 0: there is none.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn look(&mut self) -> std::io::Result<u64> {
        self.last = committed(&self.file)?;
        Ok(self.last)
    }

    /// The number of the checkpoint that was the last one when it was looked for; 0: there was none.
    pub fn last_number(&self) -> u64 {
        self.last
    }

    /// Bytes of the file, from this one on.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn read(&self, into: &mut [u8], at: u64) -> std::io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    /// A file with one checkpoint, whose bytes were copied to their [place](checkpoint_place): it is the last one from then on.
    ///
    /// # Errors
    /// [`CheckpointError`] when it is not whole, or not this rank's. There is none then.
    pub fn adopt(
        file: File,
        owner: Owner,
        number: u64,
    ) -> Result<CheckpointFiles, CheckpointError> {
        let adopted = CheckpointFiles { file, owner, last: number };
        adopted.check()?;
        let committed = adopted.file.write_all_at(&number.to_le_bytes(), 0);
        committed.map_err(|error| CheckpointError::Os { rank: owner.rank, error })?;
        Ok(adopted)
    }

    /// Which checkpoints may be announced from now on: those up to this one, or all as soon as they are committed.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn let_announce(&self, up_to: Option<u64>) -> std::io::Result<()> {
        let word = up_to.map_or(0, |number| number + 1);
        self.file.write_all_at(&word.to_le_bytes(), ANNOUNCE)
    }

    /// Gets ready to read which checkpoints may be announced.
    ///
    /// # Errors
    /// [`MemoryError`] when there is no memory for that.
    pub fn announcements(&self) -> Result<Announcements, MemoryError> {
        let os = |call| move |errno| MemoryError::Os { call, bytes: FRONT, errno };
        let flags = FallocateFlags::empty();
        let allocate = || rustix::fs::fallocate(&self.file, flags, 0, FRONT as u64);
        rustix::io::retry_on_intr(allocate).map_err(os("fallocate"))?;
        let sealed = rustix::fs::fcntl_add_seals(&self.file, SealFlags::SHRINK);
        sealed.map_err(os("fcntl(F_ADD_SEALS)"))?;
        Memory::map_front(self.file.as_fd(), FRONT, u64::MAX).map(Announcements)
    }

    /// Writes a checkpoint, and commits it: it is the last one from then on. Returns its number.
    ///
    /// # Errors
    /// Those of the operating system: there is no room. The one before is the last one still.
    pub fn commit(
        &mut self,
        incarnation: u32,
        position: &[u8],
        state: &[IoSlice<'_>],
    ) -> std::io::Result<u64> {
        let number = self.last + 1;
        let bytes: usize = state.iter().map(|part| part.len()).sum();
        let mut front = Vec::with_capacity(HEADER + position.len());
        front.extend_from_slice(&MAGIC.to_le_bytes());
        for word in [VERSION, self.owner.rank] {
            front.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.owner.job, number] {
            front.extend_from_slice(&word.to_le_bytes());
        }
        for word in [incarnation, 0] {
            front.extend_from_slice(&word.to_le_bytes());
        }
        for word in [position.len() as u64, bytes as u64] {
            front.extend_from_slice(&word.to_le_bytes());
        }
        let body = state
            .iter()
            .fold(crc32c::crc32c(position), |sum, part| crc32c::crc32c_append(sum, part));
        front.extend_from_slice(&body.to_le_bytes());
        front.extend_from_slice(&crc32c::crc32c(&front).to_le_bytes());
        front.extend_from_slice(position);

        let mut parts = Vec::with_capacity(1 + state.len());
        parts.push(IoSlice::new(&front));
        parts.extend(state.iter().filter(|part| !part.is_empty()));
        write_all_at(&self.file, &mut parts, checkpoint_place(number))?;
        // One word, which is there or not: the call is over before its process can be killed.
        self.file.write_all_at(&number.to_le_bytes(), 0)?;
        self.last = number;
        Ok(number)
    }

    /// The last checkpoint that was committed.
    ///
    /// # Errors
    /// [`CheckpointError`] when it is not what was written.
    pub fn last(&self) -> Result<Option<Committed>, CheckpointError> {
        if self.last == 0 {
            return Ok(None);
        }
        let header = self.header()?;
        let os = |error| CheckpointError::Os { rank: self.owner.rank, error };
        let mut position = vec![0; header.position as usize];
        let mut state = vec![0; header.state as usize];
        let at = checkpoint_place(self.last) + HEADER as u64;
        self.file.read_exact_at(&mut position, at).map_err(os)?;
        self.file.read_exact_at(&mut state, at + header.position).map_err(os)?;
        let body = crc32c::crc32c_append(crc32c::crc32c(&position), &state);
        if body != header.body {
            return Err(self.damaged("sum of the body", body.into(), header.body.into()));
        }
        let Header { incarnation, .. } = header;
        Ok(Some(Committed { number: self.last, incarnation, position, state }))
    }

    /// Where the bytes of the last checkpoint are, if there is one.
    ///
    /// # Errors
    /// As [`last`](Self::last), as far as its header is concerned.
    pub fn extent(&self) -> Result<Option<Extent>, CheckpointError> {
        if self.last == 0 {
            return Ok(None);
        }
        let Header { incarnation, position, state, .. } = self.header()?;
        let (at, len) = (checkpoint_place(self.last), HEADER as u64 + position + state);
        Ok(Some(Extent { number: self.last, incarnation, at, len }))
    }

    /// Whether all of the last checkpoint is what was written.
    fn check(&self) -> Result<(), CheckpointError> {
        let Header { position, state, body, .. } = self.header()?;
        let (mut at, mut left) =
            (checkpoint_place(self.last) + HEADER as u64, position.saturating_add(state));
        let (mut sum, mut piece) = (0, vec![0; PIECE]);
        while left > 0 {
            let now = left.min(PIECE as u64);
            let piece = &mut piece[..now as usize];
            let read = self.file.read_exact_at(piece, at);
            read.map_err(|error| CheckpointError::Os { rank: self.owner.rank, error })?;
            sum = crc32c::crc32c_append(sum, piece);
            (at, left) = (at + now, left - now);
        }
        match sum == body {
            true => Ok(()),
            false => Err(self.damaged("sum of the body", sum.into(), body.into())),
        }
    }

    /// What the last checkpoint is, without reading it, if there is one.
    ///
    /// # Errors
    /// As [`last`](Self::last), as far as its header is concerned.
    pub fn summary(&self) -> Result<Option<Summary>, CheckpointError> {
        if self.last == 0 {
            return Ok(None);
        }
        let incarnation = self.header()?.incarnation;
        let mut front = [0; 8];
        let read = self.file.read_exact_at(&mut front, checkpoint_place(self.last) + HEADER as u64);
        read.map_err(|error| CheckpointError::Os { rank: self.owner.rank, error })?;
        let clock = Position::clock(front);
        Ok(Some(Summary { number: self.last, incarnation, clock }))
    }

    fn header(&self) -> Result<Header, CheckpointError> {
        let mut bytes = [0; HEADER];
        let read = self.file.read_exact_at(&mut bytes, checkpoint_place(self.last));
        read.map_err(|error| CheckpointError::Os { rank: self.owner.rank, error })?;
        let words: [u64; HEADER / 8] = {
            let words = bytes.as_chunks::<8>().0;
            std::array::from_fn(|k| u64::from_le_bytes(words[k]))
        };
        let [magic, version, job, number, incarnation, position, state, sums] = words;
        let whose = u64::from(VERSION) | u64::from(self.owner.rank) << 32;
        let sum = crc32c::crc32c(&bytes[..HEADER - 4]);
        for (field, expected, got) in [
            ("magic", MAGIC, magic),
            ("version and rank", whose, version),
            ("job", self.owner.job, job),
            ("number", self.last, number),
            ("sum of the header", sum.into(), sums >> 32),
        ] {
            if expected != got {
                return Err(self.damaged(field, expected, got));
            }
        }
        Ok(Header { incarnation: incarnation as u32, position, state, body: sums as u32 })
    }

    fn damaged(&self, field: &'static str, expected: u64, got: u64) -> CheckpointError {
        CheckpointError::Damaged { rank: self.owner.rank, number: self.last, field, expected, got }
    }
}

/// Writes parts, of which none is empty, behind each other; many with each call: where all is short, calls are what takes time.
fn write_all_at(file: &File, mut parts: &mut [IoSlice<'_>], mut at: u64) -> std::io::Result<()> {
    while !parts.is_empty() {
        let now = &parts[..parts.len().min(PARTS)];
        match rustix::io::retry_on_intr(|| rustix::io::pwritev(file, now, at))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => {
                at += written as u64;
                IoSlice::advance_slices(&mut parts, written);
            }
        }
    }
    Ok(())
}

/// The number of the last checkpoint.
fn committed(file: &File) -> std::io::Result<u64> {
    let mut word = [0; 8];
    match file.metadata()?.len() {
        0..8 => Ok(0),
        _ => file.read_exact_at(&mut word, 0).map(|()| u64::from_le_bytes(word)),
    }
}

/// Where the bytes of a checkpoint with this number begin in its file.
pub fn checkpoint_place(number: u64) -> u64 {
    PLACE << (number & 1)
}

#[cfg(test)]
mod tests;
