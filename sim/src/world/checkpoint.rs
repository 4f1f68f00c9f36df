//! Checkpoints of ranks that are a set by themselves, at any moment.

use super::World;
use crate::broken::Broken;
use crate::call::Outcome;
use crate::oracle::Checked;
use crate::wiring::Checkpoint;
use taffrail_logging::Rank;

/// A checkpoint: it outlives its rank.
pub(super) struct Saved {
    pub(super) wiring: Checkpoint,
    /// The state of the program: what it was told.
    told: Vec<Outcome>,
}

impl World<'_> {
    /// Whether a rank may take a checkpoint, and it would be another one than the last.
    pub(super) fn may_take(&self, rank: Rank) -> bool {
        self.checkpoints < self.case.checkpoints as usize
            && self.storing[rank as usize].is_none()
            && self.ranks[rank as usize]
                .as_ref()
                .is_some_and(|live| live.has_called && live.wiring.may_take())
    }

    /// A rank takes a checkpoint. It is there at once, since the rank does nothing else until it is.
    pub(super) fn checkpoint(&mut self, rank: Rank) -> Checked {
        self.look(rank);
        let live = self.live(rank);
        let taken = live.wiring.take().map(|wiring| Saved { wiring, told: live.told.clone() });
        self.write_events(rank)?;
        self.hear_if_immediate();
        let Some(saved) = taken else { return Ok(()) };
        self.live(rank).has_called = false;
        self.checkpoints += 1;
        self.say(|| format!("      {:x?}", saved.wiring));
        self.oracle.takes(rank);
        if self.case.broken == Some(Broken::ToldBeforeCommitted) {
            self.tell(rank, &saved)?;
            self.storing[rank as usize] = Some(saved);
            return Ok(());
        }
        self.storing[rank as usize] = Some(saved);
        self.commit(rank)
    }

    /// A checkpoint that was taken is there, and is told.
    pub(super) fn commit(&mut self, rank: Rank) -> Checked {
        let Some(saved) = self.storing[rank as usize].take() else { return Ok(()) };
        self.oracle.commits(rank);
        if self.case.broken != Some(Broken::ToldBeforeCommitted) {
            self.tell(rank, &saved)?;
        }
        self.saved[rank as usize] = Some(saved);
        Ok(())
    }

    fn tell(&mut self, rank: Rank, saved: &Saved) -> Checked {
        let told = self.live(rank).wiring.committed(&saved.wiring);
        told.or_else(|trouble| self.trouble(rank, trouble))
    }

    /// What the program was told of a rank that starts from its checkpoint, if it has one.
    pub(super) fn went_on(&mut self, rank: Rank) -> Vec<Outcome> {
        let Some(saved) = &self.saved[rank as usize] else { return Vec::new() };
        self.restored += 1;
        saved.told.clone()
    }
}
