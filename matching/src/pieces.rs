//! Numbered slots, in pieces: a piece of which nothing is used any more is given back to the heap. This costs a look at the
//! piece with each use, in place of which a [`Slab`](crate::slab::Slab) keeps its memory.
//!
//! Within a piece the slot that was freed last is used first: few values stay in few cache lines. A piece that gets room
//! is the next to be used while nearly all slots are in use; else it is the last. So what comes while a long queue is worked
//! off does not stand among what leaves, and the pieces of that become empty.

use crate::slab::NONE;
use std::collections::VecDeque;

/// Slots of a piece.
pub(crate) const PIECE: usize = 64;

/// Empty pieces that stay, so that nothing is allocated where few values come and go.
pub(crate) const EMPTY_KEPT: usize = 16;

#[derive(Debug)]
enum Slot<T> {
    Used(T),
    Free { next: u32 },
}

#[derive(Debug)]
struct Piece<T> {
    slots: [Slot<T>; PIECE],
    /// The slot that the next value gets, by its place in the piece.
    free: u32,
    used: u16,
    /// It is in the queue.
    queued: bool,
}

/// Values by numbers that stay theirs until they are removed.
///
/// *Invariant:* every piece with a free slot is in the queue.
#[derive(Debug)]
pub struct Pieces<T> {
    /// By number, a piece after the other. `None`: given back.
    pieces: Vec<Option<Box<Piece<T>>>>,
    /// The places of pieces with room, in the order in which they are used. Some may be full or gone by now: that is seen when it
    /// is their turn.
    queue: VecDeque<u32>,
    /// Places without a piece.
    vacant: Vec<u32>,
    /// Pieces that have nothing.
    empty: usize,
    used: usize,
}

impl<T> Pieces<T> {
    /// Bytes of memory of a value, in a piece that is full.
    pub const SLOT_BYTES: usize = size_of::<Piece<T>>().div_ceil(PIECE);

    /// Without a value, and without memory.
    pub const fn new() -> Self {
        Pieces { pieces: Vec::new(), queue: VecDeque::new(), vacant: Vec::new(), empty: 0, used: 0 }
    }

    /// How many values there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Puts a value in, and gives it a number.
    ///
    /// # Panics
    /// If there are 2^32 - 64 values.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        loop {
            let place = self.queue.front().copied().unwrap_or(NONE);
            if let Some(Some(piece)) = self.pieces.get_mut(place as usize)
                && piece.free != NONE
            {
                let at = piece.free % PIECE as u32;
                let slot = &mut piece.slots[at as usize];
                if let Slot::Free { next } = *slot {
                    piece.free = next;
                }
                *slot = Slot::Used(value);
                self.empty -= usize::from(piece.used == 0);
                piece.used += 1;
                self.used += 1;
                if piece.free == NONE {
                    piece.queued = false;
                    self.queue.pop_front();
                }
                return place * PIECE as u32 + at;
            }
            self.next_piece();
        }
    }

    /// The first piece of the queue has no room, or there is none. When a place gets a piece again the queue is empty: it has no place
    /// twice.
    #[cold]
    #[inline(never)]
    fn next_piece(&mut self) {
        if let Some(place) = self.queue.pop_front() {
            if let Some(Some(piece)) = self.pieces.get_mut(place as usize) {
                piece.queued = false;
            }
            return;
        }
        let place = self.vacant.pop().unwrap_or_else(|| {
            assert!(self.pieces.len() < NONE as usize / PIECE, "2^32 - 64 values are waiting");
            self.pieces.push(None);
            self.pieces.len() as u32 - 1
        });
        let slots = std::array::from_fn(|at| Slot::Free {
            next: if at + 1 < PIECE { at as u32 + 1 } else { NONE },
        });
        self.pieces[place as usize] =
            Some(Box::new(Piece { slots, free: 0, used: 0, queued: true }));
        self.queue.push_back(place);
        self.empty += 1;
    }

    /// The value of a number; `None` if no value has it.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let piece = self.pieces.get(number as usize / PIECE)?.as_deref()?;
        match &piece.slots[number as usize % PIECE] {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// As [`get`](Self::get), to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let piece = self.pieces.get_mut(number as usize / PIECE)?.as_deref_mut()?;
        match &mut piece.slots[number as usize % PIECE] {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// Takes the value of a number out.
    #[inline]
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let place = number / PIECE as u32;
        let piece = self.pieces.get_mut(place as usize)?.as_deref_mut()?;
        let at = number % PIECE as u32;
        let slot = &mut piece.slots[at as usize];
        if let Slot::Free { .. } = slot {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free { next: piece.free }) else {
            return None;
        };
        piece.free = at;
        piece.used -= 1;
        self.used -= 1;
        if piece.used == 0 {
            self.empty += 1;
            if self.empty > EMPTY_KEPT {
                self.give_back(place);
            }
        } else if !piece.queued {
            piece.queued = true;
            self.has_room(place);
        }
        Some(value)
    }

    /// A piece that was full has room.
    #[inline]
    fn has_room(&mut self, place: u32) {
        let slots = self.memory();
        if self.used >= slots - slots / 8 {
            self.queue.push_front(place);
        } else {
            self.queue.push_back(place);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back(&mut self, place: u32) {
        self.pieces[place as usize] = None;
        self.vacant.push(place);
        self.empty -= 1;
    }

    /// The values with their numbers, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pieces = self.pieces.iter().enumerate();
        let pieces = pieces.filter_map(|(place, piece)| Some((place, piece.as_deref()?)));
        let slots = pieces.flat_map(|(place, piece)| {
            piece.slots.iter().enumerate().map(move |(at, slot)| (place * PIECE + at, slot))
        });
        slots.filter_map(|(number, slot)| match slot {
            Slot::Used(value) => Some((number as u32, value)),
            Slot::Free { .. } => None,
        })
    }

    /// Values that there is memory for.
    pub fn memory(&self) -> usize {
        (self.pieces.len() - self.vacant.len()) * PIECE
    }
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Messages of a flood.
    const MANY: u32 = 100_000;
    const KEPT: usize = EMPTY_KEPT * PIECE;

    #[test]
    fn the_slot_freed_last_is_used_first() {
        let mut pieces = Pieces::new();
        let numbers: Vec<u32> = (0..4).map(|value| pieces.insert(value)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!((pieces.remove(1), pieces.remove(3)), (Some(1), Some(3)));
        assert_eq!((pieces.remove(1), pieces.get(3)), (None, None));
        assert_eq!((pieces.insert(10), pieces.insert(11), pieces.insert(12)), (3, 1, 4));
        assert_eq!(pieces.len(), 5);
    }

    #[test]
    fn what_leaves_gives_its_memory_back_while_others_stay() {
        let mut pieces = Pieces::new();
        let numbers: Vec<u32> = (0..MANY).map(|value| pieces.insert(value)).collect();
        for (gone, &number) in numbers.iter().enumerate().take(MANY as usize - 1) {
            pieces.remove(number);
            assert!(pieces.memory() <= pieces.len() + KEPT + 2 * PIECE, "{gone} have left");
        }
        assert_eq!(pieces.get(numbers[MANY as usize - 1]), Some(&(MANY - 1)));
    }

    /// Now and then one comes that stays, while a long queue leaves.
    #[test]
    fn what_comes_meanwhile_stands_together() {
        let mut pieces = Pieces::new();
        let numbers: Vec<u32> = (0..MANY).map(|value| pieces.insert(value)).collect();
        for (gone, &number) in numbers.iter().enumerate() {
            pieces.remove(number);
            if gone % PIECE == PIECE / 2 {
                pieces.insert(0);
            }
        }
        // What came before an eighth had left stands among what left then.
        let most = pieces.len() + KEPT + MANY as usize / 8 + 4 * PIECE;
        assert!(pieces.memory() <= most, "{} for {}", pieces.memory(), pieces.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against a map, with pieces that fill, empty and go in any order.
        #[test]
        fn like_a_map(ops in prop::collection::vec((0..4u8, any::<u16>(), 1..400usize), 1..60)) {
            let mut pieces = Pieces::new();
            let mut map = BTreeMap::new();
            let mut value = 0u32;
            for (op, which, times) in ops {
                for round in 0..times {
                    let chosen = map.keys().copied().nth(match op {
                        0 | 1 => usize::MAX,
                        2 => 0,
                        _ => (which as usize + round * 7) % map.len().max(1),
                    });
                    value += 1;
                    match (op, chosen) {
                        (0 | 1, _) => {
                            let number = pieces.insert(value);
                            prop_assert_eq!(map.insert(number, value), None, "a number twice");
                        }
                        (_, Some(number)) => {
                            *pieces.get_mut(number).unwrap() += 1;
                            prop_assert_eq!(pieces.remove(number), map.remove(&number).map(|v| v + 1));
                            prop_assert_eq!(pieces.remove(number), None);
                        }
                        (_, None) => prop_assert_eq!(pieces.get(u32::from(which)), None),
                    }
                }
                prop_assert_eq!(pieces.len(), map.len());
                prop_assert!(pieces.iter().eq(map.iter().map(|(&number, value)| (number, value))));
                let in_use: BTreeSet<u32> = map.keys().map(|n| n / PIECE as u32).collect();
                prop_assert!(pieces.memory() <= (in_use.len() + EMPTY_KEPT) * PIECE);
            }
        }
    }
}
