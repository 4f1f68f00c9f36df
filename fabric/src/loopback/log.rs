//! Log memory: own segments, and those of other fabrics that were adopted.

use super::net::Pages;
use crate::{LogRange, Segment, SegmentId, UserBytes};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;

/// Length of a segment in bytes: the longest message fits.
pub(super) const SEGMENT: usize = super::LIMITS.max_message;

/// Segments by their names. Own ones stay where they are until the fabric is dropped.
#[derive(Default)]
pub(super) struct Log {
    own: Vec<Own>,
    /// Released, the one that is free the longest first.
    free: VecDeque<SegmentId>,
    adopted: HashMap<SegmentId, UserBytes>,
}

struct Own {
    pages: Pages,
    is_taken: bool,
}

impl Log {
    pub(super) fn take(&mut self) -> SegmentId {
        // Messages are copied when they are sent: a released segment is not read any more.
        if let Some(id) = self.free.pop_front() {
            self.own[id.0 as usize].is_taken = true;
            return id;
        }
        let layout = Layout::new::<[u8; SEGMENT]>();
        // SAFETY: the layout is not of size 0.
        let Some(at) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        self.own.push(Own { pages: Pages(at, layout), is_taken: true });
        SegmentId(self.own.len() as u32 - 1)
    }

    pub(super) fn adopt(&mut self, segment: Segment) {
        let before = self.adopted.insert(segment.id, segment.bytes);
        assert!(before.is_none(), "{:?} is adopted once more", segment.id);
    }

    pub(super) fn segment(&self, id: SegmentId) -> Segment {
        let at = self.own_at(LogRange { segment: id, at: 0, len: SEGMENT });
        // SAFETY: the segment stays as long as the fabric; what was sent from it is not written while it is taken.
        Segment { id, bytes: unsafe { UserBytes::new(at, SEGMENT) } }
    }

    pub(super) fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        let to = self.own_at(LogRange { segment, at, len: bytes.len() });
        // SAFETY: the range lies inside the segment, and nobody has a reference to it (`&mut self`).
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    pub(super) fn read(&self, range: LogRange) -> &[u8] {
        let LogRange { segment, at, len } = range;
        let from = match self.adopted.get(&segment) {
            None => self.own_at(range).cast_const(),
            Some(bytes) => {
                assert!(at <= bytes.len() && len <= bytes.len() - at, "{range:?} is outside of it");
                bytes.as_ptr().wrapping_add(at)
            }
        };
        // SAFETY: the range lies inside the segment, which its owner does not write there while this is read.
        unsafe { std::slice::from_raw_parts(from, len) }
    }

    pub(super) fn release(&mut self, segment: SegmentId) {
        let is_taken = &mut self.own[segment.0 as usize].is_taken;
        assert!(std::mem::take(is_taken), "{segment:?} was released before");
        self.free.push_back(segment);
    }

    /// Where a range of an own segment is.
    ///
    /// # Panics
    /// If the segment is not taken, or the range is outside of it.
    fn own_at(&self, LogRange { segment, at, len }: LogRange) -> *mut u8 {
        assert!(at <= SEGMENT && len <= SEGMENT - at, "{len} bytes at {at} of a segment");
        let own = &self.own[segment.0 as usize];
        assert!(own.is_taken, "{segment:?} was released");
        own.pages.0.as_ptr().wrapping_add(at)
    }
}
