//! A determinant: what it is, its bytes in a message (`docs/logging.md`, section 13), and why one is not
//! believed.

use crate::event::RECORD;
use crate::{Event, LoggedEvent, Rank, RecordError};

/// Bytes of a determinant in a message.
pub const DETERMINANT: usize = 8 + RECORD;

const _: () = assert!(DETERMINANT <= 44, "one fits a slot of a ring");

/// An event, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Determinant {
    /// The rank that has made it.
    pub rank: Rank,
    /// Its place among the events of this rank.
    pub clock: u64,
    /// As the event logger keeps it: a record that is good.
    record: [u8; RECORD],
}

impl Determinant {
    /// Of an event of `rank`.
    pub fn new(rank: Rank, event: &LoggedEvent) -> Self {
        Determinant { rank, clock: event.clock, record: event.event.encode(rank, event.clock) }
    }

    /// What has happened.
    #[expect(clippy::expect_used, reason = "records are checked when a determinant is made")]
    pub fn event(&self) -> Event {
        Event::decode(self.rank, &self.record).expect("only good records are kept").1
    }

    /// The bytes of it, where its rank's events are known to be stable but for the last `open` up to it.
    pub(super) fn encode(&self, open: u32) -> [u8; DETERMINANT] {
        let mut bytes = [0; DETERMINANT];
        bytes[..4].copy_from_slice(&self.rank.to_le_bytes());
        bytes[4..8].copy_from_slice(&open.to_le_bytes());
        bytes[8..].copy_from_slice(&self.record);
        bytes
    }

    /// The determinant of these bytes, and how many events up to it its sender did not know to be
    /// stable.
    pub(super) fn decode(bytes: &[u8; DETERMINANT]) -> Result<(Self, u32), RecordError> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[at + k]));
        let record: [u8; RECORD] = std::array::from_fn(|k| bytes[8 + k]);
        let (rank, open) = (word(0), word(4));
        let (clock, _) = Event::decode(rank, &record)?;
        Ok((Determinant { rank, clock, record }, open))
    }
}

/// Why determinants of a peer, or of survivors, are not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CausalError {
    /// The message is not a number of determinants.
    #[error("a message of length {got}, expected 1 or more determinants of {DETERMINANT} bytes")]
    Length {
        /// Its bytes.
        got: usize,
    },
    /// A determinant of a rank that there is not.
    #[error("a determinant of rank {got}; ranks are below {ranks}")]
    Rank {
        /// The rank it names.
        got: Rank,
        /// How many there are.
        ranks: u32,
    },
    /// A determinant whose record is not good.
    #[error("a determinant of rank {rank}: {error}")]
    Record {
        /// The rank it names.
        rank: Rank,
        /// What is wrong with the record.
        error: RecordError,
    },
    /// A determinant of which more, or fewer, events are said not to be stable than can be.
    #[error(
        "event {clock} of rank {rank} is said to be the last of {got} that are not stable, expected \
         1 to {most}"
    )]
    Open {
        /// The rank.
        rank: Rank,
        /// The event.
        clock: u64,
        /// How many it is said to be.
        got: u32,
        /// How many it can be at most.
        most: u64,
    },
    /// A determinant was left out.
    #[error("event {got} of rank {rank} came, expected {expected} at most: one was left out")]
    Gap {
        /// The rank.
        rank: Rank,
        /// The next event that is not known.
        expected: u64,
        /// The one that came.
        got: u64,
    },
    /// Two copies of an event differ.
    #[error("there are two different events {clock} of rank {rank}")]
    Differ {
        /// The rank.
        rank: Rank,
        /// The event.
        clock: u64,
    },
}
