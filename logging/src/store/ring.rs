//! The event ring: events of one rank, written by the rank ([`writer`]), taken out by the event logger ([`reader`];
//! `docs/logging.md`, section 8).
//!
//! Each event has a code. Most say that the event is as expected; the others, and the first of each group
//! of events, that it has a record as well. So most events touch a word that the rank has at hand, and
//! a logger gets those of a group with two lines.
//!
//! **event-ring**, the invariant of its memory ordering. The rank stores a record, if there is one, then
//! the word with the code, then the word `written` (release). The logger loads `written` (acquire) and
//! reads events up to there and no further, so it sees them whole. It stores `taken` (release) after it has
//! copied them to where they are kept; the rank loads `taken` (acquire) before it writes over an event,
//! so nothing is written over that is still to be copied. `stable` is stored (release) by the logger
//! after what it promises has happened. Every word has one writer, and everything is an atomic word:
//! whatever the other side does, there is no data race, only wrong values, and these are found out.
//!
//! **nothing-behind-written**: what is behind `written` means nothing. So a rank that waits may store the code
//! of the event that it expects before that has happened: then only `written` is left to do, and the answer to
//! what has happened leaves earlier.
//!
//! **whole-groups**: events are understood from the first of their group on. So nothing of a group is
//! written over before all of it is taken.
//!
//! **asleep-is-awoken**: no logger sleeps through an event that a rank waits for. A logger stores 1 in `asleep` of all its rings,
//! then looks whether there is something new, and only then sleeps. A rank whose event is not stable has stored `written`
//! before it looks at `asleep`, with a fence between the two on both sides: one of them sees what the other has stored. If it
//! finds 1 it stores 0 and wakes the logger. The word has two writers: what a logger and a rank that wake at the same time
//! store is 0 both times.
//!
//! **every-copy**: several loggers may each keep a copy. Each has its own `taken` and `stable`, and for
//! the rank the least of them counts.

mod code;
mod error;
mod reader;
mod shape;
mod writer;

pub use crate::event::Full;
pub use error::RingError;
pub use reader::RingReader;
pub use shape::{Durability, MAX_COPIES, RingShape};
pub use writer::RingWriter;

use super::sync::{AtomicU64, Ordering};
use crate::causal::Counters;
use shape::{LEFT, SENT, STABLE, WORDS, WRITTEN};

/// Memory seen as atomic words, numbered from 0.
pub trait Words {
    /// How many there are.
    fn count(&self) -> usize;

    /// One of them.
    ///
    /// # Panics
    /// If there is no such word.
    fn word(&self, at: usize) -> &AtomicU64;

    /// Four of them, from this one on.
    ///
    /// # Panics
    /// If one of them is not there.
    fn four(&self, at: usize) -> [&AtomicU64; WORDS];

    /// Begins to fetch a word that will be stored soon.
    fn fetch(&self, _at: usize) {}

    /// Begins to fetch a word that will be read soon.
    fn fetch_to_read(&self, _at: usize) {}

    /// Wakes whoever sleeps until this word changes.
    fn wake(&self, _at: usize) {}
}

/// Codes that are fetched ahead: a line.
const CODES_AHEAD: u64 = 32;

/// Of the rank of a ring: the incarnations of all ranks, added up, when it was done with them
/// ([`RingWriter::leave`]); `None` as long as it is not.
pub fn left(memory: &impl Words) -> Option<u64> {
    memory.word(LEFT).load(Ordering::Acquire).checked_sub(1)
}

/// Of the rank of a ring: what causal logging has sent with its messages, once it is done
/// ([`RingWriter::publish`]).
pub fn counters(memory: &impl Words) -> Counters {
    let word = |k: usize| memory.word(SENT + k).load(Ordering::Acquire);
    Counters { messages: word(0), created: word(1), piggybacked: word(2) }
}

/// The ring of another member of the set, for the gate: how much is written, and how much is stable.
/// Its words are believed: members of a set stand and fall together.
#[derive(Debug)]
pub struct RingView<W> {
    memory: W,
    shape: RingShape,
}

impl<W: Words> RingView<W> {
    /// Looks at a ring.
    ///
    /// # Errors
    /// [`RingError::Header`] when this is another ring than it should be.
    pub fn attach(memory: W, shape: RingShape) -> Result<Self, RingError> {
        shape.check(&memory)?;
        Ok(RingView { memory, shape })
    }

    /// The clock of the last event that its rank has written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.memory.word(WRITTEN).load(Ordering::Acquire)
    }

    /// The events up to this clock survive what they are to survive.
    #[inline]
    pub fn stable(&self) -> u64 {
        match self.shape.durability {
            Durability::Process => self.written(),
            _ => self.acknowledged(),
        }
    }

    /// The events up to this clock are kept by the logger, whatever they are to survive.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.shape.least(&self.memory, STABLE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
