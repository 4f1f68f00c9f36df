//! What an event ring is like, and where its words lie.

use super::code::PER_WORD;
use super::{RingError, Words};
use crate::event::RECORD;
use crate::store::sync::Ordering;
use crate::{Rank, mutant};

/// First word of a ring.
const MAGIC: u64 = u64::from_le_bytes(*b"TAFFEVRG");
/// Version of the layout.
const VERSION: u32 = 4;

/// The most copies of the records of a rank.
pub const MAX_COPIES: u32 = 8;

/// Where the words lie, counted in words of 8 bytes.
pub(super) const WRITTEN: usize = 16;
/// What the rank says when it is done.
pub(super) const LEFT: usize = 17;
/// What causal logging has sent with the messages of the rank, when it is done: three words.
pub(super) const SENT: usize = 18;
/// Of the first copy; those of the next are a line behind.
pub(super) const TAKEN: usize = 32;
pub(super) const STABLE: usize = 33;
/// 1 while the logger sleeps: set by it, and cleared by a rank that wakes it.
pub(super) const ASLEEP: usize = 34;
pub(super) const LINE: usize = 16;
pub(super) const WORDS: usize = RECORD / 8;

/// Events of a group at the most.
const GROUP: u64 = 128;

/// What events survive once they are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Killed processes. An event is stable as soon as it is in the ring.
    Process,
    /// The end of the node. An event is stable when the logger says so, after it was synced to disk.
    Disk,
    /// All but one of the loggers that each keep a copy. An event is stable when all of them say so.
    Node {
        /// How many, up to [`MAX_COPIES`].
        copies: u32,
    },
}

impl Durability {
    /// How many loggers keep the records, each for itself.
    pub fn copies(self) -> u32 {
        match self {
            Durability::Process | Durability::Disk => 1,
            Durability::Node { copies } => copies,
        }
    }

    fn encode(self) -> u64 {
        let kind = match self {
            Durability::Process => 1,
            Durability::Disk => 2,
            Durability::Node { .. } => 3,
        };
        kind | u64::from(self.copies()) << 32
    }

    fn decode(word: u64) -> Option<Self> {
        let copies = (word >> 32) as u32;
        let all = [Durability::Process, Durability::Disk, Durability::Node { copies }];
        let known = all.into_iter().find(|durability| durability.encode() == word);
        known.filter(|_| (1..=MAX_COPIES).contains(&copies))
    }
}

/// Where in a ring the events are, which have groups: of 128, or so that there are two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The last place for an event: all bits of a place.
    last: u64,
    /// The last word with codes, from 0.
    last_word: u64,
    /// The bits of a place that are one in its group.
    group: u32,
    /// The first word with codes.
    codes: usize,
    /// The first word with records.
    records: usize,
}

impl Layout {
    /// The word with the code of this clock.
    #[inline]
    pub(super) fn code(&self, clock: u64) -> usize {
        self.codes + ((clock.wrapping_sub(1) / PER_WORD) & self.last_word) as usize
    }

    /// The first word of the record of this clock.
    #[inline]
    pub(super) fn record(&self, clock: u64) -> usize {
        self.records + WORDS * (clock.wrapping_sub(1) & self.last) as usize
    }

    /// Events of a group.
    #[inline]
    pub(super) fn group(&self) -> u64 {
        1 << self.group
    }

    /// The place of the event of this clock in its group, from 0.
    #[inline]
    pub(super) fn place_in_group(&self, clock: u64) -> u64 {
        (clock - 1) & (self.group() - 1)
    }

    /// The number of the group of this clock.
    #[inline]
    pub(super) fn group_of(&self, clock: u64) -> u64 {
        (clock - 1) >> self.group
    }

    /// The clock before the first of the group of the event after this clock.
    #[inline]
    pub(super) fn begin_of_group(&self, clock: u64) -> u64 {
        clock & !(self.group() - 1)
    }

    /// The last clock that there is room for when `taken` records are taken.
    #[inline]
    pub(super) fn room(&self, taken: u64) -> u64 {
        self.begin_of_group(taken) + self.last + 1
    }
}

/// What a ring is like: both sides get it from the process that made the ring, and find it in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Whose events these are.
    pub rank: Rank,
    /// Digest of the job's identity.
    pub job: u64,
    /// How many events fit: a power of two.
    pub capacity: u64,
    /// When events are stable.
    pub durability: Durability,
}

impl RingShape {
    /// Bytes of such a ring.
    ///
    /// # Panics
    /// If the capacity is not a power of two, or so large that there is no such memory, or if there are
    /// no copies or more than [`MAX_COPIES`].
    pub fn bytes(&self) -> usize {
        self.words() * 8
    }

    fn words(&self) -> usize {
        assert!(self.capacity.is_power_of_two(), "a ring of {} events", self.capacity);
        assert!(self.capacity <= 1 << 32, "a ring of {} events", self.capacity);
        let copies = self.durability.copies();
        assert!((1..=MAX_COPIES).contains(&copies), "{copies} copies");
        self.layout().records + WORDS * self.capacity as usize
    }

    /// Where in it what is.
    pub(super) fn layout(&self) -> Layout {
        let group = (self.capacity / 2).clamp(1, GROUP);
        let codes = TAKEN + LINE * self.durability.copies() as usize;
        // Those that are in the ring may begin in the midst of a word where a group is less than that.
        let words = (self.capacity / PER_WORD).max(2);
        let records = codes + words as usize;
        let (last, last_word) = (self.capacity - 1, words - 1);
        Layout { last, last_word, group: group.trailing_zeros(), codes, records }
    }

    /// The least of a word that each copy has.
    #[inline]
    pub(super) fn least(&self, memory: &impl Words, word: usize) -> u64 {
        let copies = 0..self.durability.copies() as usize;
        let words = copies.map(|copy| memory.word(word + LINE * copy).load(Ordering::Acquire));
        if word == STABLE && mutant!(OneCopyIsEnough) || word == TAKEN && mutant!(RoomOfOneCopy) {
            return words.max().unwrap_or(0);
        }
        words.min().unwrap_or(0)
    }

    fn header(&self) -> [(&'static str, u64); 5] {
        [
            ("magic", MAGIC),
            ("version and rank", u64::from(VERSION) | u64::from(self.rank) << 32),
            ("capacity", self.capacity),
            ("job", self.job),
            ("durability and copies", self.durability.encode()),
        ]
    }

    /// What the ring in this memory says of itself, for processes that got it from the one that made it. It
    /// is checked when the ring is attached to.
    ///
    /// # Errors
    /// [`RingError::Header`] when there is no ring of this rank.
    pub fn found(memory: &impl Words, rank: Rank) -> Result<RingShape, RingError> {
        let word = |at: usize| match at < memory.count() {
            true => memory.word(at).load(Ordering::Relaxed),
            false => 0,
        };
        let wrong = |field, expected, got| RingError::Header { rank, field, expected, got };
        let durability = Durability::decode(word(4));
        let durability = durability.ok_or(wrong("durability and copies", 1 | 1 << 32, word(4)))?;
        let capacity = word(2);
        if !capacity.is_power_of_two() || capacity > 1 << 32 {
            return Err(wrong("capacity", 1 << 16, capacity));
        }
        let shape = RingShape { rank, job: word(3), capacity, durability };
        shape.check(memory)?;
        Ok(shape)
    }

    /// Makes a ring of memory that is all zeros and that nobody else uses yet.
    ///
    /// # Panics
    /// If the memory is too short.
    pub fn lay_out(&self, memory: &impl Words) {
        assert!(memory.count() >= self.words(), "{} words for a ring", memory.count());
        for (at, (_, value)) in self.header().into_iter().enumerate() {
            memory.word(at).store(value, Ordering::Relaxed);
        }
    }

    pub(super) fn check(&self, memory: &impl Words) -> Result<(), RingError> {
        let wrong =
            |field, expected, got| RingError::Header { rank: self.rank, field, expected, got };
        let (expected, got) = (self.words() as u64 * 8, memory.count() as u64 * 8);
        if got < expected {
            return Err(wrong("length in bytes", expected, got));
        }
        for (at, (field, expected)) in self.header().into_iter().enumerate() {
            let got = memory.word(at).load(Ordering::Relaxed);
            if got != expected {
                return Err(wrong(field, expected, got));
            }
        }
        Ok(())
    }
}
