//! Distinguishes a process from the children that it forks, at the price of one load.

use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use taffrail_fabric::MemoryError;

/// A page that the kernel wipes in every forked child.
///
/// An endpoint's rings have one writer and one reader each. After a fork there would be two of
/// them; so whatever touches a ring asks first, and refuses in the child.
#[derive(Debug)]
pub struct ForkGuard {
    flag: NonNull<u8>,
}

// SAFETY: the page is written once, in `new`, and only read after that.
unsafe impl Send for ForkGuard {}
// SAFETY: as for Send.
unsafe impl Sync for ForkGuard {}

impl ForkGuard {
    /// Marks the calling process as the parent.
    ///
    /// # Errors
    /// [`MemoryError::Short`] when there is no page to be had, or none that is wiped on fork.
    pub fn new() -> Result<Self, MemoryError> {
        let short = |call: &str, errno: Errno| MemoryError::Short {
            what: "a page that is wiped on fork",
            need: page() as u64,
            have: format!("{call} failed: {errno}"),
            remedy: "use Linux 4.14 or newer, and raise the limit of address space (ulimit -v)",
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses overlaps nothing.
        let at = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), page(), access, MapFlags::PRIVATE)
        }
        .map_err(|errno| short("mmap", errno))?;
        let flag = NonNull::new(at.cast()).ok_or_else(|| short("mmap", Errno::NOMEM))?;
        let guard = ForkGuard { flag };
        // SAFETY: the page is ours.
        unsafe { rustix::mm::madvise(at, page(), Advice::LinuxWipeOnFork) }
            .map_err(|errno| short("madvise(MADV_WIPEONFORK)", errno))?;
        // SAFETY: the page is ours and writable.
        unsafe { guard.flag.as_ptr().write_volatile(1) };
        Ok(guard)
    }

    /// Whether this is still the process that called [`new`](Self::new).
    #[inline]
    pub fn is_parent(&self) -> bool {
        // SAFETY: the page stays mapped as long as `self` lives, in a child as well.
        unsafe { self.flag.as_ptr().read_volatile() == 1 }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // SAFETY: the page is ours, and nobody else knows its address.
        let _ = unsafe { rustix::mm::munmap(self.flag.as_ptr().cast(), page()) };
    }
}

fn page() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::alone;

    #[test]
    fn a_forked_child_knows_that_it_is_one() {
        if !alone(module_path!(), "a_forked_child_knows_that_it_is_one", "true") {
            return;
        }
        let guard = ForkGuard::new().unwrap();
        assert!(guard.is_parent());
        // SAFETY: the child only loads, compares and leaves.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let code = if guard.is_parent() { 1 } else { 42 };
            // SAFETY: leaves without running anything of the parent's.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child, and `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), 42);
        assert!(guard.is_parent());
    }
}
