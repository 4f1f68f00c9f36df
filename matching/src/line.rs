//! Receives with one key, one behind the other, outside of slab and table.
//!
//! Most programs post receives that are all alike; then each arrival is for the first of them, and
//! neither hash nor links are needed. They stand in a ring by their stamps, which are consecutive.
//! When they *move* into the slab, the ring keeps where each of them went, so that handles stay
//! good.

use crate::names::Key;
use crate::slab::NONE;
use crate::{Arrival, Envelope, PostId, Posting};
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
enum Entry<R> {
    /// Cancelled, or not in use.
    Gone,
    Once(R),
    Multi(R),
    /// To this number of the slab.
    Moved(u32),
}

const SMALLEST: usize = 16;

#[derive(Debug)]
pub(crate) struct Line<R> {
    /// Of all that wait.
    key: Key,
    /// By stamp, modulo the size: empty, or a power of two.
    ring: Vec<Entry<R>>,
    /// The stamp of the first, which waits; or `next`, if nobody does.
    first: u64,
    /// The stamp of the next receive, here or in the slab.
    next: u64,
    /// Cancelled, between the first and the last.
    gone: usize,
    /// The stamps of those that have moved.
    moved: Range<u64>,
}

impl<R: Copy> Line<R> {
    pub(crate) fn new() -> Self {
        let key = Key { lane: 0, tag: 0, keep: 0, ident: 0 };
        Line { key, ring: Vec::new(), first: 0, next: 0, gone: 0, moved: 0..0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    pub(crate) fn len(&self) -> usize {
        (self.next - self.first) as usize - self.gone
    }

    /// The stamp of a receive that goes into the slab while the line is empty.
    #[inline]
    pub(crate) fn stamp(&mut self) -> u64 {
        let stamp = self.next;
        self.next += 1;
        self.first = self.next;
        stamp
    }

    /// Starts with this receive, when there is none here or in the slab. `None`: the ring is full.
    #[inline]
    pub(crate) fn start(&mut self, key: Key, multi: bool, token: R) -> Option<PostId> {
        self.key = key;
        self.put(multi, token)
    }

    /// Puts a receive behind the others. `None`: they have another key, or the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, multi: bool, token: R) -> Option<PostId> {
        if self.key == key { self.put(multi, token) } else { None }
    }

    #[inline]
    fn put(&mut self, multi: bool, token: R) -> Option<PostId> {
        let stamp = self.next;
        if stamp - self.first >= self.ring.len() as u64 {
            return None;
        }
        let at = self.at(stamp);
        self.ring[at] = if multi { Entry::Multi(token) } else { Entry::Once(token) };
        self.next = stamp + 1;
        Some(PostId { number: NONE, stamp: stamp as u32 })
    }

    /// Makes space for this key, if that is why it was refused. Not if most of the ring is cancelled receives,
    /// which it would otherwise collect without end.
    pub(crate) fn grow(&mut self, key: &Key) -> bool {
        let grows = self.key == *key && self.gone * 2 <= self.ring.len();
        if grows {
            self.resize((self.ring.len() * 2).max(SMALLEST), self.first..self.next);
        }
        grows
    }

    /// Gives the message to the first, if it fits.
    #[inline]
    pub(crate) fn take(&mut self, envelope: &Envelope) -> Arrival<R> {
        if !self.key.takes(envelope) {
            return Arrival::Unmatched;
        }
        match self.ring.get(self.at(self.first)) {
            Some(&Entry::Once(token)) => {
                self.leave_first();
                Arrival::Matched(token)
            }
            Some(&Entry::Multi(token)) => Arrival::Matched(token),
            _ => Arrival::Unmatched,
        }
    }

    #[inline]
    fn leave_first(&mut self) {
        self.first += 1;
        if self.gone != 0 {
            self.skip_gone();
        }
    }

    #[cold]
    #[inline(never)]
    fn skip_gone(&mut self) {
        while self.first != self.next && matches!(self.ring[self.at(self.first)], Entry::Gone) {
            self.first += 1;
            self.gone -= 1;
        }
    }

    pub(crate) fn cancel(&mut self, id: PostId) -> Option<R> {
        let stamp = stamp_of(id, self.first..self.next)?;
        let at = self.at(stamp);
        let (_, token) = self.ring[at].waiting()?;
        if stamp == self.first {
            self.leave_first();
        } else {
            self.ring[at] = Entry::Gone;
            self.gone += 1;
        }
        Some(token)
    }

    /// Moves all: `enter` puts one into the slab, and says where.
    pub(crate) fn move_all(&mut self, mut enter: impl FnMut(&Key, u64, bool, R) -> u32) {
        self.moved = self.first..self.next;
        for stamp in self.moved.clone() {
            let at = self.at(stamp);
            if let Some((multi, token)) = self.ring[at].waiting() {
                self.ring[at] = Entry::Moved(enter(&self.key, stamp, multi, token));
            }
        }
        self.first = self.next;
        self.gone = 0;
    }

    /// Where in the slab a receive is or was.
    pub(crate) fn number(&self, id: PostId) -> Option<u32> {
        if id.number != NONE {
            return Some(id.number);
        }
        match self.ring[self.at(stamp_of(id, self.moved.clone())?)] {
            Entry::Moved(number) => Some(number),
            Entry::Once(_) | Entry::Multi(_) | Entry::Gone => None,
        }
    }

    /// The handle of a receive in the slab.
    pub(crate) fn id(&self, number: u32, stamp: u64) -> PostId {
        let number = if self.moved.contains(&stamp) { NONE } else { number };
        PostId { number, stamp: stamp as u32 }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PostId, Posting, R)> {
        (self.first..self.next).filter_map(|stamp| {
            let (multi, token) = self.ring[self.at(stamp)].waiting()?;
            let id = PostId { number: NONE, stamp: stamp as u32 };
            Some((id, self.key.posting(multi), token))
        })
    }

    #[inline]
    fn at(&self, stamp: u64) -> usize {
        stamp as usize & self.ring.len().wrapping_sub(1)
    }

    #[cold]
    #[inline(never)]
    fn resize(&mut self, size: usize, kept: Range<u64>) {
        let mut ring = vec![Entry::Gone; size];
        for stamp in kept {
            ring[stamp as usize & (size - 1)] = self.ring[self.at(stamp)];
        }
        self.ring = ring;
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.ring.capacity()
    }
}

impl<R: Copy> Entry<R> {
    /// Whether it is multi, and its token, if a receive waits here.
    fn waiting(self) -> Option<(bool, R)> {
        match self {
            Entry::Once(token) => Some((false, token)),
            Entry::Multi(token) => Some((true, token)),
            Entry::Gone | Entry::Moved(_) => None,
        }
    }
}

/// The full stamp of a handle from the line, if it is one of these.
fn stamp_of(id: PostId, stamps: Range<u64>) -> Option<u64> {
    let stamp = stamps.start + u64::from(id.stamp.wrapping_sub(stamps.start as u32));
    (id.number == NONE && stamp < stamps.end).then_some(stamp)
}
