//! The roster: which incarnation of every rank lives where. `docs/spec/agent.md`, section 8.

mod words;

pub use words::{ADDRESS_MAX, JobState, Reader, RosterError, Writer, words_of};

use crate::wire::{Malformed, RosterUpdate};
use crate::{NodeId, RankIncarnation};

/// What the roster says of an incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankState {
    /// The rank was not started yet.
    #[default]
    Absent,
    /// It will start, or runs.
    Live,
    /// Its process has ended, and the rank has not finished.
    Dead,
    /// Its process has ended with success.
    Finished,
    /// Its program has completed and its messages have left. Its process runs until all programs have completed.
    Finalizing,
}

impl RankState {
    /// The state with this number.
    pub fn from_u8(number: u8) -> Option<RankState> {
        use RankState::{Absent, Dead, Finalizing, Finished, Live};
        [Absent, Live, Dead, Finished, Finalizing].get(usize::from(number)).copied()
    }

    /// Whether its process may take something in.
    pub fn lives(self) -> bool {
        matches!(self, RankState::Live | RankState::Finalizing)
    }
}

/// The digest of a job's name in a roster: FNV-1a with 64 bits. Two jobs have different digests; it is no protection.
pub fn job_digest(name: &str) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv)
}

/// The entry of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The rank and its present incarnation.
    pub life: RankIncarnation,
    /// Where it runs.
    pub node: NodeId,
    /// How far it is.
    pub state: RankState,
}

/// The roster as a table, at the launcher and at an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    epoch: u64,
    entries: Vec<Change>,
}

impl Roster {
    /// Before any rank of a job of `ranks` is started: epoch 0.
    pub fn new(ranks: usize) -> Roster {
        let entry = |rank| Change { life: RankIncarnation::new(rank, 0), ..Change::default() };
        Roster { epoch: 0, entries: (0..ranks as u32).map(entry).collect() }
    }

    /// How many updates there were.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The entry of a rank.
    pub fn entry(&self, rank: u32) -> Option<&Change> {
        self.entries.get(rank as usize)
    }

    /// All entries, in the order of ranks.
    pub fn entries(&self) -> &[Change] {
        &self.entries
    }

    /// Makes changes: the update that says so to others.
    pub fn change(&mut self, changes: Vec<Change>) -> RosterUpdate {
        for change in &changes {
            if let Some(entry) = self.entries.get_mut(change.life.rank as usize) {
                *entry = *change;
            }
        }
        self.epoch += 1;
        RosterUpdate { epoch: self.epoch, changes }
    }

    /// Everything, for an agent that has nothing yet.
    pub fn whole(&self) -> RosterUpdate {
        let known = self.entries.iter().filter(|entry| entry.state != RankState::Absent);
        RosterUpdate { epoch: self.epoch, changes: known.copied().collect() }
    }

    /// Takes an update that the launcher has sent.
    ///
    /// # Errors
    /// The epoch goes back, a rank is not of this job, or an incarnation is lower than the one that is known.
    pub fn apply(&mut self, update: &RosterUpdate) -> Result<(), Malformed> {
        if update.epoch < self.epoch {
            return Err(Malformed::new("epoch", format!("{} or later", self.epoch), update.epoch));
        }
        for change in &update.changes {
            let entry = self.entry(change.life.rank).ok_or_else(|| {
                let expected = format!("below {}", self.entries.len());
                Malformed::new("rank", expected, change.life.rank)
            })?;
            let (known, new) = (entry.life.incarnation.0, change.life.incarnation.0);
            if new < known {
                return Err(Malformed::new("incarnation", format!("{known} or later"), new));
            }
        }
        for change in &update.changes {
            self.entries[change.life.rank as usize] = *change;
        }
        self.epoch = update.epoch;
        Ok(())
    }
}
