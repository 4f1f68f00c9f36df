//! Memory of simulated programs. It stays until the run is over, so that a fabric that touches it too late is found out.

use std::rc::Rc;
use taffrail_fabric::{Memory, UserBuf, UserBytes};

/// What is in memory that nobody may touch any more.
const GARBAGE: u8 = 0xee;
/// Bytes behind the end that stay as they are.
const GUARD: usize = 8;

/// Bytes that are known by a seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// A run of memory that is reached by its address only.
pub struct Ram {
    at: *mut u8,
    len: usize,
}

impl Ram {
    pub fn new(bytes: &[u8]) -> Rc<Ram> {
        let mut all = bytes.to_vec();
        all.resize(bytes.len() + GUARD, GARBAGE);
        let at = Box::into_raw(all.into_boxed_slice()).cast::<u8>();
        Rc::new(Ram { at, len: bytes.len() })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self, at: usize, len: usize) -> UserBytes {
        assert!(at + len <= self.len);
        // SAFETY: it stays until the run is over.
        unsafe { UserBytes::new(self.at.add(at), len) }
    }

    pub fn buf(&self) -> UserBuf {
        // SAFETY: as above.
        unsafe { UserBuf::new(self.at, self.len) }
    }

    pub fn memory(&self) -> Memory {
        Memory::host(self.buf())
    }

    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len + GUARD);
        let mut bytes = vec![0; len];
        // SAFETY: inside of the allocation, which no reference names.
        unsafe { self.at.add(at).copy_to(bytes.as_mut_ptr(), len) };
        bytes
    }

    pub fn all(&self) -> Vec<u8> {
        self.read(0, self.len)
    }

    /// Gives a part up: reads of it get garbage from now on.
    pub fn spoil(&self, at: usize, len: usize) {
        assert!(at + len <= self.len);
        // SAFETY: as `read`.
        unsafe { self.at.add(at).write_bytes(GARBAGE, len) };
    }

    pub fn spoil_all(&self) {
        self.spoil(0, self.len);
    }

    /// Whether a part is as it was when it was given up.
    pub fn is_spoilt(&self, at: usize, len: usize) -> bool {
        self.read(at, len).iter().all(|&byte| byte == GARBAGE)
    }

    /// Whether nobody has written behind the end.
    pub fn is_guarded(&self) -> bool {
        self.is_spoilt(self.len, GUARD)
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        let all = std::ptr::slice_from_raw_parts_mut(self.at, self.len + GUARD);
        // SAFETY: made by `new` of a box of this length.
        drop(unsafe { Box::from_raw(all) });
    }
}
