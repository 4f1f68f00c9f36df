//! A payload log that is read while its process writes it, segment by segment (`docs/logging.md`, section 14).
//!
//! By *places* a segment that is listed before and after it was read is what it was. The last one may still be written: what a
//! committed checkpoint refers to is there.

use super::segment_map::{Left, Location};
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{Ordering, fence};

/// The files that a payload log is in.
#[derive(Debug)]
pub struct LiveLog {
    /// The memory that messages leave from.
    pub memory: File,
    /// Where its segments are.
    pub places: File,
    /// What there is no memory for.
    pub spill: File,
}

impl LiveLog {
    /// Where its segments are now.
    ///
    /// # Errors
    /// Those of the operating system, and [`InvalidData`](std::io::ErrorKind::InvalidData) for what is no list of places.
    pub fn list(&self) -> Result<Left> {
        let left = Left::read(&self.places);
        fence(Ordering::Acquire);
        left
    }

    /// Reads a segment that was listed. `false`: it was given up meanwhile.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn read(&self, listed: &mut Left, number: u64, into: &mut Vec<u8>) -> Result<bool> {
        into.resize(listed.size() as usize, 0);
        // A segment moves from memory to the file, and perhaps back, but from the file it does not go: few turns.
        loop {
            let at = match listed.is_in_file(number) {
                true => Location::File,
                false => match listed.place(number) {
                    Some(at) => at,
                    None => return Ok(false),
                },
            };
            match at {
                Location::Memory(memory) => {
                    self.memory.read_exact_at(into, u64::from(memory) * listed.size())?;
                }
                Location::File => self.spill.read_exact_at(into, number * listed.size())?,
            }
            fence(Ordering::Acquire);
            if listed.is_still(number, at, &self.places)? {
                return Ok(true);
            }
            *listed = self.list()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::empty_memory;
    use super::super::segment_map::SegmentMap;
    use super::*;
    use std::sync::atomic::AtomicBool;

    const SIZE: usize = 4096;

    fn file() -> File {
        empty_memory("test").unwrap().into()
    }

    fn log() -> (LiveLog, SegmentMap) {
        let log = LiveLog { memory: file(), places: file(), spill: file() };
        let map = SegmentMap::begin(log.places.try_clone().unwrap(), 3, SIZE).unwrap();
        log.memory.set_len(3 * SIZE as u64).unwrap();
        (log, map)
    }

    fn write(file: &File, place: u64, number: u64) {
        file.write_all_at(&number.to_le_bytes().repeat(SIZE / 8), place * SIZE as u64).unwrap();
    }

    /// Its memory is used again while it is read: each segment is what it was, or not there.
    #[test]
    fn no_segment_is_taken_for_another() {
        let (log, map) = log();
        let (done, mut found) = (AtomicBool::new(false), [0_u32; 2]);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..3_000_000_u64 {
                    if done.load(Ordering::Acquire) {
                        return;
                    }
                    let memory = (number % 3) as u32;
                    // Those with numbers that 5 divides are given up, the others go to the file.
                    if let Some(before) = number.checked_sub(3) {
                        if before % 5 != 0 {
                            write(&log.spill, before, before);
                            map.in_file(before, true).unwrap();
                        }
                        map.leaves(memory);
                    }
                    map.takes(memory, number);
                    write(&log.memory, memory.into(), number);
                    if let Some(old) = number.checked_sub(40) {
                        map.in_file(old, false).unwrap();
                    }
                }
            });
            let mut bytes = Vec::new();
            // Each was found there, and given up meanwhile.
            while found.iter().any(|times| *times < 100) && !writer.is_finished() {
                let mut listed = log.list().unwrap();
                let numbers = listed.numbers();
                // The last one is being written.
                for &number in numbers.iter().rev().skip(1) {
                    let is_there = log.read(&mut listed, number, &mut bytes).unwrap();
                    found[usize::from(is_there)] += 1;
                    let expected = number.to_le_bytes().repeat(SIZE / 8);
                    assert!(!is_there || bytes == expected, "segment {number}");
                }
            }
            done.store(true, Ordering::Release);
        });
        assert!(found.iter().all(|times| *times > 0), "{found:?}");
    }

    #[test]
    fn a_segment_is_read_from_where_it_is() {
        let (log, map) = log();
        map.takes(2, 0);
        write(&log.memory, 2, 7);
        let mut before = log.list().unwrap();
        write(&log.spill, 0, 7);
        map.in_file(0, true).unwrap();
        map.leaves(2);
        write(&log.memory, 2, 8);
        let mut bytes = Vec::new();
        assert!(log.read(&mut before, 0, &mut bytes).unwrap());
        assert_eq!(bytes, 7_u64.to_le_bytes().repeat(SIZE / 8));
        let mut listed = log.list().unwrap();
        map.in_file(0, false).unwrap();
        assert!(!log.read(&mut listed, 0, &mut bytes).unwrap());
    }
}
