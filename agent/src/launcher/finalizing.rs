//! Ranks whose programs have completed, and restarts that they do not know of (*neighbours-only*).

use super::Launcher;
use crate::roster::{Change, RankState};
use crate::{NodeId, RankIncarnation};
use std::collections::BTreeSet;

impl Launcher {
    /// The program of a rank has completed, when the incarnations of all ranks that it knew of added up to `known`.
    ///
    /// *neighbours-only*: a restarted rank ends its receives from a rank that is FINALIZING, without a link with it. So the roster says
    /// so only of ranks that know of all restarts: others may have to send something again, and say it once more when they know. A rank
    /// never reads an incarnation that is not in the roster here, so that equal sums are equal incarnations.
    pub(super) fn finalizing(&mut self, life: RankIncarnation, node: NodeId, known: u64) {
        // Changes that wait have the incarnations of the roster: those of others are published at once (`advance`).
        let entries = self.roster.entries().iter();
        let all: u64 = entries.map(|entry| u64::from(entry.life.incarnation.0)).sum();
        if known == all || mutant!(StaleFinalizingBelieved) {
            self.change(life, node, RankState::Finalizing);
        }
    }

    /// A rank is about to be put into the roster. If that does not have this incarnation yet, those that are FINALIZING do not know of it:
    /// they are LIVE again in the same update (*neighbours-only*). It is started when all nodes have that, so that it never sees what
    /// they said before.
    ///
    /// An incarnation that was to be started on a node that is lost is put there again, with another node. Nobody says anything again
    /// then, and what ranks have said since it was put there first was said with it in mind.
    pub(super) fn take_back_finalizing(&mut self, life: RankIncarnation) {
        let entry = self.roster.entry(life.rank);
        let is_new = entry.is_some_and(|entry| entry.life.incarnation < life.incarnation)
            || mutant!(FinalizingTakenBackTwice);
        if !is_new || mutant!(FinalizingKept) {
            return;
        }
        let changed: BTreeSet<u32> = self.changes.iter().map(|change| change.life.rank).collect();
        let of_roster = self.roster.entries().iter();
        let unchanged = of_roster.filter(|entry| !changed.contains(&entry.life.rank)).copied();
        let is_finalizing = |change: &Change| change.state == RankState::Finalizing;
        let taken_back: Vec<Change> = unchanged.filter(is_finalizing).collect();
        self.changes.extend(taken_back);
        for change in self.changes.iter_mut().filter(|change| is_finalizing(change)) {
            change.state = RankState::Live;
        }
    }
}
