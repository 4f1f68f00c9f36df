//! What leaves from the log: messages, and pages of the table of what was sent.

use super::payload_log::LogEntry;
use std::sync::Arc;
use taffrail_logging::{Entry, Received};

/// Where the pages of each peer are, in the order of sending.
pub(crate) type Pages = Vec<Vec<u64>>;

/// A page whose messages are to be sent again, as far as its peer lacks them.
pub struct Resend {
    pub(crate) at: u64,
    pub(crate) has: Arc<Received>,
}

/// A message of the log that waits for room, or at the gate.
#[derive(Clone, Copy)]
pub struct LoggedSend {
    pub(crate) context: u16,
    pub(crate) seq: u32,
    pub(crate) kept: LogEntry,
    /// Bytes that have left, the length in front included.
    pub(crate) sent: usize,
    /// Its receiver has started again.
    pub(crate) again: bool,
}

impl LoggedSend {
    /// A message of the log that is to be sent again.
    pub(crate) fn new(entry: Entry<LogEntry>) -> Self {
        let Entry { context, seq, payload: kept } = entry;
        LoggedSend { context, seq, kept, sent: 0, again: true }
    }

    /// Whether all of it has left.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent >= self.kept.bytes()
    }
}
