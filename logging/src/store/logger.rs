//! The event logger: takes records out of rings, keeps them, then says so.

use super::cuts::{CutFile, CutFileError, cut_file_name};
use super::disk::{CommitError, Disk, Write};
use super::file::{End, EventFile, FileError, Folder, Owner};
use super::group::{Group, Unkept};
use super::memory::{Memory, sleep_on};
use super::packed::{PackedFile, Unpacked};
use super::rank_store::{CopyError, LedgerError, RankStore, Store};
use super::ring::{Durability, RingError, RingReader};
use super::sync::{Ordering, fence};
use crate::{Rank, Set, mutant};
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::time::{Duration, Instant};

/// What the process that started the logger should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Report {
    /// Events of a rank cannot be kept now. It waits for that, and so does its set; it is tried again.
    #[error(
        "rank {rank} and its set wait for their events to be stable: {file}: {error}; they go on when that succeeds (free space on the disk)"
    )]
    Waiting {
        /// The rank.
        rank: Rank,
        /// The file that cannot be written.
        file: String,
        /// What failed.
        error: CommitError,
    },
    /// They can be kept again.
    #[error("events of rank {rank} and its set are kept again")]
    Resumed {
        /// The rank.
        rank: Rank,
    },
    /// The ring of a rank is damaged. Nothing more of it is kept, nor of its set.
    #[error("{error}; nothing more of this rank and its set is kept")]
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
    /// Whether there was something new in the rings.
    pub busy: bool,
    /// How full the fullest ring was, in hundredths.
    pub percent: u64,
    /// What is to be reported.
    pub reports: Vec<Report>,
}

/// What there was of a rank that is served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The clock of the last event that is kept.
    pub kept: u64,
    /// Bytes at the end that were cut off, for nobody had finished writing them.
    pub cut: u64,
}

/// Why a rank is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It is already, or its set is said to be something else than it was.
    #[error("rank {rank} of {got}: {expected}")]
    Order {
        /// The rank.
        rank: Rank,
        /// Its set.
        got: Set,
        /// What was expected.
        expected: String,
    },
    /// Its ring and its file contradict each other.
    #[error(transparent)]
    RankStore(#[from] LedgerError),
    /// Its file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cut file of its set cannot be used.
    #[error(transparent)]
    Cuts(#[from] CutFileError),
}

/// The event logger of some ranks, without its process.
#[derive(Debug)]
pub struct Logger {
    disk: Disk,
    groups: Vec<Group>,
}

impl Logger {
    /// Sleeps until a rank waits for its events, but no longer than this. `false` if it has not slept: there is something new, or
    /// the system cannot wake it.
    pub fn sleep(&self, limit: Duration) -> bool {
        let rings = || self.groups.iter().flat_map(Group::ledgers).map(RankStore::ring);
        rings().for_each(RingReader::lie_down);
        fence(Ordering::SeqCst);
        let slept =
            !rings().any(RingReader::has_new) && sleep_on(rings().map(RingReader::asleep), limit);
        rings().for_each(RingReader::get_up);
        slept
    }

    /// Of no ranks yet.
    pub fn new(disk: Disk) -> Self {
        Logger { disk, groups: Vec::new() }
    }

    /// Keeps the events of one more rank in this memory: by itself, where they are stable as soon as
    /// they are in the ring, else stable together with those of its set. Nothing of a set is kept before
    /// all of its members are served.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn serve(
        &mut self,
        set: Set,
        ring: RingReader<Memory>,
        store: File,
    ) -> Result<Served, ServeError> {
        let owner = Owner { rank: ring.shape().rank, job: ring.shape().job };
        let set = match ring.shape().durability {
            Durability::Process => Set { number: owner.rank, members: 1, job: owner.job },
            Durability::Disk | Durability::Node { .. } => set,
        };
        let place = self.expect_new(owner.rank, set)?;
        let name = format!("the store of rank {}", owner.rank);
        // Where an event is stable as soon as it is in the ring, its memory outlives the logger.
        let (store, cut) = if ring.shape().durability == Durability::Process {
            let (file, cut) = PackedFile::open(store, name, owner)?;
            (Store::Packed(file), cut)
        } else {
            let (file, cut) = EventFile::open(store, name, owner, End::Torn)?;
            (Store::Plain(file), cut)
        };
        let ledger = RankStore::new(ring, store)?;
        let kept = ledger.kept();
        let place = place.unwrap_or_else(|| {
            self.groups.push(Group::new(set, None));
            self.groups.len() - 1
        });
        self.groups[place].add(ledger, None);
        Ok(Served { kept, cut })
    }

    /// As [`serve`](Self::serve), in memory of its own, which begins with these events: a copy beside those of other loggers.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn serve_copy(
        &mut self,
        set: Set,
        ring: RingReader<Memory>,
        events: Unpacked,
    ) -> Result<Served, ServeError> {
        let owner = Owner { rank: ring.shape().rank, job: ring.shape().job };
        let os = |call| {
            let file = format!("the copy of rank {}", owner.rank);
            move |error| FileError::Os { file, call, error }
        };
        let store = rustix::fs::memfd_create("taffrail-events", MemfdFlags::CLOEXEC);
        let store = File::from(store.map_err(|errno| os("memfd_create")(errno.into()))?);
        events.write_to(owner, &store).map_err(os("write"))?;
        self.serve(set, ring, store)
    }

    /// As [`serve`](Self::serve), in a folder.
    ///
    /// # Errors
    /// [`ServeError`]; damaged files are left as they are.
    pub fn serve_in(
        &mut self,
        folder: &(impl Folder + ?Sized),
        set: Set,
        ring: RingReader<Memory>,
    ) -> Result<Served, ServeError> {
        let owner = Owner { rank: ring.shape().rank, job: ring.shape().job };
        let place = self.expect_new(owner.rank, set)?;
        let mut opened = None;
        let group = match place {
            Some(place) => &mut self.groups[place],
            None => {
                let cuts = if set.members > 1 { CutFile::open_in(folder, set)? } else { None };
                opened.insert(Group::new(set, cuts))
            }
        };
        let end = end(group, owner.rank)?;
        let (file, cut) = EventFile::open_in(folder, owner, end)?;
        let is_missing = end == End::Torn && set.members > 1 && file.records() > 0;
        if is_missing && !mutant!(LoggerBelievesTornCut) {
            let (rank, records) = (owner.rank, file.records());
            let file = folder.display(&cut_file_name(&set));
            return Err(CutFileError::Missing { file, rank, records }.into());
        }
        let ledger = RankStore::new(ring, Store::Plain(file))?;
        let kept = ledger.kept();
        let cuts = match group.complete(owner.rank) {
            Some(ranks) if set.members > 1 && group.cuts().is_none() => {
                Some(CutFile::make_in(folder, set, ranks)?)
            }
            _ => None,
        };
        group.add(ledger, cuts);
        self.groups.extend(opened);
        Ok(Served { kept, cut })
    }

    /// Where the set of a rank is that is not served yet, if other members of it are.
    fn expect_new(&self, rank: Rank, set: Set) -> Result<Option<usize>, ServeError> {
        let wrong = |expected: String| Err(ServeError::Order { rank, got: set, expected });
        if self.ledger(rank).is_some() {
            return wrong("it is served already".into());
        }
        let place = self.groups.iter().position(|known| known.set().number == set.number);
        let Some(known) = place.map(|place| &self.groups[place]) else { return Ok(place) };
        if *known.set() != set {
            return wrong(format!("other members are of {}", known.set()));
        }
        if known.ledgers().len() == set.members as usize {
            return wrong("the set has all of its members".into());
        }
        Ok(place)
    }

    /// Makes a cut of each set of which there is anything new, keeps it, then announces it as stable.
    pub fn turn(&mut self) -> Turn {
        let mut turn = self.look();
        self.commit(&mut turn);
        turn
    }

    /// Makes a cut of each set of which there is anything new. It is [kept](Self::commit) before the next one is made.
    pub fn look(&mut self) -> Turn {
        let mut turn = Turn::default();
        for group in &mut self.groups {
            match group.look() {
                Ok(busy) => {
                    turn.busy |= busy;
                    let found = group.ledgers().iter().map(RankStore::percent).max();
                    turn.percent = turn.percent.max(found.unwrap_or(0));
                }
                Err(error) => {
                    turn.reports.push(Report::Damaged { rank: error.rank(), error });
                }
            }
        }
        turn
    }

    /// What [`commit`](Self::commit) would keep: of each set that has anything, all members.
    pub fn unkept(&self) -> impl Iterator<Item = Unkept<'_>> {
        self.groups.iter().flat_map(Group::unkept)
    }

    /// Of each set whose kept events were written at one moment, its ranks and the clocks of their last ones.
    pub fn standing(&self) -> impl Iterator<Item = (Rank, u64)> {
        self.groups.iter().flat_map(Group::standing)
    }

    /// The ranks that are served, their event files if they have some, and how many records those have.
    pub fn stores(&self) -> impl Iterator<Item = (Rank, Option<&File>, u64)> {
        let all = self.groups.iter().flat_map(Group::ledgers);
        all.map(|ledger| (ledger.rank(), ledger.file(), ledger.kept()))
    }

    /// Keeps the cuts that were made, then announces them as stable.
    pub fn commit(&mut self, turn: &mut Turn) {
        let now = Instant::now();
        if !self.begin_commit(now) {
            return;
        }
        loop {
            let Logger { disk, groups } = self;
            let writes: Vec<Write<'_>> = groups.iter().flat_map(Group::pending).collect();
            if writes.is_empty() {
                return;
            }
            let results = disk.commit(&writes);
            drop(writes);
            self.written(results, now, turn);
        }
    }

    /// Begins to keep the cuts that were made: whether there are any. The [`writes`](Self::writes) that follow are done one
    /// after the other by [`commit`](Self::commit); the simulator does them itself.
    pub fn begin_commit(&mut self, now: Instant) -> bool {
        self.groups.iter_mut().fold(false, |any, group| group.begin(now) | any)
    }

    /// What is to be written and synced next: the records of the cuts, then what makes them valid.
    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.groups.iter().flat_map(Group::pending)
    }

    /// Takes the results of these writes, in their order. A cut whose records are synced does not wait for those of other
    /// sets.
    pub fn written(
        &mut self,
        results: Vec<Result<(), CommitError>>,
        now: Instant,
        turn: &mut Turn,
    ) {
        let mut results = results.into_iter();
        for group in &mut self.groups {
            turn.reports.extend(group.ended(&mut results, now));
        }
    }

    /// Copies all events of a rank, which is dead, as a [packed store](super::Unpacked): those that are kept,
    /// and those that are in its ring. Returns how many they are; `None`: no such rank.
    ///
    /// # Errors
    /// [`CopyError::Ring`] when the ring is damaged; [`CopyError::File`] when the file is, or cannot be read.
    pub fn copy(&self, rank: Rank, into: &File) -> Option<Result<u64, CopyError>> {
        Some(self.ledger(rank)?.copy(into))
    }

    /// The clock of the last event of a rank that is kept; `None`: no such rank.
    pub fn kept(&self, rank: Rank) -> Option<u64> {
        self.ledger(rank).map(RankStore::kept)
    }

    fn ledger(&self, rank: Rank) -> Option<&RankStore> {
        self.groups.iter().flat_map(Group::ledgers).find(|ledger| ledger.rank() == rank)
    }
}

/// Where the file of a rank ends.
fn end(group: &Group, rank: Rank) -> Result<End, CutFileError> {
    let Some(cuts) = group.cuts().filter(|_| !mutant!(LoggerBelievesTornCut)) else {
        return Ok(End::Torn);
    };
    let last = cuts.last();
    match last.clock(rank) {
        Ok(clock) => Ok(End::Cut { clock, number: last.number }),
        Err(what) => Err(CutFileError::Cut { file: cuts.name().to_owned(), what }),
    }
}

#[cfg(test)]
mod tests;
