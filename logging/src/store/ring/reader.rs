//! The event logger's side of the event ring.

use super::code::{BITS, PER_WORD, begin, decode, decode_word};
use super::shape::{ASLEEP, LINE, Layout, STABLE, TAKEN, WRITTEN};
use super::{CODES_AHEAD, RingError, RingShape, Words};
use crate::Event;
use crate::store::batch::{Batch, EventCode, Expected, RECORDED};
use crate::store::sync::{AtomicU64, Ordering};

/// Codes that a logger fetches ahead, which has nothing else to do.
const READ_AHEAD: u64 = 8 * CODES_AHEAD;

/// A logger's side of a ring. What it reads is copied first and looked at then.
#[derive(Debug)]
pub struct RingReader<W> {
    pub(super) memory: W,
    shape: RingShape,
    layout: Layout,
    /// Which copy it keeps.
    copy: u32,
    taken: u64,
}

impl<W: Words> RingReader<W> {
    /// Resumes where the logger before it has stopped that kept this copy: from 0, and 0 where there is
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
    /// [`RingError::Position`] when there cannot be that many.
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
    /// `clock`. [`written`](Self::written) must have said that they are there.
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

    /// This logger is about to sleep: from now on a rank that waits for its events wakes it.
    pub fn lie_down(&self) {
        self.own(ASLEEP).store(1, Ordering::Relaxed);
    }

    /// It does not sleep any more, or not at all.
    pub fn get_up(&self) {
        self.own(ASLEEP).store(0, Ordering::Relaxed);
    }

    /// Whether events were written that are not taken. After [`lie_down`](Self::lie_down) with a fence behind it: if not,
    /// who writes one and waits for it will find that this logger sleeps (*asleep-is-awoken*).
    pub fn has_new(&self) -> bool {
        let written = self.memory.word(WRITTEN).load(Ordering::Acquire);
        written != 0 && written != self.taken
    }

    /// The word that changes when a rank wakes this logger, which is 1 until then.
    pub fn asleep(&self) -> &AtomicU64 {
        self.own(ASLEEP)
    }

    /// A word that this logger alone writes, but for `asleep`.
    pub(super) fn own(&self, word: usize) -> &AtomicU64 {
        self.memory.word(word + LINE * self.copy as usize)
    }
}

/// The code of an event, in the word that has it.
pub(super) fn of(clock: u64, codes: u64) -> u16 {
    (codes >> (BITS * ((clock - 1) % PER_WORD))) as u16
}
