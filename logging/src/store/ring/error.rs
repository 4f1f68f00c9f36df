//! What may be wrong with an event ring.

use crate::Rank;
use crate::event::RecordError;

/// What is wrong with a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The memory is not the ring that it should be.
    #[error("event ring of rank {rank}, {field}: expected {expected:#x}, got {got:#x}")]
    Header {
        /// The rank.
        rank: Rank,
        /// Which field.
        field: &'static str,
        /// What it should be.
        expected: u64,
        /// What it is.
        got: u64,
    },
    /// A word of the other side is where it cannot be.
    #[error(
        "event ring of rank {rank}: `{word}` should be from {least} to {most}, it is {got}; its memory was written by somebody else"
    )]
    Position {
        /// The rank.
        rank: Rank,
        /// Which word.
        word: &'static str,
        /// Its least value now.
        least: u64,
        /// Its greatest value now.
        most: u64,
        /// Its value.
        got: u64,
    },
    /// A code is not what the rank has written.
    #[error("event ring of rank {rank}, record {clock}: its code {got:#06x} is damaged")]
    Code {
        /// The rank.
        rank: Rank,
        /// The clock of the event.
        clock: u64,
        /// The code.
        got: u16,
    },
    /// A record is not what the rank has written.
    #[error("event ring of rank {rank}, record {clock}: {what}")]
    Record {
        /// The rank.
        rank: Rank,
        /// The clock that the record should have.
        clock: u64,
        /// What is wrong with it.
        what: RecordError,
    },
    /// A whole record, of another place.
    #[error("event ring of rank {rank}, record {clock}: found record {got} in its place")]
    Misplaced {
        /// The rank.
        rank: Rank,
        /// The clock that the record should have.
        clock: u64,
        /// The clock that it has.
        got: u64,
    },
}

impl RingError {
    /// Whose ring it is.
    pub fn rank(&self) -> Rank {
        match *self {
            RingError::Header { rank, .. }
            | RingError::Position { rank, .. }
            | RingError::Code { rank, .. }
            | RingError::Record { rank, .. }
            | RingError::Misplaced { rank, .. } => rank,
        }
    }
}
