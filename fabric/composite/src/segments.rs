//! Log memory: the near fabric owns it, the far one adopts it.

use crate::Composite;
use crate::mutant::Mutant;
use rustc_hash::FxHashSet;
use taffrail_fabric::{Fabric, MemoryError, Segment, SegmentId, SendMemory};

/// What the owner of the log memory does not know of it.
#[derive(Default)]
pub(crate) struct Segments {
    /// The far fabric has these.
    adopted: FxHashSet<SegmentId>,
    /// Released from above, and the far fabric still reads them.
    releasing: Vec<SegmentId>,
    /// The far fabric was polled since they were looked at.
    pub(crate) is_polled: bool,
}

impl<Near: Fabric + SendMemory, Far: Fabric> Composite<Near, Far> {
    /// Gives back to the owner what the far fabric has read by now.
    fn release_read(&mut self) {
        if !std::mem::take(&mut self.segments.is_polled) {
            return;
        }
        let (near, far) = (&mut self.near, &self.far);
        self.segments.releasing.retain(|&segment| {
            let is_read = !far.uses(segment);
            if is_read {
                near.release(segment);
            }
            !is_read
        });
    }

    fn have_adopted(&mut self, id: SegmentId) -> Result<(), MemoryError> {
        if Mutant::NotAdopted.lives() || !self.segments.adopted.insert(id) {
            return Ok(());
        }
        self.far.adopt(self.near.segment(id)).inspect_err(|_| {
            self.segments.adopted.remove(&id);
        })
    }
}

impl<Near: Fabric + SendMemory, Far: Fabric> SendMemory for Composite<Near, Far> {
    fn segment_len(&self) -> usize {
        self.near.segment_len()
    }

    fn max_segments(&self) -> usize {
        self.near.max_segments()
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        self.release_read();
        let segment = match self.near.take() {
            Ok(Some(segment)) => segment,
            Err(MemoryError::Short { .. }) if !self.segments.releasing.is_empty() => {
                return Ok(None);
            }
            none => return none,
        };
        match self.have_adopted(segment) {
            Ok(()) => Ok(Some(segment)),
            Err(error) => {
                self.near.release(segment);
                Err(error)
            }
        }
    }

    fn prepare(&mut self) -> bool {
        self.near.prepare()
    }

    #[inline(always)]
    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.near.write(segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.near.read(segment, at, len)
    }

    fn segment(&self, id: SegmentId) -> Segment {
        self.near.segment(id)
    }

    fn release(&mut self, segment: SegmentId) {
        assert!(!self.segments.releasing.contains(&segment), "{segment:?} was released before");
        if self.far.uses(segment) && !Mutant::ReleasedWhileUsed.lives() {
            self.segments.releasing.push(segment);
        } else {
            self.near.release(segment);
        }
    }
}
