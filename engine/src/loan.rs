//! Loans: messages that are handed over in place.
//!
//! The sender gives its buffer away, the receiver gets a view of it, and when the view is dropped
//! the buffer goes back to the sender's pool. No byte is copied, so the time does not depend on the
//! length.

use super::pool::Block;
use crate::Rank;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use taffrail_fabric::{Keep, RemoteKey};
use taffrail_matching::MessageId;

/// What a loan's message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The loan, as its owner numbers it.
    pub(crate) loan: u64,
    pub(crate) key: RemoteKey,
}

/// Memory of a peer, as long as it is borrowed.
pub struct Borrowed {
    pub(crate) at: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) _keep: Keep,
    pub(crate) owner: Rank,
    pub(crate) loan: u64,
    pub(crate) back: Arc<ReturnQueue>,
}

// SAFETY: the memory stays mapped with `_keep` and is only read here.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped as long as `_keep` is there, and their owner has lent them:
        // it does not write to them before they go back.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.back.put(Return::Loan { owner: self.owner, loan: self.loan });
    }
}

/// Something on its way back to an endpoint.
pub(crate) enum Return {
    /// A borrowed message, to its owner.
    Loan { owner: Rank, loan: u64 },
    /// A buffer, to the endpoint's pool.
    Block(Block),
    /// A claimed message that nobody has received, to be discarded.
    Message(MessageId),
}

/// Where things are put that are on their way back, by any thread.
#[derive(Default)]
pub struct ReturnQueue {
    any: AtomicBool,
    things: Mutex<Vec<Return>>,
}

impl ReturnQueue {
    pub(crate) fn put(&self, thing: Return) {
        self.things.lock().unwrap_or_else(PoisonError::into_inner).push(thing);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there may be something.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Exchanges all there is for an empty list, whose memory is used from then on.
    pub(crate) fn take(&self, empty: &mut Vec<Return>) {
        debug_assert!(empty.is_empty());
        self.any.store(false, Ordering::Relaxed);
        let mut things = self.things.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *things, empty);
    }
}

/// Memory of an endpoint that peers reach without a copy: for loans, for one-sided access, and for
/// long messages. It returns to the endpoint's pool when dropped.
pub struct Buffer {
    block: Option<Block>,
    len: usize,
    back: Arc<ReturnQueue>,
}

impl Buffer {
    pub(crate) fn new(block: Block, len: usize, back: Arc<ReturnQueue>) -> Self {
        debug_assert!(len <= block.len);
        Buffer { block: Some(block), len, back }
    }

    /// Whether it goes back there.
    pub fn is_of(&self, back: &Arc<ReturnQueue>) -> bool {
        Arc::ptr_eq(&self.back, back)
    }

    #[expect(
        clippy::expect_used,
        reason = "the block is taken only when the buffer is consumed or dropped"
    )]
    /// The piece of a region that it is.
    pub fn block(&self) -> &Block {
        self.block.as_ref().expect("a buffer has its block until it is dropped")
    }

    /// The block, and the length in use.
    #[expect(
        clippy::expect_used,
        reason = "the block is taken only when the buffer is consumed or dropped"
    )]
    pub(crate) fn into_parts(mut self) -> (Block, usize) {
        (self.block.take().expect("a buffer has its block until it is dropped"), self.len)
    }

    /// Uses only the first `len` bytes from now on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn truncate(&mut self, len: usize) {
        assert!(len <= self.len, "{len} of {} bytes", self.len);
        self.len = len;
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is mapped for at least `len` bytes as long as it is kept.
        unsafe { std::slice::from_raw_parts(self.block().at.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the buffer is the only one in this process that has the block.
        unsafe { std::slice::from_raw_parts_mut(self.block().at.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.back.put(Return::Block(block));
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}
