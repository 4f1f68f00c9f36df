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
        let mut best: Option<(usize, Found)> = None;
        let mut earliest = u64::MAX;
        for (number, class) in self.classes.iter().enumerate() {
            if class.posted == 0 {
                continue;
            }
            let key = Key::of_message(envelope, class.named, class.keep);
            let mut stamp = 0;
            let found = self.index.find(key.hash(), |head| {
                self.slab.get(head).is_some_and(|receive| {
                    stamp = receive.stamp;
                    receive.key == key
                })
            });
            if let Some(found) = found
                && stamp < earliest
            {
                best = Some((number, found));
                earliest = stamp;
            }
        }
        let Some((class, found)) = best else { return Arrival::Unmatched };
        let Some(&Receive { token, multi, .. }) = self.slab.get(found.head) else {
            return Arrival::Unmatched;
        };
        if !multi {
            self.index.remove_found(found);
            self.slab.remove(found.head);
            self.uncount(class);
        }
        Arrival::Matched(token)
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

    pub(crate) fn trim(&mut self) {
        self.move_solo();
        self.slab.trim();
        self.index.trim(self.slab.end());
        self.classes.retain(|class| class.posted > 0);
        self.classes.shrink_to_fit();
    }
}
