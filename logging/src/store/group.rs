//! The ranks whose events are stable together: a correlated set or, where events are stable as soon as
//! they are written, each by itself.

use super::cuts::CutFile;
use super::disk::{CommitError, Write};
use super::logger::Report;
use super::rank_store::RankStore;
use super::ring::RingError;
use super::snapshot::{Snapshot, moment};
use crate::{Cut, Rank, Set, mutant};
use std::time::{Duration, Instant};

/// After a commit has failed, it is tried again after this time, then after twice that.
const FIRST_RETRY: Duration = Duration::from_millis(10);
/// But not later than after this.
const LAST_RETRY: Duration = Duration::from_millis(500);

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is being written.
    Idle,
    /// The records of the cut.
    Records,
    /// What makes it valid.
    Seal,
}

/// The ranks of a set.
#[derive(Debug)]
pub(super) struct Group {
    set: Set,
    ledgers: Vec<RankStore>,
    /// Where cuts are made valid. A set of one rank needs none, nor does memory, which has no torn ends.
    cuts: Option<CutFile>,
    /// The cut whose records are being written, with the bytes that make it valid and their place.
    next: Option<(Cut, u64, Vec<u8>)>,
    /// What is being written.
    stage: Stage,
    /// No commit before this time, and how long to wait after the next failure.
    retry: Option<(Instant, Duration)>,
    /// Nothing more is read.
    damaged: bool,
    /// What is kept of all members was written at one moment.
    stands: bool,
}

/// What one member of a set has that is not kept yet: none, if only others have.
#[derive(Clone, Copy, Debug)]
pub struct Unkept<'a> {
    /// The member.
    pub rank: Rank,
    /// The clock of its last event that is kept.
    pub kept: u64,
    /// The clock of the last of these.
    pub clock: u64,
    /// Their records.
    pub records: &'a [u8],
}

impl Group {
    /// Of no ranks yet.
    pub fn new(set: Set, cuts: Option<CutFile>) -> Self {
        Group {
            set,
            ledgers: Vec::new(),
            cuts,
            next: None,
            stage: Stage::Idle,
            retry: None,
            damaged: false,
            stands: false,
        }
    }

    /// Which set it is.
    pub fn set(&self) -> &Set {
        &self.set
    }

    /// The cut file, if there is one.
    pub fn cuts(&self) -> Option<&CutFile> {
        self.cuts.as_ref()
    }

    /// The members that are served.
    pub fn ledgers(&self) -> &[RankStore] {
        &self.ledgers
    }

    /// One more member. With the last one comes the cut file, unless there was one.
    pub fn add(&mut self, ledger: RankStore, cuts: Option<CutFile>) {
        self.ledgers.push(ledger);
        // In the order of the members in a cut.
        self.ledgers.sort_unstable_by_key(RankStore::rank);
        self.cuts = self.cuts.take().or(cuts);
    }

    /// All ranks, when there are as many with one more.
    pub fn complete(&self, with: Rank) -> Option<Vec<Rank>> {
        let ranks = self.ledgers.iter().map(RankStore::rank).chain([with]);
        (self.ledgers.len() + 1 == self.set.members as usize).then(|| ranks.collect())
    }

    /// Makes a cut, if there is anything new. Returns whether there is.
    ///
    /// # Errors
    /// [`RingError`], once, and then nothing more is read.
    pub fn look(&mut self) -> Result<bool, RingError> {
        let is_whole =
            self.ledgers.len() == self.set.members as usize || mutant!(LoggerDoesNotWait);
        if self.damaged || !is_whole {
            return Ok(false);
        }
        let looked = self.cut();
        self.damaged = looked.is_err();
        looked
    }

    fn cut(&mut self) -> Result<bool, RingError> {
        let rings = self.ledgers.iter().map(RankStore::ring);
        let clocks = match moment(rings, self.ledgers.iter().map(RankStore::seen))? {
            Snapshot::Old => {
                // Read again in one round, and nothing is new since it was kept.
                self.stands |= self.ledgers.iter().all(|ledger| ledger.seen() == ledger.kept());
                return Ok(false);
            }
            Snapshot::Moving => return Ok(true),
            Snapshot::Still(mut clocks) => {
                if mutant!(LoggerCutsEachRank) {
                    self.cut_one(&mut clocks);
                }
                clocks
            }
        };
        let mut ledgers = self.ledgers.iter_mut().zip(&clocks);
        let read = ledgers.try_for_each(|(ledger, &clock)| ledger.read(clock));
        if read.is_err() && self.set.members > 1 {
            // Without what is damaged it is no cut.
            self.ledgers.iter_mut().for_each(RankStore::forget);
            return read.map(|()| true);
        }
        self.ledgers.iter_mut().for_each(RankStore::release);
        if let Some(cuts) = &self.cuts {
            let mut named: Vec<(Rank, u64)> =
                self.ledgers.iter().map(RankStore::rank).zip(clocks).collect();
            if mutant!(LoggerDoesNotWait) {
                let absent = |(rank, _): &&(Rank, u64)| named.iter().all(|(of, _)| of != rank);
                let absent: Vec<_> = cuts.last().clocks.iter().filter(absent).copied().collect();
                named.extend(absent);
                named.sort_unstable();
            }
            self.next = Some(cuts.next(named));
        }
        read.map(|()| true)
    }

    /// For a mutant: only one of the members that have written something is in the cut.
    fn cut_one(&self, clocks: &mut [u64]) {
        let is_new = |&at: &usize| clocks[at] > self.ledgers[at].seen();
        let new: Vec<usize> = (0..clocks.len()).filter(is_new).collect();
        let number = self.cuts.as_ref().map_or(0, |cuts| cuts.last().number);
        let chosen = new.get(number as usize % new.len().max(1)).copied();
        for at in new.into_iter().filter(|&at| Some(at) != chosen) {
            clocks[at] = self.ledgers[at].seen();
        }
    }

    /// Begins to write what there is, unless it failed a short time ago: whether there is anything.
    pub fn begin(&mut self, now: Instant) -> bool {
        let is_due = self.is_due(now);
        self.stage = match is_due {
            true if mutant!(LoggerSealsFirst) && self.next.is_some() => Stage::Seal,
            true => Stage::Records,
            false => Stage::Idle,
        };
        is_due
    }

    /// What is to be written and synced next.
    pub fn pending(&self) -> impl Iterator<Item = Write<'_>> {
        let records = self.writes().filter(|_| self.stage == Stage::Records);
        records.chain(self.seal().filter(|_| self.stage == Stage::Seal))
    }

    /// What came of writing it.
    pub fn ended(
        &mut self,
        results: &mut impl Iterator<Item = Result<(), CommitError>>,
        now: Instant,
    ) -> Option<Report> {
        match self.stage {
            Stage::Idle => None,
            Stage::Records => {
                let (whole, report) = self.written(results, now);
                self.stage = if whole { Stage::Seal } else { Stage::Idle };
                if mutant!(LoggerSealsFirst) && whole {
                    self.stage = Stage::Idle;
                    return self.sealed(Ok(()), now);
                }
                report
            }
            Stage::Seal if mutant!(LoggerSealsFirst) => {
                self.stage = Stage::Records;
                let _ = results.next();
                None
            }
            Stage::Seal => {
                self.stage = Stage::Idle;
                results.next().and_then(|result| self.sealed(result, now))
            }
        }
    }

    /// Whether there is something to be written now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.writes().next().is_some() && self.retry.is_none_or(|(at, _)| at <= now)
    }

    /// What is to be written of each member, if there is anything.
    pub fn unkept(&self) -> impl Iterator<Item = Unkept<'_>> {
        let any = self.writes().next().is_some();
        self.ledgers.iter().filter(move |_| any).map(RankStore::unkept)
    }

    /// What is kept of each member, if it was written at one moment.
    pub fn standing(&self) -> impl Iterator<Item = (Rank, u64)> {
        let all = self.ledgers.iter().filter(|_| self.stands);
        all.map(|ledger| (ledger.rank(), ledger.kept()))
    }

    /// The records to be written.
    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.ledgers.iter().filter_map(RankStore::write)
    }

    /// What came of writing them. Returns whether there is a [`seal`](Self::seal) to be written.
    pub fn written(
        &mut self,
        results: &mut impl Iterator<Item = Result<(), CommitError>>,
        now: Instant,
    ) -> (bool, Option<Report>) {
        let mut failed = None;
        for ledger in self.ledgers.iter().filter(|ledger| ledger.write().is_some()) {
            if let Some(Err(error)) = results.next() {
                failed.get_or_insert((ledger.rank(), ledger.name().to_owned(), error));
            }
        }
        match failed {
            Some((rank, file, error)) => (false, self.wait(rank, file, error, now)),
            None if self.next.is_some() => (true, None),
            None => (false, self.keep()),
        }
    }

    /// What makes the cut valid, once all of its records are synced.
    pub fn seal(&self) -> Option<Write<'_>> {
        let ((_, at, bytes), cuts) = self.next.as_ref().zip(self.cuts.as_ref())?;
        Some(Write { file: cuts.file(), at: *at, bytes })
    }

    /// What came of writing it.
    pub fn sealed(&mut self, result: Result<(), CommitError>, now: Instant) -> Option<Report> {
        let Some(cuts) = &mut self.cuts else { return None };
        match (result, self.next.take()) {
            (Ok(()), Some((cut, ..))) => {
                cuts.made(cut);
                self.keep()
            }
            (Err(error), next) => {
                self.next = next;
                let (rank, file) = (self.ledgers[0].rank(), cuts.name().to_owned());
                self.wait(rank, file, error, now)
            }
            (Ok(()), None) => None,
        }
    }

    /// All that was written is stable.
    fn keep(&mut self) -> Option<Report> {
        self.ledgers.iter_mut().for_each(RankStore::keep);
        self.stands = true;
        let rank = self.ledgers[0].rank();
        self.retry.take().map(|_| Report::Resumed { rank })
    }

    fn wait(
        &mut self,
        rank: Rank,
        file: String,
        error: CommitError,
        now: Instant,
    ) -> Option<Report> {
        let again = self.retry.map_or(FIRST_RETRY, |(_, delay)| (delay * 2).min(LAST_RETRY));
        let first = self.retry.replace((now + again, again)).is_none();
        first.then_some(Report::Waiting { rank, file, error })
    }
}
