//! Event loggers that each keep a copy of all events in memory of their own (`docs/logging.md`, section 10).
//!
//! All of it is the product's: the rings, the loggers, and what their starter decides when one is gone. What is simulated is
//! when each of them gets a turn, and that a logger dies between any two steps of the starter.

use crate::case::Case;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use taffrail_logging::event::Full;
use taffrail_logging::store::{
    Copies, CopyStep, Disk, Logger, Memory, Owner, RingReader, RingShape, RingView, RingWriter,
    Unpacked, create_memory, empty_memory, packed_header,
};
use taffrail_logging::{LoggedEvent, Rank, Set};

/// Events that a ring has room for at the most: these are true rings, in memory.
const MOST: u64 = 256;

/// The ring of a rank, and its readers.
#[derive(Debug)]
struct Ring {
    memory: OwnedFd,
    shape: RingShape,
    set: Set,
    writer: RingWriter<Memory>,
    view: RingView<Memory>,
    /// The last clock that was seen to be stable.
    stable: u64,
}

/// What a logger died of being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// It had all events; this number of others have them.
    Whole {
        /// The others.
        others: usize,
    },
    /// It was being filled.
    InFilling,
}

/// The loggers, the rings, and their starter.
#[derive(Debug)]
pub struct CopyLoggers {
    rings: Vec<Ring>,
    starter: Copies,
    /// The loggers that run.
    loggers: Vec<Option<Logger>>,
    /// What the starter has fetched of a rank for a copy.
    fetched: Option<(usize, Rank, Unpacked)>,
}

impl CopyLoggers {
    /// The loggers of a job, all of which run.
    ///
    /// # Panics
    /// If there is no memory for rings.
    pub fn new(case: &Case) -> Self {
        let copies = case.durability.copies();
        let capacity = case.habits.ring.next_power_of_two().min(MOST);
        let groups = case.groups();
        let set = |rank| {
            let at = groups.iter().position(|set| set.contains(&rank));
            let number = at.expect("every rank is in a set");
            Set { number: number as u32, members: groups[number].len() as u32, job: case.seed }
        };
        let ring = |rank| {
            let shape = RingShape { rank, job: case.seed, capacity, durability: case.durability };
            let memory = create_memory("simulated-ring", shape.bytes()).expect("memory for rings");
            shape.lay_out(&map(&memory, &shape));
            let writer = RingWriter::attach(map(&memory, &shape), shape).expect("a new ring");
            let view = RingView::attach(map(&memory, &shape), shape).expect("a new ring");
            Ring { memory, shape, set: set(rank), writer, view, stable: 0 }
        };
        let mut all = CopyLoggers {
            rings: (0..case.ranks).map(ring).collect(),
            starter: Copies::new(copies, 0..case.ranks, true),
            loggers: (0..copies).map(|_| None).collect(),
            fetched: None,
        };
        while all.starter.next() != CopyStep::Done {
            all.go_on().expect("loggers of new rings");
        }
        all
    }

    /// A rank is started again: it continues behind the events of its ring.
    ///
    /// # Errors
    /// When the words of the ring cannot be right.
    pub fn starts(&mut self, rank: Rank) -> Result<(), String> {
        let ring = &mut self.rings[rank as usize];
        let memory = map(&ring.memory, &ring.shape);
        ring.writer = RingWriter::attach(memory, ring.shape).map_err(|e| e.to_string())?;
        Ok(())
    }

    /// A rank writes an event.
    ///
    /// # Errors
    /// [`Full`]: there is no room before all copies have taken some.
    pub fn write(&mut self, rank: Rank, event: &LoggedEvent) -> Result<(), Full> {
        self.rings[rank as usize].writer.push(&event.event).map(drop)
    }

    /// A rank gets ready for the event that it expects.
    pub fn prepare(&mut self, rank: Rank, polls: u32, flags: u8) {
        self.rings[rank as usize].writer.prepare(polls, flags);
    }

    /// The clock up to which the events of a rank are stable, as its set sees it.
    pub fn stable(&self, rank: Rank) -> u64 {
        self.rings[rank as usize].view.stable()
    }

    /// The same as the rank itself sees it.
    pub fn announced(&self, rank: Rank) -> u64 {
        self.rings[rank as usize].writer.stable().unwrap_or(0)
    }

    /// How many loggers there are to be.
    pub fn count(&self) -> usize {
        self.loggers.len()
    }

    /// Whether there is something new for a logger.
    pub fn has_news(&self, copy: usize) -> bool {
        let Some(logger) = &self.loggers[copy] else { return false };
        let served = |set: &Set| {
            let members = self.rings.iter().filter(|ring| ring.set == *set);
            members.into_iter().all(|ring| logger.kept(ring.shape.rank).is_some())
        };
        self.rings.iter().any(|ring| {
            let is_new = |kept| ring.view.written() > kept;
            logger.kept(ring.shape.rank).is_some_and(is_new) && served(&ring.set)
        })
    }

    /// A logger makes a turn: it takes what is new out of the rings.
    ///
    /// # Errors
    /// What it reports, which is always something wrong.
    pub fn turn(&mut self, copy: usize) -> Result<(), String> {
        let Some(logger) = &mut self.loggers[copy] else { return Ok(()) };
        logger.turn().reports.first().map_or(Ok(()), |report| Err(report.to_string()))
    }

    /// Whether the starter has something to do.
    pub fn is_to_go_on(&self) -> bool {
        self.starter.next() != CopyStep::Done || self.loggers.iter().any(Option::is_none)
    }

    /// Advances the starter by a step. Whether all copies are there with it.
    ///
    /// # Errors
    /// When a logger refuses, or none has the events.
    pub fn go_on(&mut self) -> Result<bool, String> {
        match self.starter.next() {
            CopyStep::Done => {
                // It sees that connections are closed.
                for (copy, logger) in self.loggers.iter().enumerate() {
                    if logger.is_none() {
                        self.starter.gone(copy);
                    }
                }
                return Ok(false);
            }
            CopyStep::Start { copy } => {
                self.loggers[copy] = Some(Logger::new(Disk::Memory));
                self.starter.started(copy);
            }
            CopyStep::Serve { copy, rank, from } => match self.fetched.take() {
                Some((to, of, events)) if (to, of) == (copy, rank) => {
                    self.serve(copy, rank, events)?;
                }
                _ if from.is_some() => {
                    let events = self.fetch(rank)?;
                    self.fetched = events.map(|events| (copy, rank, events));
                }
                _ => {
                    let header = packed_header(self.owner(rank)).to_vec();
                    self.serve(copy, rank, unpacked(self.owner(rank), header)?)?;
                }
            },
            CopyStep::Lost => return Err("no event logger is left".to_owned()),
        }
        Ok(self.starter.next() == CopyStep::Done)
    }

    fn serve(&mut self, copy: usize, rank: Rank, events: Unpacked) -> Result<(), String> {
        let Some(logger) = &mut self.loggers[copy] else {
            self.starter.gone(copy);
            return Ok(());
        };
        let ring = &self.rings[rank as usize];
        let memory = map(&ring.memory, &ring.shape);
        let reader = RingReader::attach(memory, ring.shape, copy as u32);
        let reader = reader.map_err(|error| error.to_string())?;
        let served = logger.serve_copy(ring.set, reader, events);
        served.map_err(|error| format!("copy {copy} does not serve rank {rank}: {error}"))?;
        self.starter.served(copy);
        Ok(())
    }

    /// All events of a rank, of the first logger that answers.
    ///
    /// # Errors
    /// When a logger refuses, or what it hands out is not as it should be.
    ///
    /// # Panics
    /// If there is no memory for them.
    pub fn fetch(&mut self, rank: Rank) -> Result<Option<Unpacked>, String> {
        for copy in self.starter.sources() {
            let Some(logger) = &self.loggers[copy] else {
                self.starter.gone(copy);
                continue;
            };
            let file = File::from(empty_memory("simulated-events").expect("memory for events"));
            let copied = logger.copy(rank, &file);
            let copied = copied.ok_or_else(|| format!("copy {copy} does not know rank {rank}"))?;
            copied.map_err(|error| error.to_string())?;
            let len = file.metadata().map_or(0, |metadata| metadata.len() as usize);
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, 0).map_err(|error| error.to_string())?;
            return unpacked(self.owner(rank), bytes).map(Some);
        }
        Ok(None)
    }

    /// Kills one of the running loggers, chosen by `chance`, but never the last that has all events.
    pub fn kill(&mut self, chance: usize) -> Option<Killed> {
        let whole: Vec<usize> = (0..self.count()).filter(|&copy| self.is_whole(copy)).collect();
        let spared = if whole.len() == 1 { whole.first() } else { None };
        let runs = |copy: &usize| self.loggers[*copy].is_some() && Some(copy) != spared;
        let may: Vec<usize> = (0..self.count()).filter(runs).collect();
        let copy = *may.get(chance % may.len().max(1))?;
        self.loggers[copy] = None;
        Some(match whole.contains(&copy) {
            true => Killed::Whole { others: whole.len() - 1 },
            false => Killed::InFilling,
        })
    }

    /// Whether a logger runs and has all that was stable when it was filled.
    fn is_whole(&self, copy: usize) -> bool {
        let logger = self.loggers[copy].as_ref();
        let serves =
            |logger: &Logger| self.rings.iter().all(|ring| logger.kept(ring.shape.rank).is_some());
        logger.is_some_and(serves)
    }

    /// Whether what is stable is in every copy that is whole, and stays stable.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&mut self) -> Result<(), String> {
        for rank in 0..self.rings.len() {
            let stable = self.rings[rank].view.stable();
            for copy in (0..self.count()).filter(|&copy| self.is_whole(copy)) {
                let kept = self.loggers[copy].as_ref().and_then(|logger| logger.kept(rank as Rank));
                if kept < Some(stable) {
                    let kept = kept.unwrap_or(0);
                    return Err(format!(
                        "event {stable} of rank {rank} is stable, copy {copy} has {kept}"
                    ));
                }
            }
            let ring = &mut self.rings[rank];
            ring.writer.stable().map_err(|error| error.to_string())?;
            if stable < ring.stable {
                let before = ring.stable;
                return Err(format!("of rank {rank} event {before} was stable, now {stable} is"));
            }
            ring.stable = stable;
        }
        Ok(())
    }

    fn owner(&self, rank: Rank) -> Owner {
        Owner { rank, job: self.rings[rank as usize].shape.job }
    }
}

fn map(memory: &OwnedFd, shape: &RingShape) -> Memory {
    Memory::map(memory.as_fd(), shape.bytes()).expect("memory that was made for it")
}

fn unpacked(owner: Owner, bytes: Vec<u8>) -> Result<Unpacked, String> {
    Unpacked::new(owner, "simulated events", bytes).map_err(|error| error.to_string())
}
