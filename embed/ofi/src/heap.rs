//! What this library allocates where messages are logged: apart from what the program and its MPI
//! allocate, so that a process that is started again, where we allocate more and at other times, has its own
//! things where the process before had them (`docs/logging.md`, section 15).

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use taffrail_shm::place;

#[global_allocator]
static HEAP: Heap =
    Heap { apart: AtomicU8::new(UNKNOWN), own: Mutex::new(Dlmalloc::new_with_allocator(Pages)) };

struct Heap {
    apart: AtomicU8,
    own: Mutex<Dlmalloc<Pages>>,
}

/// Whether there is a heap of our own, once that is known.
const UNKNOWN: u8 = 0;
const SHARED: u8 = 1;
const APART: u8 = 2;

impl Heap {
    /// The heap of our own, if it is used.
    #[inline]
    fn own(&self) -> Option<MutexGuard<'_, Dlmalloc<Pages>>> {
        match self.apart.load(Ordering::Relaxed) {
            SHARED => None,
            APART => Some(self.lock()),
            _ => self.first(),
        }
    }

    /// The same for all later times, whatever becomes of the environment.
    #[cold]
    fn first(&self) -> Option<MutexGuard<'_, Dlmalloc<Pages>>> {
        let is_apart = crate::settings::is_logged();
        let found = if is_apart { APART } else { SHARED };
        // Another thread may have been faster, and has found the same.
        self.apart.store(found, Ordering::Relaxed);
        is_apart.then(|| self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Dlmalloc<Pages>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: all keep the contract, and a block goes back to where it is from: whether there is a heap of our own never changes, and a
// layout alone says whether a block of it is a mapping.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.own() {
            Some(_) if is_mapping(layout) => map(layout.size()),
            // SAFETY: the layout is as the caller promises.
            Some(mut own) => unsafe { own.malloc(layout.size(), layout.align()) },
            // SAFETY: as above.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.own() {
            Some(_) if is_mapping(layout) => map(layout.size()),
            // SAFETY: the layout is as the caller promises.
            Some(mut own) => unsafe { own.calloc(layout.size(), layout.align()) },
            // SAFETY: as above.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.own() {
            // SAFETY: the mapping is of this length, and nobody uses it any more, as the caller promises.
            Some(_) if is_mapping(layout) => _ = unsafe { unmap(block, layout.size()) },
            // SAFETY: the block is of this heap and layout, as the caller promises.
            Some(mut own) => unsafe { own.free(block, layout.size(), layout.align()) },
            // SAFETY: as above.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(mut own) = self.own() else {
            // SAFETY: as in `dealloc`.
            return unsafe { System.realloc(block, layout, size) };
        };
        // SAFETY: the size is one that fits a layout of this alignment, as the caller promises.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_mapping(layout), is_mapping(new)) {
            // SAFETY: the block is of this heap and layout, as the caller promises.
            (false, false) => unsafe { own.realloc(block, layout.size(), layout.align(), size) },
            // SAFETY: the mapping is of this length, and nobody uses it meanwhile, as the caller promises.
            (true, true) => unsafe { remap(block, layout.size(), size) },
            _ => {
                drop(own);
                // SAFETY: the new block is apart from the old one, and as long as what is copied. The old one is of this layout.
                unsafe {
                    let at = self.alloc(new);
                    if !at.is_null() {
                        block.copy_to_nonoverlapping(at, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    at
                }
            }
        }
    }
}

/// Blocks from this length on are mappings of their own: one that grows moves by its page tables, and one that is freed is gone.
/// In the heap, the blocks that a growing list has left behind would stay, together as long as the list.
const MAPPING: usize = 1 << 20;

fn is_mapping(layout: Layout) -> bool {
    layout.size() >= MAPPING && layout.align() <= rustix::param::page_size()
}

/// A mapping of at least `len` bytes of zeros, or null.
fn map(len: usize) -> *mut u8 {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: without MAP_FIXED a new mapping overlaps nothing.
    match unsafe { rustix::mm::mmap_anonymous(place(len), len, access, flags) } {
        Ok(at) => at.cast(),
        Err(_) => null_mut(),
    }
}

/// # Safety
/// The mapping has this length, and nobody uses it any more.
unsafe fn unmap(at: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { rustix::mm::munmap(at.cast(), len) }.is_ok()
}

/// Makes a mapping longer or shorter. Where it cannot stay it moves to a place of ours, not to one where the program may have its own.
/// Null if there is no memory: then it is as before.
///
/// # Safety
/// The mapping has this length, and nobody uses it meanwhile.
unsafe fn remap(at: *mut u8, len: usize, new: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    if let Ok(at) = unsafe { rustix::mm::mremap(at.cast(), len, new, MremapFlags::empty()) } {
        return at.cast();
    }
    let to = map(new);
    if to.is_null() {
        return to;
    }
    // SAFETY: what it replaces is the mapping that was just made, which nobody uses.
    match unsafe { rustix::mm::mremap_fixed(at.cast(), len, new, MremapFlags::MAYMOVE, to.cast()) }
    {
        Ok(at) => at.cast(),
        // The place may be gone by now, and another thread's.
        Err(_) => null_mut(),
    }
}

/// Where that heap has its memory from.
struct Pages;

// SAFETY: what is handed out is mapped, and nobody else's.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let at = map(size);
        (at, if at.is_null() { 0 } else { size }, 0)
    }

    /// A block that grows moves.
    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, at: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: as below; the front stays.
        unsafe { unmap(at.wrapping_add(new), old - new) }
    }

    fn free(&self, at: *mut u8, size: usize) -> bool {
        // SAFETY: these pages are of `alloc`, and nobody uses them any more.
        unsafe { unmap(at, size) }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of all sizes and alignments, by several threads, one of which frees what another has.
    #[test]
    fn blocks_keep_what_is_in_them() {
        let heap = Heap {
            apart: AtomicU8::new(APART),
            own: Mutex::new(Dlmalloc::new_with_allocator(Pages)),
        };
        let kept = Mutex::new(Vec::new());
        let work = &|seed: usize| {
            let mut random = seed;
            for round in 0..3000 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let size = 1 + (random >> 40) % if round % 50 == 0 { 3 * MAPPING } else { 3000 };
                let layout = Layout::from_size_align(size, 1 << ((random >> 33) % 8)).unwrap();
                let new = layout.size() / 2 + 1 + (random >> 20) % layout.size();
                // SAFETY: the block is of this layout, then of this size, and used within that.
                let block = unsafe {
                    let block = heap.alloc_zeroed(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                    let bytes = std::slice::from_raw_parts(block, size);
                    assert!(bytes.iter().all(|&byte| byte == 0));
                    block.write_bytes(seed as u8, size);
                    let block = heap.realloc(block, layout, new);
                    let bytes = std::slice::from_raw_parts(block, size.min(new));
                    assert!(bytes.iter().all(|&byte| byte == seed as u8));
                    block.write_bytes(seed as u8, new);
                    block
                };
                let layout = Layout::from_size_align(new, layout.align()).unwrap();
                let mut kept = kept.lock().unwrap();
                kept.push((block.expose_provenance(), layout, seed as u8));
                let other = (random >> 25) % kept.len();
                if kept.len() > 500 {
                    let (block, layout, seed) = kept.swap_remove(other);
                    let block = std::ptr::with_exposed_provenance_mut::<u8>(block);
                    // SAFETY: nobody else has this block now.
                    unsafe {
                        let bytes = std::slice::from_raw_parts(block, layout.size());
                        assert!(bytes.iter().all(|&byte| byte == seed));
                        heap.dealloc(block, layout);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for seed in 1..4 {
                scope.spawn(move || work(seed));
            }
        });
    }

    /// The former blocks of a list that grows are given back.
    #[test]
    fn a_list_that_grows_takes_no_more_than_it_needs() {
        let heap = Heap {
            apart: AtomicU8::new(APART),
            own: Mutex::new(Dlmalloc::new_with_allocator(Pages)),
        };
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
            pages * rustix::param::page_size()
        };
        let before = resident();
        let mut layout = Layout::from_size_align(1 << 12, 8).unwrap();
        // SAFETY: each block is used within its size, and given back with the layout that it has.
        unsafe {
            let mut block = heap.alloc(layout);
            while layout.size() < 64 << 20 {
                block.write_bytes(1, layout.size());
                block = heap.realloc(block, layout, 2 * layout.size());
                layout = Layout::from_size_align(2 * layout.size(), 8).unwrap();
            }
            let grown = resident() - before;
            assert!(grown < 40 << 20, "{grown} bytes for half of {}", layout.size());
            heap.dealloc(block, layout);
        }
        let left = resident() - before;
        assert!(left < 4 << 20, "{left} bytes");
    }
}
