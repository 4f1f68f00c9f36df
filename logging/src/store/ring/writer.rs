//! The rank's side of the event ring.

use super::code::{BITS, PER_WORD, STEP, begin, code};
use super::shape::{ASLEEP, LEFT, LINE, Layout, SENT, STABLE, TAKEN, WRITTEN};
use super::{CODES_AHEAD, Durability, RingError, RingShape, Words};
use crate::Event;
use crate::causal::Counters;
use crate::event::{Full, words_of};
use crate::store::batch::{EventCode, Expected, RECORDED};
use crate::store::sync::{Ordering, fence};

/// Records that are fetched ahead where one follows the other: two lines.
const AHEAD: u64 = 4;

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
    /// The event; [`Expected::NOTHING`], which is none: there is no code ahead.
    event: Expected,
    polls: u32,
    flags: u8,
    /// What is expected after it, and the word with its code.
    next: Expected,
    codes: u64,
}

impl<W: Words> RingWriter<W> {
    /// Resumes behind what this rank's earlier incarnations have written, which must be dead.
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
        // A killed incarnation may have begun the next.
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
        let (words, polls) = event.to_words();
        if self.ready.event.is(words) && self.ready.polls == polls {
            self.ready.event = Expected::NOTHING;
            self.memory.word(WRITTEN).store(clock, Ordering::Release);
            self.written = clock;
            return Ok(clock);
        }
        self.settle();
        let mut says = self.expected.says(event);
        if says == RECORDED || clock > self.limit {
            self.record(words, polls, clock)?;
            says = RECORDED;
        }
        self.expected = Expected::after(event);
        self.codes = self.store_code(clock, says);
        self.begin += STEP;
        self.memory.word(WRITTEN).store(clock, Ordering::Release);
        (self.written, self.settled) = (clock, clock);
        Ok(clock)
    }

    /// Gets ready for the event that is expected next, after `polls` polls, with these flags: for who has
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
        self.ready =
            Ready { event: Expected::from_words(event.to_words().0), polls, flags, next, codes };
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
    fn record(&mut self, words: [u64; 2], polls: u32, clock: u64) -> Result<(), Full> {
        if clock > self.room && !self.look_for_room() {
            return Err(Full);
        }
        let RingWriter { memory, shape, layout, .. } = self;
        let record = words_of(shape.rank, clock, words, polls);
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

    /// Publishes what causal logging has sent with the messages of this rank.
    pub fn publish(&mut self, counters: &Counters) {
        let Counters { messages, created, piggybacked } = *counters;
        for (k, count) in [messages, created, piggybacked].into_iter().enumerate() {
            self.memory.word(SENT + k).store(count, Ordering::Release);
        }
    }

    /// Wakes the loggers that sleep: this rank waits for events that are not stable (*asleep-is-awoken*).
    #[cold]
    pub fn wake_loggers(&self) {
        fence(Ordering::SeqCst);
        for copy in 0..self.shape.durability.copies() as usize {
            let at = ASLEEP + LINE * copy;
            let asleep = self.memory.word(at);
            if asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0 {
                self.memory.wake(at);
            }
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

fn check_taken(shape: &RingShape, taken: u64, written: u64) -> Result<(), RingError> {
    let least = written.saturating_sub(shape.capacity);
    if taken < least || taken > written {
        let rank = shape.rank;
        return Err(RingError::Position { rank, word: "taken", least, most: written, got: taken });
    }
    Ok(())
}
