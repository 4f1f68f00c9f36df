//! Where things lie in an inbox, worked out from `docs/wire.md`, section 2, and not from the code.

/// The layout for so many ranks.
#[derive(Clone, Copy, Debug)]
pub struct Inbox {
    pub ranks: usize,
}

pub const ARMED: usize = 128;
pub const DIRTY: usize = 256;

impl Inbox {
    /// Slots of a ring.
    pub fn slots(self) -> usize {
        let fit = 262_144 / (64 * self.ranks);
        (1 << fit.ilog2()).clamp(16, 128)
    }

    fn desks(self) -> usize {
        256 + 128 * self.ranks.div_ceil(1024)
    }

    pub fn consumed(self, writer: usize) -> usize {
        self.desks() + 128 * writer
    }

    pub fn watched(self, writer: usize) -> usize {
        self.consumed(writer) + 8
    }

    pub fn cell(self, writer: usize) -> usize {
        self.consumed(writer) + 64
    }

    /// The mailbox that the inbox's owner shares with a higher rank.
    pub fn mailbox(self, higher: usize) -> usize {
        self.desks() + 128 * (self.ranks + higher)
    }

    pub fn slot(self, writer: usize, position: u64) -> usize {
        let rings = self.desks() + 256 * self.ranks;
        let index = position as usize % self.slots();
        rings + 64 * (self.slots() * writer + index)
    }
}
