//! Receives that make, or borrow, the memory for their message.

use super::loan::Borrowed;
use crate::Status;
use std::alloc::Layout;
use taffrail_fabric::MemoryError;

/// Where the message of such a receive lies.
pub enum ViewBuffer {
    /// In memory of its own.
    Bytes(Vec<u8>),
    /// In its sender's.
    Borrowed(Borrowed),
}

impl ViewBuffer {
    /// Memory for `len` bytes, or for none when there is not as much: the length is the sender's
    /// claim, and must not end this process.
    pub(crate) fn make_room(&mut self, len: usize) -> (*mut u8, usize) {
        let mut bytes = zeroed(len).unwrap_or_default();
        let (at, len) = (bytes.as_mut_ptr(), bytes.len());
        *self = ViewBuffer::Bytes(bytes);
        (at, len)
    }
}

/// `len` zeros, which take no memory before they are written; `None` if there is no room for them.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    let layout = Layout::array::<u8>(len).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout is not empty.
    let at = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: `len` bytes of the global allocator's, all initialised, with the layout of a vector of
    // as many bytes.
    (!at.is_null()).then(|| unsafe { Vec::from_raw_parts(at, len, len) })
}

/// The error of a view for which there was no memory.
pub(crate) fn no_room(len: usize) -> MemoryError {
    MemoryError::Short {
        what: "memory for a view",
        need: len as u64,
        have: "the allocator refused".to_owned(),
        remedy: "look at the length with a probe, and receive as much of it as there is room for",
    }
}

/// A received message, in place: of a loan the sender's own memory, which goes back to the sender
/// when the view is dropped; of any other message a private copy.
///
/// A sender that breaks the rules can write to memory that it has lent. Treat the bytes of a view
/// as you would a file that another process of yours maps.
pub struct View {
    buffer: ViewBuffer,
    status: Status,
}

impl View {
    /// What has landed.
    pub fn new(buffer: ViewBuffer, status: Status) -> Self {
        View { buffer, status }
    }

    /// What the message says of itself.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the bytes are the sender's memory, not a copy.
    pub fn is_loan(&self) -> bool {
        matches!(self.buffer, ViewBuffer::Borrowed(_))
    }
}

impl std::ops::Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.buffer {
            ViewBuffer::Bytes(bytes) => bytes,
            ViewBuffer::Borrowed(borrowed) => borrowed.bytes(),
        }
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("status", &self.status).field("loan", &self.is_loan()).finish()
    }
}
