//! Shared memory: files without a name that one process owns and its peers map.
//!
//! A file's whole limit is mapped at once, most of it beyond the file's end; growing moves only the
//! end of the file, so nothing mapped ever moves. What lies beyond that end cannot be touched
//! (`PROT_NONE`): a tool that reads all mapped memory, as valgrind's leak check and debuggers do, would get a
//! SIGBUS at each word of it. Memory is allocated when a file is created or
//! grown, and refused then, so that no access gets a SIGBUS later. Seals keep a peer from shortening a file
//! that others have mapped.

mod headroom;
mod huge;
mod mapped;

use crate::address_space::place;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use taffrail_fabric::{Denied, MemoryError};

pub use huge::{HUGE, fill_huge, try_huge_page};
pub(crate) use mapped::{Access, Expected, Mapped, OpenError};

/// Memory is asked for in steps of this many bytes, so that a signal costs one step and not all.
const STEP: usize = 16 << 20;
/// Bytes beyond the need for which the free memory is looked up at once: a look-up takes half as long as to allocate
/// 64 KiB.
const LOOKED_UP: u64 = 4 << 20;

/// What a file of ours may do after its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// Neither shrink nor grow; peers may write it.
    Fixed,
    /// Grow, by its owner; never shrink. Peers cannot map it for writing, whatever descriptor of it
    /// they hold (from Linux 5.1 on).
    Growing,
}

/// Memory of ours that peers may map.
#[derive(Debug)]
pub(crate) struct Shared {
    file: OwnedFd,
    space: Space,
    len: usize,
    /// Bytes that were left when that was last looked up, and are not in use by now.
    left: u64,
    /// The kernel has not refused huge pages so far.
    huge: bool,
    future_write: bool,
}

impl Shared {
    /// Creates and maps a file of `len` bytes, zeroed, that may grow up to `limit` bytes if `seal`
    /// says so. Both are rounded up to whole pages. `name` is only seen in `/proc/PID/maps`.
    ///
    /// # Errors
    /// [`MemoryError::Short`], saying what ran out, what was needed, what there is and what to do.
    pub fn create(name: &str, len: usize, limit: usize, seal: Seal) -> Result<Self, MemoryError> {
        Shared::create_in(new_file(name, len)?, len, limit, seal)
    }

    /// As [`create`](Self::create), in a file that somebody else has made: an empty memfd that may be
    /// sealed.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_in(
        file: OwnedFd,
        len: usize,
        limit: usize,
        seal: Seal,
    ) -> Result<Self, MemoryError> {
        let len = round_up(len.max(1));
        let limit = match seal {
            Seal::Fixed => len,
            Seal::Growing => round_up(limit).max(len),
        };
        let space = Space::map(file.as_fd(), limit, ProtFlags::READ | ProtFlags::WRITE, 0)
            .map_err(|errno| no_address_space(limit as u64, errno))?;
        // A fuzz target makes thousands of files in a second.
        let huge = !cfg!(fuzzing);
        let mut shared = Shared { file, space, len: 0, left: 0, huge, future_write: false };
        shared.grow(len)?;
        shared.seal(seal)?;
        Ok(shared)
    }

    /// Makes the file `new_len` bytes long (rounded up to whole pages); what lies in it stays where
    /// it is. Does nothing when it is as long already.
    ///
    /// # Errors
    /// [`MemoryError::Short`], when memory or the file's limit is exhausted; the length is what
    /// it was.
    pub fn grow(&mut self, new_len: usize) -> Result<(), MemoryError> {
        if new_len <= self.len {
            return Ok(());
        }
        let new_len = round_up(new_len);
        if new_len > self.space.len {
            return Err(MemoryError::Short {
                what: "room in a shared file",
                need: new_len as u64,
                have: format!("its limit is {} bytes", self.space.len),
                remedy: "create it with a higher limit",
            });
        }
        check_file_size_limit(new_len as u64)?;
        let more = (new_len - self.len) as u64;
        if !cfg!(fuzzing) {
            self.look_for(more)?;
        }
        self.space.open(new_len).map_err(|errno| no_address_space(more, errno))?;
        if let Err(errno) = self.allocate(new_len) {
            self.space.close(self.len);
            return Err(headroom::short(more, errno));
        }
        // Saves page faults later; without it (before Linux 5.14) everything works, too.
        // SAFETY: the range lies inside our own mapping and inside the file.
        let _ = unsafe {
            rustix::mm::madvise(
                self.as_ptr().add(self.len).cast(),
                new_len - self.len,
                Advice::LinuxPopulateWrite,
            )
        };
        self.len = new_len;
        Ok(())
    }

    /// Refuses bytes that are not left.
    fn look_for(&mut self, more: u64) -> Result<(), MemoryError> {
        if more > self.left {
            self.left = match headroom::check(more + LOOKED_UP) {
                Ok(()) => more + LOOKED_UP,
                Err(_) => headroom::check(more).map(|()| more)?,
            };
        }
        self.left -= more;
        Ok(())
    }

    /// Address of the first byte; never changes.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.space.at.as_ptr()
    }

    /// Bytes that may be touched.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes up to which it may grow.
    #[inline]
    pub fn limit(&self) -> usize {
        self.space.len
    }

    /// The length to grow to for `more` bytes, which is more if that costs less for each: to the end of a
    /// huge page.
    pub fn worth_growing(&self, more: usize) -> usize {
        let len = self.len + more;
        let len = if self.huge { len.next_multiple_of(HUGE) } else { len };
        len.min(self.space.len)
    }

    /// The file, for peers that may write to it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A descriptor of the file that cannot be used to write to it.
    ///
    /// # Errors
    /// [`Denied`] when there is no `/proc` to open the file anew through, and the kernel has no seal
    /// against writing either.
    pub fn read_only_fd(&self) -> Result<OwnedFd, Denied> {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => Ok(file),
            Err(errno) if self.future_write => self.file.try_clone().map_err(|e| Denied {
                what: "a read-only descriptor of shared memory",
                why: format!("{errno}, and then {e}"),
                remedy: "raise the limit of open files (ulimit -n)",
            }),
            Err(errno) => Err(Denied {
                what: "a read-only descriptor of shared memory",
                why: format!("opening /proc/self/fd failed: {errno}"),
                remedy: "mount /proc, or use Linux 5.1 or newer",
            }),
        }
    }

    /// Allocates the new part. What was allocated before memory ran out is kept for the next try; a file
    /// sealed against new writers cannot give it back.
    ///
    /// Ordinary pages are allocated beyond the end of the file, which is moved then. Huge pages are only had
    /// before its end: peers that look meanwhile see a length of which not all has memory, and take in as
    /// much as has ([`Mapped::extend`]).
    fn allocate(&mut self, new_len: usize) -> Result<(), Errno> {
        let mut at = self.len;
        while at < new_len {
            let end = new_len.min(at + STEP);
            if self.huge {
                self.huge = self.allocate_huge(at, end).is_ok();
            }
            // What is there stays.
            self.allocate_pages(at, end)?;
            at = end;
        }
        rustix::io::retry_on_intr(|| rustix::fs::ftruncate(&self.file, new_len as u64))
    }

    /// Allocates the whole huge pages of a part, and what is before them.
    fn allocate_huge(&self, at: usize, end: usize) -> Result<(), Errno> {
        let Some((first, last)) = huge::inside(at, end) else { return Ok(()) };
        self.allocate_pages(at, first)?;
        // SAFETY: all up to the limit is mapped, and opened up to the new end.
        unsafe { fill_huge(self.file.as_fd(), self.as_ptr(), first, last) }
    }

    fn allocate_pages(&self, at: usize, end: usize) -> Result<(), Errno> {
        if at == end {
            return Ok(());
        }
        let (at, len) = (at as u64, (end - at) as u64);
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, keep, at, len))
    }

    fn seal(&mut self, seal: Seal) -> Result<(), MemoryError> {
        let fixed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let growing = SealFlags::SHRINK | SealFlags::SEAL;
        let sealed = match seal {
            Seal::Fixed => rustix::fs::fcntl_add_seals(&self.file, fixed),
            Seal::Growing => {
                match rustix::fs::fcntl_add_seals(&self.file, growing | SealFlags::FUTURE_WRITE) {
                    Ok(()) => {
                        self.future_write = true;
                        Ok(())
                    }
                    Err(Errno::INVAL) => rustix::fs::fcntl_add_seals(&self.file, growing),
                    Err(errno) => Err(errno),
                }
            }
        };
        sealed.map_err(|errno| MemoryError::Short {
            what: "seals on shared memory",
            need: self.len as u64,
            have: format!("fcntl(F_ADD_SEALS) failed: {errno}"),
            remedy: "use a kernel with sealed memfds (Linux 3.17 or newer)",
        })
    }
}

/// Address space with a file's front mapped into it, unmapped when dropped.
#[derive(Debug)]
struct Space {
    at: NonNull<u8>,
    len: usize,
    /// How the front may be accessed, and how long it is; the rest cannot be touched.
    access: ProtFlags,
    opened: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread; what is done through the address
// is the business of the code that does it.
unsafe impl Send for Space {}
// SAFETY: as for Send; no method changes anything through a shared reference.
unsafe impl Sync for Space {}

impl Space {
    /// Maps a file of which the first `opened` bytes may be touched.
    fn map(
        file: BorrowedFd<'_>,
        len: usize,
        access: ProtFlags,
        opened: usize,
    ) -> Result<Self, Errno> {
        let at_first = if opened >= len { access } else { ProtFlags::empty() };
        // SAFETY: a new mapping overlaps nothing: the kernel takes another place if this one is taken.
        let at = unsafe { rustix::mm::mmap(place(len), len, at_first, MapFlags::SHARED, file, 0)? };
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        let mut space = Space { at, len, access, opened: if opened >= len { len } else { 0 } };
        space.open(opened)?;
        Ok(space)
    }

    /// Lets the first `len` bytes be touched.
    fn open(&mut self, len: usize) -> Result<(), Errno> {
        let end = round_up(len).min(round_up(self.len));
        if end > self.opened {
            self.protect(self.opened, end, self.access)?;
            self.opened = end;
        }
        Ok(())
    }

    /// Lets nothing be touched behind the first `len` bytes.
    fn close(&mut self, len: usize) {
        let end = round_up(len);
        // If that is refused a reader of everything meets signals, and nobody else.
        if end < self.opened && self.protect(end, self.opened, ProtFlags::empty()).is_ok() {
            self.opened = end;
        }
    }

    fn protect(&self, from: usize, to: usize, access: ProtFlags) -> Result<(), Errno> {
        let access = rustix::mm::MprotectFlags::from_bits_retain(access.bits());
        // SAFETY: the range lies inside the mapping, which is ours; nothing that may be touched is taken away.
        unsafe { rustix::mm::mprotect(self.at.as_ptr().add(from).cast(), to - from, access) }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every holder of its address had to keep us alive.
        if let Err(errno) = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) } {
            tracing::warn!(%errno, len = self.len, "shared memory could not be unmapped");
        }
    }
}

fn new_file(name: &str, len: usize) -> Result<OwnedFd, MemoryError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        other => other,
    }
    .map_err(|errno| match errno {
        Errno::MFILE | Errno::NFILE => MemoryError::Refused {
            what: "descriptors for shared memory",
            why: format!("all are in use, the limit is {}", limit_text(Resource::Nofile)),
            remedy: "raise the limit of open files (ulimit -n)",
        },
        _ => MemoryError::Short {
            what: "shared memory",
            need: len as u64,
            have: format!("memfd_create failed: {errno}"),
            remedy: "allow the system call memfd_create in the container's seccomp profile",
        },
    })
}

/// The kernel kills a process (SIGXFSZ) that makes a file longer than its limit, so look first.
fn check_file_size_limit(len: u64) -> Result<(), MemoryError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < len => Err(MemoryError::Short {
            what: "length of a shared file",
            need: len,
            have: format!("the limit of file sizes is {limit} bytes"),
            remedy: "raise the limit of file sizes (ulimit -f unlimited)",
        }),
        _ => Ok(()),
    }
}

fn no_address_space(need: u64, errno: Errno) -> MemoryError {
    MemoryError::Short {
        what: "address space",
        need,
        have: format!("mmap failed: {errno}; the limit is {}", limit_text(Resource::As)),
        remedy: "raise the limit of address space (ulimit -v unlimited)",
    }
}

fn limit_text(resource: Resource) -> String {
    getrlimit(resource).current.map_or_else(|| "unlimited".into(), |limit| limit.to_string())
}

/// Saturates at the last whole page, which no call grants.
fn round_up(len: usize) -> usize {
    let page = rustix::param::page_size();
    len.checked_next_multiple_of(page).unwrap_or(usize::MAX / page * page)
}

#[cfg(test)]
mod tests;
