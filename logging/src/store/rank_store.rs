//! The events of one rank: the ring they come from, and the file they go to.

use super::batch::Batch;
use super::disk::Write;
use super::file::{EventFile, FileError, Owner};
use super::group::Unkept;
use super::memory::Memory;
use super::packed::{PackedFile, copy_packed, pack};
use super::ring::{RingError, RingReader, RingShape};
use crate::{Rank, mutant};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Why the events of a rank cannot be kept: the ring and the store contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Stable events are gone.
    #[error(
        "rank {rank}: events up to {promised} are stable, {file} has only {have}: it was shortened or replaced, and the rank cannot be restarted"
    )]
    Lost {
        /// The rank.
        rank: Rank,
        /// The last clock that was announced as stable.
        promised: u64,
        /// The last clock that is kept.
        have: u64,
        /// Where.
        file: String,
    },
    /// The ring is that of an execution which is behind what is kept.
    #[error(
        "rank {rank}: {file} has events up to {have}, its ring only up to {written}: give a folder of its own to each execution"
    )]
    Behind {
        /// The rank.
        rank: Rank,
        /// The last clock in the ring.
        written: u64,
        /// The last clock that is kept.
        have: u64,
        /// Where.
        file: String,
    },
    /// The ring is damaged.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The file cannot be synced.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Why the events of a rank cannot be handed out.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The ring is damaged.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where the events of a rank are kept.
#[derive(Debug)]
pub(super) enum Store {
    /// One after the other.
    Plain(EventFile),
    /// In blocks, in memory that outlives the logger.
    Packed(PackedFile),
}

impl Store {
    fn records(&self) -> u64 {
        match self {
            Store::Plain(file) => file.records(),
            Store::Packed(file) => file.records(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Store::Plain(file) => file.name(),
            Store::Packed(file) => file.name(),
        }
    }
}

/// The events of one rank.
#[derive(Debug)]
pub(super) struct RankStore {
    ring: RingReader<Memory>,
    store: Store,
    /// Events that were read and follow those of the file.
    pending: Batch,
    /// How many of these may be written.
    due: usize,
    /// As these bytes.
    bytes: Vec<u8>,
}

impl RankStore {
    /// Resumes where the logger before has stopped.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn new(mut ring: RingReader<Memory>, mut store: Store) -> Result<Self, LedgerError> {
        let (rank, have, promised) = (ring.shape().rank, store.records(), ring.promised());
        let written = ring.written()?;
        let name = || store.name().to_owned();
        if have < promised {
            return Err(LedgerError::Lost { rank, promised, have, file: name() });
        }
        let is_new = ring.is_new()?;
        if !is_new && have > written {
            return Err(LedgerError::Behind { rank, written, have, file: name() });
        }
        if mutant!(CopyCountsUnfilled) {
            ring.keep(written);
        }
        match &mut store {
            // The rank resumes behind them.
            Store::Plain(file) if is_new => {
                file.sync()?;
                ring.keep(have);
            }
            // The logger before us was killed before it said that they are stable, and perhaps before
            // they were. They are still in the ring.
            Store::Plain(file) => file.go_back(promised),
            // What is in memory stays there.
            Store::Packed(_) => ring.keep(have),
        }
        Ok(RankStore { ring, store, pending: Batch::default(), due: 0, bytes: Vec::new() })
    }

    /// Whose events these are.
    pub fn rank(&self) -> Rank {
        self.ring.shape().rank
    }

    /// Where they come from.
    pub fn ring(&self) -> &RingReader<Memory> {
        &self.ring
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        self.store.name()
    }

    /// The clock of the last event that is kept.
    pub fn kept(&self) -> u64 {
        self.store.records()
    }

    /// The clock of the last event that was read.
    pub fn seen(&self) -> u64 {
        self.store.records() + self.pending.len() as u64
    }

    /// How full the ring was when it was read last, in hundredths; 0 once that is kept.
    pub fn percent(&self) -> u64 {
        (self.seen() - self.ring.taken()) * 100 / self.ring.shape().capacity
    }

    /// Reads what is in the ring, up to this clock.
    pub fn read(&mut self, last: u64) -> Result<(), RingError> {
        self.ring.read(self.seen(), last, &mut self.pending)?;
        if mutant!(LoggerPromises) {
            self.ring.keep(self.seen());
        }
        Ok(())
    }

    /// All that was read may be written.
    pub fn release(&mut self) {
        self.due = self.pending.len();
        self.bytes.clear();
        let (rank, first) = (self.rank(), self.kept() + 1);
        match self.store {
            Store::Plain(_) => records(rank, first, &self.pending, &mut self.bytes),
            Store::Packed(_) => pack(rank, first, &self.pending, &mut self.bytes),
        }
    }

    /// What was read since the last release is not wanted.
    pub fn forget(&mut self) {
        self.pending.truncate(self.due);
    }

    /// What is to be written, if anything.
    pub fn write(&self) -> Option<Write<'_>> {
        let (file, at) = match &self.store {
            Store::Plain(file) => (file.file(), file.end()),
            Store::Packed(file) => (file.file(), file.end()),
        };
        let write = Write { file, at, bytes: &self.bytes };
        (self.due > 0).then_some(write)
    }

    /// The same, for another place.
    pub fn unkept(&self) -> Unkept<'_> {
        let records: &[u8] = if self.due > 0 { &self.bytes } else { &[] };
        let kept = self.kept();
        Unkept { rank: self.rank(), kept, clock: kept + self.due as u64, records }
    }

    /// The file with the records that are kept, if they lie in it one after the other.
    pub fn file(&self) -> Option<&File> {
        match &self.store {
            Store::Plain(file) => Some(file.file()),
            Store::Packed(_) => None,
        }
    }

    /// What was to be written will stay: it is stable.
    pub fn keep(&mut self) {
        debug_assert_eq!(
            self.due,
            self.pending.len(),
            "nothing is read while something is written"
        );
        let records = self.due as u64;
        match &mut self.store {
            Store::Plain(file) => file.grown(records),
            Store::Packed(file) => file.grown(records, &self.bytes),
        }
        self.ring.keep(self.store.records());
        self.pending.clear();
        self.due = 0;
    }

    /// Copies all events as a packed store: those that are kept, and those that are in the ring. Returns how
    /// many these are.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy(&self, into: &File) -> Result<u64, CopyError> {
        let mut events = Batch::default();
        self.ring.read(self.kept(), self.ring.written()?, &mut events)?;
        let RingShape { rank, job, .. } = *self.ring.shape();
        let end = match &self.store {
            Store::Plain(file) => copy_packed(file, Owner { rank, job }, into)?,
            Store::Packed(file) => file.copy(into)?,
        };
        let mut more = Vec::new();
        pack(rank, self.kept() + 1, &events, &mut more);
        into.write_all_at(&more, end).map_err(|error| {
            let (file, call) = (self.name().to_owned(), "pwrite of a copy");
            FileError::Os { file, call, error }
        })?;
        Ok(self.kept() + events.len() as u64)
    }
}

/// The records of these events, the first of which is at `clock`, appended.
fn records(rank: Rank, clock: u64, batch: &Batch, into: &mut Vec<u8>) {
    let records = (clock..).zip(batch.events()).map(|(clock, event)| event.encode(rank, clock));
    records.for_each(|record| into.extend_from_slice(&record));
}
