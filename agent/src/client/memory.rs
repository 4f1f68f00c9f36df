//! The memory of the roster, of the secret and of what was refused, and descriptors that a process has inherited: all unsafe code of the crate.

#![allow(unsafe_code)]

use crate::roster::words_of;
use crate::{RANKS_MAX, Secret};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{Errno, FdFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::SendFlags;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why memory cannot be had, or is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The operating system refused.
    #[error("{call}: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// The file is of a wrong length.
    #[error("expected {expected}, got {got} bytes")]
    Length {
        /// The right length.
        expected: &'static str,
        /// The length that it has.
        got: u64,
    },
    /// Its length or content could change under those who use it.
    #[error("expected a sealed memfd")]
    NotSealed,
}

fn os(call: &'static str) -> impl Fn(Errno) -> MemoryError {
    move |errno| MemoryError::Os { call, errno }
}

const LENGTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A descriptor that this process was started with.
#[derive(Debug)]
pub(crate) struct Inherited(BorrowedFd<'static>);

impl Inherited {
    /// The descriptor of this number, if it is open.
    pub(super) fn new(number: i32) -> Option<Inherited> {
        if number < 0 {
            return None;
        }
        // SAFETY: the number is not -1. Nothing here closes the descriptor; if it is not open, or another file by
        // now, the calls on it fail or the checks of what it names do.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_getfd(file).ok()?;
        Some(Inherited(file))
    }

    /// Keeps it from programs that this process starts.
    pub(super) fn keep(self) -> Inherited {
        let _ = rustix::io::fcntl_setfd(self.0, FdFlags::CLOEXEC);
        self
    }

    /// The counters that it names.
    pub(super) fn refused(&self) -> Result<RefusedMemory, MemoryError> {
        RefusedMemory::open(self.0)
    }

    /// Sends a packet.
    pub(super) fn send(&self, packet: &[u8]) -> Result<(), MemoryError> {
        let sent =
            rustix::io::retry_on_intr(|| rustix::net::send(self.0, packet, SendFlags::NOSIGNAL));
        sent.map(drop).map_err(os("send"))
    }
}

/// Words of a memfd, mapped.
#[derive(Debug)]
struct Words {
    at: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread.
unsafe impl Send for Words {}
// SAFETY: it is used as atomics only.
unsafe impl Sync for Words {}

impl Words {
    fn map(file: BorrowedFd<'_>, len: usize, access: ProtFlags) -> Result<Words, MemoryError> {
        let (null, bytes) = (std::ptr::null_mut(), len * 8);
        // SAFETY: a new mapping at a place the kernel chooses overlaps nothing.
        let at = unsafe { rustix::mm::mmap(null, bytes, access, MapFlags::SHARED, file, 0) };
        let at = at.map_err(os("mmap"))?;
        let at =
            NonNull::new(at.cast()).ok_or(MemoryError::Os { call: "mmap", errno: Errno::NOMEM })?;
        Ok(Words { at, len })
    }

    fn get(&self) -> &[AtomicU64] {
        // SAFETY: `self.len` words are mapped, aligned to a page, for as long as `self` lives; the file is sealed against
        // shrinking. Atomics may be changed by anybody; only processes that have mapped them writable store.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it outlives us.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len * 8) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// A memfd of zeros, mapped to be written. Its length is fixed; what else is sealed is up to the caller.
fn zeros(name: &str, words: usize) -> Result<(Words, OwnedFd), MemoryError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags).map_err(os("memfd_create"))?;
    rustix::fs::ftruncate(&file, (words * 8) as u64).map_err(os("ftruncate"))?;
    let allocate = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&file, allocate, 0, (words * 8) as u64).map_err(os("fallocate"))?;
    let memory = Words::map(file.as_fd(), words, ProtFlags::READ | ProtFlags::WRITE)?;
    rustix::fs::fcntl_add_seals(&file, LENGTH).map_err(os("fcntl"))?;
    Ok((memory, file))
}

/// A mapped roster.
#[derive(Debug)]
pub struct RosterMemory(Words);

impl RosterMemory {
    /// An empty roster for `ranks` ranks, and a read-only descriptor of it for them.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn create(ranks: usize) -> Result<(RosterMemory, OwnedFd), MemoryError> {
        let (memory, file) = zeros("taffrail-roster", words_of(ranks))?;
        // Before Linux 5.1 the descriptor alone keeps ranks from writing.
        let _ = rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE);
        let _ = rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let reading = rustix::fs::open(path, flags, Mode::empty()).map_err(os("open"))?;
        Ok((RosterMemory(memory), reading))
    }

    /// The roster that this descriptor names, to be read.
    ///
    /// # Errors
    /// [`MemoryError`]: it is no memfd whose length is fixed, too long, or cannot be mapped.
    pub(super) fn open(file: &Inherited) -> Result<RosterMemory, MemoryError> {
        let bytes = sealed(file.0, LENGTH)?;
        let most = words_of(RANKS_MAX) as u64 * 8;
        if bytes < words_of(0) as u64 * 8 || bytes > most || bytes % 8 != 0 {
            return Err(MemoryError::Length { expected: "a roster", got: bytes });
        }
        Words::map(file.0, (bytes / 8) as usize, ProtFlags::READ).map(RosterMemory)
    }

    /// Its words.
    pub fn words(&self) -> &[AtomicU64] {
        self.0.get()
    }
}

/// What the listeners of a node have refused, by reason in the order of GOODBYE (`docs/spec/agent.md`, section 10): the agent
/// and all processes of the node that listen share it.
#[derive(Debug)]
pub struct RefusedMemory(Words);

const REASONS: usize = 5;

impl RefusedMemory {
    /// Nothing was refused. The descriptor is for the processes that count.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn create() -> Result<(RefusedMemory, OwnedFd), MemoryError> {
        let (memory, file) = zeros("taffrail-refused", REASONS)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL).map_err(os("fcntl"))?;
        Ok((RefusedMemory(memory), file))
    }

    /// What this descriptor names, to be counted in.
    ///
    /// # Errors
    /// [`MemoryError`]: it is not what [`create`](Self::create) makes, or cannot be mapped.
    pub fn open(file: BorrowedFd<'_>) -> Result<RefusedMemory, MemoryError> {
        match sealed(file, LENGTH)? {
            bytes if bytes == REASONS as u64 * 8 => {
                Words::map(file, REASONS, ProtFlags::READ | ProtFlags::WRITE).map(RefusedMemory)
            }
            got => Err(MemoryError::Length { expected: "40 bytes", got }),
        }
    }

    /// The counters, for as long as the process lives: listeners of it may be in other threads.
    #[expect(
        clippy::expect_used,
        reason = "both functions that make one map a word for each reason"
    )]
    pub fn leak(self) -> &'static [AtomicU64; REASONS] {
        let words = Box::leak(Box::new(self)).0.get();
        words.first_chunk().expect("it has a word for each reason")
    }

    /// What was counted up to now.
    pub fn counted(&self) -> [u64; REASONS] {
        std::array::from_fn(|reason| self.0.get()[reason].load(Ordering::Relaxed))
    }
}

/// A file with the secret, that nobody can change.
///
/// # Errors
/// [`MemoryError::Os`].
pub fn create_secret(secret: &Secret) -> Result<OwnedFd, MemoryError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("taffrail-secret", flags).map_err(os("memfd_create"))?;
    match rustix::io::pwrite(&file, &secret.0, 0).map_err(os("pwrite"))? {
        32 => {}
        got => return Err(MemoryError::Length { expected: "32 bytes", got: got as u64 }),
    }
    let all = LENGTH | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all).map_err(os("fcntl"))?;
    Ok(file)
}

/// The secret in a memfd that [`create_secret`] has made.
///
/// # Errors
/// [`MemoryError`]: it is not sealed, not of its length, or cannot be read.
pub(super) fn read_secret(file: &Inherited) -> Result<Secret, MemoryError> {
    let got = sealed(file.0, LENGTH | SealFlags::WRITE)?;
    let mut bytes = [0; 32];
    let read = rustix::io::pread(file.0, &mut bytes, 0).map_err(os("pread"))?;
    match (got, read) {
        (32, 32) => Ok(Secret(bytes)),
        _ => Err(MemoryError::Length { expected: "32 bytes", got }),
    }
}

/// The length of a memfd that has these seals.
fn sealed(file: BorrowedFd<'_>, seals: SealFlags) -> Result<u64, MemoryError> {
    let found = rustix::fs::fcntl_get_seals(file).map_err(|_| MemoryError::NotSealed)?;
    if !found.contains(seals) {
        return Err(MemoryError::NotSealed);
    }
    let stat = rustix::fs::fstat(file).map_err(os("fstat"))?;
    Ok(stat.st_size as u64)
}
