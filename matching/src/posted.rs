//! The receives that wait.
//!
//! Receives that differ only in source, tag and identifier form a *class*: they name a source or
//! not, and ignore the same bits of the tag. Within a class a message can fit only one key, so an
//! arrival looks once into each class that has anything posted, and of what it finds the one posted
//! first wins. (Tuple space search: Srinivasan, Suri, Varghese, Packet classification using tuple
//! space search, SIGCOMM 1999.) A program rarely uses more than two or three classes.
//!
//! Receives with one key form a queue, linked through the slab. As long as there is only one key,
//! which is what most programs have, they stand in a line outside of slab and table. The first
//! receive with another key moves them there; when the slab is empty, the next ones are in the line
//! again.

use crate::buckets::{Buckets, Found};
use crate::hash::Seed;
use crate::line::Line;
use crate::names::Key;
use crate::slab::{NONE, Slab};
use crate::{Arrival, Envelope, PostId, Posting};

/// A line of the cache, so that a posting costs one miss if there are many.
#[derive(Debug)]
#[repr(align(64))]
struct Receive<R> {
    key: Key,
    stamp: u64,
    token: R,
    /// Of the last in a queue: anything.
    next: u32,
    /// Of the first in a queue: the last.
    prev: u32,
    multi: bool,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    keep: u64,
    named: bool,
    posted: usize,
}

/// Number of classes without receives that are kept, so that a class used now and then is not made anew
/// each time; an idle class costs one comparison.
const IDLE_CLASSES: usize = 4;

#[derive(Debug)]
pub(crate) struct Receives<R> {
    /// Empty if the slab is not.
    line: Line<R>,
    slab: Slab<Receive<R>>,
    /// The first of each queue in the slab.
    index: Buckets,
    /// Of what is in the slab.
    classes: Vec<Class>,
    seed: Seed,
}

/// One line of a report: a receive that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<R> {
    /// Its handle.
    pub id: PostId,
    /// What it takes (the ignored bits of the tag are 0).
    pub posting: Posting,
    /// The caller's token.
    pub token: R,
}

impl<R: Copy> Receives<R> {
    pub(crate) fn with_seed(seed: Seed) -> Self {
        Receives {
            line: Line::new(),
            slab: Slab::new(),
            index: Buckets::default(),
            classes: Vec::new(),
            seed,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.slab.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.slab.len() == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, key: Key, multi: bool, token: R) -> PostId {
        let id = if !self.line.is_empty() {
            self.line.push(key, multi, token)
        } else if self.slab.len() == 0 {
            self.line.start(key, multi, token)
        } else {
            None
        };
        if let Some(id) = id {
            return id;
        }
        // Words, not a reference: the key then need not be in memory if the line takes it.
        self.push_apart(key.lane, key.tag, key.keep, key.ident, multi, token)
    }

    /// As `push`, if the line cannot take it.
    #[inline(never)]
    fn push_apart(
        &mut self,
        lane: u64,
        tag: u64,
        keep: u64,
        ident: u64,
        multi: bool,
        token: R,
    ) -> PostId {
        let key = Key { lane, tag, keep, ident };
        if self.slab.len() == 0 {
            if self.line.grow(&key) {
                return self.push(key, multi, token);
            }
            let mut line = std::mem::replace(&mut self.line, Line::new());
            line.move_all(|key, stamp, multi, token| self.enter(key, stamp, multi, token));
            self.line = line;
        }
        let stamp = self.line.stamp();
        let number = self.enter(&key, stamp, multi, token);
        PostId { number, stamp: stamp as u32 }
    }

    /// Puts a receive into slab and table; returns its number.
    fn enter(&mut self, key: &Key, stamp: u64, multi: bool, token: R) -> u32 {
        let hash = self.seed.hash(key);
        let slab = &self.slab;
        let found = self.index.find(hash, |head| slab.get(head).is_some_and(|o| o.key == *key));
        let prev = self.slab.next();
        let receive = Receive { key: *key, stamp, token, next: NONE, prev, multi };
        let number = self.slab.insert(receive);
        match found {
            Some(Found { head, .. }) => {
                let last = self.set_prev(head, number);
                self.set_next(last, number);
                self.set_prev(number, last);
            }
            None => self.index.add(hash, number),
        }
        let (keep, named) = (key.keep, key.is_named());
        match self.classes.iter_mut().find(|class| class.keep == keep && class.named == named) {
            Some(class) => class.posted += 1,
            None => self.classes.push(Class { keep, named, posted: 1 }),
        }
        number
    }

    #[inline]
    fn set_next(&mut self, number: u32, next: u32) {
        if let Some(receive) = self.slab.get_mut(number) {
            receive.next = next;
        }
    }

    /// Returns what it was.
    #[inline]
    fn set_prev(&mut self, number: u32, prev: u32) -> u32 {
        match self.slab.get_mut(number) {
            Some(receive) => std::mem::replace(&mut receive.prev, prev),
            None => NONE,
        }
    }

    /// Takes the receive posted first among those that fit.
    #[inline]
    pub(crate) fn take(&mut self, envelope: &Envelope) -> Arrival<R> {
        if !self.line.is_empty() {
            self.line.take(envelope)
        } else if self.slab.len() == 0 {
            Arrival::Unmatched
        } else {
            self.take_from_index(envelope)
        }
    }

    #[inline(never)]
    fn take_from_index(&mut self, envelope: &Envelope) -> Arrival<R> {
        let (class, found) = match self.classes[..] {
            [class] => match self.find_in(class, envelope) {
                Some((found, _)) => (0, found),
                None => return Arrival::Unmatched,
            },
            _ => match self.find_earliest(envelope) {
                Some(earliest) => earliest,
                None => return Arrival::Unmatched,
            },
        };
        let Some(receive) = self.slab.get(found.head) else { return Arrival::Unmatched };
        let token = receive.token;
        if !receive.multi {
            let (next, last) = (receive.next, receive.prev);
            self.slab.free(found.head);
            self.remove_head(found, next, last);
            self.uncount(class);
        }
        Arrival::Matched(token)
    }

    /// Takes the first of a queue out of the table; `next` and `last` of the same queue follow.
    #[inline]
    fn remove_head(&mut self, found: Found, next: u32, last: u32) {
        if last == found.head {
            self.index.remove(found);
        } else {
            self.index.set_head(found, next);
            self.set_prev(next, last);
        }
    }

    /// Looks into all classes.
    #[inline(never)]
    fn find_earliest(&self, envelope: &Envelope) -> Option<(usize, Found)> {
        let mut best = None;
        let mut earliest = u64::MAX;
        for (number, class) in self.classes.iter().enumerate() {
            if class.posted != 0
                && let Some((found, stamp)) = self.find_in(*class, envelope)
                && stamp < earliest
            {
                best = Some((number, found));
                earliest = stamp;
            }
        }
        best
    }

    /// The receive of a class posted first among those that fit, and its stamp.
    #[inline]
    fn find_in(&self, class: Class, envelope: &Envelope) -> Option<(Found, u64)> {
        let key = Key::of_message(envelope, class.named, class.keep);
        let mut stamp = 0;
        let found = self.index.find(self.seed.hash(&key), |head| {
            self.slab.get(head).is_some_and(|receive| {
                stamp = receive.stamp;
                receive.key == key
            })
        });
        Some((found?, stamp))
    }

    #[inline]
    fn uncount(&mut self, class: usize) {
        self.classes[class].posted -= 1;
        if self.classes[class].posted == 0 && self.classes.len() > IDLE_CLASSES {
            self.classes.swap_remove(class);
        }
    }

    pub(crate) fn cancel(&mut self, id: PostId) -> Option<R> {
        if self.slab.len() == 0 {
            return self.line.cancel(id);
        }
        let number = self.line.number(id)?;
        if self.slab.get(number)?.stamp as u32 != id.stamp {
            return None;
        }
        let receive = self.slab.remove(number)?;
        self.leave_table(number, &receive);
        Some(receive.token)
    }

    fn leave_table(&mut self, number: u32, &Receive { key, next, prev, .. }: &Receive<R>) {
        if let Some(found) = self.index.find(self.seed.hash(&key), |head| head == number) {
            self.remove_head(found, next, prev);
        } else {
            let slab = &self.slab;
            let same = |head| slab.get(head).is_some_and(|other: &Receive<R>| other.key == key);
            let head = self.index.find(self.seed.hash(&key), same).map_or(NONE, |found| found.head);
            match self.slab.get_mut(head) {
                Some(first) if first.prev == number => first.prev = prev,
                _ => self.join(prev, next),
            }
        }
        let named = key.is_named();
        let class = self.classes.iter().position(|c| c.keep == key.keep && c.named == named);
        if let Some(class) = class {
            self.uncount(class);
        }
    }

    fn join(&mut self, prev: u32, next: u32) {
        self.set_next(prev, next);
        self.set_prev(next, prev);
    }

    /// Removes the receives that name this source, in the order they were posted.
    pub(crate) fn remove_source(&mut self, source: u32) -> Vec<R> {
        let gone = self.report().into_iter().filter(|line| line.posting.source == Some(source));
        gone.filter_map(|line| self.cancel(line.id)).collect()
    }

    /// All receives in the order they were posted.
    pub(crate) fn report(&self) -> Vec<Waiting<R>> {
        if self.slab.len() == 0 {
            let line = self.line.iter();
            return line.map(|(id, posting, token)| Waiting { id, posting, token }).collect();
        }
        let mut all: Vec<_> = self.slab.iter().collect();
        all.sort_unstable_by_key(|(_, receive)| receive.stamp);
        let waiting = |(number, receive): (u32, &Receive<R>)| Waiting {
            id: self.line.id(number, receive.stamp),
            posting: receive.key.posting(receive.multi),
            token: receive.token,
        };
        all.into_iter().map(waiting).collect()
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> [usize; 3] {
        [self.line.memory() + self.slab.memory(), self.index.memory(), self.classes.capacity()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Receives<u32> {
        fn new() -> Self {
            Receives::with_seed(Seed::fixed(0))
        }
    }

    /// Steps that the search for each key takes: at the most, and on average.
    fn steps(receives: &Receives<u32>) -> (usize, f64) {
        let all = receives.index.displacements();
        let sum: usize = all.iter().sum();
        (all.iter().max().copied().unwrap_or(0) + 1, 1.0 + sum as f64 / all.len().max(1) as f64)
    }

    type Pattern = (&'static str, fn(u64) -> Posting);

    /// The patterns of keys that programs have: consecutive, strided, in high bits.
    fn patterns() -> Vec<Pattern> {
        vec![
            ("tags", |n| Posting { source: Some(1), tag: n, ..Posting::default() }),
            ("tags by 4096", |n| Posting { source: Some(1), tag: n << 12, ..Posting::default() }),
            ("tags by 2^32", |n| Posting { source: Some(1), tag: n << 32, ..Posting::default() }),
            ("tags by 2^50", |n| Posting { source: Some(1), tag: n << 50, ..Posting::default() }),
            ("any source", |n| Posting { source: None, tag: n, ..Posting::default() }),
            ("masked", |n| Posting {
                source: Some(1),
                tag: n,
                ignore: !0 << 40,
                ..Posting::default()
            }),
            ("sources", |n| Posting { source: Some(n as u32), ..Posting::default() }),
            ("sources and tags", |n| Posting {
                source: Some(n as u32 % 100),
                tag: n / 100,
                ..Posting::default()
            }),
            ("contexts", |n| Posting { source: Some(1), context: n as u16, ..Posting::default() }),
            ("identifiers", |n| Posting { source: Some(1), ident: n << 32, ..Posting::default() }),
        ]
    }

    #[test]
    fn a_search_is_short_at_any_depth() {
        for (name, posting) in patterns() {
            let mut receives = Receives::new();
            for n in 0..10_000 {
                receives.push(Key::of(&posting(n)), false, n as u32);
                if (n + 1).is_power_of_two() || n == 9_999 {
                    let (most, average) = steps(&receives);
                    assert!(most <= 40, "{name}: {most} steps among {}", n + 1);
                    assert!(n < 255 || average <= 1.8, "{name}: {average} steps among {}", n + 1);
                }
            }
            assert_eq!(receives.classes.len(), 1, "{name}");
        }
    }

    #[test]
    fn receives_with_one_key_are_one_entry() {
        let mut receives = Receives::new();
        let key = Key::of(&Posting::default());
        (0..10_000).for_each(|token| _ = receives.push(key, false, token));
        assert!(receives.index.is_empty() && receives.slab.memory() == 0, "all are in the line");
        // Another key moves them, and is an entry itself until it is cancelled.
        let other = Key { tag: 1, ..key };
        let id = receives.push(other, false, 0);
        assert_eq!(receives.cancel(id), Some(0));
        assert_eq!(receives.index.displacements(), [0]);
    }

    #[test]
    fn classes_out_of_use_are_forgotten() {
        let mut receives = Receives::new();
        let posting = |bits: u32| Posting { ignore: !(u64::MAX << bits), ..Posting::default() };
        let ids: Vec<_> =
            (0..60).map(|bits| receives.push(Key::of(&posting(bits)), false, bits)).collect();
        assert_eq!(receives.classes.len(), 60);
        for (id, token) in ids.into_iter().zip(0..) {
            assert_eq!(receives.cancel(id), Some(token));
        }
        assert_eq!(receives.classes.len(), IDLE_CLASSES);
        assert_eq!(receives.len(), 0);
    }

    #[test]
    fn a_receive_matched_in_steady_state_leaves_nothing() {
        let mut receives = Receives::new();
        let envelope = Envelope::default();
        let key = Key::of(&Posting { source: Some(0), ..Posting::default() });
        let rounds = |receives: &mut Receives<u32>| {
            for round in 0..1000 {
                for token in 0..20 {
                    receives.push(key, false, round * 20 + token);
                }
                for token in 0..20 {
                    assert_eq!(receives.take(&envelope), Arrival::Matched(round * 20 + token));
                }
            }
        };
        rounds(&mut receives);
        assert_eq!((receives.line.memory(), receives.slab.memory(), receives.len()), (32, 0, 0));
        // And in slab and table, where a receive with another key keeps them.
        let other = receives.push(Key { tag: 1, ..key }, false, 0);
        rounds(&mut receives);
        assert_eq!(receives.cancel(other), Some(0));
        assert_eq!((receives.slab.memory(), receives.slab.len()), (21, 0));
        assert!(receives.index.is_empty());
    }
}
