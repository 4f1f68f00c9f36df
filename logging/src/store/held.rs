//! The held table of a rank: the determinants of other ranks that it holds, in memory that outlives it (`docs/logging.md`,
//! section 13). Where a node is lost, its ranks' events that no event logger elsewhere has are in the held tables of other
//! nodes.
//!
//! The rank writes a determinant here before it delivers the message behind it. The agent of the node reads the
//! table whenever a node is lost, while the rank lives, or after its death.
//!
//! **closed-door**: what the agent reads is all that this rank has taken from processes that the roster says are dead, and
//! nothing is added to that. The rank takes messages in *turns*. It sets the word *turn*, then looks at the
//! roster, and takes nothing in if that has changed since it has dropped its connections with the dead. The
//! agent changes the roster, then waits until *turn* is 0. Of these two, one is first for both
//! (both put a fence between): either the rank sees the new roster, or the agent sees that a turn is under way, and waits.

use super::door;
use super::file::Owner;
use super::memory::{Memory, MemoryError, empty_memory};
use super::ring::Words;
use super::sync::{Ordering, fence};
use crate::causal::{DETERMINANT, HeldStore, NoRoom};
use rustix::fs::{FallocateFlags, SealFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// First word of a held table.
const MAGIC: u64 = u64::from_le_bytes(*b"TAFFHELD");
/// Version of the layout.
const VERSION: u64 = 1;

/// Where the words lie, counted in words of 8 bytes.
const TURN: usize = 8;
const GENERATION: usize = 16;
const EXTENT: usize = 17;
const ENTRIES: usize = 24;
/// Words of a determinant.
const ENTRY: usize = DETERMINANT / 8;

/// Determinants that the least extent has room for.
const LEAST: u64 = 1024;
/// The end of the last extent there may be, in determinants.
const MOST: u64 = 1 << 31;

/// Why there is no held table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeldError {
    /// There is no memory for it.
    #[error("the held table of rank {rank}: {error}")]
    Memory {
        /// The rank.
        rank: u32,
        /// Why.
        error: MemoryError,
    },
    /// It is another one, or none.
    #[error("the held table of rank {rank}: its {field} is {got:#x}, expected {expected}")]
    Wrong {
        /// The rank.
        rank: u32,
        /// What of it.
        field: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        got: u64,
    },
}

/// Determinants from `first` on, of which there are `len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    first: u64,
    len: u64,
}

impl Extent {
    fn word(self) -> u64 {
        self.first << 32 | self.len
    }

    fn of(word: u64) -> Extent {
        Extent { first: word >> 32, len: word & u64::from(u32::MAX) }
    }

    fn end(self) -> u64 {
        self.first + self.len
    }
}

/// Makes the memory of the held table of a rank.
///
/// # Errors
/// [`HeldError::Memory`].
pub fn create_held(owner: Owner) -> Result<OwnedFd, HeldError> {
    let of = |error| HeldError::Memory { rank: owner.rank, error };
    let file = empty_memory("taffrail-held").map_err(of)?;
    let memory = grow(&file, LEAST).map_err(of)?;
    let seals = SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(|errno| {
        of(MemoryError::Os { call: "fcntl(F_ADD_SEALS)", bytes: memory, errno })
    })?;
    let memory = Memory::map(file.as_fd(), memory).map_err(of)?;
    for (at, (_, value)) in header(owner).into_iter().enumerate() {
        memory.word(at).store(value, Ordering::Relaxed);
    }
    Ok(file)
}

fn header(owner: Owner) -> [(&'static str, u64); 3] {
    let version = VERSION | u64::from(owner.rank) << 32;
    [("magic", MAGIC), ("version and rank", version), ("job", owner.job)]
}

/// Bytes of a file that has room for this number of determinants.
const fn bytes_of(entries: u64) -> usize {
    8 * (ENTRIES + ENTRY * entries as usize)
}

/// Gives the file memory for this number of determinants. Its length in bytes.
fn grow(file: &OwnedFd, entries: u64) -> Result<usize, MemoryError> {
    let bytes = bytes_of(entries);
    let allocate = || rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64);
    let os = |errno| MemoryError::Os { call: "fallocate", bytes, errno };
    rustix::io::retry_on_intr(allocate).map_err(os)?;
    Ok(bytes)
}

/// Maps a held table, and checks what it is.
fn map(file: BorrowedFd<'_>, owner: Owner) -> Result<(Memory, Extent), HeldError> {
    let rank = owner.rank;
    let of = |error| HeldError::Memory { rank, error };
    let wrong = |field, expected: String, got| HeldError::Wrong { rank, field, expected, got };
    let length = || match rustix::fs::fstat(file) {
        Ok(stat) => Ok(stat.st_size as usize),
        Err(errno) => Err(of(MemoryError::Os { call: "fstat", bytes: 0, errno })),
    };
    let bytes = length()?;
    if bytes < 8 * ENTRIES {
        return Err(wrong("length", format!("{} or more", 8 * ENTRIES), bytes as u64));
    }
    // The rank may make it longer at any time.
    let memory = Memory::map_front(file, bytes, bytes_of(MOST) as u64).map_err(of)?;
    for (at, (field, expected)) in header(owner).into_iter().enumerate() {
        let got = memory.word(at).load(Ordering::Relaxed);
        if got != expected {
            return Err(wrong(field, format!("{expected:#x}"), got));
        }
    }
    let word = memory.word(EXTENT).load(Ordering::Acquire);
    let (extent, room) = (Extent::of(word), room_in(&memory));
    match extent.end() <= room {
        true => Ok((memory, extent)),
        // The rank has made it longer since: that is done before the extent is published.
        false if length()? > bytes => map(file, owner),
        false => Err(wrong("extent", format!("one that ends before {room}"), word)),
    }
}

/// Determinants that there is memory for.
fn room_in(memory: &Memory) -> u64 {
    ((memory.count() - ENTRIES) / ENTRY) as u64
}

/// The rank's side of its held table. There is one at a time.
#[derive(Debug)]
pub struct HeldTable {
    owner: Owner,
    file: OwnedFd,
    memory: Memory,
    extent: Extent,
    /// The end of the extent as it may become.
    limit: u64,
}

impl HeldTable {
    /// Resumes behind what the rank's earlier incarnations on this node have written, which must be dead.
    ///
    /// # Errors
    /// [`HeldError`].
    pub fn attach(file: OwnedFd, owner: Owner) -> Result<Self, HeldError> {
        let (memory, extent) = map(file.as_fd(), owner)?;
        door::leave(memory.word(TURN));
        let limit = (extent.first + LEAST).max(extent.end()).min(room_in(&memory));
        Ok(HeldTable { owner, file, memory, extent, limit })
    }

    /// These are all that the rank holds. They are written beside those that are there now.
    fn replace(&mut self, all: &[u8]) -> Result<(), HeldError> {
        let len = (all.len() / DETERMINANT) as u64;
        let span = (2 * len).max(LEAST);
        let first = if span <= self.extent.first { 0 } else { self.limit.max(self.extent.end()) };
        let last = first + span;
        if last > room_in(&self.memory) {
            self.remap(last)?;
        }
        let word = self.memory.word(GENERATION);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.write(first, all);
        self.limit = last;
        self.publish(Extent { first, len });
        Ok(())
    }

    fn remap(&mut self, entries: u64) -> Result<(), HeldError> {
        let of = |error| HeldError::Memory { rank: self.owner.rank, error };
        if entries > MOST {
            let bytes = DETERMINANT * entries as usize;
            return Err(of(MemoryError::Os {
                call: "growth",
                bytes,
                errno: rustix::io::Errno::FBIG,
            }));
        }
        let bytes = grow(&self.file, entries).map_err(of)?;
        self.memory = Memory::map(self.file.as_fd(), bytes).map_err(of)?;
        Ok(())
    }

    fn write(&self, first: u64, bytes: &[u8]) {
        let words = bytes.as_chunks::<8>().0.iter();
        for (at, word) in (ENTRIES + ENTRY * first as usize..).zip(words) {
            self.memory.word(at).store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
    }

    fn publish(&mut self, extent: Extent) {
        self.extent = extent;
        self.memory.word(EXTENT).store(extent.word(), Ordering::Release);
    }
}

impl HeldStore for HeldTable {
    fn all(&self) -> Vec<u8> {
        read(&self.memory, self.extent)
    }

    #[inline]
    fn begin_turn(&self) {
        door::enter(self.memory.word(TURN));
    }

    #[inline]
    fn end_turn(&self) {
        door::leave(self.memory.word(TURN));
    }

    fn add(&mut self, new: &[u8], all: &dyn Fn() -> Vec<u8>) -> Result<(), NoRoom> {
        if self.extent.end() + (new.len() / DETERMINANT) as u64 > self.limit {
            return self.replace(&all()).map_err(|error| NoRoom(error.to_string()));
        }
        self.write(self.extent.end(), new);
        let len = self.extent.len + (new.len() / DETERMINANT) as u64;
        self.publish(Extent { len, ..self.extent });
        Ok(())
    }
}

/// The determinants in a held table, in the order in which its rank has learnt them; some may be stable, or there twice. `None`
/// while a turn of the rank is under way, if that `lives`.
///
/// # Errors
/// [`HeldError`].
pub fn read_held(
    file: BorrowedFd<'_>,
    owner: Owner,
    lives: bool,
) -> Result<Option<Vec<u8>>, HeldError> {
    loop {
        let (memory, _) = map(file, owner)?;
        if lives && !door::is_empty(memory.word(TURN)) {
            return Ok(None);
        }
        let generation = memory.word(GENERATION).load(Ordering::Acquire);
        let extent = Extent::of(memory.word(EXTENT).load(Ordering::Acquire));
        if extent.end() > room_in(&memory) {
            // It has grown a moment ago.
            continue;
        }
        let bytes = read(&memory, extent);
        fence(Ordering::Acquire);
        if memory.word(GENERATION).load(Ordering::Relaxed) == generation {
            return Ok(Some(bytes));
        }
    }
}

fn read(memory: &Memory, extent: Extent) -> Vec<u8> {
    let first = ENTRIES + ENTRY * extent.first as usize;
    let words = first..first + ENTRY * extent.len as usize;
    words.flat_map(|at| memory.word(at).load(Ordering::Relaxed).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests;
