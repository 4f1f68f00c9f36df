//! A host of vectors, for tests and benchmarks: what it keeps can be seen, and what it refuses is chosen.

use super::{
    CheckpointError, CheckpointStore, EventSink, Host, LogParts, LoggingConfig, MemberEvents,
    PAGE_RUNS, PreviousLog, PreviousLogError, ReplayedEvents, SpillError, SpillStore, Spilled,
};
use crate::Rank;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::io::{Error, ErrorKind, IoSlice};
use std::ptr::NonNull;
use std::rc::Rc;
use taffrail_logging::causal::Counters;
use taffrail_logging::event::Full;
use taffrail_logging::{Event, LoggedEvent};

/// The host of a test.
#[derive(Debug)]
pub struct Vectors;

impl Host for Vectors {
    type Events = EventVec;
    type Replayed = ReplayedVec;
    type Spill = SpillMap;
    type Previous = PreviousVec;
    type Checkpoints = CheckpointVec;

    fn end_process(why: &str) -> ! {
        panic!("the process ends: {why}")
    }

    fn warn(what: &str) {
        println!("{what}");
    }
}

/// Events, of which the event logger has taken the first.
#[derive(Debug, Default)]
pub struct EventVec {
    /// All that were written.
    pub events: Vec<Event>,
    /// Events that the event logger has.
    pub taken: u64,
    /// Events that it may be behind.
    pub capacity: u64,
    /// Written events are stable at once.
    pub stable_at_once: bool,
    /// The other members of the set.
    pub members: Vec<MemberClocks>,
    /// The incarnations with which the rank has left.
    pub left: Option<u64>,
}

/// The clocks of another member of the set.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberClocks {
    /// Its rank.
    pub rank: Rank,
    /// The clock of the last event that it wrote.
    pub written: u64,
    /// The clock of its last event that is stable.
    pub stable: u64,
}

impl EventSink for EventVec {
    type Member = MemberClocks;

    fn push(&mut self, event: &Event) -> Result<u64, Full> {
        if self.written() - self.taken >= self.capacity {
            return Err(Full);
        }
        self.events.push(*event);
        Ok(self.written())
    }

    fn prepare(&mut self, _: u32, _: u8) {}

    fn written(&self) -> u64 {
        self.events.len() as u64
    }

    fn stable(&self) -> u64 {
        if self.stable_at_once { self.written() } else { self.taken }
    }

    fn acknowledged(&self) -> u64 {
        self.taken
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn leave(&mut self, incarnations: u64) {
        self.left = Some(incarnations);
    }

    fn publish(&mut self, _: &Counters) {}

    fn members(&self) -> &[MemberClocks] {
        &self.members
    }
}

impl MemberEvents for MemberClocks {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn stable(&self) -> u64 {
        self.stable
    }

    fn acknowledged(&self) -> u64 {
        self.stable
    }
}

/// A configuration with these sets, of a rank that was never killed. The payload log has 64 segments of this length.
pub fn config(sets: impl Into<Vec<u32>>, segment: usize) -> LoggingConfig {
    LoggingConfig {
        causal: false,
        all_events: false,
        sets: sets.into(),
        incarnation: 0,
        memory: 64 * segment,
        page_runs: PAGE_RUNS,
    }
}

/// Those of a host that stores events without delay, of a rank that was never killed.
pub fn parts() -> LogParts<Vectors> {
    LogParts {
        events: EventVec { capacity: 1 << 20, stable_at_once: true, ..EventVec::default() },
        gated: false,
        replayed: ReplayedVec::default(),
        held: None,
        spill: SpillMap::default(),
        checkpoints: Some(CheckpointVec::default()),
        restart: None,
    }
}

/// Events of earlier incarnations.
#[derive(Clone, Debug, Default)]
pub struct ReplayedVec(pub std::collections::VecDeque<LoggedEvent>);

impl Iterator for ReplayedVec {
    type Item = LoggedEvent;

    fn next(&mut self) -> Option<LoggedEvent> {
        self.0.pop_front()
    }
}

impl ReplayedEvents for ReplayedVec {
    fn behind(mut self, clock: u64) -> Self {
        self.0.retain(|event| event.clock > clock);
        self
    }
}

/// Spilled segments, each at its place. As a kernel may, it reads the bytes of a write when the write ends, and those of a
/// read when the read ends.
#[derive(Debug)]
pub struct SpillMap {
    /// The bytes of each place.
    pub segments: RefCell<FxHashMap<u64, Vec<u8>>>,
    under_way: Vec<(usize, u64, UnderWay)>,
    ended: Vec<(usize, Result<Spilled, SpillError>)>,
    begun: usize,
    /// Reads and writes that may be under way at once.
    pub at_once: usize,
    /// They end when [`end`](Self::end) says so. Otherwise half of them end with each look, the last ones first.
    pub ends_by_hand: bool,
    /// Of how many writes that end one fails, and for want of room: 0 for none.
    pub fails_each: usize,
    /// No write can begin.
    pub refuses: bool,
    /// Nothing can be read.
    pub is_unreadable: bool,
    /// The segment of the log that each segment of the memory has.
    pub in_memory: RefCell<FxHashMap<u32, u64>>,
    /// Segments of the log that were written whole.
    pub spilled: RefCell<Vec<u64>>,
}

#[derive(Debug)]
enum UnderWay {
    Write(NonNull<[u8]>),
    Read(usize),
}

impl Default for SpillMap {
    fn default() -> Self {
        SpillMap {
            segments: RefCell::default(),
            under_way: Vec::new(),
            ended: Vec::new(),
            begun: 0,
            at_once: 5,
            ends_by_hand: false,
            fails_each: 0,
            refuses: false,
            is_unreadable: false,
            in_memory: RefCell::default(),
            spilled: RefCell::default(),
        }
    }
}

impl SpillMap {
    /// Reads and writes that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Ends one of those that are [under way](Self::under_way). Whether it is a read.
    pub fn end(&mut self, which: usize) -> bool {
        let (number, place, what) = self.under_way.remove(which);
        let is_read = matches!(what, UnderWay::Read(_));
        let result = match what {
            UnderWay::Write(_) if self.fails_each > 0 && number % self.fails_each == 0 => {
                Err(SpillError::Write(ErrorKind::StorageFull.into()))
            }
            UnderWay::Write(bytes) => {
                // SAFETY: the promise of the caller that began the write.
                let bytes = unsafe { bytes.as_ref() }.to_vec();
                self.segments.borrow_mut().insert(place, bytes);
                Ok(Spilled::Written)
            }
            UnderWay::Read(len) => self.read(place, len).map(Spilled::Read),
        };
        self.ended.push((number, result));
        is_read
    }

    fn read(&self, place: u64, len: usize) -> Result<Vec<u8>, SpillError> {
        let segments = self.segments.borrow();
        let found = segments.iter().find_map(|(&begin, bytes)| {
            let at = place.checked_sub(begin)? as usize;
            bytes.get(at..at + len)
        });
        let bytes = found.filter(|_| !self.is_unreadable);
        bytes.map(<[u8]>::to_vec).ok_or(SpillError::Read(ErrorKind::UnexpectedEof.into()))
    }

    fn begin_one(&mut self, place: u64, what: UnderWay) -> Option<usize> {
        if self.under_way.len() >= self.at_once {
            return None;
        }
        self.begun += 1;
        self.under_way.push((self.begun, place, what));
        Some(self.begun)
    }
}

impl SpillStore for SpillMap {
    unsafe fn begin(&mut self, place: u64, bytes: &[u8]) -> Result<Option<usize>, SpillError> {
        if self.refuses {
            return Err(SpillError::Write(ErrorKind::StorageFull.into()));
        }
        Ok(self.begin_one(place, UnderWay::Write(NonNull::from(bytes))))
    }

    fn begin_read(&mut self, place: u64, len: usize) -> Result<Option<usize>, SpillError> {
        Ok(self.begin_one(place, UnderWay::Read(len)))
    }

    fn finished(&mut self) -> Vec<(usize, Result<Spilled, SpillError>)> {
        let stay = self.under_way.len() / 2;
        while !self.ends_by_hand && self.under_way.len() > stay {
            self.end(self.under_way.len() - 1);
        }
        std::mem::take(&mut self.ended)
    }

    fn forget(&self, place: u64, _: u64) -> Result<(), SpillError> {
        self.segments.borrow_mut().remove(&place);
        Ok(())
    }

    fn is_in_memory(&self, memory: u32, number: u64) {
        self.in_memory.borrow_mut().insert(memory, number);
    }

    fn left_memory(&self, memory: u32) {
        self.in_memory.borrow_mut().remove(&memory);
    }

    fn is_spilled(&self, number: u64, is: bool) -> Result<(), SpillError> {
        let mut spilled = self.spilled.borrow_mut();
        spilled.retain(|other| *other != number);
        if is {
            spilled.push(number);
        }
        Ok(())
    }
}

/// A store that others see as well, and after its process has ended.
impl SpillStore for Rc<RefCell<SpillMap>> {
    unsafe fn begin(&mut self, place: u64, bytes: &[u8]) -> Result<Option<usize>, SpillError> {
        // SAFETY: the promise of the caller.
        unsafe { self.borrow_mut().begin(place, bytes) }
    }

    fn begin_read(&mut self, place: u64, len: usize) -> Result<Option<usize>, SpillError> {
        self.borrow_mut().begin_read(place, len)
    }

    fn finished(&mut self) -> Vec<(usize, Result<Spilled, SpillError>)> {
        self.borrow_mut().finished()
    }

    fn forget(&self, place: u64, len: u64) -> Result<(), SpillError> {
        self.borrow().forget(place, len)
    }

    fn is_in_memory(&self, memory: u32, number: u64) {
        self.borrow().is_in_memory(memory, number);
    }

    fn left_memory(&self, memory: u32) {
        self.borrow().left_memory(memory);
    }

    fn is_spilled(&self, number: u64, is: bool) -> Result<(), SpillError> {
        self.borrow().is_spilled(number, is)
    }
}

/// The bytes of a payload log, of which some were given up, and some cannot be read.
#[derive(Debug, Default)]
pub struct PreviousVec {
    /// From place 0 on.
    pub bytes: Vec<u8>,
    /// From here on they were given up.
    pub given_up: Option<u64>,
}

impl PreviousLog for PreviousVec {
    fn read(&self, place: u64, into: &mut [u8]) -> Result<bool, PreviousLogError> {
        if self.given_up.is_some_and(|from| place >= from) {
            return Ok(false);
        }
        let bytes = self.bytes.get(place as usize..place as usize + into.len());
        let torn = || PreviousLogError(Error::from(ErrorKind::UnexpectedEof));
        into.copy_from_slice(bytes.ok_or_else(torn)?);
        Ok(true)
    }
}

/// Checkpoints: incarnation, position and state of each.
#[derive(Debug, Default)]
pub struct CheckpointVec {
    /// All that were saved.
    pub saved: Vec<(u32, Vec<u8>, Vec<u8>)>,
    /// No more can be saved.
    pub is_full: bool,
}

impl CheckpointStore for CheckpointVec {
    fn save(
        &mut self,
        incarnation: u32,
        position: &[u8],
        state: &[IoSlice<'_>],
    ) -> Result<u64, CheckpointError> {
        if self.is_full {
            return Err(CheckpointError(ErrorKind::StorageFull.into()));
        }
        let state = state.iter().flat_map(|part| part.iter().copied()).collect();
        self.saved.push((incarnation, position.to_vec(), state));
        Ok(self.saved.len() as u64)
    }

    fn may_announce(&self, _: u64) -> bool {
        true
    }
}
