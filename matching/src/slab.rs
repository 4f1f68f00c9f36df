//! Numbered slots: a slot freed last is used first, so that few postings stay in few cache lines.

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
enum Slot<T> {
    Used(T),
    Free { next: u32 },
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The number that the next value gets: a free slot, or the end.
    next: u32,
    used: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { slots: Vec::new(), next: 0, used: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// The number that the next value will get.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let number = self.next;
        if number as usize >= self.slots.len() {
            self.grow();
        }
        // There is a slot now; `value` goes nowhere else, so that it is built there.
        let slot = &mut self.slots[number as usize];
        if let Slot::Free { next } = *slot {
            self.next = next;
        }
        *slot = Slot::Used(value);
        self.used += 1;
        number
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let next = self.slots.len() + 1;
        assert!(next < NONE as usize, "more than 2^32 - 2 receives or messages are waiting");
        self.slots.push(Slot::Free { next: next as u32 });
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        match self.slots.get(number as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.slots.get_mut(number as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let slot = self.slots.get_mut(number as usize)?;
        if let Slot::Free { .. } = slot {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free { next: self.next }) else {
            return None;
        };
        self.next = number;
        self.used -= 1;
        Some(value)
    }

    /// As `remove`, for a slot that is in use and a value of which nothing is wanted.
    #[inline]
    pub(crate) fn free(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        debug_assert!(matches!(slot, Slot::Used(_)), "slot {number} is free already");
        *slot = Slot::Free { next: self.next };
        self.next = number;
        self.used -= 1;
    }

    /// How many values there were at once, at the most.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| match slot {
            Slot::Used(value) => Some((number as u32, value)),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_freed_last_is_used_first() {
        let mut slab = Slab::new();
        let numbers: Vec<u32> = (0..4).map(|value| slab.insert(value)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!((slab.remove(1), slab.remove(3)), (Some(1), Some(3)));
        assert_eq!((slab.remove(1), slab.get(3)), (None, None));
        assert_eq!((slab.insert(10), slab.insert(11), slab.insert(12)), (3, 1, 4));
        assert_eq!(slab.len(), 5);
    }
}
