//! In causal logging, where the events of a rank that dies are lost: what the logger has, and what
//! survivors hold.
//!
//! Each survivor is asked by itself, while the others go on. When it says what it holds, it has given up
//! its connections with all who are dead: nothing comes later from them. When another one dies before all
//! have answered, all are asked again, since it may have told something to one that had answered already.

use super::World;
use crate::broken::Broken;
use crate::oracle::Checked;
use taffrail_logging::Rank;

impl World<'_> {
    /// Whether a dead rank may start.
    pub(super) fn may_start(&self, rank: Rank) -> bool {
        let dead = |rank: Rank| self.ranks[rank as usize].is_none();
        if !self.case.causal {
            return self.logger.can_download(self.set_of[rank as usize], dead);
        }
        let asked = (0..self.case.ranks).all(|other| !self.is_to_answer(other));
        self.logger.is_settled(rank) && asked
    }

    /// Whether a rank lives that has to say what it holds.
    pub(super) fn is_to_answer(&self, rank: Rank) -> bool {
        self.case.loses_rings()
            && self.ranks[rank as usize].is_some()
            && self.answers[rank as usize].is_none()
            && self.ranks.iter().any(Option::is_none)
    }

    /// A survivor says what it holds.
    pub(super) fn ask(&mut self, rank: Rank) {
        for dead in 0..self.case.ranks {
            let open = self.ranks[dead as usize].is_none() && self.network.see(rank, dead).open;
            if open && self.case.broken != Some(Broken::DeadStillBelieved) {
                let stray = self.random.bool();
                self.network.give_up(rank, dead, stray);
                self.live(rank).wiring.disconnected(dead);
            }
        }
        self.answers[rank as usize] = Some(self.live(rank).wiring.all_held());
    }

    /// What all survivors hold.
    pub(super) fn held(&self) -> Vec<Vec<u8>> {
        match self.case.broken {
            Some(Broken::SurvivorsNotAsked) => Vec::new(),
            _ => self.answers.iter().flatten().cloned().collect(),
        }
    }

    /// Some ranks have died.
    pub(super) fn died(&mut self, members: &[Rank]) {
        if self.case.broken != Some(Broken::SurvivorsNotAskedAgain) {
            self.answers.fill(None);
        }
        for &rank in members {
            self.answers[rank as usize] = None;
            if self.case.loses_rings() {
                self.logger.lost(rank);
            }
        }
    }

    /// A rank has started. Where its ring was lost, it writes again what others held of its events; and
    /// if another one is dead, it is to answer like others.
    pub(super) fn is_back(&mut self, rank: Rank) -> Checked {
        if !self.case.loses_rings() {
            return Ok(());
        }
        self.answers[rank as usize] = None;
        self.logger.comes_back(rank);
        let stable = self.logger.stable(rank);
        let again: Vec<_> = self.live(rank).wiring.write_again(stable).collect();
        again.into_iter().try_for_each(|event| self.write(rank, event))
    }
}
