//! Memory that is safe to be named by a hostile peer, and how much is allocated.

use arbitrary::Arbitrary;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use std::sync::OnceLock;

unsafe extern "C" {
    // Of AddressSanitizer.
    fn __sanitizer_get_current_allocated_bytes() -> usize;
}

/// Bytes of the heap in use.
pub fn allocated() -> usize {
    // SAFETY: it has no preconditions, and is there wherever a fuzz target runs.
    unsafe { __sanitizer_get_current_allocated_bytes() }
}

/// Bytes of the playground.
pub const PLAYGROUND: usize = 1 << 20;

/// Memory that anybody may read and write, before a page that nobody may. Keys of hostile peers lead
/// here or nowhere, since all the peers of a fuzz target are one process.
pub fn playground() -> u64 {
    static AT: OnceLock<u64> = OnceLock::new();
    *AT.get_or_init(|| {
        // SAFETY: new memory, which nobody gives back.
        unsafe {
            let all = ProtFlags::READ | ProtFlags::WRITE;
            let whole = PLAYGROUND + 4096;
            let at = mmap_anonymous(std::ptr::null_mut(), whole, all, MapFlags::PRIVATE);
            let at = at.expect("a megabyte");
            let guard = at.cast::<u8>().add(PLAYGROUND).cast();
            mprotect(guard, 4096, MprotectFlags::empty()).expect("a page of its own");
            at.expose_provenance() as u64
        }
    })
}

/// An address that a hostile peer names.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Address {
    /// In the playground.
    Good(u32),
    /// In the first pages, where nothing is.
    Low(u16),
    /// In the kernel's half.
    High(u64),
}

impl Address {
    pub fn get(self) -> u64 {
        match self {
            Address::Good(offset) => playground() + u64::from(offset) % PLAYGROUND as u64,
            Address::Low(at) => u64::from(at) % 4096,
            Address::High(at) => at | 1 << 63,
        }
    }
}

/// A length that a peer claims: one that there can be memory for, or one that there cannot.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Length {
    Short(u16),
    Long(u32),
    Absurd(u64),
}

impl Length {
    pub fn get(self) -> u64 {
        match self {
            Length::Short(len) => len.into(),
            Length::Long(len) => u64::from(len) % (2 << 20),
            Length::Absurd(len) => len | 1 << 50,
        }
    }
}
