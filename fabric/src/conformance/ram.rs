//! Memory that peers may read and write while we hold it.

use super::pattern;
use crate::Keep;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// A run of memory that is only ever reached through its address, so that others may write to it.
pub(crate) struct Ram {
    at: NonNull<u8>,
    len: usize,
    holder: Holder,
}

enum Holder {
    Ours(Layout),
    Theirs { _keep: Keep },
}

// SAFETY: the memory is reached by raw copies only; `Ram` has no tie to a thread.
unsafe impl Send for Ram {}

impl Ram {
    /// `len` zeroed bytes, not aligned to anything in particular.
    pub(crate) fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(1), 1).expect("a length below isize::MAX");
        // SAFETY: the layout is not of size 0.
        let at = unsafe { alloc_zeroed(layout) };
        let Some(at) = NonNull::new(at) else { handle_alloc_error(layout) };
        Ram { at, len, holder: Holder::Ours(layout) }
    }

    /// `len` bytes that a fabric gave out.
    ///
    /// # Safety
    /// `len` bytes from `at` stay readable as long as `keep` is there, and writable if they are
    /// written to.
    pub(crate) unsafe fn kept(at: NonNull<u8>, len: usize, keep: Keep) -> Self {
        Ram { at, len, holder: Holder::Theirs { _keep: keep } }
    }

    pub(crate) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes the pattern `seed` over everything.
    pub(crate) fn fill(&self, seed: u64) {
        self.write(0, &pattern::bytes(seed, self.len));
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: the range lies inside of the memory (checked above).
        unsafe { bytes.as_ptr().copy_to(self.at().add(offset), bytes.len()) };
    }

    /// A copy of everything.
    pub(crate) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: both sides are `len` bytes long.
        unsafe { self.at().copy_to(bytes.as_mut_ptr(), self.len) };
        bytes
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        if let Holder::Ours(layout) = self.holder {
            // SAFETY: allocated in `new` with this very layout.
            unsafe { dealloc(self.at(), layout) };
        }
    }
}
