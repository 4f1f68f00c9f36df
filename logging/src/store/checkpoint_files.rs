//! Where the checkpoints of a rank are: a file that outlives its processes, in which the last one that was
//! committed stays whole while the next is written (`docs/logging.md`, section 14, has the bytes).
//!
//! It is memory, so it survives killed processes, as events of durability `process` do. Nothing is synced:
//! what a process has written is there for the next, in the order in which it was written.

use super::file::Owner;
use crate::{Position, Rank};
use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFCKPT");
const VERSION: u32 = 1;
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
        write_all_at(&self.file, &mut parts, place(number))?;
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
        let at = place(self.last) + HEADER as u64;
        self.file.read_exact_at(&mut position, at).map_err(os)?;
        self.file.read_exact_at(&mut state, at + header.position).map_err(os)?;
        let body = crc32c::crc32c_append(crc32c::crc32c(&position), &state);
        if body != header.body {
            return Err(self.damaged("sum of the body", body.into(), header.body.into()));
        }
        let Header { incarnation, .. } = header;
        Ok(Some(Committed { number: self.last, incarnation, position, state }))
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
        let read = self.file.read_exact_at(&mut front, place(self.last) + HEADER as u64);
        read.map_err(|error| CheckpointError::Os { rank: self.owner.rank, error })?;
        let clock = Position::clock(front);
        Ok(Some(Summary { number: self.last, incarnation, clock }))
    }

    fn header(&self) -> Result<Header, CheckpointError> {
        let mut bytes = [0; HEADER];
        let read = self.file.read_exact_at(&mut bytes, place(self.last));
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

fn place(number: u64) -> u64 {
    PLACE << (number & 1)
}

#[cfg(test)]
mod tests {
    use super::super::memory::empty_memory;
    use super::*;
    use proptest::prelude::*;

    const OWNER: Owner = Owner { rank: 3, job: 77 };

    fn checkpoints() -> CheckpointFiles {
        CheckpointFiles::open(empty_memory("test").unwrap().into(), OWNER).unwrap()
    }

    fn again(checkpoints: &CheckpointFiles) -> CheckpointFiles {
        CheckpointFiles::open(checkpoints.file.try_clone().unwrap(), OWNER).unwrap()
    }

    proptest! {
        #[test]
        fn the_last_one_committed_is_what_the_next_process_gets(
            all in prop::collection::vec(
                (any::<u32>(), any::<[u8; 8]>(), any::<Vec<u8>>(), any::<Vec<Vec<u8>>>()), 1..6,
            ),
        ) {
            let mut checkpoints = checkpoints();
            prop_assert_eq!(checkpoints.last().unwrap(), None);
            prop_assert_eq!(checkpoints.summary().unwrap(), None);
            for (number, (incarnation, front, position, state)) in (1..).zip(all) {
                let position = [&front[..], &position].concat();
                let parts: Vec<_> = state.iter().map(|part| IoSlice::new(part)).collect();
                prop_assert_eq!(checkpoints.commit(incarnation, &position, &parts).unwrap(), number);
                let next = again(&checkpoints);
                let clock = u64::from_le_bytes(front);
                let summary = Summary { number, incarnation, clock };
                prop_assert_eq!(next.summary().unwrap(), Some(summary));
                let expected = Committed { number, incarnation, position, state: state.concat() };
                prop_assert_eq!(next.last().unwrap(), Some(expected));
            }
        }

        /// Its process was killed somewhere on the way.
        #[test]
        fn one_that_is_being_written_is_not_there(before in 1..4_u64, written: Vec<u8>) {
            let mut checkpoints = checkpoints();
            for number in 1..=before {
                checkpoints.commit(7, b"position", &[IoSlice::new(&[number as u8; 100])]).unwrap();
            }
            let last = checkpoints.last().unwrap();
            checkpoints.file.write_all_at(&written, place(before + 1)).unwrap();
            prop_assert_eq!(again(&checkpoints).last().unwrap(), last);
        }

        #[test]
        fn a_flipped_bit_is_seen(state in prop::collection::vec(any::<u8>(), 0..100), bit: prop::sample::Index) {
            let mut checkpoints = checkpoints();
            checkpoints.commit(2, b"position", &[IoSlice::new(&state)]).unwrap();
            let bit = bit.index(8 * (HEADER + 8 + state.len()));
            let at = place(1) + bit as u64 / 8;
            let mut byte = [0];
            checkpoints.file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << (bit % 8);
            checkpoints.file.write_all_at(&byte, at).unwrap();
            prop_assert!(again(&checkpoints).last().is_err());
        }
    }

    #[test]
    fn a_state_may_have_more_parts_than_one_call_writes() {
        let mut checkpoints = checkpoints();
        let state: Vec<Vec<u8>> = (0..3 * PARTS).map(|k| vec![k as u8; k % 3]).collect();
        let parts: Vec<_> = state.iter().map(|part| IoSlice::new(part)).collect();
        checkpoints.commit(1, b"position", &parts).unwrap();
        assert_eq!(again(&checkpoints).last().unwrap().unwrap().state, state.concat());
    }

    #[test]
    fn another_rank_or_job_is_refused() {
        let mut checkpoints = checkpoints();
        checkpoints.commit(0, b"", &[]).unwrap();
        for owner in [Owner { rank: 4, ..OWNER }, Owner { job: 78, ..OWNER }] {
            let other =
                CheckpointFiles::open(checkpoints.file.try_clone().unwrap(), owner).unwrap();
            let error = other.last().unwrap_err().to_string();
            assert!(error.contains("checkpoint 1 of rank"), "{error}");
            assert!(other.summary().is_err());
        }
    }

    #[test]
    fn where_there_is_no_room_the_one_before_stays() {
        let full: File =
            std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut checkpoints = CheckpointFiles { file: full, owner: OWNER, last: 0 };
        let error = checkpoints.commit(0, b"x", &[]).unwrap_err();
        assert_eq!((error.kind(), checkpoints.last), (std::io::ErrorKind::StorageFull, 0));
    }
}
