//! A hash from keys to the first slab number of each key's queue, without the keys.
//!
//! The caller holds the keys (in its slab) and compares them; this table holds 32 bits of each hash
//! and a number. Open addressing with linear probing, at most half full, and deletion by shifting
//! back (Knuth, The Art of Computer Programming 3, section 6.4, algorithm R), so that no tombstones
//! pile up however long it is used.

use crate::slab::NONE;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    head: u32,
}

const EMPTY: Bucket = Bucket { hash: 0, head: NONE };
pub(crate) const SMALLEST: usize = 16;
/// A table that is no longer than this does not become shorter.
pub(crate) const KEPT: usize = 1 << 12;

#[derive(Debug, Default)]
pub(crate) struct Buckets {
    /// Empty, or a power of two of which at most half are in use.
    buckets: Vec<Bucket>,
    keys: usize,
}

/// A key found: the first in its queue, and where the table has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) head: u32,
    bucket: usize,
}

impl Buckets {
    /// Bytes for a key at the most, if there are many: one bucket of five is in use.
    pub(crate) const MOST_BYTES: usize = 5 * size_of::<Bucket>();

    /// Finds the queue with the `same` head.
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

    /// Adds a key, which is not in the table.
    #[inline]
    pub(crate) fn add(&mut self, hash: u32, head: u32) {
        if self.keys * 2 >= self.buckets.len() {
            self.grow();
        }
        self.occupy(Bucket { hash, head });
        self.keys += 1;
    }

    /// Another number is the first of its queue now.
    #[inline]
    pub(crate) fn set_head(&mut self, found: Found, head: u32) {
        self.buckets[found.bucket].head = head;
    }

    /// Removes a key.
    #[inline]
    pub(crate) fn remove(&mut self, found: Found) {
        self.vacate(found.bucket);
        self.keys -= 1;
        if self.buckets.len() > KEPT && self.keys * 5 < self.buckets.len() {
            self.shrink();
        }
    }

    /// To where it is at most two fifths full: it grows again only when there are a quarter more.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        self.resize(self.buckets.len() / 2);
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
    fn grow(&mut self) {
        self.resize((self.buckets.len() * 2).max(SMALLEST));
    }

    fn resize(&mut self, size: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![EMPTY; size]);
        for bucket in old.into_iter().filter(|bucket| bucket.head != NONE) {
            self.occupy(bucket);
        }
    }
}

#[cfg(test)]
impl Buckets {
    /// For each key, how far from its home it is.
    pub(crate) fn displacements(&self) -> Vec<usize> {
        let mask = self.buckets.len().wrapping_sub(1);
        let used = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.head != NONE);
        used.map(|(at, bucket)| at.wrapping_sub(bucket.hash as usize) & mask).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys == 0 && self.buckets.iter().all(|bucket| bucket.head == NONE)
    }

    pub(crate) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.buckets.capacity()
    }
}
