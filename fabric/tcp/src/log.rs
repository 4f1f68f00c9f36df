//! Log memory that messages leave from: this fabric's own, or segments that it has adopted.

use crate::fabric::FRAGMENT;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ptr::NonNull;
use taffrail_fabric::words::counted;
use taffrail_fabric::{LogRange, MemoryError, Segment, SegmentId, UserBytes};

/// Length of a segment of its own in bytes: a fragment of a logged message fits one.
pub(crate) const SEGMENT: usize = FRAGMENT + 64;

/// Segments by their names. Those of its own are numbered from 0.
pub(crate) struct LogMemory {
    max: usize,
    own: Vec<Own>,
    /// Released, the one that is free the longest first.
    free: VecDeque<SegmentId>,
    adopted: FxHashMap<SegmentId, UserBytes>,
}

/// A segment of its own. Frames that wait to be sent point into it while others are written behind them, so that it is
/// reached by its pointer alone.
struct Own {
    bytes: NonNull<[u8; SEGMENT]>,
    is_taken: bool,
}

// SAFETY: the segment owns its memory.
unsafe impl Send for Own {}

impl Own {
    fn new() -> Own {
        Own { bytes: NonNull::from(Box::leak(Box::new([0; SEGMENT]))), is_taken: true }
    }

    /// Where a range of it is.
    ///
    /// # Panics
    /// If the range is outside of it.
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= SEGMENT && len <= SEGMENT - at, "{len} bytes at {at} of a segment");
        self.bytes.as_ptr().cast::<u8>().wrapping_add(at)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak`, and dropped once; links that send from it are dropped before the log memory.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

impl LogMemory {
    pub(crate) fn new(max: usize) -> LogMemory {
        let max = max.min(u32::MAX as usize);
        LogMemory { max, own: Vec::new(), free: VecDeque::new(), adopted: FxHashMap::default() }
    }

    pub(crate) fn max_segments(&self) -> usize {
        self.max
    }

    pub(crate) fn adopt(&mut self, segment: Segment) {
        self.adopted.insert(segment.id, segment.bytes);
    }

    /// The bytes of a range.
    ///
    /// # Panics
    /// If it does not lie in a segment that was adopted, or taken and not released.
    pub(crate) fn lend(&self, range: LogRange) -> UserBytes {
        let LogRange { segment, at, len } = range;
        let Some(whole) = self.adopted.get(&segment) else {
            let own = &self.own[segment.0 as usize];
            assert!(own.is_taken, "{segment:?} was released");
            // SAFETY: a segment is never moved or freed before the fabric is dropped. It is written again only when nothing of it
            // waits to be sent (`take`), and what is sent before it is written is not read here until then (`BeforeLog`).
            return unsafe { UserBytes::new(own.at(at, len), len) };
        };
        assert!(at <= whole.len() && len <= whole.len() - at, "{range:?} is outside of it");
        // SAFETY: inside the segment, which its owner keeps mapped, and unchanged where it was sent from.
        unsafe { UserBytes::new(whole.as_ptr().add(at), len) }
    }

    /// Takes the segment that is free the longest of those released ones that `is_idle` says nobody uses; else a new one; else
    /// `None`, if one is released.
    ///
    /// # Errors
    /// [`MemoryError::Short`] when there are as many as there can be, and all are taken.
    pub(crate) fn take(
        &mut self,
        is_idle: impl Fn(SegmentId) -> bool,
    ) -> Result<Option<SegmentId>, MemoryError> {
        let idle = self.free.iter().position(|segment| is_idle(*segment));
        if let Some(segment) = idle.and_then(|idle| self.free.remove(idle)) {
            self.own[segment.0 as usize].is_taken = true;
            return Ok(Some(segment));
        }
        if self.own.len() >= self.max {
            if !self.free.is_empty() {
                return Ok(None);
            }
            return Err(MemoryError::Short {
                what: "log memory",
                need: SEGMENT as u64,
                have: format!("all {} are in use", counted(self.max, "segment")),
                remedy: "checkpoint more often, or allow more segments",
            });
        }
        self.own.push(Own::new());
        Ok(Some(SegmentId(self.own.len() as u32 - 1)))
    }

    pub(crate) fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        let own = &mut self.own[segment.0 as usize];
        assert!(own.is_taken, "{segment:?} was released");
        let to = own.at(at, bytes.len());
        // SAFETY: `at` has found the range inside the segment, and nobody has a reference to its bytes (`&mut self`).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    pub(crate) fn read(&self, range: LogRange) -> &[u8] {
        let own = &self.own[range.segment.0 as usize];
        assert!(own.is_taken, "{:?} was released", range.segment);
        // SAFETY: `at` has found the range inside the segment, which only `write` writes, with `&mut self`.
        unsafe { std::slice::from_raw_parts(own.at(range.at, range.len), range.len) }
    }

    pub(crate) fn release(&mut self, segment: SegmentId) {
        let own = &mut self.own[segment.0 as usize];
        assert!(std::mem::take(&mut own.is_taken), "{segment:?} was released before");
        self.free.push_back(segment);
    }
}
