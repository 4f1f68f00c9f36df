//! The event ring: records of one rank, written by the rank, taken out by the event logger
//! (`docs/logging.md`, section 8).
//!
//! **event-ring**, the invariant of its memory ordering. The rank stores a record, its clock last
//! (release), then the word `written` (release). The logger loads `written` (acquire) and reads
//! records up to there and no further, so it sees them whole. It stores `taken` (release) after it has
//! copied them to where they are kept; the rank loads `taken` (acquire) before it writes over a record,
//! so nothing is written over that is still to be copied. `stable` is stored (release) by the logger
//! after what it promises has happened. Every word has one writer, and everything is an atomic word:
//! whatever the other side does, there is no data race, only wrong values, and these are found out.
//!
//! **every-copy**: several loggers may each keep a copy. Each has its own `taken` and `stable`, and for
//! the rank the least of them counts.

mod error;
mod shape;

pub use error::{Full, RingError};
pub use shape::{Durability, MOST_COPIES, RingShape};

use super::sync::{AtomicU64, Ordering};
use crate::Event;
use crate::causal::Counters;
use crate::event::{RECORD, bytes};
use shape::{LEFT, LINE, SENT, STABLE, TAKEN, WORDS, WRITTEN};

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
}

/// Records that are fetched ahead: two lines.
const AHEAD: u64 = 4;
/// The same, of the logger.
const READ_AHEAD: u64 = 16;

/// The rank's side of a ring. There is one at a time.
#[derive(Debug)]
pub struct RingWriter<W> {
    memory: W,
    shape: RingShape,
    written: u64,
    /// The last clock that there is room for, as far as we have looked.
    room: u64,
}

impl<W: Words> RingWriter<W> {
    /// Goes on behind what this rank's earlier incarnations have written, which must be dead.
    ///
    /// # Errors
    /// [`RingError::Header`] when this is another ring than it should be; [`RingError::Position`]
    /// when its words contradict each other.
    pub fn attach(memory: W, shape: RingShape) -> Result<Self, RingError> {
        shape.check(&memory)?;
        let taken = shape.least(&memory, TAKEN);
        let written = memory.word(WRITTEN).load(Ordering::Acquire);
        // In a new ring over a store that is not new, the logger says where to begin.
        let written = if written == 0 { taken } else { written };
        check_taken(&shape, taken, written)?;
        memory.word(WRITTEN).store(written, Ordering::Release);
        memory.word(LEFT).store(0, Ordering::Release);
        Ok(RingWriter { memory, written, room: taken + shape.capacity, shape })
    }

    /// Writes an event and returns its clock. No system call, no allocation.
    ///
    /// # Errors
    /// [`Full`], and nothing is written: the rank waits and tries again.
    #[inline(always)]
    pub fn push(&mut self, event: &Event) -> Result<u64, Full> {
        let clock = self.written + 1;
        if clock > self.room && !self.look_for_room() {
            return Err(Full);
        }
        let record = event.words(self.shape.rank, clock);
        let slot = self.memory.four(self.shape.place(clock));
        slot[1].store(record[1], Ordering::Relaxed);
        slot[2].store(record[2], Ordering::Relaxed);
        slot[3].store(record[3], Ordering::Relaxed);
        slot[0].store(record[0], Ordering::Release);
        self.memory.word(WRITTEN).store(clock, Ordering::Release);
        // Else whatever is sent next would wait behind these stores for a line that was last used a
        // whole ring ago.
        self.memory.fetch(self.shape.place(clock + AHEAD));
        self.written = clock;
        Ok(clock)
    }

    /// Says that this rank was done with all others: they were at these incarnations, it itself
    /// included, which are added up.
    pub fn leave(&mut self, incarnations: u64) {
        self.memory.word(LEFT).store(incarnations.saturating_add(1), Ordering::Release);
    }

    /// Tells what causal logging has sent with the messages of this rank, which is done.
    pub fn tell(&mut self, counters: &Counters) {
        let Counters { messages, created, piggybacked } = *counters;
        for (k, count) in [messages, created, piggybacked].into_iter().enumerate() {
            self.memory.word(SENT + k).store(count, Ordering::Release);
        }
    }

    /// The clock of the last event written: 0 for none.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Records that there is room for.
    pub fn capacity(&self) -> u64 {
        self.shape.capacity
    }

    /// The events up to this clock survive what they are to survive.
    ///
    /// # Errors
    /// [`RingError::Position`] when the loggers' words cannot be right.
    #[inline]
    pub fn stable(&self) -> Result<u64, RingError> {
        if self.shape.durability == Durability::Process {
            return Ok(self.written);
        }
        let got = self.shape.least(&self.memory, STABLE);
        if got > self.written {
            let (rank, most) = (self.shape.rank, self.written);
            return Err(RingError::Position { rank, word: "stable", least: 0, most, got });
        }
        Ok(got)
    }

    /// The events up to this clock are kept by the logger, whatever they are to survive. A word that
    /// cannot be right says nothing.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        let got = self.shape.least(&self.memory, STABLE);
        if got <= self.written { got } else { 0 }
    }

    /// A word that cannot be right gives no room: nothing is ever written over that may be needed.
    #[cold]
    fn look_for_room(&mut self) -> bool {
        let taken = self.shape.least(&self.memory, TAKEN);
        if taken <= self.written {
            self.room = self.room.max(taken + self.shape.capacity);
        }
        self.room > self.written
    }
}

/// Of the rank of a ring: the incarnations of all ranks, added up, when it was done with them
/// ([`RingWriter::leave`]); `None` as long as it is not.
pub fn left(memory: &impl Words) -> Option<u64> {
    memory.word(LEFT).load(Ordering::Acquire).checked_sub(1)
}

/// Of the rank of a ring: what causal logging has sent with its messages, once it is done
/// ([`RingWriter::tell`]).
pub fn told(memory: &impl Words) -> Counters {
    let word = |k: usize| memory.word(SENT + k).load(Ordering::Acquire);
    Counters { messages: word(0), created: word(1), piggybacked: word(2) }
}

fn check_taken(shape: &RingShape, taken: u64, written: u64) -> Result<(), RingError> {
    let least = written.saturating_sub(shape.capacity);
    if taken < least || taken > written {
        let rank = shape.rank;
        return Err(RingError::Position { rank, word: "taken", least, most: written, got: taken });
    }
    Ok(())
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

/// A logger's side of a ring. What it reads is copied first and looked at then.
#[derive(Debug)]
pub struct RingReader<W> {
    memory: W,
    shape: RingShape,
    /// Which copy it keeps.
    copy: u32,
    taken: u64,
}

impl<W: Words> RingReader<W> {
    /// Goes on where the logger before it has stopped that kept this copy: from 0, and 0 where there is
    /// only one.
    ///
    /// # Errors
    /// [`RingError::Header`] when this is another ring than it should be; [`RingError::Position`]
    /// when its words contradict each other.
    ///
    /// # Panics
    /// If there is no such copy.
    pub fn attach(memory: W, shape: RingShape, copy: u32) -> Result<Self, RingError> {
        shape.check(&memory)?;
        assert!(copy < shape.durability.copies(), "copy {copy} of {:?}", shape.durability);
        let mut reader = RingReader { memory, shape, copy, taken: 0 };
        reader.taken = reader.own(TAKEN).load(Ordering::Acquire);
        reader.written()?;
        Ok(reader)
    }

    /// What the ring is like.
    pub fn shape(&self) -> &RingShape {
        &self.shape
    }

    /// The records up to this clock need not be in the ring any more.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The last clock that was ever announced as stable by this copy.
    pub fn promised(&self) -> u64 {
        self.taken.max(self.own(STABLE).load(Ordering::Acquire))
    }

    /// The clock of the last record that was written, in this ring or before it was made.
    ///
    /// # Errors
    /// [`RingError::Position`] when there cannot be so many.
    pub fn written(&self) -> Result<u64, RingError> {
        Ok(self.found()?.max(self.taken))
    }

    /// Whether no rank has attached to the ring yet, and no logger has said where to begin.
    pub fn is_new(&self) -> Result<bool, RingError> {
        Ok(self.found()? == 0 && self.taken == 0)
    }

    fn found(&self) -> Result<u64, RingError> {
        let got = self.memory.word(WRITTEN).load(Ordering::Acquire);
        let (least, most) = (self.taken, self.taken.saturating_add(self.shape.capacity));
        if got != 0 && !(least..=most).contains(&got) {
            let rank = self.shape.rank;
            return Err(RingError::Position { rank, word: "written", least, most, got });
        }
        Ok(got)
    }

    /// Appends the records after `clock`, up to `last`, to `into`. [`written`](Self::written) must have
    /// said that so many are there.
    ///
    /// # Errors
    /// [`RingError`] naming the record that is damaged. The records before it were appended.
    ///
    /// # Panics
    /// If `clock` is less than [`taken`](Self::taken): those may be written over.
    pub fn read(&self, clock: u64, last: u64, into: &mut Vec<u8>) -> Result<(), RingError> {
        assert!(clock >= self.taken, "record {clock} was taken, up to {}", self.taken);
        let rank = self.shape.rank;
        into.reserve((last - clock) as usize * RECORD);
        for clock in clock + 1..=last {
            // The rank has them in its cache, and a line takes as long as several records.
            self.memory.fetch_to_read(self.shape.place(clock + READ_AHEAD));
            let slot = self.memory.four(self.shape.place(clock));
            let record = slot.map(|word| word.load(Ordering::Relaxed));
            match Event::check(rank, &record) {
                Ok(got) if got == clock => into.extend_from_slice(&bytes(record)),
                Ok(got) => return Err(RingError::Misplaced { rank, clock, got }),
                Err(what) => return Err(RingError::Record { rank, clock, what }),
            }
        }
        Ok(())
    }

    /// The records up to this clock are kept elsewhere: they are stable, and their room is free.
    pub fn keep(&mut self, clock: u64) {
        self.own(STABLE).store(clock, Ordering::Release);
        self.own(TAKEN).store(clock, Ordering::Release);
        self.taken = clock;
    }

    /// A word that this logger alone writes.
    fn own(&self, word: usize) -> &AtomicU64 {
        self.memory.word(word + LINE * self.copy as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
