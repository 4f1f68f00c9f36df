//! Segments of the outbox that are kept: a log, which messages leave from without another copy.

use crate::copy;
use crate::memory::HUGE;
use crate::outbox::SEGMENT;
use crate::shm_fabric::{OWN_AHEAD, ShmFabric};
use taffrail_fabric::{Head, MemoryError, Payload, PeerId, Refused, Segment, SegmentId, UserBytes};

/// Step in bytes by which the outbox grows when more segments are to be kept.
const GROWTH: usize = HUGE;
/// Segments to be had in advance, at the most.
const MAX_AHEAD: usize = GROWTH / SEGMENT;

impl ShmFabric {
    /// As [`SendMemory::take`](taffrail_fabric::SendMemory::take).
    pub(crate) fn take_kept(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        let pairs = &self.pairs;
        let released = |peer: PeerId| pairs[peer.index()].released();
        if let Some(index) = self.window.keep(released) {
            return Ok(Some(SegmentId(index)));
        }
        let have = self.outbox.len();
        let want = self.outbox.worth_growing(GROWTH);
        let short = |have: usize| MemoryError::Short {
            what: "memory for the message log",
            need: SEGMENT as u64,
            have: format!("all {have} bytes of the outbox are in use"),
            remedy: "raise TAFFRAIL_OUTBOX",
        };
        // As soon as peers have read what is in others, there is one.
        let will_be = self.window.keepable() > 0;
        if want < have + SEGMENT {
            return if will_be { Ok(None) } else { Err(short(have)) };
        }
        // A log that had to wait for memory will need more: `prepare_kept` allocates it in advance.
        self.ahead = (2 * self.ahead).clamp(1, MAX_AHEAD);
        match self.outbox.grow(want) {
            Err(_) if will_be => return Ok(None),
            grown => grown?,
        }
        self.window.add_spare(((self.outbox.len() - have) / SEGMENT) as u32);
        self.window.keep(released).map(|index| Some(SegmentId(index))).ok_or_else(|| short(want))
    }

    /// As [`SendMemory::prepare`](taffrail_fabric::SendMemory::prepare).
    pub(crate) fn prepare_kept(&mut self) -> bool {
        let have = self.outbox.len();
        let len = self.outbox.worth_growing(SEGMENT);
        let wanted = self.window.keepable() < self.ahead && len > have;
        // An error here is dropped: `take_kept` reports it when a segment is needed.
        if !wanted || self.outbox.grow(len).is_err() {
            return false;
        }
        self.window.add_spare(((len - have) / SEGMENT) as u32);
        true
    }

    /// As [`SendMemory::write`](taffrail_fabric::SendMemory::write).
    #[inline(always)]
    pub(crate) fn write_kept(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        let to = self.kept_at(segment, at, bytes.len());
        // SAFETY: `kept_at` has found the range inside the segment, which is ours to write.
        unsafe { Payload::of(bytes).copy_to(to, bytes.len()) };
        if (257..OWN_AHEAD).contains(&bytes.len()) {
            let end = at + bytes.len();
            let ahead = (SEGMENT - end).min(bytes.len());
            // SAFETY: still inside the segment.
            unsafe { copy::own(to.add(bytes.len()), ahead) };
        }
    }

    /// As [`SendMemory::read`](taffrail_fabric::SendMemory::read).
    pub(crate) fn kept(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        let from = self.kept_at(segment, at, len);
        // SAFETY: the range lies inside the segment, which only `write_kept` writes, with `&mut self`.
        unsafe { std::slice::from_raw_parts(from, len) }
    }

    /// As [`SendMemory::segment`](taffrail_fabric::SendMemory::segment).
    pub(crate) fn kept_segment(&self, id: SegmentId) -> Segment {
        let at = self.kept_at(id, 0, SEGMENT);
        // SAFETY: the outbox is mapped as long as the fabric; the bytes of a message are not overwritten while its segment is kept.
        Segment { id, bytes: unsafe { UserBytes::new(at, SEGMENT) } }
    }

    /// Sends a run of bytes of a segment.
    #[inline]
    pub(crate) fn send_kept(
        &mut self,
        to: PeerId,
        head: Head,
        segment: SegmentId,
        at: usize,
        len: usize,
    ) -> Result<(), Refused> {
        self.kept_at(segment, at, len);
        self.room(to, 1)?;
        let pair = &mut self.pairs[to.index()];
        self.window.use_kept(segment.0, to, pair.writer.position());
        let offset = segment.0 as u64 * SEGMENT as u64 + at as u64;
        pair.writer.put_pooled(head, offset, len as u32);
        pair.notify();
        Ok(())
    }

    /// Where a range of a kept segment is.
    ///
    /// # Panics
    /// If the segment is not kept, or the range not inside it.
    #[inline]
    fn kept_at(&self, segment: SegmentId, at: usize, len: usize) -> *mut u8 {
        assert!(at <= SEGMENT && len <= SEGMENT - at, "{len} bytes at {at} of a segment");
        assert!(self.window.is_kept(segment.0), "{segment:?} is not kept");
        // SAFETY: segments lie inside the outbox, and the range inside the segment.
        unsafe { self.outbox.as_ptr().add(segment.0 as usize * SEGMENT + at) }
    }
}
