//! Where the segments of a payload log are, written down while they are written, moved and given back, so
//! that the next process of the rank finds what a checkpoint of the one before refers to
//! (`docs/logging.md`, section 14, has the bytes).
//!
//! - **places**: a segment is named here from before it is written until it is given up: the memory that it
//!   has, or that it is in the file. So what is named is what it was; what is not named was given up, which
//!   only happens when nobody will ask for it.

use super::memory::{Memory, MemoryError};
use super::ring::Words;
use rustc_hash::FxHashMap;
use rustix::fs::SealFlags;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFPLAC");
const VERSION: u64 = 2;
/// Words before those of the segments of the memory.
const FRONT: usize = 8;

/// The places of the segments of a log that is being written.
#[derive(Debug)]
pub struct SegmentMap {
    file: File,
    memory: Memory,
    segments: usize,
}

/// Where a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The segment of the memory with this number.
    Memory(u32),
    /// In the file.
    File,
}

impl SegmentMap {
    /// Begins an empty file, for a log of at most `segments` segments of memory, each of `size` bytes.
    ///
    /// # Errors
    /// [`MemoryError`] when there is no memory for it.
    pub fn begin(file: File, segments: usize, size: usize) -> Result<SegmentMap, MemoryError> {
        let bytes = 8 * (FRONT + segments);
        let os = |call| move |errno| MemoryError::Os { call, bytes, errno };
        let allocate =
            || rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64);
        rustix::io::retry_on_intr(allocate).map_err(os("fallocate"))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).map_err(os("fcntl(F_ADD_SEALS)"))?;
        let memory = Memory::map(file.as_fd(), bytes)?;
        for (at, word) in [(1, VERSION), (2, segments as u64), (3, size as u64), (0, MAGIC)] {
            memory.word(at).store(word, Ordering::Release);
        }
        Ok(SegmentMap { file, memory, segments })
    }

    /// Segment `number` of the log has this segment of the memory from now on.
    ///
    /// # Panics
    /// If the memory has no such segment.
    #[inline]
    pub fn takes(&self, memory: u32, number: u64) {
        self.of(memory).store(number + 1, Ordering::Release);
        // Who copies a segment while the log is written must not see bytes of the next one under its number.
        fence(Ordering::Release);
    }

    /// This segment of the memory is not of the log any more.
    ///
    /// # Panics
    /// If the memory has no such segment.
    #[inline]
    pub fn leaves(&self, memory: u32) {
        self.of(memory).store(0, Ordering::Release);
    }

    fn of(&self, memory: u32) -> &super::sync::AtomicU64 {
        assert!((memory as usize) < self.segments, "the memory has {} segments", self.segments);
        self.memory.word(FRONT + memory as usize)
    }

    /// Segment `number` of the log is in the file, or, if not `is`, not any more.
    ///
    /// # Errors
    /// Those of the operating system: there is no room.
    pub fn in_file(&self, number: u64, is: bool) -> std::io::Result<()> {
        self.file.write_all_at(&[is.into()], behind(self.segments) + number)
    }
}

fn behind(segments: usize) -> u64 {
    8 * (FRONT + segments) as u64
}

/// The places of the segments of a log, as they were when they were read: of one whose process has ended, for good.
#[derive(Debug, Default)]
pub struct Left {
    in_memory: FxHashMap<u64, u32>,
    in_file: Vec<u8>,
    /// Segments of the memory.
    segments: usize,
    size: u64,
}

impl Left {
    /// Reads what was written down. An empty file is one of a process that did not get so far.
    ///
    /// # Errors
    /// Those of the operating system, and [`InvalidData`](std::io::ErrorKind::InvalidData) for what was
    /// not written by [`SegmentMap`].
    pub fn read(file: &File) -> std::io::Result<Left> {
        let len = file.metadata()?.len();
        if len == 0 {
            return Ok(Left::default());
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        // It may have been killed before it had written the beginning.
        if words.first() == Some(&0) {
            return Ok(Left::default());
        }
        let front = match words[..] {
            [MAGIC, VERSION, segments, size, ..] => {
                let there = words.len().saturating_sub(FRONT) as u64;
                (words.len() >= FRONT && segments <= there).then_some((segments as usize, size))
            }
            _ => None,
        };
        let (segments, size) = front.ok_or_else(|| {
            let what = format!("a list of places of segments begins with {:x?}", words.get(..3));
            std::io::Error::new(std::io::ErrorKind::InvalidData, what)
        })?;
        let of_memory = words[FRONT..FRONT + segments].iter().enumerate();
        let in_memory = of_memory
            .filter(|(_, number)| **number != 0)
            .map(|(memory, number)| (number - 1, memory as u32))
            .collect();
        let in_file = bytes.split_off(behind(segments) as usize);
        Ok(Left { in_memory, in_file, segments, size })
    }

    /// Bytes of a segment; 0 of a process that did not get so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The numbers of all segments that were not given up, in their order.
    pub fn numbers(&self) -> Vec<u64> {
        let in_file = (0..).zip(&self.in_file).filter(|(_, byte)| **byte != 0);
        let mut all: Vec<u64> = in_file.map(|(number, _)| number).collect();
        all.extend(self.in_memory.keys());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether a segment is in the file, wherever else it is.
    pub(super) fn is_in_file(&self, number: u64) -> bool {
        self.in_file.get(number as usize).is_some_and(|&byte| byte != 0)
    }

    /// Whether a segment is still at a place where it was when this was read from the file.
    pub(super) fn is_still(&self, number: u64, at: Location, file: &File) -> std::io::Result<bool> {
        match at {
            Location::Memory(memory) => {
                let mut word = [0; 8];
                file.read_exact_at(&mut word, 8 * (FRONT as u64 + u64::from(memory)))?;
                Ok(u64::from_le_bytes(word) == number + 1)
            }
            Location::File => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, behind(self.segments) + number)?;
                Ok(byte != [0])
            }
        }
    }

    /// Where a segment of the log is; none if it was given up.
    pub fn place(&self, number: u64) -> Option<Location> {
        match self.in_memory.get(&number) {
            Some(&memory) => Some(Location::Memory(memory)),
            None => self.is_in_file(number).then_some(Location::File),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::empty_memory;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn file() -> File {
        empty_memory("test").unwrap().into()
    }

    #[derive(Clone, Debug)]
    enum Op {
        Takes(u32),
        Leaves(u32),
        Spills(u32),
        Forgets(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..8_u32).prop_map(Op::Takes),
            (0..8_u32).prop_map(Op::Leaves),
            (0..8_u32).prop_map(Op::Spills),
            (0..40_u64).prop_map(Op::Forgets),
        ]
    }

    proptest! {
        /// Whenever the process ends, the next knows where everything is.
        #[test]
        fn what_is_there_is_found(ops in prop::collection::vec(op(), 0..60)) {
            let file = file();
            let places = SegmentMap::begin(file.try_clone().unwrap(), 8, 64).unwrap();
            let mut memory: [Option<u64>; 8] = [None; 8];
            let mut all: HashMap<u64, Location> = HashMap::new();
            let mut next = 0;
            for op in ops {
                match op {
                    Op::Takes(at) if memory[at as usize].is_none() => {
                        places.takes(at, next);
                        all.insert(next, Location::Memory(at));
                        memory[at as usize] = Some(next);
                        next += 1;
                    }
                    Op::Leaves(at) => {
                        places.leaves(at);
                        if let Some(number) = memory[at as usize].take() {
                            all.remove(&number);
                        }
                    }
                    Op::Spills(at) => {
                        if let Some(number) = memory[at as usize].take() {
                            places.in_file(number, true).unwrap();
                            places.leaves(at);
                            all.insert(number, Location::File);
                        }
                    }
                    Op::Forgets(number) => {
                        if all.get(&number) == Some(&Location::File) {
                            places.in_file(number, false).unwrap();
                            all.remove(&number);
                        }
                    }
                    Op::Takes(_) => {}
                }
                let left = Left::read(&file).unwrap();
                for number in 0..60 {
                    prop_assert_eq!(left.place(number), all.get(&number).copied());
                }
                let mut numbers: Vec<u64> = all.keys().copied().collect();
                numbers.sort_unstable();
                prop_assert_eq!((left.numbers(), left.size()), (numbers, 64));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, begins: bool, segments in 0..9_u64) {
            let file = file();
            if begins {
                let front: Vec<u8> =
                    [MAGIC, VERSION, segments].iter().flat_map(|word| word.to_le_bytes()).collect();
                file.write_all_at(&front, 0).unwrap();
            }
            file.write_all_at(&bytes, 24).unwrap();
            if let Ok(left) = Left::read(&file) {
                let _ = left.place(3);
            }
        }
    }

    #[test]
    fn a_process_that_did_not_get_so_far_has_left_nothing() {
        let file = file();
        assert_eq!(Left::read(&file).unwrap().place(0), None);
        SegmentMap::begin(file.try_clone().unwrap(), 4, 64).unwrap();
        assert_eq!(Left::read(&file).unwrap().place(0), None);
    }
}
