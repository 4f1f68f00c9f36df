//! The outside of a simulated log: the event logger of the job, and vectors.

use crate::logger::Logger;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;
use taffrail_engine::log::host::{
    CheckpointError, CheckpointStore, EventSink, FellowEvents, Host, PreviousLog, PreviousLogError,
    ReplayedEvents, SpillError, SpillStore,
};
use taffrail_logging::causal::Counters;

use taffrail_logging::event::Full;
use taffrail_logging::{Event, LoggedEvent, Rank};

/// What the processes of a job share: the event logger, and the rings that it reads.
pub(super) struct Outside {
    pub(super) logger: Logger,
    /// What each rank has written, for as long as its ring is there.
    pub(super) rings: Vec<Vec<LoggedEvent>>,
    /// What an event sink has found out.
    pub(super) violation: Option<String>,
}

/// Vectors, and the simulated event logger.
pub(super) enum SimHost {}

impl Host for SimHost {
    type Events = SimEvents;
    type Replayed = Replayed;
    type Spill = Spilled;
    type Previous = Nothing;
    type Checkpoints = Nothing;

    fn end_process(why: &str) -> ! {
        panic!("a process ends: {why}")
    }

    fn warn(_: &str) {}
}

/// The ring of a rank.
pub(super) struct SimEvents {
    pub(super) me: Rank,
    pub(super) outside: Rc<RefCell<Outside>>,
    pub(super) fellows: Vec<Fellow>,
}

/// The ring of another member of the set.
pub(super) struct Fellow {
    pub(super) rank: Rank,
    pub(super) outside: Rc<RefCell<Outside>>,
}

impl Outside {
    fn written(&self, rank: Rank) -> u64 {
        self.rings[rank as usize].len() as u64
    }
}

impl EventSink for SimEvents {
    type Fellow = Fellow;

    fn push(&mut self, event: &Event) -> Result<u64, Full> {
        let mut outside = self.outside.borrow_mut();
        let clock = outside.written(self.me) + 1;
        let event = LoggedEvent { clock, event: *event };
        outside.rings[self.me as usize].push(event);
        if let Err(text) = outside.logger.write(self.me, event) {
            outside.violation.get_or_insert(text);
        }
        Ok(clock)
    }

    fn wait_for_room(&mut self) {
        unreachable!("rings have room for all")
    }

    fn prepare(&mut self, _: u32, _: u8) {}

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
        u64::MAX
    }

    fn leave(&mut self, _: u64) {}

    fn tell(&mut self, _: &Counters) {}

    fn fellows(&self) -> &[Fellow] {
        &self.fellows
    }
}

impl FellowEvents for Fellow {
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

/// The events of earlier incarnations.
#[derive(Clone)]
pub(super) struct Replayed(pub(super) VecDeque<LoggedEvent>);

impl Iterator for Replayed {
    type Item = LoggedEvent;

    fn next(&mut self) -> Option<LoggedEvent> {
        self.0.pop_front()
    }
}

impl ReplayedEvents for Replayed {
    fn behind(mut self, clock: u64) -> Self {
        self.0.retain(|event| event.clock > clock);
        self
    }
}

/// Segments that were spilled, each at its place.
#[derive(Default)]
pub(super) struct Spilled {
    segments: Vec<(u64, Vec<u8>)>,
    ended: Vec<usize>,
    begun: usize,
}

impl SpillStore for Spilled {
    #[expect(
        unsafe_code,
        reason = "the trait's promise is to stores whose writes last; this one copies at once"
    )]
    unsafe fn begin(&mut self, place: u64, bytes: &[u8]) -> Result<Option<usize>, SpillError> {
        if self.ended.len() >= 2 {
            return Ok(None);
        }
        self.segments.retain(|(at, _)| *at != place);
        self.segments.push((place, bytes.to_vec()));
        self.begun += 1;
        self.ended.push(self.begun);
        Ok(Some(self.begun))
    }

    fn finished(&mut self, wait: bool) -> Vec<(usize, Result<(), SpillError>)> {
        let stay = if wait { 0 } else { self.ended.len() / 2 };
        self.ended.drain(stay..).map(|write| (write, Ok(()))).collect()
    }

    fn read(&self, place: u64, into: &mut [u8]) -> Result<(), SpillError> {
        let found = self.segments.iter().find_map(|(begin, bytes)| {
            let at = usize::try_from(place.checked_sub(*begin)?).ok()?;
            bytes.get(at..at + into.len())
        });
        let missing = || SpillError::Read(std::io::ErrorKind::UnexpectedEof.into());
        into.copy_from_slice(found.ok_or_else(missing)?);
        Ok(())
    }

    fn forget(&self, _: u64, _: u64) -> Result<(), SpillError> {
        Ok(())
    }

    fn is_in_memory(&self, _: u32, _: u64) {}

    fn left_memory(&self, _: u32) {}

    fn is_spilled(&self, _: u64, _: bool) -> Result<(), SpillError> {
        Ok(())
    }
}

/// Neither checkpoints nor a log that one refers to: ranks start from the beginning.
pub(super) enum Nothing {}

impl PreviousLog for Nothing {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<bool, PreviousLogError> {
        match *self {}
    }
}

impl CheckpointStore for Nothing {
    fn save(&mut self, _: u32, _: &[u8], _: &[IoSlice<'_>]) -> Result<u64, CheckpointError> {
        match *self {}
    }
}
