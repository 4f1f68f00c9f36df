//! A hash from keys to first-in-first-out queues of numbers of messages, without the keys, for values that
//! stand in several of them.

use crate::buckets::{Buckets, Found};
use crate::pieces::{EMPTY_KEPT, PIECE};

/// Neighbours in the queue, which is a ring: the first one's `prev` is the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    next: u32,
    prev: u32,
    hash: u32,
}

/// Those of the numbers of a piece.
#[derive(Debug)]
struct Links {
    links: [Link; PIECE],
    /// Numbers that are in a queue.
    used: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    buckets: Buckets,
    /// `None`: none of its numbers is in a queue.
    pieces: Vec<Option<Box<Links>>>,
    /// Pieces none of whose numbers is in a queue, and that stay for the next.
    empty: usize,
}

impl Index {
    /// Bytes for a number at the most, in a piece that is full.
    pub(crate) const MOST_BYTES: usize = size_of::<Links>().div_ceil(PIECE) + Buckets::MOST_BYTES;

    /// Finds the queue with the `same` head.
    #[inline]
    pub(crate) fn find(&self, hash: u32, same: impl FnMut(u32) -> bool) -> Option<Found> {
        self.buckets.find(hash, same)
    }

    /// Appends `number` to the queue of its key.
    #[inline]
    pub(crate) fn push(&mut self, hash: u32, number: u32, same: impl FnMut(u32) -> bool) {
        match self.buckets.find(hash, same) {
            Some(Found { head, .. }) => {
                let last = std::mem::replace(&mut self.at(head).prev, number);
                self.at(last).next = number;
                self.enter(number, Link { next: head, prev: last, hash });
            }
            None => {
                self.enter(number, Link { next: number, prev: number, hash });
                self.buckets.add(hash, number);
            }
        }
    }

    /// Removes `number`, which is in a queue, wherever it stands.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) {
        let Link { next, prev, hash } = *self.at(number);
        let found = self.find(hash, |head| head == number);
        self.at(prev).next = next;
        self.at(next).prev = prev;
        match found {
            Some(found) if next == number => self.buckets.remove(found),
            Some(found) => self.buckets.set_head(found, next),
            None => {}
        }
        self.leave(number);
    }

    /// The link of a number that is in a queue.
    ///
    /// # Panics
    /// If no number of its piece is.
    #[inline]
    #[expect(clippy::expect_used, reason = "documented")]
    fn at(&mut self, number: u32) -> &mut Link {
        let piece = self.pieces[number as usize / PIECE].as_deref_mut();
        &mut piece.expect("a number in a queue").links[number as usize % PIECE]
    }

    #[inline]
    fn enter(&mut self, number: u32, link: Link) {
        let place = number as usize / PIECE;
        if place >= self.pieces.len() {
            self.pieces.resize_with(place + 1, || None);
        }
        let piece = self.pieces[place].get_or_insert_with(|| {
            self.empty += 1;
            Box::new(Links { links: [Link::default(); PIECE], used: 0 })
        });
        self.empty -= usize::from(piece.used == 0);
        piece.used += 1;
        piece.links[number as usize % PIECE] = link;
    }

    #[inline]
    fn leave(&mut self, number: u32) {
        let piece = &mut self.pieces[number as usize / PIECE];
        let Some(links) = piece else { return };
        links.used -= 1;
        if links.used == 0 {
            if self.empty == EMPTY_KEPT {
                *piece = None;
            } else {
                self.empty += 1;
            }
        }
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
        self.buckets.memory() + self.pieces.iter().flatten().count() * PIECE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::{KEPT, SMALLEST};
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
                index.remove(found.head);
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
                index.remove(found.head);
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

    /// In the order in which they came, and in another one.
    #[test]
    fn what_leaves_gives_its_memory_back() {
        const MANY: u32 = 100_000;
        for stride in [1, 3] {
            let mut index = Index::default();
            let keys: Vec<u32> = (0..MANY).collect();
            let hash = |key: u32| key.wrapping_mul(0x9e37_79b9);
            (0..MANY).for_each(|number| push(&mut index, &keys, hash, number));
            for number in (0..stride).flat_map(|first| (first..MANY - 1).step_by(stride as usize)) {
                index.remove(number);
            }
            let most = (EMPTY_KEPT + 1) * PIECE + KEPT;
            assert!(index.memory() <= most, "{} entries for one key", index.memory());
            assert_eq!(find(&index, &keys, hash, MANY - 1).unwrap().head, MANY - 1);
            index.remove(MANY - 1);
            assert!(index.is_empty());
            push(&mut index, &keys, hash, 500);
            assert_eq!(find(&index, &keys, hash, 500).unwrap().head, 500);
        }
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
                            index.remove(found.head);
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
