//! The part of the address space in which this library maps memory: far from the mappings of the program and of other
//! libraries, so that their addresses do not depend on the mappings of this one.
//!
//! A restarted process may need everything at the addresses of its predecessor: MPIs send their own addresses to others,
//! which send them back (`docs/logging.md`, section 15).

use crate::memory::HUGE;
use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Above the heap of programs that are linked to fixed addresses, below all others; what AddressSanitizer
/// has is not here.
const FIRST: usize = 17 << 40;

/// So far places go before they begin again, and so far the first one may be moved.
const SPAN: usize = 1 << 44;

/// Places begin and end at these: the pages of all machines.
const STEP: usize = 1 << 16;

/// A place for `len` bytes, for `mmap` to be asked for. It need not be free, and `mmap` then takes another. One
/// that has room for huge pages begins with one.
///
/// Where the system chooses addresses at random, places are as random as that of this library.
pub fn place(len: usize) -> *mut c_void {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let library = (&raw const NEXT).addr() / 4096 * HUGE % SPAN;
    // An access beyond the end of a mapping hits the unmapped page between two, and faults.
    let len = (len.min(SPAN) / STEP + 2) * STEP;
    // Of this much as many bytes begin at a huge page as are needed.
    let spare = if len > HUGE { HUGE - STEP } else { 0 };
    let at = (NEXT.fetch_add(len + spare, Ordering::Relaxed) + spare) % SPAN;
    without_provenance_mut(FIRST + library + if spare > 0 { at / HUGE * HUGE } else { at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags};

    #[test]
    fn what_is_mapped_lies_where_it_was_asked_for_and_apart() {
        let [first, second] = [5000, 1 << 20].map(|len| {
            let wanted = place(len);
            // SAFETY: a new mapping, at a free place, overlaps nothing.
            let at = unsafe {
                rustix::mm::mmap_anonymous(wanted, len, ProtFlags::READ, MapFlags::PRIVATE)
            };
            assert_eq!(at.unwrap(), wanted);
            wanted.addr()
        });
        assert!(
            second >= first + 5000 + STEP / 2 && second < FIRST + 2 * SPAN,
            "{first:x} {second:x}"
        );
    }

    #[test]
    fn long_ones_begin_with_a_huge_page() {
        let mut last = 0;
        for len in [1 << 21, 4096, 5 << 20, 4096, 4096, (2 << 20) - 1, 1 << 30, 4096] {
            let at = place(len).addr();
            assert!(at >= last && (len < HUGE || at.is_multiple_of(HUGE)), "{at:x} after {last:x}");
            last = at + len + STEP / 2;
        }
    }

    #[test]
    fn a_place_that_is_taken_is_not_overwritten() {
        // Whatever is asked for.
        place(usize::MAX);
        let taken = place(4096);
        let map = || {
            // SAFETY: without MAP_FIXED a new mapping overlaps nothing.
            unsafe { rustix::mm::mmap_anonymous(taken, 4096, ProtFlags::READ, MapFlags::PRIVATE) }
        };
        let (first, second) = (map().unwrap(), map().unwrap());
        assert!(first == taken && second != taken);
    }
}
