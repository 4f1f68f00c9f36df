//! What a process resumes from.

use super::payload_log::LogEntry;
use std::collections::VecDeque;
use taffrail_logging::{Entry, Position};

/// The last checkpoint of the previous incarnation, and how much of its log has been copied. The copy may wait for the disk.
pub(super) struct Resumption<P> {
    pub(super) position: Position,
    /// The number of the checkpoint.
    pub(super) number: u64,
    pub(super) previous: P,
    /// Ranks whose channels are restored.
    pub(super) ranks: u32,
    /// What is still to be taken over for the last of these.
    pub(super) entries: VecDeque<Entry<LogEntry>>,
}

impl<P> Resumption<P> {
    pub(super) fn new(number: u64, position: Position, previous: P) -> Self {
        Resumption { position, number, previous, ranks: 0, entries: VecDeque::new() }
    }

    /// The clock of the last event that it covers.
    pub(super) fn clock(&self) -> u64 {
        self.position.clock
    }
}
