//! The event logger: takes records out of rings, and keeps them.

use super::disk::{CommitError, Disk, Write};
use super::file::{EventFile, FileError};
use super::memory::Memory;
use super::ring::{RingError, RingReader};
use crate::Rank;
use crate::event::RECORD;
use std::fs::File;
use std::time::{Duration, Instant};

/// After a commit has failed, it is tried again after this time, then after twice that.
const FIRST_RETRY: Duration = Duration::from_millis(10);
/// But not later than after this.
const LAST_RETRY: Duration = Duration::from_millis(500);

/// Why the events of a rank cannot be kept: the ring and the store contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
}

/// The events of one rank: the ring they come from, and the file they go to.
#[derive(Debug)]
pub struct Ledger {
    ring: RingReader<Memory>,
    file: EventFile,
    /// Records that were read, and follow those of the file.
    pending: Vec<u8>,
    /// No commit before this time, and how long to wait after the next failure.
    retry: Option<(Instant, Duration)>,
    /// Nothing more is read from this ring.
    damaged: bool,
}

impl Ledger {
    /// Goes on where the logger before has stopped.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn new(mut ring: RingReader<Memory>, file: EventFile) -> Result<Self, LedgerError> {
        let (rank, have, promised) = (ring.shape().rank, file.records(), ring.promised());
        let written = ring.written()?;
        let name = || file.name().to_owned();
        if have < promised {
            return Err(LedgerError::Lost { rank, promised, have, file: name() });
        }
        if written != 0 && have > written {
            return Err(LedgerError::Behind { rank, written, have, file: name() });
        }
        // A new ring goes on where the file ends; in one that is in use, the logger before us was
        // killed after it had written, before it said so.
        if have > ring.taken() {
            ring.keep(have);
        }
        Ok(Ledger { ring, file, pending: Vec::new(), retry: None, damaged: false })
    }

    /// The clock of the last event that is kept.
    pub fn kept(&self) -> u64 {
        self.file.records()
    }

    /// Reads what is new in the ring. Returns how many records that were.
    fn read(&mut self) -> Result<usize, RingError> {
        if self.damaged {
            return Ok(0);
        }
        let before = self.pending.len();
        let clock = self.file.records() + (before / RECORD) as u64;
        let read = self.ring.read(clock, &mut self.pending);
        self.damaged = read.is_err();
        read.map(|_| (self.pending.len() - before) / RECORD)
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.pending.is_empty() && self.retry.is_none_or(|(at, _)| at <= now)
    }

    fn committed(&mut self, result: Result<(), CommitError>, now: Instant) -> Option<Report> {
        let rank = self.ring.shape().rank;
        match result {
            Ok(()) => {
                self.file.grown((self.pending.len() / RECORD) as u64);
                self.ring.keep(self.file.records());
                self.pending.clear();
                self.retry.take().map(|_| Report::Resumed { rank })
            }
            Err(error) => {
                let again =
                    self.retry.map_or(FIRST_RETRY, |(_, delay)| (delay * 2).min(LAST_RETRY));
                let first = self.retry.replace((now + again, again)).is_none();
                let file = || self.file.name().to_owned();
                first.then(|| Report::Waiting { rank, file: file(), error })
            }
        }
    }
}

/// What whoever started the logger should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Report {
    /// Events of a rank cannot be kept now. The rank waits for it, and it is tried again.
    #[error(
        "rank {rank} waits for its events to be stable: {file}: {error}; it goes on when that succeeds (free space on the disk)"
    )]
    Waiting {
        /// The rank.
        rank: Rank,
        /// Its file.
        file: String,
        /// What failed.
        error: CommitError,
    },
    /// They can be kept again.
    #[error("events of rank {rank} are kept again")]
    Resumed {
        /// The rank.
        rank: Rank,
    },
    /// The ring of a rank is damaged. Nothing more of it is kept.
    #[error("{error}; nothing more of this rank is kept")]
    Damaged {
        /// The rank.
        rank: Rank,
        /// What is wrong.
        error: RingError,
    },
}

/// What a turn has done.
#[derive(Debug, Default)]
pub struct Turn {
    /// How many records were read from rings.
    pub read: usize,
    /// What is to be told.
    pub reports: Vec<Report>,
}

/// The event logger of some ranks, without its process.
#[derive(Debug)]
pub struct Logger {
    disk: Disk,
    ledgers: Vec<Ledger>,
}

impl Logger {
    /// Of no ranks yet.
    pub fn new(disk: Disk) -> Self {
        Logger { disk, ledgers: Vec::new() }
    }

    /// Keeps the events of one more rank. A rank that it had already is replaced.
    pub fn serve(&mut self, ledger: Ledger) {
        let rank = ledger.ring.shape().rank;
        self.ledgers.retain(|known| known.ring.shape().rank != rank);
        self.ledgers.push(ledger);
    }

    /// Reads what is new in all rings, keeps it, then announces it as stable.
    pub fn turn(&mut self) -> Turn {
        let mut turn = Turn::default();
        for ledger in &mut self.ledgers {
            match ledger.read() {
                Ok(records) => turn.read += records,
                Err(error) => {
                    let rank = ledger.ring.shape().rank;
                    turn.reports.push(Report::Damaged { rank, error });
                }
            }
        }
        let now = Instant::now();
        let mut due: Vec<&mut Ledger> =
            self.ledgers.iter_mut().filter(|ledger| ledger.is_due(now)).collect();
        if due.is_empty() {
            return turn;
        }
        let writes: Vec<Write<'_>> = due.iter().map(|ledger| ledger.write()).collect();
        let results = self.disk.commit(&writes);
        drop(writes);
        for (ledger, result) in due.iter_mut().zip(results) {
            turn.reports.extend(ledger.committed(result, now));
        }
        turn
    }

    /// Copies all events of a rank, which is dead, in the format of an event file: those that are
    /// kept, and those that are in its ring. Returns the length in bytes; `None`: no such rank.
    ///
    /// # Errors
    /// [`LedgerError::Ring`] when the ring is damaged, now or before; [`FileError`] when the file
    /// cannot be read.
    pub fn copy(&mut self, rank: Rank, into: &File) -> Option<Result<u64, CopyError>> {
        let ledger = self.ledgers.iter_mut().find(|ledger| ledger.ring.shape().rank == rank)?;
        // A ring that was damaged once is read again: the error is told again.
        ledger.damaged = false;
        if let Err(error) = ledger.read() {
            return Some(Err(error.into()));
        }
        Some(ledger.file.copy(&ledger.pending, into).map_err(CopyError::from))
    }
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

impl Ledger {
    fn write(&self) -> Write<'_> {
        Write { file: self.file.file(), at: self.file.end(), bytes: &self.pending }
    }
}

#[cfg(test)]
mod tests;
