//! Where a payload log goes that is larger than the memory given to it: a file without a name, written
//! through io_uring while the rank runs.
//!
//! It dies with its rank, as the log does, or is handed to the next process by the one that made it, so nothing
//! is synced. Where io_uring is refused, writes are
//! plain ones.

#![allow(unsafe_code)]

use super::file::errno;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

/// Writes under way at once.
pub const AT_ONCE: usize = 32;

/// The file.
#[derive(Debug)]
pub struct Spill {
    file: File,
    ring: Option<Ring>,
    /// What is under way, each at its number.
    under_way: Vec<Option<Block>>,
}

struct Ring(Box<IoUring>);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

/// Bytes that are being written.
#[derive(Clone, Copy, Debug)]
struct Block {
    at: u64,
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes of blocks are only read, and the caller that handed them over vouches for them in any
// thread.
unsafe impl Send for Spill {}

impl Spill {
    /// A file in this folder that nobody else can open and that is gone when it is closed.
    ///
    /// # Errors
    /// Those of the operating system: the folder is not there, or cannot be written.
    pub fn create(folder: &Path) -> Result<Spill> {
        Spill::file_in(folder).map(Spill::to)
    }

    /// Such a file, for somebody else to [write to](Self::to).
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn file_in(folder: &Path) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
            Ok(file) => file,
            // Not every file system has such files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = folder.join(format!(".taffrail-log-{}", std::process::id()));
                let file = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
                rustix::fs::unlink(&name)?;
                file
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(file.into())
    }

    /// Writes to this file.
    pub fn to(file: File) -> Spill {
        let ring = IoUring::new(AT_ONCE as u32).ok().map(|ring| Ring(Box::new(ring)));
        Spill { file, ring, under_way: vec![None; AT_ONCE] }
    }

    /// Begins to write bytes, and returns the number of the write, or none if as many as can be are
    /// under way.
    ///
    /// # Errors
    /// Those of a plain write, where io_uring is not to be had.
    ///
    /// # Safety
    /// The bytes stay readable and unchanged until [`finished`](Self::finished) has reported this
    /// write, or the spill is dropped.
    pub unsafe fn begin(&mut self, at: u64, bytes: &[u8]) -> Result<Option<usize>> {
        let Some(number) = self.under_way.iter().position(Option::is_none) else { return Ok(None) };
        let block = Block { at, bytes: NonNull::from(bytes).cast(), len: bytes.len() };
        match &mut self.ring {
            None => self.file.write_all_at(bytes, at)?,
            Some(Ring(ring)) => {
                let fd = Fd(self.file.as_raw_fd());
                let entry = opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32)
                    .offset(at)
                    .build()
                    .user_data(number as u64);
                // SAFETY: the caller's promise; the file is open as long as the ring, whose drop
                // waits for what is under way.
                if unsafe { ring.submission().push(&entry) }.is_err() {
                    return Ok(None);
                }
                submit(ring, 0)?;
            }
        }
        self.under_way[number] = Some(block);
        Ok(Some(number))
    }

    /// The writes that are over, by their numbers, and how; waits for one if `wait` and any is under
    /// way.
    pub fn finished(&mut self, wait: bool) -> Vec<(usize, Result<()>)> {
        let mut over = Vec::new();
        let Some(Ring(ring)) = &mut self.ring else {
            for (number, block) in self.under_way.iter_mut().enumerate() {
                over.extend(block.take().map(|_| (number, Ok(()))));
            }
            return over;
        };
        if wait && self.under_way.iter().any(Option::is_some) && submit(ring, 1).is_err() {
            return over;
        }
        for completion in ring.completion() {
            let number = completion.user_data() as usize;
            let Some(block) = self.under_way.get_mut(number).and_then(Option::take) else {
                continue;
            };
            let result = match completion.result() {
                error if error < 0 => Err(Error::from_raw_os_error(-error)),
                written => finish(&self.file, block, written as usize),
            };
            over.push((number, result));
        }
        over
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at)
    }
}

impl Spill {
    /// Gives the room of some bytes back to the file system.
    ///
    /// # Errors
    /// Those of the operating system: the file system does not do that.
    pub fn forget(&self, at: u64, len: u64) -> Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, punch, at, len)?)
    }
}

impl Drop for Spill {
    /// The kernel must not read memory that somebody else uses by then.
    fn drop(&mut self) {
        while self.under_way.iter().any(Option::is_some) && !self.finished(true).is_empty() {}
    }
}

/// Writes what a short write has left.
fn finish(file: &File, block: Block, written: usize) -> Result<()> {
    // SAFETY: the bytes stay readable until this write is reported.
    let bytes = unsafe { std::slice::from_raw_parts(block.bytes.as_ptr(), block.len) };
    match bytes.get(written..) {
        None => Err(ErrorKind::InvalidData.into()),
        Some([]) => Ok(()),
        Some(rest) => file.write_all_at(rest, block.at + written as u64),
    }
}

fn submit(ring: &IoUring, wait: usize) -> Result<()> {
    loop {
        match ring.submit_and_wait(wait) {
            Ok(_) => return Ok(()),
            Err(e) if errno(&e) == Errno::INTR => {}
            // It is submitted with the next.
            Err(e) if matches!(errno(&e), Errno::AGAIN | Errno::BUSY) && wait == 0 => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_is_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::create(folder.path()).unwrap();
        let blocks: Vec<Vec<u8>> = (0..100u8).map(|k| vec![k; 65536]).collect();
        let mut over = 0;
        for (k, block) in blocks.iter().enumerate() {
            // SAFETY: the blocks are there until the end of the test.
            while unsafe { spill.begin(k as u64 * 65536, block) }.unwrap().is_none() {
                over += ended(spill.finished(true));
            }
        }
        while over < blocks.len() {
            over += ended(spill.finished(true));
        }
        let mut into = vec![0; 65536];
        for k in (0..100).rev() {
            spill.read(k as u64 * 65536, &mut into).unwrap();
            assert!(into == blocks[k], "block {k}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(spill.read(100 * 65536, &mut into).is_err());
    }

    fn ended(over: Vec<(usize, Result<()>)>) -> usize {
        over.into_iter().map(|(_, result)| result.unwrap()).count()
    }

    #[test]
    fn a_full_disk_is_reported() {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let ring = IoUring::new(AT_ONCE as u32).ok().map(|ring| Ring(Box::new(ring)));
        let mut spill = Spill { file: full, ring, under_way: vec![None; AT_ONCE] };
        // SAFETY: the bytes are static.
        match unsafe { spill.begin(0, &[1; 4096]) } {
            Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull),
            Ok(_) => {
                let (_, result) = spill.finished(true).remove(0);
                assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
            }
        }
    }
}
