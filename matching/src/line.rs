//! Receives with one key, one behind the other, outside of slab and table.
//!
//! Most programs post receives that are all alike; then each arrival is for the first of them, and
//! neither hash nor links are needed. They stand in a ring by their stamps, which are consecutive.
//! When they *move* into the slab, the ring keeps where each of them went, so that handles stay
//! good.

use crate::names::Key;
use crate::slab::NONE;
use crate::{Arrival, Envelope, PostId, Posting};

#[derive(Clone, Copy, Debug)]
enum Place<R> {
    /// Cancelled, or not in use.
    Gone,
    Waits {
        token: R,
        multi: bool,
    },
    /// To this number of the slab.
    Moved(u32),
}

const SMALLEST: usize = 16;

#[derive(Debug)]
pub(crate) struct Line<R> {
    key: Key,
    /// By stamp, modulo the size: empty, or a power of two.
    ring: Vec<Place<R>>,
    /// The stamp of the first, which waits or has moved; or `next`, if there is none.
    first: u64,
    /// The stamp of the next receive, here or in the slab.
    next: u64,
    /// Behind the stamps of those that have moved; else anything up to `first`.
    moved: u64,
    /// Cancelled, between the first and the last.
    gone: usize,
}

impl<R: Copy> Line<R> {
    pub(crate) fn new() -> Self {
        let key = Key { lane: 0, tag: 0, keep: 0, ident: 0 };
        Line { key, ring: Vec::new(), first: 0, next: 0, moved: 0, gone: 0 }
    }

    /// Those that wait here (if they have not moved).
    pub(crate) fn len(&self) -> usize {
        (self.next - self.first) as usize - self.gone
    }

    /// The stamp of a receive that goes into the slab.
    #[inline]
    pub(crate) fn stamp(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Puts a receive behind the others. `None`: they have another key, or the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, key: &Key, multi: bool, token: R) -> Option<PostId> {
        let stamp = self.next;
        if stamp == self.first {
            self.key = *key;
        } else if self.key != *key {
            return None;
        }
        if stamp - self.first >= self.ring.len() as u64 {
            return None;
        }
        let at = self.at(stamp);
        self.ring[at] = Place::Waits { token, multi };
        self.next = stamp + 1;
        Some(PostId { number: NONE, stamp: stamp as u32 })
    }

    /// Makes space, if that is why `push` refused. Not if most of the ring is cancelled receives,
    /// which it would otherwise collect without end.
    pub(crate) fn grow(&mut self, key: &Key) -> bool {
        let grows = self.key == *key && self.gone * 2 <= self.ring.len();
        if grows {
            self.resize((self.ring.len() * 2).max(SMALLEST), self.next);
        }
        grows
    }

    /// Gives the message to the first, if it fits.
    #[inline]
    pub(crate) fn take(&mut self, envelope: &Envelope) -> Arrival<R> {
        if self.first == self.next || !self.key.takes(envelope) {
            return Arrival::Unmatched;
        }
        let Some(&Place::Waits { token, multi }) = self.ring.get(self.at(self.first)) else {
            return Arrival::Unmatched;
        };
        if !multi {
            self.leave_first();
        }
        Arrival::Matched(token)
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
        while self.first != self.next && matches!(self.ring[self.at(self.first)], Place::Gone) {
            self.first += 1;
            self.gone -= 1;
        }
    }

    pub(crate) fn cancel(&mut self, id: PostId) -> Option<R> {
        let stamp = self.stamp_of(id, self.next)?;
        let at = self.at(stamp);
        let Place::Waits { token, .. } = self.ring[at] else { return None };
        if stamp == self.first {
            self.leave_first();
        } else {
            self.ring[at] = Place::Gone;
            self.gone += 1;
        }
        Some(token)
    }

    /// The full stamp of a handle, if it is from the first one up to `end`.
    fn stamp_of(&self, id: PostId, end: u64) -> Option<u64> {
        let stamp = self.first + u64::from(id.stamp.wrapping_sub(self.first as u32));
        (id.number == NONE && stamp < end).then_some(stamp)
    }

    /// Moves all: `enter` puts one into the slab, and says where.
    pub(crate) fn move_all(&mut self, mut enter: impl FnMut(&Key, u64, bool, R) -> u32) {
        for stamp in self.first..self.next {
            let at = self.at(stamp);
            if let Place::Waits { token, multi } = self.ring[at] {
                self.ring[at] = Place::Moved(enter(&self.key, stamp, multi, token));
            }
        }
        self.moved = self.next;
    }

    /// Starts anew, when there is nothing left in the slab.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.first = self.next;
        self.gone = 0;
    }

    /// Where in the slab a receive is or was.
    pub(crate) fn number(&self, id: PostId) -> Option<u32> {
        if id.number != NONE {
            return Some(id.number);
        }
        match self.ring[self.at(self.stamp_of(id, self.moved)?)] {
            Place::Moved(number) => Some(number),
            Place::Waits { .. } | Place::Gone => None,
        }
    }

    /// The handle of a receive in the slab.
    pub(crate) fn id(&self, number: u32, stamp: u64) -> PostId {
        let came_from_here = (self.first..self.moved).contains(&stamp);
        PostId { number: if came_from_here { NONE } else { number }, stamp: stamp as u32 }
    }

    /// Those that wait here.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PostId, Posting, R)> {
        (self.first..self.next).filter_map(|stamp| match self.ring[self.at(stamp)] {
            Place::Waits { token, multi } => {
                let id = PostId { number: NONE, stamp: stamp as u32 };
                Some((id, self.key.posting(multi), token))
            }
            Place::Gone | Place::Moved(_) => None,
        })
    }

    #[inline]
    fn at(&self, stamp: u64) -> usize {
        stamp as usize & self.ring.len().wrapping_sub(1)
    }

    /// Gives back the memory that those who wait or have moved do not need.
    pub(crate) fn trim(&mut self, has_moved: bool) {
        let end = if has_moved { self.moved } else { self.next };
        let size = match (end - self.first) as usize {
            0 => 0,
            needed => needed.next_power_of_two().max(SMALLEST),
        };
        if size < self.ring.len() {
            self.resize(size, end);
        }
    }

    #[cold]
    #[inline(never)]
    fn resize(&mut self, size: usize, end: u64) {
        let mut ring = vec![Place::Gone; size];
        for stamp in self.first..end {
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
