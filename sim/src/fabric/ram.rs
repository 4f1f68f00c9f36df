//! Memory that is reached by its address: the only unsafe code of the simulator.
//!
//! A [`Span`] of user memory is made of a [`UserBuf`] or [`UserBytes`]: their makers have promised that the memory
//! stays until its operation has ended. The network drops each span before it reports that end, and
//! [`Net::kill`](super::state::Net::kill) takes copies of what a dying process owns before the process is dropped.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use taffrail_fabric::{Payload, UserBuf, UserBytes};

const PAGE: usize = 4096;

/// Zeroed memory, aligned to a page.
pub(super) struct Pages {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, released with the last reference.
unsafe impl Send for Pages {}
// SAFETY: as above; the bytes are reached by raw copies, within one process of the simulation at a time.
unsafe impl Sync for Pages {}

impl Pages {
    /// `None` if there is not enough memory.
    pub(super) fn new(len: usize) -> Option<Arc<Pages>> {
        let layout = Layout::from_size_align(len.max(1), PAGE).ok()?;
        // SAFETY: the layout is not of size 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Arc::new(Pages { at, layout }))
    }

    pub(super) fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Bytes of pages that their owner alone writes.
    ///
    /// # Panics
    /// If they lie outside.
    pub(super) fn slice(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.layout.size() && len <= self.layout.size() - at, "{at} + {len}");
        // SAFETY: inside of the allocation; the fabric of a segment is borrowed as long as the slice is.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(at), len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this very layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// A run of memory, and what keeps it if it is not the program's.
#[derive(Clone)]
pub(super) struct Span {
    at: *mut u8,
    len: usize,
    pub(super) pages: Option<Arc<Pages>>,
}

impl Span {
    pub(super) fn of_buf(buf: UserBuf) -> Span {
        Span { at: buf.as_ptr(), len: buf.len(), pages: None }
    }

    /// Only ever read.
    pub(super) fn of_bytes(bytes: UserBytes) -> Span {
        Span { at: bytes.as_ptr().cast_mut(), len: bytes.len(), pages: None }
    }

    pub(super) fn of_pages(pages: &Arc<Pages>, len: usize) -> Span {
        Span { at: pages.at.as_ptr(), len, pages: Some(pages.clone()) }
    }

    /// A copy of the bytes, in memory of its own.
    pub(super) fn copied(&self) -> Span {
        let pages = Pages::new(self.len).expect("memory for a copy");
        let copy = Span::of_pages(&pages, self.len);
        copy.write(0, &self.read(0, self.len));
        copy
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn at(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.at)
    }

    /// The part from `at` on.
    pub(super) fn part(&self, at: usize, len: usize) -> Span {
        assert!(at <= self.len && len <= self.len - at, "{at} + {len} of {} bytes", self.len);
        Span { at: self.at.wrapping_add(at), len, pages: self.pages.clone() }
    }

    /// Whether the two have a byte in common.
    pub(super) fn overlaps(&self, other: &Span) -> bool {
        let (a, b) = (self.at.addr(), other.at.addr());
        a < b + other.len && b < a + self.len
    }

    pub(super) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at <= self.len && len <= self.len - at, "{at} + {len} of {} bytes", self.len);
        let mut bytes = vec![0; len];
        if len > 0 {
            // SAFETY: inside of the span, which is valid as long as it is here.
            unsafe { self.at.add(at).copy_to(bytes.as_mut_ptr(), len) };
        }
        bytes
    }

    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        let len = bytes.len();
        assert!(at <= self.len && len <= self.len - at, "{at} + {len} of {} bytes", self.len);
        if len > 0 {
            // SAFETY: inside of the span, which is valid as long as it is here.
            unsafe { bytes.as_ptr().copy_to(self.at.add(at), len) };
        }
    }

    /// Writes one byte too many: for a mutant.
    pub(super) fn write_beyond(&self, byte: u8) {
        // SAFETY: a test that runs the mutant has a guard behind its memory.
        unsafe { self.at.add(self.len).write(byte) };
    }

    /// The bytes as a payload, during a call.
    pub(super) fn payload(&self) -> Payload<'_> {
        if self.len == 0 {
            return Payload::of(&[]);
        }
        // SAFETY: the span is valid as long as it is here.
        unsafe { Payload::contiguous(self.at, self.len) }
    }
}
