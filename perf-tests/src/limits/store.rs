//! How fast one CPU stores a stream of bytes: into memory that it has, and into memory that it has
//! to get first. The second is the limit of a log that grows: every byte of it is stored in memory
//! that nobody had before.

use crate::Error;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::hint::black_box;
use std::io::Error as SystemError;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use taffrail_shm::{fill_huge, place};

/// Fresh memory is asked for in steps of so many bytes.
const STEP: usize = 4 << 20;

/// Measures how fast this CPU stores a stream of `size` bytes, rounded down to whole steps of 4 MiB but at
/// least one, which it has not in its caches, in bytes a second, each of so many times.
///
/// # Errors
/// [`Error::System`], if there is not so much memory.
pub fn store_stream(size: usize, times: usize) -> Result<Vec<f64>, Error> {
    let steps = (size / STEP).max(1);
    let mut memory = Fresh::all(steps * STEP)?;
    memory.filled().fill(1);
    let mut rate = |value: u8| {
        let start = Instant::now();
        black_box(memory.filled()).fill(value);
        (steps * STEP) as f64 / start.elapsed().as_secs_f64()
    };
    // Lines of zeros some processors store three times as fast (Zen 4: 76 and not 24 GB/s).
    Ok((0..times).map(|time| rate(1 + (time % 255) as u8)).collect())
}

/// Measures how fast this CPU stores a stream of `size` bytes, rounded down to whole steps of 4 MiB
/// but at least one, into shared memory (a memfd) that grows meanwhile, in bytes a second: each step
/// is allocated, in huge pages where the kernel gives them, its pages are all faulted in by one call, and then
/// it is written.
///
/// # Errors
/// [`Error::System`], if there is not so much memory.
pub fn store_fresh(size: usize) -> Result<f64, Error> {
    let steps = (size / STEP).max(1);
    let mut fresh = Fresh::new(steps)?;
    let start = Instant::now();
    for step in 0..steps {
        black_box(fresh.step(step)?).fill(b'a');
    }
    Ok((steps * STEP) as f64 / start.elapsed().as_secs_f64())
}

/// A file in memory without a name, mapped beyond its end, that grows.
pub(crate) struct Fresh {
    file: OwnedFd,
    start: *mut u8,
    steps: usize,
    /// Steps that are there.
    grown: usize,
}

impl Fresh {
    /// So many bytes, rounded down to whole steps, with memory behind all of them.
    ///
    /// # Errors
    /// [`Error::System`], if there is not so much memory.
    pub(crate) fn all(size: usize) -> Result<Fresh, Error> {
        let steps = size / STEP;
        let mut fresh = Fresh::new(steps)?;
        (0..steps).try_for_each(|step| fresh.step(step).map(drop))?;
        Ok(fresh)
    }

    fn new(steps: usize) -> Result<Fresh, Error> {
        let file = rustix::fs::memfd_create("taffrail-limit", MemfdFlags::CLOEXEC)
            .map_err(refused("making a file in memory"))?;
        let (flags, access) = (MapFlags::SHARED, ProtFlags::READ | ProtFlags::WRITE);
        let len = steps * STEP;
        // SAFETY: a new mapping touches nothing that is there: the kernel takes another place if this is taken.
        let start = unsafe { rustix::mm::mmap(place(len), len, access, flags, &file, 0) };
        let start = start.map_err(refused("mapping a file in memory"))?.cast();
        Ok(Fresh { file, start, steps, grown: 0 })
    }

    /// The next step, with memory behind it.
    fn step(&mut self, step: usize) -> Result<&mut [u8], Error> {
        assert!(step < self.steps && step <= self.grown, "step {step} of {}", self.steps);
        let (at, end) = (step * STEP, (step + 1) * STEP);
        // SAFETY: all of it is mapped, and only longer by the time.
        let _ = unsafe { fill_huge(self.file.as_fd(), self.start, at, end) };
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), at as u64, STEP as u64)
            .map_err(refused("getting fresh memory"))?;
        self.grown = self.grown.max(step + 1);
        let start = self.start.wrapping_add(step * STEP);
        // SAFETY: the range lies in our mapping, and in the file since that has grown. Where the
        // call is not known (before Linux 5.14), pages are faulted in one by one, as by a log.
        let _ = unsafe { rustix::mm::madvise(start.cast(), STEP, Advice::LinuxPopulateWrite) };
        // SAFETY: as above; nobody else has the file, and `&mut self` lets nobody else have a slice.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, STEP) })
    }

    /// All steps that are there.
    fn filled(&mut self) -> &mut [u8] {
        // SAFETY: as in `step`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.grown * STEP) }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.steps * STEP) };
    }
}

fn refused(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::System { what, source: SystemError::from(errno) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_memory_that_can_be_written() {
        let mut fresh = Fresh::new(3).unwrap();
        for step in 0..3 {
            let memory = fresh.step(step).unwrap();
            assert!(memory.len() == STEP && memory.iter().all(|&byte| byte == 0));
            memory.fill(step as u8 + 1);
        }
        assert_eq!(rustix::fs::fstat(&fresh.file).unwrap().st_size, 3 * STEP as i64);
        assert_eq!(fresh.step(1).unwrap()[STEP - 1], 2);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(matches!(Fresh::new(usize::MAX / STEP), Err(Error::System { .. })));
    }

    #[test]
    fn streams_have_a_rate() {
        assert!(store_stream(1 << 20, 3).unwrap().iter().all(|&rate| rate > 0.0));
        assert!(store_fresh(1).unwrap() > 0.0);
    }
}
