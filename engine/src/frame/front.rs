//! What stands before the body of a frame.

use std::ops::Deref;
use taffrail_fabric::RemoteKey;

/// What a frame says in front of its body: little-endian words, and a key at the end.
pub(crate) struct Front {
    bytes: [u8; Front::MAX],
    len: usize,
}

impl Front {
    /// Three words and a key.
    const MAX: usize = 24 + RemoteKey::MAX;

    #[inline]
    pub(super) fn empty() -> Self {
        Front { bytes: [0; Front::MAX], len: 0 }
    }

    pub(super) fn word(self, word: u64) -> Self {
        self.push(&word.to_le_bytes())
    }

    pub(super) fn key(self, key: Option<&RemoteKey>) -> Self {
        self.push(key.map_or(&[], |key| key.as_bytes()))
    }

    fn push(mut self, bytes: &[u8]) -> Self {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }
}

impl Deref for Front {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
