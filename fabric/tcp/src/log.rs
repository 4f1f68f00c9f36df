//! Log memory that messages leave from: this fabric's own, or segments that it has adopted.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use taffrail_fabric::words::counted;
use taffrail_fabric::{LogRange, MemoryError, Segment, SegmentId, UserBytes};

/// Length of a segment of its own in bytes: a logged message fits one.
pub(crate) const SEGMENT: usize = 64 << 10;

/// Segments by their names. Those of its own are numbered from 0.
pub(crate) struct LogMemory {
    max: usize,
    own: Vec<Own>,
    /// Released, the one that is free the longest first.
    free: VecDeque<SegmentId>,
    adopted: FxHashMap<SegmentId, UserBytes>,
}

struct Own {
    bytes: Box<[u8]>,
    is_taken: bool,
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
            let bytes = self.read(range);
            // SAFETY: a segment is never moved or freed before the fabric is dropped, and written again only when
            // nothing of it waits to be sent (`take`).
            return unsafe { UserBytes::new(bytes.as_ptr(), len) };
        };
        assert!(at <= whole.len() && len <= whole.len() - at, "{range:?} is outside of it");
        // SAFETY: inside the segment, which its owner keeps mapped, and unchanged where it was sent from.
        unsafe { UserBytes::new(whole.as_ptr().add(at), len) }
    }

    /// Takes the released segment that is free the longest, if `is_idle` says that nobody uses it; else a new one.
    ///
    /// # Errors
    /// [`MemoryError::Short`] when there are as many as there can be.
    pub(crate) fn take(
        &mut self,
        is_idle: impl Fn(SegmentId) -> bool,
    ) -> Result<SegmentId, MemoryError> {
        if let Some(segment) = self.free.pop_front_if(|segment| is_idle(*segment)) {
            self.own[segment.0 as usize].is_taken = true;
            return Ok(segment);
        }
        if self.own.len() >= self.max {
            return Err(MemoryError::Short {
                what: "log memory",
                need: SEGMENT as u64,
                have: format!("all {} are in use", counted(self.max, "segment")),
                remedy: "checkpoint more often, or allow more segments",
            });
        }
        self.own.push(Own { bytes: vec![0; SEGMENT].into_boxed_slice(), is_taken: true });
        Ok(SegmentId(self.own.len() as u32 - 1))
    }

    pub(crate) fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        let own = &mut self.own[segment.0 as usize];
        assert!(own.is_taken, "{segment:?} was released");
        own.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, range: LogRange) -> &[u8] {
        let own = &self.own[range.segment.0 as usize];
        assert!(own.is_taken, "{:?} was released", range.segment);
        &own.bytes[range.at..range.at + range.len]
    }

    pub(crate) fn release(&mut self, segment: SegmentId) {
        let own = &mut self.own[segment.0 as usize];
        assert!(std::mem::take(&mut own.is_taken), "{segment:?} was released before");
        self.free.push_back(segment);
    }
}
