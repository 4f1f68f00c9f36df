//! The outside of a simulated log: the event logger of the job, and vectors.

use super::elsewhere::Elsewhere;
use super::oracle::Oracle;
use super::process::Mark;
use crate::fabric::{Frame, Watch};
use crate::logger::Logger;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, IoSlice};
use std::rc::Rc;
use taffrail_engine::log::host::vectors::{ReplayedVec, SpillMap};
use taffrail_engine::log::host::{
    CheckpointError, CheckpointStore, EventSink, Host, MemberEvents, PreviousLog, PreviousLogError,
};
use taffrail_logging::causal::Counters;
use taffrail_logging::event::Full;
use taffrail_logging::{Event, LoggedEvent, Position, Rank};

/// What the processes of a job share: the event logger, the rings that it reads, and the last checkpoints.
pub(super) struct Outside {
    pub(super) logger: Logger,
    /// What each rank has written, for as long as its ring is there.
    pub(super) rings: Vec<Vec<LoggedEvent>>,
    pub(super) vault: Vec<Option<Saved>>,
    /// What another node has of each rank.
    pub(super) elsewhere: Vec<Elsewhere>,
    /// Checkpoints are announced when they are there.
    pub(super) copies: bool,
    /// Where programs were at their last checkpoints.
    pub(super) marks: Vec<Mark>,
    /// The restarts that each rank knew of that is done with all others.
    pub(super) left: Vec<Option<u64>>,
    pub(super) oracle: Oracle,
}

/// A checkpoint. It outlives its process.
#[derive(Clone)]
pub(super) struct Saved {
    /// From 1.
    pub(super) number: u64,
    pub(super) incarnation: u32,
    pub(super) position: Vec<u8>,
    pub(super) state: Vec<u8>,
}

/// Vectors, and the event logger of the job.
pub(super) enum SimHost {}

impl Host for SimHost {
    type Events = SimEvents;
    type Replayed = ReplayedVec;
    type Spill = Rc<RefCell<SpillMap>>;
    type Previous = LeftLog;
    type Checkpoints = Vault;

    fn end_process(why: &str) -> ! {
        panic!("a process ends: {why}")
    }

    fn warn(_: &str) {}
}

/// The ring of a rank.
pub(super) struct SimEvents {
    pub(super) me: Rank,
    pub(super) outside: Rc<RefCell<Outside>>,
    /// Events that are not stable, of which there is room for so many.
    pub(super) capacity: u64,
    pub(super) members: Vec<Member>,
}

/// The ring of another member of the set.
pub(super) struct Member {
    pub(super) rank: Rank,
    pub(super) outside: Rc<RefCell<Outside>>,
}

impl Outside {
    fn written(&self, rank: Rank) -> u64 {
        self.rings[rank as usize].len() as u64
    }
}

impl Watch for Outside {
    fn leaves(&mut self, frame: &Frame<'_>) {
        self.oracle.leaves(frame, &self.logger);
    }

    fn arrives(&mut self, number: u64, _: usize, to: usize) {
        self.oracle.arrives(number, to);
    }
}

impl EventSink for SimEvents {
    type Member = Member;

    fn push(&mut self, event: &Event) -> Result<u64, Full> {
        let mut outside = self.outside.borrow_mut();
        let outside = &mut *outside;
        let clock = outside.written(self.me) + 1;
        let logged = LoggedEvent { clock, event: *event };
        if outside.logger.find_room(self.me, &logged, self.capacity).is_err() {
            outside.oracle.ring_is_full(self.me, clock);
            return Err(Full);
        }
        outside.oracle.wrote(self.me, event, clock);
        outside.rings[self.me as usize].push(logged);
        if let Err(text) = outside.logger.write(self.me, logged) {
            outside.oracle.violated("a log has no gaps", text);
        }
        Ok(clock)
    }

    fn prepare(&mut self, polls: u32, flags: u8) {
        if let Some(copies) = &mut self.outside.borrow_mut().logger.copies {
            copies.prepare(self.me, polls, flags);
        }
    }

    fn written(&self) -> u64 {
        self.outside.borrow().written(self.me)
    }

    fn stable(&self) -> u64 {
        self.outside.borrow().logger.announced(self.me)
    }

    fn acknowledged(&self) -> u64 {
        self.stable()
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn leave(&mut self, incarnations: u64) {
        self.outside.borrow_mut().left[self.me as usize] = Some(incarnations);
    }

    fn publish(&mut self, _: &Counters) {}

    fn members(&self) -> &[Member] {
        &self.members
    }
}

impl MemberEvents for Member {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn written(&self) -> u64 {
        self.outside.borrow().written(self.rank)
    }

    fn stable(&self) -> u64 {
        self.outside.borrow().logger.announced(self.rank)
    }

    fn acknowledged(&self) -> u64 {
        self.stable()
    }
}

/// The payload log that a process has left: its segments by their numbers.
#[derive(Clone, Default)]
pub(super) struct LeftLog {
    segments: BTreeMap<u64, Vec<u8>>,
    size: usize,
}

impl LeftLog {
    /// What is in memory, of which `read` gives the bytes of a segment, and what was spilled.
    pub(super) fn new(spill: &SpillMap, size: usize, read: impl Fn(u32) -> Vec<u8>) -> Self {
        let mut segments = BTreeMap::new();
        let places = spill.segments.borrow();
        for number in spill.spilled.borrow().iter() {
            if let Some(bytes) = places.get(&(number * size as u64)) {
                segments.insert(*number, bytes.clone());
            }
        }
        let memory = spill.in_memory.borrow();
        segments.extend(memory.iter().map(|(&memory, &number)| (number, read(memory))));
        LeftLog { segments, size }
    }
}

impl PreviousLog for LeftLog {
    fn read(&self, mut place: u64, mut into: &mut [u8]) -> Result<bool, PreviousLogError> {
        let size = self.size as u64;
        while !into.is_empty() {
            let (number, at) = (place / size, (place % size) as usize);
            let Some(segment) = self.segments.get(&number) else { return Ok(false) };
            let (part, rest) = into.split_at_mut(into.len().min(self.size - at));
            let bytes = segment.get(at..at + part.len());
            let torn = || PreviousLogError(Error::from(ErrorKind::UnexpectedEof));
            part.copy_from_slice(bytes.ok_or_else(torn)?);
            place += part.len() as u64;
            into = rest;
        }
        Ok(true)
    }
}

/// Where the checkpoints of a rank are kept.
pub(super) struct Vault {
    pub(super) me: Rank,
    pub(super) outside: Rc<RefCell<Outside>>,
}

impl CheckpointStore for Vault {
    fn save(
        &mut self,
        incarnation: u32,
        position: &[u8],
        state: &[IoSlice<'_>],
    ) -> Result<u64, CheckpointError> {
        let mut outside = self.outside.borrow_mut();
        let ranks = outside.rings.len() as u32;
        let known = Position::decode(position, ranks);
        let all = &mut *outside;
        all.oracle.saved(self.me, known.ok(), &all.logger);
        let state = state.iter().flat_map(|part| part.iter().copied()).collect();
        let position = position.to_vec();
        let before = outside.vault[self.me as usize].as_ref();
        let number = 1 + before.map_or(0, |before| before.number);
        outside.vault[self.me as usize] = Some(Saved { number, incarnation, position, state });
        Ok(number)
    }

    fn may_announce(&self, number: u64) -> bool {
        let outside = self.outside.borrow();
        !outside.copies || number <= outside.elsewhere[self.me as usize].number()
    }
}
