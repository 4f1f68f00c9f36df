//! The receives that wait.
//!
//! Receives that differ only in source, tag and identifier form a *class*: they name a source or
//! not, and ignore the same bits of the tag. Within a class a message can fit only one key, so an
//! arrival looks once into each class that has anything posted, and of what it finds the one posted
//! first wins. (Tuple space search: Srinivasan, Suri, Varghese, Packet classification using tuple
//! space search, SIGCOMM 1999.) A program rarely uses more than two or three classes.
//!
//! A receive posted when nothing else is stays outside of the table until it gets company.

use crate::index::{Found, Index, hash};
use crate::names::{any_lane, lane};
use crate::slab::{NONE, Slab};
use crate::{Envelope, PostId, Posting};

#[derive(Debug)]
struct Receive<R> {
    lane: u64,
    /// Without the ignored bits.
    tag: u64,
    keep: u64,
    ident: u64,
    stamp: u64,
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
    slab: Slab<Receive<R>>,
    /// The receive that is not in the index, if there is one: the only one.
    solo: u32,
    index: Index,
    classes: Vec<Class>,
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
            slab: Slab::new(),
            solo: NONE,
            index: Index::default(),
            classes: Vec::new(),
            stamp: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, posting: &Posting, token: R) -> PostId {
        let stamp = self.stamp;
        self.stamp += 1;
        let keep = !posting.ignore;
        let alone = self.slab.len() == 0;
        let number = self.slab.insert(Receive {
            lane: posting.lane(),
            tag: posting.tag & keep,
            keep,
            ident: posting.ident,
            stamp,
            token,
            multi: posting.multi,
        });
        if alone {
            self.solo = number;
        } else {
            self.enter_behind_solo(number);
        }
        PostId { number, stamp: stamp as u32 }
    }

    fn enter_behind_solo(&mut self, number: u32) {
        if self.solo != NONE {
            self.enter(self.solo);
            self.solo = NONE;
        }
        self.enter(number);
    }

    /// Puts a receive into the index and counts it in its class.
    fn enter(&mut self, number: u32) {
        let Some(receive) = self.slab.get(number) else { return };
        let &Receive { lane, tag, keep, ident, .. } = receive;
        let slab = &self.slab;
        self.index.push(hash(lane, tag, ident, keep), number, |other| {
            slab.get(other).is_some_and(|other| other.has_key(lane, tag, ident, keep))
        });
        let named = lane != any_lane(lane as u16);
        match self.classes.iter_mut().find(|class| class.keep == keep && class.named == named) {
            Some(class) => class.posted += 1,
            None => self.classes.push(Class { keep, named, posted: 1 }),
        }
    }

    /// Takes the receive posted first among those that fit.
    #[inline]
    pub(crate) fn take(&mut self, envelope: &Envelope) -> Option<R> {
        if self.solo != NONE {
            return self.take_solo(envelope);
        }
        if self.slab.len() == 0 {
            return None;
        }
        self.take_from_index(envelope)
    }

    #[inline]
    fn take_solo(&mut self, envelope: &Envelope) -> Option<R> {
        let receive = self.slab.get(self.solo)?;
        let named = lane(envelope.source, envelope.context);
        let fits = envelope.tag & receive.keep == receive.tag
            && (receive.lane == named || receive.lane == any_lane(envelope.context))
            && receive.ident == envelope.ident;
        if !fits {
            return None;
        }
        let token = receive.token;
        if !receive.multi {
            self.slab.remove(self.solo);
            self.solo = NONE;
        }
        Some(token)
    }

    fn take_from_index(&mut self, envelope: &Envelope) -> Option<R> {
        let mut best: Option<(usize, Found, u64)> = None;
        for (number, class) in self.classes.iter().enumerate() {
            if class.posted == 0 {
                continue;
            }
            let lane = match class.named {
                true => lane(envelope.source, envelope.context),
                false => any_lane(envelope.context),
            };
            let (tag, ident, keep) = (envelope.tag & class.keep, envelope.ident, class.keep);
            let mut stamp = 0;
            let found = self.index.find(hash(lane, tag, ident, keep), |head| {
                self.slab.get(head).is_some_and(|receive| {
                    stamp = receive.stamp;
                    receive.has_key(lane, tag, ident, keep)
                })
            });
            if let Some(found) = found
                && best.is_none_or(|(_, _, earliest)| stamp < earliest)
            {
                best = Some((number, found, stamp));
            }
        }
        let (class, found, _) = best?;
        let &Receive { token, multi, .. } = self.slab.get(found.head)?;
        if !multi {
            self.index.remove_found(found);
            self.slab.remove(found.head);
            self.uncount(class);
        }
        Some(token)
    }

    pub(crate) fn cancel(&mut self, id: PostId) -> Option<R> {
        let receive = self.slab.get(id.number)?;
        if receive.stamp as u32 != id.stamp {
            return None;
        }
        self.remove(id.number)
    }

    fn remove(&mut self, number: u32) -> Option<R> {
        let receive = self.slab.remove(number)?;
        if self.solo == number {
            self.solo = NONE;
            return Some(receive.token);
        }
        self.index.remove(number);
        let named = receive.is_named();
        let class = self.classes.iter().position(|c| c.keep == receive.keep && c.named == named);
        self.uncount(class?);
        Some(receive.token)
    }

    #[inline]
    fn uncount(&mut self, class: usize) {
        self.classes[class].posted -= 1;
        if self.classes[class].posted == 0 && self.classes.len() > IDLE_CLASSES {
            self.classes.swap_remove(class);
        }
    }

    /// Removes the receives that name this source, in the order they were posted.
    pub(crate) fn remove_source(&mut self, source: u32) -> Vec<R> {
        let mut gone: Vec<(u64, u32)> = (self.slab.iter())
            .filter(|(_, receive)| receive.posting().source == Some(source))
            .map(|(number, receive)| (receive.stamp, number))
            .collect();
        gone.sort_unstable();
        gone.into_iter().filter_map(|(_, number)| self.remove(number)).collect()
    }

    /// All receives in the order they were posted.
    pub(crate) fn report(&self) -> Vec<Waiting<R>> {
        let mut all: Vec<_> = self.slab.iter().collect();
        all.sort_unstable_by_key(|(_, receive)| receive.stamp);
        let line = |(number, receive): (u32, &Receive<R>)| Waiting {
            id: PostId { number, stamp: receive.stamp as u32 },
            posting: receive.posting(),
            token: receive.token,
        };
        all.into_iter().map(line).collect()
    }

    pub(crate) fn trim(&mut self) {
        self.slab.trim();
        self.index.trim(self.slab.end());
        self.classes.retain(|class| class.posted > 0);
        self.classes.shrink_to_fit();
    }
}

impl<R> Receive<R> {
    #[inline]
    fn has_key(&self, lane: u64, tag: u64, ident: u64, keep: u64) -> bool {
        self.tag == tag && self.lane == lane && self.ident == ident && self.keep == keep
    }

    fn is_named(&self) -> bool {
        self.lane != any_lane(self.lane as u16)
    }

    fn posting(&self) -> Posting {
        Posting {
            source: self.is_named().then_some((self.lane >> 16) as u32),
            context: self.lane as u16,
            tag: self.tag,
            ignore: !self.keep,
            ident: self.ident,
            multi: self.multi,
        }
    }
}
