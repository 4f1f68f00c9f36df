//! Memory that several processes map, seen as atomic words.
//!
//! All unsafe code of rings is here: once mapped, memory is a slice of atomics, and whatever another
//! process writes into it is a value of theirs.

#![allow(unsafe_code)]

use super::ring::Words;
use super::sync::AtomicU64;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// Words that one call can sleep on.
const WAITS_MAX: usize = 128;

/// Why memory cannot be had, or is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The operating system refused.
    #[error("{call} for {bytes} bytes of shared memory failed: {errno}{}", limit_of(.call))]
    Os {
        /// The system call.
        call: &'static str,
        /// For how much.
        bytes: usize,
        /// Its error.
        errno: Errno,
    },
    /// The file is of another length.
    #[error("shared memory should be {expected} bytes long, it is {got}")]
    Length {
        /// The length it should have.
        expected: usize,
        /// The length it has.
        got: u64,
    },
    /// Every holder of the file could take memory away under the processes that use it.
    #[error("shared memory should be a memfd, sealed against shrinking and without holes: {got}")]
    Unsafe {
        /// What is wrong.
        got: &'static str,
    },
}

/// The limit that a call for memory has run into, perhaps.
fn limit_of(call: &str) -> String {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::As).current.filter(|_| call == "mmap");
    limit.map_or_else(String::new, |limit| {
        format!("; the limit of address space is {limit} bytes (ulimit -v {})", limit / 1024)
    })
}

/// A file without a name, of `bytes` zeros, that has its memory and keeps its length. `name` is only
/// seen in `/proc/PID/maps`.
///
/// # Errors
/// [`MemoryError::Os`].
pub fn create_memory(name: &str, bytes: usize) -> Result<OwnedFd, MemoryError> {
    let os = |call| move |errno| MemoryError::Os { call, bytes, errno };
    let file = empty_memory(name)?;
    let allocate = || rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64);
    rustix::io::retry_on_intr(allocate).map_err(os("fallocate"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(os("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

/// A file without a name, and without anything in it, that may be sealed. `name` is only seen in
/// `/proc/PID/maps`.
///
/// # Errors
/// [`MemoryError::Os`].
pub fn empty_memory(name: &str) -> Result<OwnedFd, MemoryError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        other => other,
    };
    made.map_err(|errno| MemoryError::Os { call: "memfd_create", bytes: 0, errno })
}

/// Memory made by [`create_memory`], mapped.
#[derive(Debug)]
pub struct Memory {
    at: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread.
unsafe impl Send for Memory {}
// SAFETY: it is used as atomics only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps a file that must have `bytes` bytes, of which whole words are used.
    ///
    /// # Errors
    /// [`MemoryError`], when the file could hurt a process that uses it, or cannot be mapped.
    pub fn map(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, MemoryError> {
        Memory::map_front(file, bytes, bytes as u64)
    }

    /// The same of the first bytes of a file that has bytes up to this one at the most.
    pub(super) fn map_front(
        file: BorrowedFd<'_>,
        bytes: usize,
        most: u64,
    ) -> Result<Self, MemoryError> {
        let os = |call| move |errno| MemoryError::Os { call, bytes, errno };
        let stat = rustix::fs::fstat(file).map_err(os("fstat"))?;
        if !(bytes as u64..=most).contains(&(stat.st_size as u64)) {
            return Err(MemoryError::Length { expected: bytes, got: stat.st_size as u64 });
        }
        let seals = rustix::fs::fcntl_get_seals(file)
            .map_err(|_| MemoryError::Unsafe { got: "it has no seals" })?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(MemoryError::Unsafe { got: "it may shrink" });
        }
        if (stat.st_blocks as u64) < (bytes as u64).div_ceil(512) {
            return Err(MemoryError::Unsafe { got: "it has holes" });
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses overlaps nothing.
        let at = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file.as_fd(), 0)
        }
        .map_err(os("mmap"))?;
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM).map_err(os("mmap"))?;
        Ok(Memory { at, words: bytes / 8 })
    }

    /// Fills the page tables, so that nobody has to wait for that later. Without it (before Linux 5.14)
    /// everything works, too.
    pub fn settle(&self) {
        let at = self.at.as_ptr().cast();
        // SAFETY: the range is that of our own mapping; what is in it stays.
        let _ = unsafe { rustix::mm::madvise(at, self.words * 8, Advice::LinuxPopulateWrite) };
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: that number of words is mapped, aligned to a page, for as long as we live; the file cannot
        // shrink. Atomics may be changed by anybody.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) }
    }
}

/// Sleeps until one of these words is not 1 any more, or is woken, but no longer than this. `false` if the system cannot: then no time
/// has passed. Words of memory that is [mapped](Memory::map): they may be changed by any process.
pub fn sleep_on<'a>(words: impl Iterator<Item = &'a AtomicU64>, limit: Duration) -> bool {
    use rustix::thread::futex::{Wait, WaitFlags, WaitPtr, WaitvFlags, waitv};
    use rustix::time::{ClockId, Timespec, clock_gettime};
    let waits: Vec<Wait> = words
        .map(|word| {
            let mut wait = Wait::new();
            wait.val = 1;
            // The low half, which is all that is used.
            wait.uaddr = WaitPtr::new(std::ptr::from_ref(word).cast_mut().cast());
            wait.flags = WaitFlags::SIZE_U32;
            wait
        })
        .collect();
    if waits.is_empty() || waits.len() > WAITS_MAX || cfg!(target_endian = "big") {
        return false;
    }
    let now = clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_nsec + i64::from(limit.subsec_nanos());
    let until = Timespec {
        tv_sec: now.tv_sec + limit.as_secs() as i64 + nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    let result = waitv(&waits, WaitvFlags::empty(), Some(&until), ClockId::Monotonic);
    !matches!(result, Err(Errno::NOSYS | Errno::INVAL | Errno::PERM))
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it outlives us.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.words * 8) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl Words for Memory {
    #[inline]
    fn count(&self) -> usize {
        self.words
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words()[at]
    }

    #[inline]
    #[expect(clippy::unreachable, reason = "a slice of four has four")]
    fn four(&self, at: usize) -> [&AtomicU64; 4] {
        let [a, b, c, d] = &self.words()[at..at + 4] else { unreachable!("a slice of four") };
        [a, b, c, d]
    }

    #[inline]
    fn fetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes nothing, and may be of any address. (That of `std::arch` is for
        // reading only unless the target is newer, and the logger has read these lines.)
        unsafe {
            let at: *const AtomicU64 = self.word(at);
            std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    fn wake(&self, at: usize) {
        use rustix::thread::futex;
        let word: *const AtomicU64 = self.word(at);
        // SAFETY: the low half of a word that is mapped for as long as we live. Only its address is used.
        let half = unsafe { &*word.cast::<std::sync::atomic::AtomicU32>() };
        // Nobody sleeps there, or the logger wakes by itself after a while.
        let _ = futex::wake(half, futex::Flags::empty(), i32::MAX as u32);
    }

    #[inline]
    fn fetch_to_read(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes nothing, and may be of any address.
        unsafe {
            let at: *const AtomicU64 = self.word(at);
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_mappings_show_the_same_words() {
        let file = create_memory("test", 4096).unwrap();
        let (a, b) =
            (Memory::map(file.as_fd(), 4096).unwrap(), Memory::map(file.as_fd(), 4096).unwrap());
        a.word(511).store(7, Ordering::Relaxed);
        assert_eq!(b.four(508)[3].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn memory_that_could_go_away_is_refused() {
        let file = create_memory("test", 4096).unwrap();
        let length = Memory::map(file.as_fd(), 8192).unwrap_err();
        assert_eq!(length, MemoryError::Length { expected: 8192, got: 4096 });
        let open = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, 4096).unwrap();
        let unsealed = Memory::map(open.as_fd(), 4096).unwrap_err();
        assert_eq!(unsealed, MemoryError::Unsafe { got: "it may shrink" });
        rustix::fs::fcntl_add_seals(&open, SealFlags::SHRINK).unwrap();
        let holes = Memory::map(open.as_fd(), 4096).unwrap_err();
        assert_eq!(holes, MemoryError::Unsafe { got: "it has holes" });
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let disk = Memory::map(file.as_fd(), 4096).unwrap_err();
        assert!(matches!(disk, MemoryError::Unsafe { .. }), "{disk}");
    }
}
