//! Where things lie in an inbox (`docs/wire.md`, section 2).

use crate::ring::SLOT;

/// First word of an inbox: `TAFFINBX`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TAFFINBX");
/// Version of all formats of the shared-memory fabric.
pub(crate) const VERSION: u32 = if cfg!(next_version) { 5 } else { 4 };

const ARMED: usize = 128;
const DIRTY: usize = 256;
/// Bytes of rings that one inbox has at most, while every ring has the least number of slots.
const RINGS: u64 = 256 * 1024;

/// The layout of the inboxes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    ranks: usize,
    slots: u64,
}

/// Bytes of the owner's words about one ring, and of a mailbox.
const DESK: usize = Layout::DESK;

impl Layout {
    /// Bytes of the owner's words about one ring, and of a mailbox.
    pub(crate) const DESK: usize = 128;

    pub(crate) fn new(ranks: u32) -> Self {
        let fit = RINGS / (SLOT as u64 * ranks.max(1) as u64);
        let slots = (fit.max(1).ilog2() as u64).clamp(4, 7);
        Layout { ranks: ranks as usize, slots: 1 << slots }
    }

    /// Slots of a ring.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Words of the dirty bitmap.
    pub(crate) fn dirty_words(&self) -> usize {
        self.ranks.div_ceil(64)
    }

    pub(crate) fn armed(&self) -> usize {
        ARMED
    }

    pub(crate) fn dirty(&self, word: usize) -> usize {
        DIRTY + 8 * word
    }

    fn desks(&self) -> usize {
        DIRTY + 128 * self.ranks.div_ceil(1024)
    }

    pub(crate) fn consumed(&self, rank: usize) -> usize {
        self.desks() + DESK * rank
    }

    pub(crate) fn watched(&self, rank: usize) -> usize {
        self.consumed(rank) + 8
    }

    /// The cell of gets that both sides move.
    pub(crate) fn cell(&self, rank: usize) -> usize {
        self.consumed(rank) + 64
    }

    /// The mailbox shared with a higher rank.
    pub(crate) fn mailbox(&self, rank: usize) -> usize {
        self.desks() + DESK * (self.ranks + rank)
    }

    pub(crate) fn ring(&self, rank: usize) -> usize {
        self.desks() + 2 * DESK * self.ranks + rank * self.slots as usize * SLOT
    }

    /// Bytes of the inbox: whole pages.
    pub(crate) fn len(&self) -> usize {
        self.ring(self.ranks).next_multiple_of(4096)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_lines_are_kept_apart() {
        for ranks in [1, 2, 3, 16, 63, 64, 65, 128, 1024, 1025, 4096] {
            let layout = Layout::new(ranks);
            let ranks = ranks as usize;
            assert!(layout.dirty(layout.dirty_words() - 1) + 8 <= layout.consumed(0));
            assert_eq!(layout.consumed(0) % 128, 0);
            assert!(layout.cell(ranks - 1) + 64 <= layout.mailbox(0));
            assert!(layout.mailbox(ranks - 1) + 128 <= layout.ring(0));
            assert_eq!(layout.mailbox(0) % 128, 0);
            assert_eq!(layout.ring(0) % SLOT, 0);
            assert!(layout.ring(ranks - 1) + layout.slots() as usize * SLOT <= layout.len());
        }
    }

    #[test]
    fn budgets_hold() {
        assert_eq!(Layout::new(2).slots(), 128);
        assert!(Layout::new(128).len() <= 384 * 1024);
        assert_eq!(Layout::new(4096).slots(), 16);
        for ranks in 2..300 {
            let pair = 2 * (Layout::new(ranks).slots() as usize * SLOT + 2 * DESK);
            assert!(pair <= 32 * 1024, "{pair} bytes for an idle pair of {ranks} ranks");
        }
    }
}
