//! One cache line that both processes of a pair write, for messages of up to eight bytes that answer each other.
//!
//! A cache line of a ring costs two transfers between the caches: the writer takes it away from the polling
//! reader, and the reader fetches it again. A line that each side reads and then writes costs one transfer, which
//! brings the right to write it. So where a message answers a message, both travel in one line, each in its half
//! (`docs/wire.md`, section 2, "The mailbox").
//!
//! A message in the mailbox takes the next position of its ring without filling the slot; the reader
//! looks for that position in both places. The invariant is that a half is overwritten only when its
//! message was consumed, which the other half says (`ack`), or the credit of the ring.

use crate::sync::{AtomicU64, Ordering};
use taffrail_fabric::Head;

/// Payload bytes of a message in the mailbox.
pub(crate) const MAIL: usize = 8;

/// One side's half of the line: word, tag, `seq | ack << 32`, payload.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Half([AtomicU64; 4]);

/// A message found in the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mail {
    /// As in a slot.
    pub(crate) word: u64,
    pub(crate) tag: u64,
    pub(crate) seq: u32,
    /// The low bits of the last position of ours that its sender had consumed.
    pub(crate) ack: u32,
    pub(crate) payload: [u8; MAIL],
}

impl Half {
    /// Posts a message. The one before was consumed.
    #[inline]
    pub(crate) fn post(&self, word: u64, head: Head, ack: u32, payload: &[u8]) {
        debug_assert!(payload.len() <= MAIL);
        let mut bytes = [0; MAIL];
        if payload.len() == MAIL {
            bytes.copy_from_slice(payload);
        } else {
            bytes[..payload.len()].copy_from_slice(payload);
        }
        self.0[1].store(head.tag, Ordering::Relaxed);
        self.0[2].store(head.seq as u64 | (ack as u64) << 32, Ordering::Relaxed);
        self.0[3].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        self.0[0].store(word, Ordering::Release);
    }

    /// Marks the half as holding the consumed message of the position with the low bits `stamp`.
    #[cold]
    pub(crate) fn mark(&self, stamp: u32) {
        self.0[0].store(stamp as u64, Ordering::Release);
    }

    /// The message for the position with the low bits `stamp`, if it is here.
    #[inline]
    pub(crate) fn look(&self, stamp: u32) -> Option<Mail> {
        let word = self.0[0].load(Ordering::Acquire);
        if word as u32 != stamp {
            return None;
        }
        let numbers = self.0[2].load(Ordering::Relaxed);
        Some(Mail {
            word,
            tag: self.0[1].load(Ordering::Relaxed),
            seq: numbers as u32,
            ack: (numbers >> 32) as u32,
            payload: self.0[3].load(Ordering::Relaxed).to_ne_bytes(),
        })
    }

    /// Whether the message for the position with the low bits `stamp` is here.
    #[inline]
    pub(crate) fn holds(&self, stamp: u32) -> bool {
        self.0[0].load(Ordering::Acquire) as u32 == stamp
    }
}
