//! Ranks of a lost node that restart together, from one copy: also when the copy that was asked for turns out to be gone.
//! `docs/spec/agent.md`, section 11.

use super::moves::Way;
use super::starts::Phase;
use super::{Launcher, Report};
use crate::NodeId;

impl Launcher {
    /// Whether a rank is to be where others of its lost node are: those of a correlated set, whose events one event logger
    /// cuts, and all ranks in causal logging. They stay where the copy is.
    pub fn stays_with_others(&self, rank: u32) -> bool {
        let is_shared = |sets: &Vec<usize>| {
            let same = |set: &&usize| **set == sets[rank as usize];
            sets.iter().filter(same).count() > 1
        };
        let in_set = self.config.sets.as_ref().is_some_and(is_shared);
        self.is_causal() || in_set && !mutant!(SetsSpread)
    }

    /// Whether these two are to be on one node, and to start from one copy.
    fn stay_together(&self, rank: usize, other: usize) -> bool {
        let sets = self.config.sets.as_ref();
        let are_set = sets.is_some_and(|sets| sets[rank] == sets[other]);
        let home = self.ranks[rank].home;
        let is_lost = !self.nodes[usize::from(home)].is_up();
        let are_of_lost = is_lost && self.ranks[other].home == home;
        rank != other && (are_set || are_of_lost && self.is_causal())
    }

    fn together_with(&self, rank: usize) -> impl Iterator<Item = usize> {
        (0..self.ranks.len()).filter(move |other| self.stay_together(rank, *other))
    }

    /// Whether the log of another rank that is to start together with this one is awaited.
    pub(super) fn lacks_another(&self, rank: usize) -> bool {
        self.together_with(rank).any(|other| self.ranks[other].recovering.is_some())
    }

    /// Ranks that stay together start from one copy: those whose logs are of a copy that counts no more, and of which others come
    /// from another one, are asked for anew.
    pub(super) fn check_together(&mut self) {
        if self.ending || mutant!(CopiesMixed) {
            return;
        }
        let all = 0..self.ranks.len();
        let apart: Vec<usize> = all.filter(|rank| self.is_apart(*rank)).collect();
        for rank in apart {
            self.ranks[rank].forget_copy();
            self.ask_for_log(rank as u32);
        }
    }

    fn is_apart(&self, number: usize) -> bool {
        let rank = &self.ranks[number];
        if !rank.has_copy() || matches!(rank.phase, Phase::Published { .. }) {
            return false;
        }
        let holder = self.holder(rank.home).map(|(_, copy)| copy);
        let is_elsewhere = |other: usize| {
            let other = &self.ranks[other];
            let comes = other.recovering.is_some() && holder.is_some();
            comes || other.has_copy() && other.copy != rank.copy
        };
        holder != Some(rank.copy) && self.together_with(number).any(is_elsewhere)
    }

    /// A node says of a rank that it does not have what this order was to bring there. The copies of this order count no more; a
    /// rank whose log was awaited from it is asked for as any other.
    pub(super) fn lacks(&mut self, node: NodeId, number: u32, epoch: u64, why: String) {
        if !mutant!(LostCopyCounts) {
            self.void_copies_on(node, |of| of == epoch);
        }
        let rank = &self.ranks[number as usize];
        let asked = match rank.way {
            None => rank.recovering.map(|from| (from, rank.copy)),
            Some(Way::Ordered { from, copy, .. }) => Some((from, copy)),
            Some(Way::Wanted | Way::Awaits { .. }) => None,
        };
        if asked != Some((node, epoch)) {
            return;
        }
        if !self.nodes[usize::from(rank.home)].copies.are_of(epoch) {
            // It was brought there.
            return self.give_up_way(number, node, why);
        }
        let life = self.ended(number);
        self.report(Report::NoCopy { life, node, why });
        self.ask_for_log(number);
    }
}
