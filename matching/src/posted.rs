//! The receives that wait.
//!
//! Receives that differ only in source, tag and identifier form a *class*: they name a source or
//! not, and ignore the same bits of the tag. Within a class a message can fit only one key, so an
//! arrival looks once into each class that has anything posted, and of what it finds the one posted
//! first wins. (Tuple space search: Srinivasan, Suri, Varghese, Packet classification using tuple
//! space search, SIGCOMM 1999.) A program rarely uses more than two or three classes.
//!
//! A receive posted when nothing else is stays outside of the table until it gets company.

use crate::index::{Found, Index};
use crate::names::Key;
use crate::slab::Slab;
use crate::{Arrival, Envelope, PostId, Posting};

#[derive(Debug)]
struct Receive<R> {
    key: Key,
    stamp: u64,
    token: R,
    multi: bool,
}

#[derive(Debug)]
struct Solo<R> {
    key: Key,
    token: R,
    multi: bool,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    keep: u64,
    named: bool,
    posted: usize,
}

/// So many classes without any receive are kept, so that a class used now and then is not made anew
/// each time; looking at an idle class is one comparison.
const IDLE_CLASSES: usize = 4;

#[derive(Debug)]
pub(crate) struct Receives<R> {
    /// The only receive, if it was posted when there was no other; then the rest is empty. It is
    /// also the last one posted, so its stamp is known. Its number is the one that it gets when it
    /// is moved to the slab.
    solo: Option<Solo<R>>,
    slab: Slab<Receive<R>>,
    index: Index,
    classes: Vec<Class>,
    /// Of the next receive.
    stamp: u64,
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
    pub(crate) fn new() -> Self {
        Receives {
            solo: None,
            slab: Slab::new(),
            index: Index::default(),
            classes: Vec::new(),
            stamp: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len() + usize::from(self.solo.is_some())
    }

    #[inline]
    pub(crate) fn push(&mut self, key: Key, multi: bool, token: R) -> PostId {
        if self.solo.is_some() {
            self.move_solo();
        }
        let id = PostId { number: self.slab.next(), stamp: self.stamp as u32 };
        self.stamp += 1;
        self.solo = Some(Solo { key, token, multi });
        if self.slab.len() != 0 {
            self.move_solo();
        }
        id
    }

    /// Moves the receive in `solo` into slab and index, and counts it in its class.
    #[inline(never)]
    fn move_solo(&mut self) {
        let Some(Solo { key, token, multi }) = self.solo.take() else { return };
        let number = self.slab.insert(Receive { key, stamp: self.stamp - 1, token, multi });
        let slab = &self.slab;
        self.index.push(key.hash(), number, |other| slab.get(other).is_some_and(|o| o.key == key));
        let named = key.is_named();
        match self.classes.iter_mut().find(|class| class.keep == key.keep && class.named == named) {
            Some(class) => class.posted += 1,
            None => self.classes.push(Class { keep: key.keep, named, posted: 1 }),
        }
    }

    /// Takes the receive posted first among those that fit.
    #[inline]
    pub(crate) fn take(&mut self, envelope: &Envelope) -> Arrival<R> {
        if let Some(solo) = &self.solo {
            if !solo.key.takes(envelope) {
                return Arrival::Unmatched;
            }
            let token = solo.token;
            if !solo.multi {
                self.solo = None;
            }
            return Arrival::Matched(token);
        }
        if self.slab.len() == 0 {
            return Arrival::Unmatched;
        }
        self.take_from_index(envelope)
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
            self.index.remove_found(found);
            self.slab.remove(found.head);
            self.uncount(class);
        }
        Arrival::Matched(token)
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
        let found = self.index.find(key.hash(), |head| {
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
        if self.solo.is_some() {
            let is_solo = (self.stamp - 1) as u32 == id.stamp;
            return self.solo.take_if(|_| is_solo).map(|solo| solo.token);
        }
        if self.slab.get(id.number)?.stamp as u32 != id.stamp {
            return None;
        }
        self.remove(id.number)
    }

    fn remove(&mut self, number: u32) -> Option<R> {
        let Receive { key, token, .. } = self.slab.remove(number)?;
        self.index.remove(number);
        let named = key.is_named();
        let class = self.classes.iter().position(|c| c.keep == key.keep && c.named == named);
        self.uncount(class?);
        Some(token)
    }

    /// Removes the receives that name this source, in the order they were posted.
    pub(crate) fn remove_source(&mut self, source: u32) -> Vec<R> {
        let gone = self.report().into_iter().filter(|line| line.posting.source == Some(source));
        gone.filter_map(|line| self.cancel(line.id)).collect()
    }

    /// All receives in the order they were posted.
    pub(crate) fn report(&self) -> Vec<Waiting<R>> {
        let line = |number, stamp, key: &Key, token, multi| Waiting {
            id: PostId { number, stamp: stamp as u32 },
            posting: key.posting(multi),
            token,
        };
        if let Some(solo) = &self.solo {
            return vec![line(self.slab.next(), self.stamp - 1, &solo.key, solo.token, solo.multi)];
        }
        let mut all: Vec<_> = self.slab.iter().collect();
        all.sort_unstable_by_key(|(_, receive)| receive.stamp);
        let lines = all.into_iter().map(|(n, r)| line(n, r.stamp, &r.key, r.token, r.multi));
        lines.collect()
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> [usize; 3] {
        [self.slab.memory(), self.index.memory(), self.classes.capacity()]
    }

    pub(crate) fn trim(&mut self) {
        self.move_solo();
        self.slab.trim();
        self.index.trim(self.slab.end());
        self.classes.retain(|class| class.posted > 0);
        self.classes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for round in 0..1000 {
            for token in 0..20 {
                receives.push(key, false, round * 20 + token);
            }
            for token in 0..20 {
                assert_eq!(receives.take(&envelope), Arrival::Matched(round * 20 + token));
            }
        }
        assert_eq!((receives.slab.end(), receives.slab.len()), (20, 0));
        assert!(receives.index.is_empty());
    }
}
