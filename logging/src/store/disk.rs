//! Writing to several files at once, and to disk if that is asked for: the group commit.

#![allow(unsafe_code)]

use super::file::errno;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Writes that are under way at once: two entries of the queue each.
const AT_ONCE: usize = 64;

/// How bytes get to where they are kept.
pub enum Disk {
    /// Written, into memory: there is nothing to sync.
    Memory,
    /// Written and synced, one file after the other.
    Plain,
    /// Written and synced through io_uring, all files at once.
    Uring(Box<IoUring>),
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Disk::Memory => "Memory",
            Disk::Plain => "Plain",
            Disk::Uring(_) => "Uring",
        })
    }
}

/// Bytes, and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The file.
    pub file: &'a File,
    /// The place of the first byte.
    pub at: u64,
    /// All of them.
    pub bytes: &'a [u8],
}

/// Why bytes are not known to be where they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The write or the sync failed.
    #[error("{call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// Not all was written; most likely the disk is full.
    #[error("wrote {got} of {expected} bytes")]
    Short {
        /// How many were to be written.
        expected: usize,
        /// How many were.
        got: usize,
    },
}

impl Disk {
    /// Synced: with io_uring or, where the kernel does not have it or refuses it, without it, and why.
    pub fn synced() -> (Self, Option<std::io::Error>) {
        match uring() {
            Ok(ring) => (Disk::Uring(Box::new(ring)), None),
            Err(refused) => (Disk::Plain, Some(refused)),
        }
    }

    /// Writes all, syncs all, and returns of each whether both have succeeded. A write that failed may
    /// have left any bytes at its place.
    pub fn commit(&mut self, writes: &[Write<'_>]) -> Vec<Result<(), CommitError>> {
        match self {
            Disk::Memory => writes.iter().map(|write| plainly(write, false)).collect(),
            Disk::Plain => writes.iter().map(|write| plainly(write, true)).collect(),
            Disk::Uring(ring) => {
                writes.chunks(AT_ONCE).flat_map(|some| at_once(ring, some)).collect()
            }
        }
    }
}

fn plainly(write: &Write<'_>, sync: bool) -> Result<(), CommitError> {
    let os = |call| move |e: std::io::Error| CommitError::Os { call, errno: errno(&e) };
    write.file.write_all_at(write.bytes, write.at).map_err(os("pwrite"))?;
    if sync {
        write.file.sync_data().map_err(os("fdatasync"))?;
    }
    Ok(())
}

fn uring() -> std::io::Result<IoUring> {
    let ring = IoUring::new(2 * AT_ONCE as u32)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let has = probe.is_supported(opcode::Write::CODE) && probe.is_supported(opcode::Fsync::CODE);
    has.then_some(ring).ok_or_else(|| Errno::NOSYS.into())
}

/// For each a write, and a sync linked behind it: it is cancelled unless the write was complete.
#[expect(
    clippy::expect_used,
    reason = "a group is no longer than an event ring, which is below 4 GiB"
)]
fn at_once(ring: &mut IoUring, writes: &[Write<'_>]) -> Vec<Result<(), CommitError>> {
    for (number, write) in writes.iter().enumerate() {
        let fd = Fd(write.file.as_raw_fd());
        let len = u32::try_from(write.bytes.len()).expect("a group is bounded by a ring");
        let entries = [
            opcode::Write::new(fd, write.bytes.as_ptr(), len)
                .offset(write.at)
                .build()
                .flags(squeue::Flags::IO_LINK)
                .user_data(2 * number as u64),
            opcode::Fsync::new(fd)
                .flags(FsyncFlags::DATASYNC)
                .build()
                .user_data(2 * number as u64 + 1),
        ];
        // SAFETY: `bytes` and `file` are borrowed until this function returns, which is after all
        // of these have completed.
        let pushed = unsafe { ring.submission().push_multiple(&entries) };
        if pushed.is_err() {
            // Nobody else uses the queue, and it is empty between commits.
            abandon("the queue of io_uring is full");
        }
    }
    let mut done: Vec<Option<i32>> = vec![None; 2 * writes.len()];
    while done.contains(&None) {
        let missing = done.iter().filter(|result| result.is_none()).count();
        match ring.submit_and_wait(missing) {
            Ok(_) => {}
            Err(e) if matches!(errno(&e), Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
            Err(e) => abandon(&format!("io_uring_enter failed: {e}")),
        }
        for completion in ring.completion() {
            match done.get_mut(completion.user_data() as usize) {
                Some(result) => *result = Some(completion.result()),
                None => abandon("io_uring reported something that nobody asked for"),
            }
        }
    }
    let results = done.as_chunks::<2>().0.iter().zip(writes);
    results.map(|(&[wrote, synced], write)| judge(wrote, synced, write.bytes.len())).collect()
}

fn judge(wrote: Option<i32>, synced: Option<i32>, expected: usize) -> Result<(), CommitError> {
    let (wrote, synced) = (wrote.unwrap_or(-1), synced.unwrap_or(-1));
    let os = |call, result: i32| CommitError::Os { call, errno: Errno::from_raw_os_error(-result) };
    match wrote {
        ..0 => Err(os("write", wrote)),
        _ if wrote as usize != expected => {
            Err(CommitError::Short { expected, got: wrote as usize })
        }
        _ if synced < 0 => Err(os("fdatasync", synced)),
        _ => Ok(()),
    }
}

/// The kernel may go on to use memory that is about to be freed: there is no way to continue. The parent
/// of this process starts another one, which loses nothing.
fn abandon(why: &str) -> ! {
    let line = format!("taffrail: event logger: {why}; it ends, to be started again\n");
    // Without a receiver there is nobody to report to.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    std::process::abort()
}

#[cfg(test)]
mod tests;
