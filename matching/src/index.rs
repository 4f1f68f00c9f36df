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

#[cfg(test)]
impl Index {
    /// For each key, how far from its home it is.
    pub(crate) fn displacements(&self) -> Vec<usize> {
        let mask = self.buckets.len().wrapping_sub(1);
        let used = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.head != NONE);
        used.map(|(at, bucket)| at.wrapping_sub(bucket.hash as usize) & mask).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys == 0 && self.buckets.iter().all(|bucket| bucket.head == NONE)
    }

    pub(crate) fn memory(&self) -> usize {
        self.buckets.capacity() + self.links.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Numbers with keys: the key of number n is `keys[n]`.
    fn find(index: &Index, keys: &[u32], hash: fn(u32) -> u32, key: u32) -> Option<Found> {
        index.find(hash(key), |head| keys[head as usize] == key)
    }

    fn push(index: &mut Index, keys: &[u32], hash: fn(u32) -> u32, number: u32) {
        let key = keys[number as usize];
        index.push(hash(key), number, |head| keys[head as usize] == key);
    }

    const ALL_COLLIDE: fn(u32) -> u32 = |_| 7;
    const NEIGHBOURS: fn(u32) -> u32 = |key| key / 3;
    const WRAPPING: fn(u32) -> u32 = |key| u32::MAX - key % 4;

    #[test]
    fn an_empty_index_finds_nothing() {
        assert!(Index::default().find(0, |_| true).is_none());
    }

    #[test]
    fn keys_of_one_hash_have_queues_of_their_own() {
        let mut index = Index::default();
        let keys = [10, 20, 10, 30, 20, 10];
        for number in 0..6 {
            push(&mut index, &keys, ALL_COLLIDE, number);
        }
        for (key, expected) in [(10, vec![0, 2, 5]), (20, vec![1, 4]), (30, vec![3]), (40, vec![])]
        {
            let mut queue = Vec::new();
            while let Some(found) = find(&index, &keys, ALL_COLLIDE, key) {
                queue.push(found.head);
                index.remove_found(found);
            }
            assert_eq!(queue, expected, "queue of {key}");
        }
        assert!(index.is_empty());
    }

    #[test]
    fn growing_keeps_every_queue() {
        let mut index = Index::default();
        let keys: Vec<u32> = (0..3000).map(|number| number % 1000).collect();
        for number in 0..3000 {
            push(&mut index, &keys, NEIGHBOURS, number);
        }
        assert!(index.buckets.len() >= 2000, "{} buckets for 1000 keys", index.buckets.len());
        for round in 0..3 {
            for key in 0..1000 {
                let found = find(&index, &keys, NEIGHBOURS, key).unwrap();
                assert_eq!(found.head, key + round * 1000);
                index.remove_found(found);
            }
        }
        assert!(index.is_empty());
    }

    #[test]
    fn used_for_long_it_stays_small_and_clean() {
        let mut index = Index::default();
        let keys: Vec<u32> = (0..100_000).collect();
        for number in 0..100_000u32 {
            push(&mut index, &keys, |key| key.wrapping_mul(0x9e37_79b9), number);
            if let Some(old) = number.checked_sub(7) {
                index.remove(old);
            }
        }
        assert_eq!(index.buckets.len(), SMALLEST);
        assert_eq!(index.displacements().len(), 7);
    }

    #[test]
    fn trim_gives_back_and_keeps() {
        let mut index = Index::default();
        let keys: Vec<u32> = (0..1000).collect();
        (0..1000).for_each(|number| push(&mut index, &keys, |key| key, number));
        (3..1000).for_each(|number| index.remove(number));
        index.trim(3);
        assert!(index.memory() <= 2 * SMALLEST, "{} entries for 3 keys", index.memory());
        (0..3).for_each(|key| assert_eq!(find(&index, &keys, |k| k, key).unwrap().head, key));
        (0..3).for_each(|number| index.remove(number));
        index.trim(0);
        assert_eq!(index.memory(), 0);
        push(&mut index, &keys, |key| key, 500);
        assert_eq!(find(&index, &keys, |k| k, 500).unwrap().head, 500);
    }

    proptest! {
        /// Against a map of lists, with hashes that collide and wrap around the end of the table.
        #[test]
        fn like_a_map_of_lists(
            which in 0..3usize,
            keys in prop::collection::vec(0..40u32, 200),
            ops in prop::collection::vec((0..3u8, 0..200u32), 1..600),
        ) {
            let hash = [ALL_COLLIDE, NEIGHBOURS, WRAPPING][which];
            let mut index = Index::default();
            let mut map: HashMap<u32, Vec<u32>> = HashMap::new();
            for (op, number) in ops {
                let key = keys[number as usize];
                let list = map.entry(key).or_default();
                match op {
                    0 if !list.contains(&number) => {
                        push(&mut index, &keys, hash, number);
                        list.push(number);
                    }
                    1 if list.contains(&number) => {
                        index.remove(number);
                        list.retain(|n| *n != number);
                    }
                    2 => {
                        let found = find(&index, &keys, hash, key);
                        prop_assert_eq!(found.map(|found| found.head), list.first().copied());
                        if let Some(found) = found {
                            index.remove_found(found);
                            list.remove(0);
                        }
                    }
                    _ => {}
                }
                for (key, list) in &map {
                    let head = find(&index, &keys, hash, *key).map(|found| found.head);
                    prop_assert_eq!(head, list.first().copied());
                }
            }
        }
    }
}
