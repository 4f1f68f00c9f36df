//! A hash from keys to first-in-first-out queues of slab numbers, without the keys, for slabs with
//! values that stand in several of them.

use crate::buckets::{Buckets, Found, SMALLEST};

/// Neighbours in the queue, which is a ring: the first one's `prev` is the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    next: u32,
    prev: u32,
    hash: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    buckets: Buckets,
    /// By slab number.
    links: Vec<Link>,
}

impl Index {
    /// Bytes for a number at the most: of two links one is in use, and of four buckets.
    pub(crate) const MOST_BYTES: usize = 2 * size_of::<Link>() + Buckets::MOST_BYTES;

    /// Finds the queue with the `same` head.
    #[inline]
    pub(crate) fn find(&self, hash: u32, same: impl FnMut(u32) -> bool) -> Option<Found> {
        self.buckets.find(hash, same)
    }

    /// Appends `number` to the queue of its key.
    #[inline]
    pub(crate) fn push(&mut self, hash: u32, number: u32, same: impl FnMut(u32) -> bool) {
        if number as usize >= self.links.len() {
            self.grow(number);
        }
        match self.buckets.find(hash, same) {
            Some(Found { head, .. }) => {
                let last = self.links[head as usize].prev;
                self.links[number as usize] = Link { next: head, prev: last, hash };
                self.links[last as usize].next = number;
                self.links[head as usize].prev = number;
            }
            None => {
                self.links[number as usize] = Link { next: number, prev: number, hash };
                self.buckets.add(hash, number);
            }
        }
    }

    /// Removes the first in a queue.
    #[inline]
    pub(crate) fn remove_found(&mut self, found: Found) {
        let Link { next, prev, .. } = self.links[found.head as usize];
        if next == found.head {
            self.buckets.remove(found);
        } else {
            self.links[prev as usize].next = next;
            self.links[next as usize].prev = prev;
            self.buckets.set_head(found, next);
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
        self.buckets.clear();
    }

    /// Gives back memory; no number in a queue is `end` or above.
    pub(crate) fn trim(&mut self, end: usize) {
        self.links.truncate(end);
        self.links.shrink_to_fit();
        self.buckets.trim();
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, number: u32) {
        let size = (number as usize + 1).next_power_of_two().max(SMALLEST);
        self.links.resize(size, Link::default());
    }
}

#[cfg(test)]
impl Index {
    pub(crate) fn displacements(&self) -> Vec<usize> {
        self.buckets.displacements()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub(crate) fn memory(&self) -> usize {
        self.buckets.memory() + self.links.capacity()
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
