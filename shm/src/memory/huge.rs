//! Huge pages: allocating memory in them takes a tenth of the time that it takes in ordinary pages, and mapping
//! it fills one page table entry for each instead of 512.
//!
//! The kernel gives shared memory huge pages by itself only where an administrator has said so
//! (`shmem_enabled`). Since Linux 6.1 a process may ask for them, for a range of which a page is there
//! (`MADV_COLLAPSE`): the holes between are filled, which costs no more than to clear them.

use super::Space;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of a huge page. Where it is another size the kernel refuses, and pages are ordinary ones.
pub const HUGE: usize = 2 << 20;

/// The whole huge pages of a range: where the first begins, and where the last ends.
pub(super) fn inside(from: usize, to: usize) -> Option<(usize, usize)> {
    let (first, last) = (from.checked_next_multiple_of(HUGE)?, to / HUGE * HUGE);
    (first < last).then_some((first, last))
}

/// Fills holes of a file with huge pages, from `from` to `to`, which are multiples of their length; the file
/// ends at `to` afterwards, if it was shorter. What is refused stays a hole.
///
/// # Errors
/// What the kernel said.
///
/// # Safety
/// The file is mapped from `at` on, up to `to` at least, and nobody makes it shorter.
pub unsafe fn fill_huge(
    file: BorrowedFd<'_>,
    at: *mut u8,
    from: usize,
    to: usize,
) -> Result<(), Errno> {
    let page = rustix::param::page_size() as u64;
    for huge in (from..to).step_by(HUGE) {
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, keep, huge as u64, page))?;
    }
    if rustix::fs::fstat(file)?.st_size < to as i64 {
        rustix::io::retry_on_intr(|| rustix::fs::ftruncate(file, to as u64))?;
    }
    // SAFETY: the range is mapped, says the caller; what is in its pages stays.
    match unsafe { libc::madvise(at.add(from).cast(), to - from, libc::MADV_COLLAPSE) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// Whether shared memory gets a huge page now, for reports.
///
/// # Errors
/// What the kernel said.
pub fn try_huge_page() -> Result<(), Errno> {
    let file = rustix::fs::memfd_create("taffrail-try", MemfdFlags::CLOEXEC)?;
    let space = Space::map(file.as_fd(), HUGE, ProtFlags::READ | ProtFlags::WRITE, HUGE)?;
    // SAFETY: `HUGE` bytes are mapped, and no other process has the file.
    unsafe { fill_huge(file.as_fd(), space.at.as_ptr(), 0, HUGE) }
}
