//! A hash from keys to first-in-first-out queues of slab numbers, without the keys.
//!
//! The caller holds the keys (in its slab) and compares them; this table holds 32 bits of each hash
//! and the first number of each queue. Open addressing with linear probing, at most half full, and
//! deletion by shifting back (Knuth, The Art of Computer Programming 3, section 6.4, algorithm R),
//! so that no tombstones pile up however long it is used.

use crate::slab::NONE;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    head: u32,
}

const EMPTY: Bucket = Bucket { hash: 0, head: NONE };
const SMALLEST: usize = 16;

/// Neighbours in the queue, which is a ring: the first one's `prev` is the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    next: u32,
    prev: u32,
    hash: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Empty, or a power of two of which at most half are in use.
    buckets: Vec<Bucket>,
    keys: usize,
    /// By slab number.
    links: Vec<Link>,
}

/// A key found: the first in its queue, and where the table has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) head: u32,
    bucket: usize,
}

impl Index {
    /// Finds the queue whose head is the `same`.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut same: impl FnMut(u32) -> bool) -> Option<Found> {
        let mask = self.buckets.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let bucket = self.buckets.get(at)?;
            if bucket.head == NONE {
                return None;
            }
            if bucket.hash == hash && same(bucket.head) {
                return Some(Found { head: bucket.head, bucket: at });
            }
            at = (at + 1) & mask;
        }
    }

    /// Appends `number` to the queue of its key.
    #[inline]
    pub(crate) fn push(&mut self, hash: u32, number: u32, same: impl FnMut(u32) -> bool) {
        if number as usize >= self.links.len() || self.keys * 2 >= self.buckets.len() {
            self.grow(number);
        }
        match self.find(hash, same) {
            Some(Found { head, .. }) => {
                let last = self.links[head as usize].prev;
                self.links[number as usize] = Link { next: head, prev: last, hash };
                self.links[last as usize].next = number;
                self.links[head as usize].prev = number;
            }
            None => {
                self.links[number as usize] = Link { next: number, prev: number, hash };
                self.occupy(Bucket { hash, head: number });
                self.keys += 1;
            }
        }
    }

    /// Removes the first in a queue.
    #[inline]
    pub(crate) fn remove_found(&mut self, found: Found) {
        let Link { next, prev, .. } = self.links[found.head as usize];
        if next == found.head {
            self.vacate(found.bucket);
            self.keys -= 1;
        } else {
            self.links[prev as usize].next = next;
            self.links[next as usize].prev = prev;
            self.buckets[found.bucket].head = next;
        }
    }

    /// Removes `number`, which is in a queue, wherever it stands.
    pub(crate) fn remove(&mut self, number: u32) {
        let Link { next, prev, hash } = self.links[number as usize];
        match self.find(hash, |head| head == number) {
            Some(found) => self.remove_found(found),
            None => {
                self.links[prev as usize].next = next;
                self.links[next as usize].prev = prev;
            }
        }
    }

    /// Forgets everything, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.buckets.fill(EMPTY);
        self.keys = 0;
    }

    /// Gives back memory; no number in a queue is `end` or above.
    pub(crate) fn trim(&mut self, end: usize) {
        self.links.truncate(end);
        self.links.shrink_to_fit();
        let size = if self.keys == 0 { 0 } else { (self.keys * 4).next_power_of_two() };
        if size < self.buckets.len() {
            self.resize(size.max(if self.keys == 0 { 0 } else { SMALLEST }));
        }
    }

    fn occupy(&mut self, bucket: Bucket) {
        let mask = self.buckets.len() - 1;
        let mut at = bucket.hash as usize & mask;
        while self.buckets[at].head != NONE {
            at = (at + 1) & mask;
        }
        self.buckets[at] = bucket;
    }

    /// Empties a bucket, and moves those behind it that thereby come nearer to their home.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.buckets.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket.head == NONE {
                break;
            }
            let from_home = at.wrapping_sub(bucket.hash as usize) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole] = EMPTY;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, number: u32) {
        if number as usize >= self.links.len() {
            let size = (number as usize + 1).next_power_of_two().max(SMALLEST);
            self.links.resize(size, Link::default());
        }
        if self.keys * 2 >= self.buckets.len() {
            self.resize((self.buckets.len() * 2).max(SMALLEST));
        }
    }

    fn resize(&mut self, size: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; size]);
        for bucket in old.into_iter().filter(|bucket| bucket.head != NONE) {
            self.occupy(bucket);
        }
    }
}
