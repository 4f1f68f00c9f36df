//! Receives that make, or borrow, the memory for their message.

use super::loan::Borrowed;
use crate::Status;

/// Where the message of such a receive lies.
pub(crate) enum Landing {
    /// In memory of its own.
    Bytes(Vec<u8>),
    /// In its sender's.
    Borrowed(Borrowed),
}

impl Landing {
    /// Memory for `len` bytes.
    pub(crate) fn make_room(&mut self, len: usize) -> (*mut u8, usize) {
        let mut bytes = vec![0; len];
        let at = bytes.as_mut_ptr();
        *self = Landing::Bytes(bytes);
        (at, len)
    }
}

/// A received message, in place: of a loan the sender's own memory, which goes back to the sender
/// when the view is dropped; of any other message a private copy.
///
/// A sender that breaks the rules can write to memory that it has lent. Treat the bytes of a view
/// as you would a file that another process of yours maps.
pub struct View {
    landing: Landing,
    status: Status,
}

impl View {
    pub(crate) fn new(landing: Landing, status: Status) -> Self {
        View { landing, status }
    }

    /// What the message says of itself.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the bytes are the sender's memory, not a copy.
    pub fn is_loan(&self) -> bool {
        matches!(self.landing, Landing::Borrowed(_))
    }
}

impl std::ops::Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.landing {
            Landing::Bytes(bytes) => bytes,
            Landing::Borrowed(borrowed) => borrowed.bytes(),
        }
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("status", &self.status).field("loan", &self.is_loan()).finish()
    }
}
