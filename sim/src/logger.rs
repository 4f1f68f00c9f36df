//! The event logger of a job: what is written, what is stable, and what a crash leaves.
//!
//! With durability `disk` it is the product's, one for each set: the rings, their ends, the cuts, the files. What is simulated is
//! the disk: between the steps of a commit the logger may die, and then a part of what was to be written is in the files,
//! with a bit that is wrong or without. Harder than in the product, the rings are lost with the logger (and, in causal logging,
//! with their ranks): members get new ones, and write again what was not stable.
//!
//! With durability `process` an event is stable when it is in the ring, or, in causal logging, when the logger says so. With
//! `node` there are [several](CopyLoggers).

mod folder;
mod set;

use crate::broken::Broken;
use crate::case::Case;
use crate::copies::CopyLoggers;
use set::SetLogger;
use taffrail_logging::event::Full;
use taffrail_logging::store::Durability;
use taffrail_logging::{LoggedEvent, Rank, Set};

/// Events of a rank whose ring outlives all processes.
#[derive(Clone, Debug, Default)]
struct RankEvents {
    ring: Vec<LoggedEvent>,
    stable: usize,
}

/// The event logger.
#[derive(Debug)]
pub struct Logger {
    /// In its place several that each keep a copy.
    pub copies: Option<CopyLoggers>,
    /// Nobody waits for events to be stable, so they are not until it says so, for each durability.
    causal: bool,
    broken: Option<Broken>,
    /// With durability `disk`, the sets.
    sets: Vec<SetLogger>,
    /// The set of each rank.
    set_of: Vec<usize>,
    groups: Vec<Vec<Rank>>,
    /// With durability `process`, the ranks.
    events: Vec<RankEvents>,
    /// Whether it runs.
    pub runs: bool,
}

impl Logger {
    /// The logger of a job.
    pub fn new(case: &Case) -> Self {
        let Case { durability, causal, broken, .. } = *case;
        let groups = case.groups();
        let mut set_of = vec![0; groups.iter().map(Vec::len).sum()];
        for (set, members) in groups.iter().enumerate() {
            members.iter().for_each(|&rank| set_of[rank as usize] = set);
        }
        let on_disk = durability == Durability::Disk && case.logged;
        let sets = (0..).zip(&groups).filter(|_| on_disk).map(|(number, members)| {
            let set = Set { number, members: members.len() as u32, job: case.seed };
            SetLogger::new(set, members, case.habits.ring)
        });
        let several = matches!(durability, Durability::Node { .. });
        let copies = several.then(|| CopyLoggers::new(case));
        let events = vec![RankEvents::default(); set_of.len()];
        Logger { copies, causal, broken, sets: sets.collect(), set_of, groups, events, runs: true }
    }

    /// The set of a rank, if it has files.
    fn set(&self, rank: Rank) -> Option<&SetLogger> {
        self.sets.get(self.set_of[rank as usize])
    }

    fn set_mut(&mut self, rank: Rank) -> Option<&mut SetLogger> {
        self.sets.get_mut(self.set_of[rank as usize])
    }

    /// Whether a rank may have one more event that is not stable, given its limit of these. Where there are copies, the
    /// event is written.
    ///
    /// # Errors
    /// [`Full`].
    pub fn find_room(
        &mut self,
        rank: Rank,
        event: &LoggedEvent,
        capacity: u64,
    ) -> Result<(), Full> {
        if let Some(copies) = &mut self.copies {
            return copies.write(rank, event);
        }
        let room = self.set(rank).map_or(capacity, |set| capacity.min(set.most_unstable()));
        let is_room = event.clock <= self.stable(rank) + room;
        if is_room { Ok(()) } else { Err(Full) }
    }

    /// A rank writes an event that there is room for. Lost, if nobody is there to take it.
    ///
    /// # Errors
    /// When it does not follow the one before.
    pub fn write(&mut self, rank: Rank, event: LoggedEvent) -> Result<(), String> {
        if self.copies.is_some() {
            return Ok(());
        }
        let (runs, causal) = (self.runs, self.causal);
        if let Some(set) = self.set_mut(rank) {
            return if runs { set.write(rank, event) } else { Ok(()) };
        }
        let RankEvents { ring, stable } = &mut self.events[rank as usize];
        if ring.len() as u64 + 1 != event.clock {
            let clock = event.clock;
            return Err(format!("rank {rank} writes event {clock} behind event {}", ring.len()));
        }
        ring.push(event);
        if !causal {
            *stable = ring.len();
        }
        Ok(())
    }

    /// The clock up to which the events of a rank are stable.
    pub fn stable(&self, rank: Rank) -> u64 {
        match (&self.copies, self.set(rank)) {
            (Some(copies), _) => copies.stable(rank),
            (None, Some(set)) => set.stable(rank),
            (None, None) => self.events[rank as usize].stable as u64,
        }
    }

    /// The stable count that is published to ranks.
    pub fn announced(&self, rank: Rank) -> u64 {
        match (&self.copies, self.set(rank)) {
            (Some(copies), _) => copies.announced(rank),
            (None, Some(set)) => set.announced(rank),
            (None, None) => self.stable(rank),
        }
    }

    /// Whether the logger has something to do for a set.
    pub fn can_cut(&self, set: usize) -> bool {
        if !self.runs || self.copies.is_some() {
            return false;
        }
        match self.sets.get(set) {
            Some(set) => set.can_cut(),
            None => {
                let events = self.groups[set].iter().map(|&rank| &self.events[rank as usize]);
                self.causal && events.into_iter().any(|of| of.ring.len() > of.stable)
            }
        }
    }

    /// Begins a cut. (`chance`: whose events are stable, where those of each rank are by themselves.)
    ///
    /// # Errors
    /// What the logger reports.
    pub fn cut(&mut self, set: usize, chance: usize) -> Result<(), String> {
        if let Some(set) = self.sets.get_mut(set) {
            return set.cut();
        }
        let members = &self.groups[set];
        let ranks = (0..members.len()).map(|k| members[(k + chance) % members.len()] as usize);
        let is_open = |&rank: &usize| self.events[rank].ring.len() > self.events[rank].stable;
        if let Some(rank) = ranks.into_iter().find(is_open) {
            self.events[rank].stable = self.events[rank].ring.len();
        }
        Ok(())
    }

    /// Whether a cut of a set is being written.
    pub fn can_sync(&self, set: usize) -> bool {
        self.runs && self.sets.get(set).is_some_and(SetLogger::is_writing)
    }

    /// What was being written of a cut is synced.
    ///
    /// # Errors
    /// What the logger reports.
    pub fn sync(&mut self, set: usize) -> Result<(), String> {
        self.sets[set].sync()
    }

    /// All members of a set have died: nothing is awaited from them any more. If not all of them had
    /// come back after a crash of the logger, what some have written depends on what others have not.
    ///
    /// # Errors
    /// When the logger refuses.
    pub fn set_died(&mut self, set: usize) -> Result<(), String> {
        match self.sets.get_mut(set).filter(|_| self.runs) {
            Some(set) => set.died(),
            None => Ok(()),
        }
    }

    /// Whether a member of a dead set may have its events: when all that were written are stable, so
    /// that all members get theirs as of one cut.
    pub fn can_download(&self, set: usize, is_dead: impl Fn(Rank) -> bool) -> bool {
        let dead = self.groups[set].iter().filter(|&&rank| is_dead(rank));
        self.runs && dead.into_iter().all(|&rank| self.is_settled(rank))
    }

    /// A rank has died, and its ring with it: only what the logger has taken out of it is left. Until the
    /// rank is there again, and has written what others held of its events, nothing is known of what
    /// others have written that may depend on them.
    ///
    /// # Errors
    /// When the logger refuses.
    pub fn lost(&mut self, rank: Rank) -> Result<(), String> {
        match self.set_mut(rank) {
            Some(set) => set.lost(rank),
            None => Ok(()),
        }
    }

    /// Whether a rank may have what is left of its events: where rings are lost, when all of it is
    /// stable.
    pub fn is_settled(&self, rank: Rank) -> bool {
        let free = self.broken == Some(Broken::DownloadsUnstable);
        let settled = self.set(rank).is_none_or(|set| set.is_settled(rank));
        self.runs && (settled || free)
    }

    /// The events of a rank that starts again.
    ///
    /// # Errors
    /// When the logger refuses.
    pub fn download(&mut self, rank: Rank) -> Result<Vec<LoggedEvent>, String> {
        match self.set_mut(rank) {
            Some(set) => set.download(rank),
            None => Ok(self.events[rank as usize].ring.clone()),
        }
    }

    /// The logger is killed. Of each write that was under way `left` bytes are done, and one of these is perhaps not what was
    /// written.
    pub fn crash(&mut self, mut left: impl FnMut(usize) -> (usize, Option<usize>)) {
        self.runs = false;
        self.sets.iter_mut().for_each(|set| set.crash(&mut left));
    }

    /// The logger starts again, with what its files say. Whether it leaves something out: of a cut that was not ended.
    ///
    /// # Errors
    /// When something that was stable is not there.
    pub fn restart(&mut self, is_alive: impl Fn(Rank) -> bool) -> Result<bool, String> {
        self.runs = true;
        let (causal, mut torn) = (self.causal, false);
        for set in &mut self.sets {
            torn |= set.restart(|rank| causal || is_alive(rank))?;
        }
        Ok(torn)
    }

    /// Whether a rank that lives has to write again what was not stable.
    pub fn awaits(&self, rank: Rank) -> bool {
        self.runs && self.set(rank).is_some_and(|set| set.awaits(rank))
    }

    /// A rank has come back: its events beyond the stable ones follow. Whether something was left out of its file.
    ///
    /// # Errors
    /// When something that was stable is not there.
    pub fn comes_back(&mut self, rank: Rank) -> Result<bool, String> {
        match self.set_mut(rank).filter(|set| set.awaits(rank)) {
            Some(set) => set.serve(rank),
            None => Ok(false),
        }
    }
}
