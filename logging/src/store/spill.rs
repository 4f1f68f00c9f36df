//! Where a payload log goes that is larger than the memory given to it: a file without a name, written
//! through io_uring while the rank runs.
//!
//! It dies with its rank, as the log does, or is handed to the next process by its owner, so nothing
//! is synced. Where io_uring is refused, reads and writes are plain ones, which have ended when they begin.

#![allow(unsafe_code)]

use super::file::errno;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

/// Reads and writes under way at once.
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

/// What is under way.
#[derive(Debug)]
enum Block {
    /// Bytes that are being written.
    Write { at: u64, bytes: NonNull<u8>, len: usize },
    /// Room for those that are being read.
    Read { at: u64, into: Vec<u8> },
}

/// A read or write that has ended, and how.
#[derive(Debug)]
pub enum Ended {
    /// A write.
    Write(Result<()>),
    /// A read: the bytes.
    Read(Result<Vec<u8>>),
}

// SAFETY: the bytes of writes are only read, and the caller that handed them over vouches for them in any
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
        Spill { file, ring, under_way: (0..AT_ONCE).map(|_| None).collect() }
    }

    /// Begins to write bytes, and returns the number of the write, or none if as many reads and writes as can
    /// be are under way.
    ///
    /// # Errors
    /// Those of a plain write, where io_uring is not to be had.
    ///
    /// # Safety
    /// The bytes stay readable and unchanged until [`finished`](Self::finished) has reported this
    /// write, or the spill is dropped.
    pub unsafe fn begin(&mut self, at: u64, bytes: &[u8]) -> Result<Option<usize>> {
        let Some(number) = self.unused() else { return Ok(None) };
        let block = Block::Write { at, bytes: NonNull::from(bytes).cast(), len: bytes.len() };
        if self.ring.is_none() {
            self.file.write_all_at(bytes, at)?;
        } else {
            let fd = Fd(self.file.as_raw_fd());
            let write = opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32).offset(at);
            // SAFETY: the caller's promise.
            if !unsafe { self.push(write.build(), number)? } {
                return Ok(None);
            }
        }
        self.under_way[number] = Some(block);
        Ok(Some(number))
    }

    /// Begins to read what was written, and returns the number of the read, or none if as many reads and writes
    /// as can be are under way.
    ///
    /// # Errors
    /// Those of a plain read, where io_uring is not to be had.
    pub fn begin_read(&mut self, at: u64, len: usize) -> Result<Option<usize>> {
        let Some(number) = self.unused() else { return Ok(None) };
        let mut into = vec![0; len];
        if self.ring.is_none() {
            self.file.read_exact_at(&mut into, at)?;
        } else {
            let fd = Fd(self.file.as_raw_fd());
            let read = opcode::Read::new(fd, into.as_mut_ptr(), len as u32).offset(at);
            // SAFETY: the bytes stay where they are in `under_way` until the read has ended.
            if !unsafe { self.push(read.build(), number)? } {
                return Ok(None);
            }
        }
        self.under_way[number] = Some(Block::Read { at, into });
        Ok(Some(number))
    }

    /// A number that no read or write under way has.
    fn unused(&self) -> Option<usize> {
        self.under_way.iter().position(Option::is_none)
    }

    /// Hands a read or write to the kernel. `false` if there is no room for it.
    ///
    /// # Safety
    /// Its bytes stay until it has ended.
    unsafe fn push(&mut self, entry: squeue::Entry, number: usize) -> Result<bool> {
        let Some(Ring(ring)) = &mut self.ring else { return Ok(false) };
        let entry = entry.user_data(number as u64);
        // SAFETY: the caller's promise; the file is open as long as the ring.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            return Ok(false);
        }
        submit(ring, 0)?;
        Ok(true)
    }

    /// The reads and writes that have ended, by their numbers, and how.
    pub fn finished(&mut self) -> Vec<(usize, Ended)> {
        let Spill { file, ring, under_way } = self;
        let mut ended = Vec::new();
        let Some(Ring(ring)) = ring else {
            for (number, block) in under_way.iter_mut().enumerate() {
                ended.extend(block.take().map(|block| (number, block.ended(None, file))));
            }
            return ended;
        };
        for completion in ring.completion() {
            let number = completion.user_data() as usize;
            let Some(block) = under_way.get_mut(number).and_then(Option::take) else { continue };
            ended.push((number, block.ended(Some(completion.result()), file)));
        }
        ended
    }

    /// Waits for a read or write, if any is under way, and returns those that have ended.
    fn wait(&mut self) -> Vec<(usize, Ended)> {
        let is_any = self.under_way.iter().any(Option::is_some);
        if let (Some(Ring(ring)), true) = (&self.ring, is_any)
            && submit(ring, 1).is_err()
        {
            return Vec::new();
        }
        self.finished()
    }
}

impl Spill {
    /// Gives the room of some bytes back to the file system.
    ///
    /// # Errors
    /// Those of the operating system: the file system does not do that.
    pub fn forget(&self, at: u64, len: u64) -> Result<()> {
        Spill::forget_in(&self.file, at, len)
    }

    /// The same, of a file that somebody else writes.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub fn forget_in(file: &File, at: u64, len: u64) -> Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(file, punch, at, len)?)
    }
}

impl Drop for Spill {
    /// The kernel must not read or write memory that somebody else uses by then.
    fn drop(&mut self) {
        while self.under_way.iter().any(Option::is_some) && !self.wait().is_empty() {}
        std::mem::forget(std::mem::take(&mut self.under_way));
    }
}

impl Block {
    /// How it has ended, by what the kernel said of it, if it was asked: the bytes that were moved, or an error. What a
    /// short read or write has left is done now.
    fn ended(self, result: Option<i32>, file: &File) -> Ended {
        let moved = |len: usize| match result {
            None => Ok(len),
            Some(error) if error < 0 => Err(Error::from_raw_os_error(-error)),
            Some(moved) if moved as usize > len => Err(ErrorKind::InvalidData.into()),
            Some(moved) => Ok(moved as usize),
        };
        match self {
            Block::Write { at, bytes, len } => Ended::Write(moved(len).and_then(|done| {
                // SAFETY: the bytes stay readable until this write is reported.
                let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) };
                file.write_all_at(&bytes[done..], at + done as u64)
            })),
            Block::Read { at, mut into } => Ended::Read(moved(into.len()).and_then(|done| {
                file.read_exact_at(&mut into[done..], at + done as u64)?;
                Ok(into)
            })),
        }
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
        let spill = Spill::create(folder.path()).unwrap();
        written_and_read(spill);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_same_without_a_ring() {
        let file = tempfile::tempfile().unwrap();
        let mut spill = Spill::to(file);
        spill.ring = None;
        written_and_read(spill);
    }

    fn written_and_read(mut spill: Spill) {
        let blocks: Vec<Vec<u8>> = (0..100u8).map(|k| vec![k; 65536]).collect();
        let mut over = 0;
        for (k, block) in blocks.iter().enumerate() {
            // SAFETY: the blocks are there until the end of the test.
            while unsafe { spill.begin(k as u64 * 65536, block) }.unwrap().is_none() {
                over += written(spill.wait());
            }
        }
        while over < blocks.len() {
            over += written(spill.wait());
        }
        let (mut begun, mut read) = (std::collections::HashMap::new(), 0);
        let mut left = (0..100).rev();
        let mut next = left.next();
        while read < blocks.len() {
            while let Some(k) = next {
                let Some(number) = spill.begin_read(k as u64 * 65536, 65536).unwrap() else {
                    break;
                };
                assert_eq!(begun.insert(number, k), None);
                next = left.next();
            }
            for (number, ended) in spill.wait() {
                let Ended::Read(result) = ended else { panic!("{ended:?}") };
                let k = begun.remove(&number).unwrap();
                assert!(result.unwrap() == blocks[k], "block {k}");
                read += 1;
            }
        }
        match spill.begin_read(100 * 65536, 65536) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof),
            Ok(_) => {
                let (_, Ended::Read(Err(error))) = spill.wait().remove(0) else {
                    panic!("it is read")
                };
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            }
        }
    }

    fn written(ended: Vec<(usize, Ended)>) -> usize {
        ended.iter().for_each(|(_, ended)| assert!(matches!(ended, Ended::Write(Ok(())))));
        ended.len()
    }

    #[test]
    fn a_full_disk_is_reported() {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut spill = Spill::to(full);
        // SAFETY: the bytes are static.
        match unsafe { spill.begin(0, &[1; 4096]) } {
            Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull),
            Ok(_) => {
                let (_, Ended::Write(Err(error))) = spill.wait().remove(0) else {
                    panic!("it is written")
                };
                assert_eq!(error.kind(), ErrorKind::StorageFull);
            }
        }
    }
}
