//! What the log needs of the outside, behind traits: where events go, where segments go that there is no memory for,
//! what the process before has left, and where checkpoints are kept. The product has rings, files and memory of its
//! launcher (`src/host.rs` of the product); tests have vectors.

#[cfg(any(test, feature = "vectors"))]
pub mod vectors;

use crate::Rank;
use std::io::IoSlice;
use taffrail_logging::causal::{Counters, HeldStore};
use taffrail_logging::event::Full;
use taffrail_logging::{Event, LoggedEvent, Position};

/// The outside of a log. Everything is dispatched at compile time: an event is written for every message.
pub trait Host {
    /// Where this rank writes its events.
    type Events: EventSink;
    /// The events of earlier incarnations.
    type Replayed: ReplayedEvents;
    /// Where the payload log goes that there is no memory for.
    type Spill: SpillStore;
    /// The payload log of the process before this one.
    type Previous: PreviousLog;
    /// Where checkpoints are kept.
    type Checkpoints: CheckpointStore;

    /// Ends this process, which is then started again: what is logged cannot be had, and nobody who needs it can go
    /// on without it (fail-stop).
    fn end_process(why: &str) -> !;

    /// Warns the user of something that does not end the program.
    fn warn(what: &str);
}

/// The events of a rank, and what it sees of those of its set.
pub trait EventSink {
    /// Another member of the set.
    type Member: MemberEvents;

    /// Writes an event, and returns its clock, which is the one after the last.
    ///
    /// # Errors
    /// [`Full`] when the event logger is behind: nothing is written.
    fn push(&mut self, event: &Event) -> Result<u64, Full>;

    /// Gets ready for the event that is expected next, after this number of polls, with these flags.
    fn prepare(&mut self, polls: u32, flags: u8);

    /// The clock of the last event that was written.
    fn written(&self) -> u64;

    /// The clock of the last event that is stable.
    fn stable(&self) -> u64;

    /// The clock of the last event that the event logger has, whatever it is to survive.
    fn acknowledged(&self) -> u64;

    /// This rank waits for events to be stable, or for room: an event logger that sleeps is woken.
    fn wake_loggers(&self) {}

    /// No more events than this are written and not acknowledged.
    fn capacity(&self) -> u64;

    /// This rank is done with all others, at these incarnations, which are added up.
    fn leave(&mut self, incarnations: u64);

    /// What was sent with the messages of this rank.
    fn publish(&mut self, sent: &Counters);

    /// The other members of the set.
    fn members(&self) -> &[Self::Member];
}

/// The events of another member of the set.
pub trait MemberEvents {
    /// Whose they are.
    fn rank(&self) -> Rank;

    /// The clock of the last event that it has written.
    fn written(&self) -> u64;

    /// The clock of the last one that is stable.
    fn stable(&self) -> u64;

    /// The clock of the last one that the event logger has.
    fn acknowledged(&self) -> u64;
}

/// Events in the order of their clocks.
pub trait ReplayedEvents: Iterator<Item = LoggedEvent> + Clone {
    /// Those behind this clock.
    fn behind(self, clock: u64) -> Self;
}

/// Where segments of the payload log are that there is no memory for, and where the next process of the rank finds all
/// of them.
pub trait SpillStore {
    /// Begins to write bytes to a place of the payload log. Returns the number of the write; `None` if as many writes as
    /// can be are under way.
    ///
    /// # Errors
    /// [`SpillError`] when nothing can be written.
    ///
    /// # Safety
    /// The bytes stay readable and unchanged until [`finished`](Self::finished) has returned this write, or the store is
    /// dropped.
    unsafe fn begin(&mut self, place: u64, bytes: &[u8]) -> Result<Option<usize>, SpillError>;

    /// Begins to read `len` bytes that were written to a place. Returns the number of the read, which is that of no write
    /// under way; `None` if as many reads and writes as can be are under way.
    ///
    /// # Errors
    /// [`SpillError`] when nothing can be read.
    fn begin_read(&mut self, place: u64, len: usize) -> Result<Option<usize>, SpillError>;

    /// The reads and writes that have ended, by their numbers, and how. It never waits for one.
    fn finished(&mut self) -> Vec<(usize, Result<Spilled, SpillError>)>;

    /// What is at a place is not needed any more.
    ///
    /// # Errors
    /// [`SpillError`] when its room cannot be given back.
    fn forget(&self, place: u64, len: u64) -> Result<(), SpillError>;

    /// Segment `number` of the log is in this segment of the memory from now on.
    fn is_in_memory(&self, memory: u32, number: u64);

    /// This segment of the memory has nothing of the log any more.
    fn left_memory(&self, memory: u32);

    /// Segment `number` of the log was written whole, or, if not `is`, is not needed any more.
    ///
    /// # Errors
    /// [`SpillError`] when that cannot be noted.
    fn is_spilled(&self, number: u64, is: bool) -> Result<(), SpillError>;
}

/// What a store of spilled segments has done.
#[derive(Debug)]
pub enum Spilled {
    /// It has written bytes.
    Written,
    /// It has read these.
    Read(Vec<u8>),
}

impl Spilled {
    /// What it has read.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Spilled::Written => Vec::new(),
            Spilled::Read(bytes) => bytes,
        }
    }
}

/// What a store of spilled segments could not do.
#[derive(Debug, thiserror::Error)]
pub enum SpillError {
    /// There is no file.
    #[error("creating a file in {folder} failed: {error}")]
    Create {
        /// Where it was to be.
        folder: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// Bytes were not written.
    #[error("writing to its file failed: {0}")]
    Write(std::io::Error),
    /// Bytes cannot be read.
    #[error("reading its file failed: {0}")]
    Read(std::io::Error),
    /// Room was not given back.
    #[error("giving room of its file back failed: {0}")]
    Forget(std::io::Error),
    /// A place was not noted.
    #[error("noting where a segment is failed: {0}")]
    Note(std::io::Error),
}

/// The payload log of the process before this one.
pub trait PreviousLog {
    /// Reads bytes of it from a place on. `false`: they were given up, nobody needs them.
    ///
    /// # Errors
    /// [`PreviousLogError`] when they are needed and cannot be read.
    fn read(&self, place: u64, into: &mut [u8]) -> Result<bool, PreviousLogError>;
}

/// What the process before has left cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("the log of the process before this one cannot be read: {0}")]
pub struct PreviousLogError(pub std::io::Error);

/// Where the checkpoints of a rank are kept.
pub trait CheckpointStore {
    /// Writes a checkpoint, which is the last one from then on. Returns its number.
    ///
    /// # Errors
    /// [`CheckpointError`]: the one before is the last one still.
    fn save(
        &mut self,
        incarnation: u32,
        position: &[u8],
        state: &[IoSlice<'_>],
    ) -> Result<u64, CheckpointError>;

    /// Whether others may drop what a checkpoint covers: it outlives what the job is to survive.
    fn may_announce(&self, number: u64) -> bool;
}

/// A checkpoint was not written.
#[derive(Debug, thiserror::Error)]
#[error("writing it failed: {0}")]
pub struct CheckpointError(pub std::io::Error);

/// How the messages of a rank are logged.
#[derive(Clone, Debug)]
pub struct LoggingConfig {
    /// Events travel with the messages that depend on them, in place of the gate.
    pub causal: bool,
    /// Every reception is an event, not only those that chance has decided.
    pub all_events: bool,
    /// The correlated set of each rank.
    pub sets: Vec<u32>,
    /// How often this rank was started before.
    pub incarnation: u32,
    /// Bytes of the payload log that are kept in memory.
    pub memory: usize,
    /// Runs of a page of the table of what was sent ([`PAGE_RUNS`]; at most as many). The same in all incarnations.
    pub page_runs: usize,
}

/// Runs of a page, if nothing else is chosen.
pub const PAGE_RUNS: usize = 128;

/// What a host hands to the log of a rank that starts, for the first time or again.
pub struct LogParts<H: Host> {
    /// Where events go.
    pub events: H::Events,
    /// An event that is written is not stable at once.
    pub gated: bool,
    /// The events of earlier incarnations.
    pub replayed: H::Replayed,
    /// In causal logging, where rings can be lost: memory that outlives this rank, for the determinants of others.
    pub held: Option<Box<dyn HeldStore>>,
    /// Where segments go that there is no memory for.
    pub spill: H::Spill,
    /// `None`: this rank takes no checkpoints.
    pub checkpoints: Option<H::Checkpoints>,
    /// Where this process resumes, if not at the beginning.
    pub restart: Option<RestartPoint<H::Previous>>,
}

/// The last checkpoint of a rank that is started again.
pub struct RestartPoint<P> {
    /// The number of the checkpoint.
    pub number: u64,
    /// Where the rank was with its messages.
    pub position: Position,
    /// The state of its program then.
    pub state: Vec<u8>,
    /// The log that the checkpoint refers to.
    pub previous: P,
}
