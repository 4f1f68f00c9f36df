//! The messages that nobody waited for.
//!
//! They stand in a list in the order of their arrival. As long as a search finds what it wants near
//! the front, or the list is short, that is all. A search that has to go further makes an index for
//! its class of patterns (a source or any, and these bits of the tag ignored), which is kept up
//! until the store is empty; so each further search of that class takes constant time, wildcards
//! included. The number of indexes is bounded, since each costs time whenever a message comes and
//! goes; patterns of further classes walk the list.

use crate::hash::Seed;
use crate::index::Index;
use crate::names::Key;
use crate::pieces::Pieces;
use crate::slab::NONE;
use crate::{Envelope, MessageId};

#[derive(Debug)]
struct Message<U> {
    envelope: Envelope,
    payload: U,
    stamp: u64,
    next: u32,
    prev: u32,
    claimed: bool,
}

#[derive(Debug)]
struct ClassIndex {
    named: bool,
    keep: u64,
    index: Index,
    /// The number of the search that used it last.
    used: u64,
}

/// How far a search without an index goes before it makes one.
const WALK: usize = 16;
const INDEXES: usize = 4;

#[derive(Debug)]
pub(crate) struct Unexpected<U> {
    /// Also holds the claimed messages, which are in no list and no index.
    messages: Pieces<Message<U>>,
    first: u32,
    last: u32,
    waiting: usize,
    claimed: usize,
    bytes: u64,
    stamp: u64,
    searches: u64,
    indexes: Vec<ClassIndex>,
    /// Empty, with memory to use again.
    spare: Vec<Index>,
    seed: Seed,
}

impl<U> Unexpected<U> {
    /// Bytes of a message.
    pub(crate) const MESSAGE_BYTES: usize = Pieces::<Message<U>>::SLOT_BYTES;
    /// Bytes of a message in an index, at the most.
    pub(crate) const INDEX_BYTES: usize = Index::MOST_BYTES;

    pub(crate) fn with_seed(seed: Seed) -> Self {
        Unexpected {
            messages: Pieces::new(),
            first: NONE,
            last: NONE,
            waiting: 0,
            claimed: 0,
            bytes: 0,
            stamp: 0,
            searches: 0,
            indexes: Vec::new(),
            spare: Vec::new(),
            seed,
        }
    }

    /// Messages that a receive could take.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn claimed(&self) -> usize {
        self.claimed
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(crate) fn push(&mut self, envelope: &Envelope, payload: U) -> MessageId {
        let stamp = self.stamp;
        self.stamp += 1;
        self.bytes = self.bytes.wrapping_add(envelope.len);
        let prev = self.last;
        let number = self.messages.insert(Message {
            envelope: *envelope,
            payload,
            stamp,
            next: NONE,
            prev,
            claimed: false,
        });
        self.waiting += 1;
        self.last = number;
        match self.messages.get_mut(prev) {
            Some(before) => before.next = number,
            None => self.first = number,
        }
        for class in &mut self.indexes {
            class.enter(self.seed, &self.messages, number, envelope);
        }
        MessageId { number, stamp: stamp as u32 }
    }

    /// As [`push`](Self::push), hidden from all searches.
    pub(crate) fn push_claimed(&mut self, envelope: &Envelope, payload: U) -> MessageId {
        let id = self.push(envelope, payload);
        self.claim(id.number);
        id
    }

    pub(crate) fn message_mut(&mut self, id: MessageId) -> Option<(&Envelope, &mut U)> {
        let Message { envelope, payload, stamp, .. } = self.messages.get_mut(id.number)?;
        (*stamp as u32 == id.stamp).then_some((&*envelope, payload))
    }

    /// The first message that fits.
    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<u32> {
        if self.indexes.is_empty() {
            match self.walk(key, self.first, WALK) {
                Walked::Found(number) => return Some(number),
                Walked::End => return None,
                Walked::Further(_) => {}
            }
        }
        self.find_far(key)
    }

    fn find_far(&mut self, key: &Key) -> Option<u32> {
        self.searches += 1;
        let (named, keep) = (key.is_named(), key.keep);
        let class = match self.indexes.iter().position(|c| c.named == named && c.keep == keep) {
            Some(class) => class,
            None => match self.walk(key, self.first, WALK) {
                Walked::Found(number) => return Some(number),
                Walked::End => return None,
                Walked::Further(at) => match self.make_index(named, keep) {
                    Some(class) => class,
                    None => match self.walk(key, at, usize::MAX) {
                        Walked::Found(number) => return Some(number),
                        Walked::End | Walked::Further(_) => return None,
                    },
                },
            },
        };
        let class = &mut self.indexes[class];
        class.used = self.searches;
        class.find(self.seed, &self.messages, key)
    }

    #[inline]
    fn walk(&self, key: &Key, mut at: u32, steps: usize) -> Walked {
        for _ in 0..steps {
            let Some(message) = self.messages.get(at) else { return Walked::End };
            if key.takes(&message.envelope) {
                return Walked::Found(at);
            }
            at = message.next;
        }
        if at == NONE { Walked::End } else { Walked::Further(at) }
    }

    /// Makes an index, if need be in place of one that was not used for as many searches as there
    /// are messages: the work is then paid for by the searches in between.
    #[cold]
    fn make_index(&mut self, named: bool, keep: u64) -> Option<usize> {
        if self.indexes.len() == INDEXES {
            let (oldest, class) =
                self.indexes.iter().enumerate().min_by_key(|(_, class)| class.used)?;
            if self.searches - class.used <= self.waiting() as u64 {
                return None;
            }
            self.indexes.swap_remove(oldest);
        }
        let index = self.spare.pop().unwrap_or_default();
        let mut class = ClassIndex { named, keep, index, used: self.searches };
        let mut at = self.first;
        while let Some(message) = self.messages.get(at) {
            class.enter(self.seed, &self.messages, at, &message.envelope);
            at = message.next;
        }
        self.indexes.push(class);
        Some(self.indexes.len() - 1)
    }

    pub(crate) fn get(&self, number: u32) -> Option<(MessageId, &Envelope, &U)> {
        let message = self.messages.get(number)?;
        Some((message.id(number), &message.envelope, &message.payload))
    }

    /// Takes a message out, by its number.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> Option<(Envelope, U)> {
        if self.messages.get(number)?.claimed {
            self.claimed -= 1;
        } else {
            self.unlink(number);
        }
        let message = self.messages.remove(number)?;
        self.bytes = self.bytes.wrapping_sub(message.envelope.len);
        if self.waiting() == 0 && !self.indexes.is_empty() {
            self.drop_indexes();
        }
        Some((message.envelope, message.payload))
    }

    /// Takes a message out, claimed or not.
    pub(crate) fn remove_id(&mut self, id: MessageId) -> Option<(Envelope, U)> {
        if self.messages.get(id.number)?.stamp as u32 != id.stamp {
            return None;
        }
        self.remove(id.number)
    }

    /// Hides a message from all searches.
    pub(crate) fn claim(&mut self, number: u32) -> Option<MessageId> {
        self.unlink(number);
        let message = self.messages.get_mut(number)?;
        message.claimed = true;
        let id = message.id(number);
        self.claimed += 1;
        if self.waiting() == 0 {
            self.drop_indexes();
        }
        Some(id)
    }

    fn unlink(&mut self, number: u32) {
        self.waiting -= 1;
        for class in &mut self.indexes {
            class.index.remove(number);
        }
        let Some(&Message { next, prev, .. }) = self.messages.get(number) else { return };
        match self.messages.get_mut(prev) {
            Some(before) => before.next = next,
            None => self.first = next,
        }
        match self.messages.get_mut(next) {
            Some(behind) => behind.prev = prev,
            None => self.last = prev,
        }
    }

    #[cold]
    fn drop_indexes(&mut self) {
        self.spare.extend(self.indexes.drain(..).map(|class| class.index));
    }

    /// The messages that a receive could take, in the order of their arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MessageId, &Envelope, &U)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let message = self.messages.get(at)?;
            let number = std::mem::replace(&mut at, message.next);
            Some((message.id(number), &message.envelope, &message.payload))
        })
    }

    /// The claimed messages, in no order.
    pub(crate) fn iter_claimed(&self) -> impl Iterator<Item = (MessageId, &Envelope, &U)> {
        (self.messages.iter())
            .filter(|(_, message)| message.claimed)
            .map(|(number, message)| (message.id(number), &message.envelope, &message.payload))
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> [usize; 3] {
        let active: usize = self.indexes.iter().map(|class| class.index.memory()).sum();
        let spare: usize = self.spare.iter().map(Index::memory).sum();
        [self.messages.memory(), self.indexes.capacity() + self.spare.capacity(), active + spare]
    }
}

enum Walked {
    Found(u32),
    End,
    /// Not found so far; the search continues here.
    Further(u32),
}

impl<U> Message<U> {
    fn id(&self, number: u32) -> MessageId {
        MessageId { number, stamp: self.stamp as u32 }
    }
}

impl ClassIndex {
    fn enter<U>(
        &mut self,
        seed: Seed,
        messages: &Pieces<Message<U>>,
        number: u32,
        envelope: &Envelope,
    ) {
        let ClassIndex { named, keep, ref mut index, .. } = *self;
        let key = Key::of_message(envelope, named, keep);
        index.push(seed.hash(&key), number, |head| has_key(messages, head, &key));
    }

    fn find<U>(&self, seed: Seed, messages: &Pieces<Message<U>>, key: &Key) -> Option<u32> {
        self.index.find(seed.hash(key), |head| has_key(messages, head, key)).map(|found| found.head)
    }
}

/// Whether a message has the key, in the class of the key.
fn has_key<U>(messages: &Pieces<Message<U>>, number: u32, key: &Key) -> bool {
    messages.get(number).is_some_and(|message| key.takes(&message.envelope))
}

#[cfg(test)]
mod tests;
