//! How many bytes a process has allocated: for tests of what a peer costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which counts: to be made the `#[global_allocator]` of a test program.
pub struct CountingHeap;

static BYTES: AtomicUsize = AtomicUsize::new(0);

impl CountingHeap {
    /// The bytes that are allocated now; 0 in a program with another allocator.
    pub fn bytes() -> usize {
        BYTES.load(Ordering::Relaxed)
    }

    /// The bytes that what `make` makes has allocated.
    pub fn taken_by<T>(make: impl FnOnce() -> T) -> usize {
        let before = CountingHeap::bytes();
        let made = std::hint::black_box(make());
        let after = CountingHeap::bytes();
        drop(made);
        after - before
    }
}

// SAFETY: it counts, and the system's allocator does the rest.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}
