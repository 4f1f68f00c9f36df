//! The event ring: events of one rank, written by the rank, taken out by the event logger
//! (`docs/logging.md`, section 8).
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
//! **every-copy**: several loggers may each keep a copy. Each has its own `taken` and `stable`, and for
//! the rank the least of them counts.

mod code;
mod error;
mod shape;

pub use crate::event::Full;
pub use error::RingError;
pub use shape::{Durability, MOST_COPIES, RingShape};

use super::batch::{Batch, EventCode, Expected, RECORDED};
use super::sync::{AtomicU64, Ordering};
use crate::Event;
use crate::causal::Counters;
use crate::event::words_of;
use code::{BITS, PER_WORD, STEP, begin, code, decode, decode_word};
use shape::{LEFT, LINE, Layout, SENT, STABLE, TAKEN, WORDS, WRITTEN};

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

/// Records that are fetched ahead where one follows the other: two lines.
const AHEAD: u64 = 4;
/// Codes that are fetched ahead: a line.
const CODES_AHEAD: u64 = 32;
/// The same, of the logger, which has nothing else to do.
const READ_AHEAD: u64 = 8 * CODES_AHEAD;

/// The rank's side of a ring. There is one at a time.
#[derive(Debug)]
#[repr(C)]
pub struct RingWriter<W> {
    // What every event needs lies side by side.
    memory: W,
    written: u64,
    ready: Ready,
    /// The following is as after the event with this clock: the last one, or that before.
    settled: u64,
    expected: Expected,
    /// The last clock of this group, or that there is room for: the next has a record.
    limit: u64,
    /// The word with the code of the last event, where it is, and what is in it up to that.
    at: usize,
    codes: u64,
    /// What the check of the next code begins with.
    begin: u64,
    /// The last clock that there is room for, as far as we have looked.
    room: u64,
    layout: Layout,
    shape: RingShape,
}

/// The event whose code is stored already, if it comes (*nothing-behind-written*).
#[derive(Debug)]
#[repr(C)]
struct Ready {
    /// What it tells; [`Expected::NOTHING`], which no event tells: there is none.
    event: Expected,
    polls: u32,
    flags: u8,
    /// What is expected after it, and the word with its code.
    next: Expected,
    codes: u64,
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
        // Whoever was killed may have begun the next.
        let layout = shape.layout();
        let begun = memory.word(layout.code(written + 1)).load(Ordering::Relaxed);
        let codes = begun & ((1 << (BITS * (written % PER_WORD))) - 1);
        let nothing = Expected::NOTHING;
        Ok(RingWriter {
            memory,
            written,
            ready: Ready { event: nothing, polls: 0, flags: 0, next: nothing, codes: 0 },
            settled: written,
            expected: nothing,
            limit: written,
            at: layout.code(written + 1),
            codes,
            begin: 0,
            room: layout.room(taken),
            layout,
            shape,
        })
    }

    /// Writes an event and returns its clock. No system call, no allocation.
    ///
    /// # Errors
    /// [`Full`], and nothing is written: the rank waits and tries again.
    #[inline(always)]
    pub fn push(&mut self, event: &Event) -> Result<u64, Full> {
        let clock = self.written + 1;
        // Not by reference: that would have it in memory, in parts, from where it is read whole.
        let (told, polls) = event.told();
        if self.ready.event.is(told) && self.ready.polls == polls {
            self.ready.event = Expected::NOTHING;
            self.memory.word(WRITTEN).store(clock, Ordering::Release);
            self.written = clock;
            return Ok(clock);
        }
        self.settle();
        let mut says = self.expected.says(event);
        if says == RECORDED || clock > self.limit {
            self.record(told, polls, clock)?;
            says = RECORDED;
        }
        self.expected = Expected::after(event);
        self.codes = self.store_code(clock, says);
        self.begin += STEP;
        self.memory.word(WRITTEN).store(clock, Ordering::Release);
        (self.written, self.settled) = (clock, clock);
        Ok(clock)
    }

    /// Gets ready for the event that is expected next, after so many polls, with these flags: for who has
    /// nothing else to do. What was made ready before is not any more; where a record is needed, nothing is.
    #[inline]
    pub fn prepare(&mut self, polls: u32, flags: u8) {
        let Ready { event, polls: for_polls, flags: for_flags, .. } = self.ready;
        let is_ready = event != Expected::NOTHING && (for_polls, for_flags) == (polls, flags);
        if !is_ready && self.written < self.limit {
            self.prepare_anew(polls, flags);
        }
    }

    #[inline(never)]
    fn prepare_anew(&mut self, polls: u32, flags: u8) {
        self.settle();
        let clock = self.written + 1;
        let Some(says) = Expected::says_of(polls, flags) else { return };
        let Some(event) = self.expected.event(says) else { return };
        let codes = self.store_code(clock, says);
        let next = Expected::after(&event);
        self.ready = Ready { event: Expected::told(event.told().0), polls, flags, next, codes };
    }

    /// Catches up with an event that was ready and has happened. None is ready any more.
    #[inline(always)]
    fn settle(&mut self) {
        if self.settled != self.written {
            (self.expected, self.codes) = (self.ready.next, self.ready.codes);
            self.begin += STEP;
            self.settled = self.written;
        }
        self.ready.event = Expected::NOTHING;
    }

    /// Stores the code of the event after all that are written, and returns the word that it is in.
    #[inline(always)]
    fn store_code(&mut self, clock: u64, says: EventCode) -> u64 {
        let place = (clock - 1) % PER_WORD;
        if place == 0 {
            // Else whatever is sent next would wait behind these stores for a line that was last used a
            // whole ring ago.
            self.memory.fetch(self.layout.code(clock + CODES_AHEAD));
            (self.at, self.codes) = (self.layout.code(clock), 0);
        }
        let codes = self.codes | code(self.begin, says) << (BITS * place);
        self.memory.word(self.at).store(codes, Ordering::Relaxed);
        codes
    }

    /// Stores the record of an event. From it on those of its group may be as expected.
    #[inline(never)]
    fn record(&mut self, told: [u64; 2], polls: u32, clock: u64) -> Result<(), Full> {
        if clock > self.room && !self.look_for_room() {
            return Err(Full);
        }
        let RingWriter { memory, shape, layout, .. } = self;
        let record = words_of(shape.rank, clock, told, polls);
        let slot = memory.four(layout.record(clock));
        for (word, value) in slot.into_iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        memory.fetch(layout.record(clock + AHEAD));
        memory.fetch(layout.record(clock + layout.group()));
        self.begin = begin(shape.rank, layout, clock);
        self.limit = self.room.min(layout.begin_of_group(clock - 1) + layout.group());
        Ok(())
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

    /// No more events than this are in the ring.
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
            self.room = self.room.max(self.layout.room(taken));
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
    layout: Layout,
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
        let mut reader = RingReader { memory, layout: shape.layout(), shape, copy, taken: 0 };
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

    /// Appends the events after `clock`, up to `last`, to `into`, which is empty or ends with that of
    /// `clock`. [`written`](Self::written) must have said that so many are there.
    ///
    /// # Errors
    /// [`RingError`] naming the event that is damaged. Those before it were appended.
    ///
    /// # Panics
    /// If `clock` is less than [`taken`](Self::taken): those may be written over.
    pub fn read(&self, clock: u64, last: u64, into: &mut Batch) -> Result<(), RingError> {
        assert!(clock >= self.taken, "event {clock} was taken, up to {}", self.taken);
        into.reserve((last - clock) as usize);
        let mut clock = clock;
        if into.is_empty() && clock < last {
            clock += 1;
            into.push(self.event(clock)?);
        }
        while clock < last {
            let at = clock + 1;
            let (group, place) = (self.layout.group(), self.layout.place_in_group(at));
            let codes = self.codes(at);
            if at % PER_WORD == 1 && place + PER_WORD <= group && at + PER_WORD <= last + 1 {
                // The rank has them in its cache.
                self.memory.fetch_to_read(self.layout.code(at + READ_AHEAD));
                if let Some(says) = decode_word(self.begin(at), codes) {
                    into.extend(&says);
                    clock += PER_WORD;
                    continue;
                }
            }
            match self.says(at, codes)? {
                RECORDED => into.push(self.record(at)?),
                says => into.extend(&[says]),
            }
            clock = at;
        }
        Ok(())
    }

    /// An event, by those of its group before it; of these, some may never have been in this ring.
    fn event(&self, clock: u64) -> Result<Event, RingError> {
        let of = |clock: u64, expected: &Expected| {
            let codes = self.codes(clock);
            match self.says(clock, codes)? {
                RECORDED => self.record(clock),
                says => expected.event(says).ok_or(self.damaged(clock, codes)),
            }
        };
        let before = self.layout.begin_of_group(clock - 1) + 1..clock;
        let expected = before.fold(Expected::NOTHING, |expected, clock| {
            of(clock, &expected).map_or(Expected::NOTHING, |event| Expected::after(&event))
        });
        of(clock, &expected)
    }

    /// What the check of the code of an event begins with.
    #[inline]
    fn begin(&self, clock: u64) -> u64 {
        begin(self.shape.rank, &self.layout, clock)
    }

    /// The word with the code of an event.
    fn codes(&self, clock: u64) -> u64 {
        self.memory.word(self.layout.code(clock)).load(Ordering::Relaxed)
    }

    /// What the code of an event says, which is in this word.
    fn says(&self, clock: u64, codes: u64) -> Result<EventCode, RingError> {
        decode(self.begin(clock), of(clock, codes)).ok_or_else(|| self.damaged(clock, codes))
    }

    fn damaged(&self, clock: u64, codes: u64) -> RingError {
        RingError::Code { rank: self.shape.rank, clock, got: of(clock, codes) }
    }

    fn record(&self, clock: u64) -> Result<Event, RingError> {
        let rank = self.shape.rank;
        self.memory.fetch_to_read(self.layout.record(clock + self.layout.group()));
        let record = self.memory.four(self.layout.record(clock));
        let record = record.map(|word| word.load(Ordering::Relaxed));
        match Event::of_words(rank, &record) {
            Ok((got, event)) if got == clock => Ok(event),
            Ok((got, _)) => Err(RingError::Misplaced { rank, clock, got }),
            Err(what) => Err(RingError::Record { rank, clock, what }),
        }
    }

    /// The events up to this clock are kept elsewhere: they are stable, and the room of whole groups of them
    /// is free.
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

/// The code of an event, in the word that has it.
fn of(clock: u64, codes: u64) -> u16 {
    (codes >> (BITS * ((clock - 1) % PER_WORD))) as u16
}

#[cfg(all(test, not(loom)))]
mod tests;
