//! A message on the payload log: where it is, how long it is, and how it leaves.

use taffrail_logging::Payload;

/// Bytes in front of a message of several fragments, for its length.
pub(super) const PREFIX: usize = 8;

/// A message on the payload log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// Its tag.
    pub(crate) tag: u64,
    /// Where its bytes begin.
    pub(crate) at: u64,
    /// Its length in bytes.
    pub(super) len: usize,
}

/// Set in the length of a message that leaves in fragments, with its length in front.
const FRAGMENTED: usize = 1 << 63;
/// Set in the length of a synchronous one.
const SYNC: usize = 1 << 62;
/// Where in the length its immediate data are: the bits of its context's word that are no context.
const DATA: u32 = 48;
/// The bits of the length itself.
const LEN: usize = (1 << DATA) - 1;

impl LogEntry {
    /// `data`: the bits of the context's word that are [immediate data](super::super::immediate).
    pub(crate) fn new(tag: u64, len: usize, fragments: bool, sync: bool, data: u16) -> Self {
        let flags = if fragments { FRAGMENTED } else { 0 } | if sync { SYNC } else { 0 };
        LogEntry { tag, at: 0, len: len | flags | usize::from(data) << DATA }
    }

    /// The word of its context, in this context.
    #[inline]
    pub(crate) fn word(&self, context: u16) -> u16 {
        context | ((self.len & !(FRAGMENTED | SYNC)) >> DATA) as u16
    }

    /// The entry as words, for the index page.
    pub(crate) fn to_words(self) -> [u64; 3] {
        [self.tag, self.at, self.len as u64]
    }

    /// From [`to_words`](Self::to_words).
    pub(crate) fn from_words([tag, at, len]: [u64; 3]) -> Self {
        LogEntry { tag, at, len: len as usize }
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len & LEN
    }

    /// Bytes in front of it.
    #[inline]
    pub(crate) fn prefix(&self) -> usize {
        if self.len & FRAGMENTED == 0 { 0 } else { PREFIX }
    }

    /// Bytes on the payload log.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.prefix() + self.len()
    }

    /// Whether its sender waits for its receiver.
    #[inline]
    pub(crate) fn is_sync(&self) -> bool {
        self.len & SYNC != 0
    }
}

impl Payload for LogEntry {
    #[inline(always)]
    fn distance(&self, other: &LogEntry) -> Option<u64> {
        let is_alike = (self.tag, self.len) == (other.tag, other.len);
        is_alike.then(|| other.at.wrapping_sub(self.at))
    }

    #[inline]
    fn behind(&self, distance: u64) -> LogEntry {
        LogEntry { at: self.at.wrapping_add(distance), ..*self }
    }
}
