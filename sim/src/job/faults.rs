//! What fails: ranks, sets, links, and event loggers.

use super::Job;
use super::paths::Path;
use crate::case::Fault;
use crate::copies::Killed;
use crate::fabric::Step as NetStep;
use taffrail_logging::Rank;

impl<const S: bool, const L: bool> Job<'_, S, L> {
    /// Lets something fail, if it is there to fail.
    pub(super) fn fail(&mut self, fault: &Fault) {
        match fault {
            Fault::Kill(ranks) => {
                for rank in ranks.iter().map(|rank| rank % self.case.ranks) {
                    match self.case.deaths {
                        true => self.kill(rank),
                        false => self.kill_set(self.set_of[rank as usize]),
                    }
                }
            }
            Fault::Cut(a, b) => {
                self.cut((a % self.case.ranks) as usize, (b % self.case.ranks) as usize)
            }
            Fault::Logger => self.kill_logger(),
            Fault::Node(rank) => {
                self.kill_set(self.set_of[(rank % self.case.ranks) as usize]);
                self.kill_logger();
            }
        }
    }

    /// The link of two ranks is lost. Within a set, where nobody logs what is sent, the fabric heals it without a loss: it
    /// carries nothing for a while.
    fn cut(&mut self, a: usize, b: usize) {
        let path = match self.set_of[a] == self.set_of[b] {
            true => {
                let jam = |from, to| self.net.step(NetStep::Jam { from, to });
                (jam(a, b) | jam(b, a)).then_some(Path::LinkHealed)
            }
            false => {
                let broken = self.net.step(NetStep::Break(a.min(b), a.max(b)));
                broken.then_some(Path::LinkBroken)
            }
        };
        if let Some(path) = path {
            self.faults += 1;
            self.reach(path);
        }
    }

    fn kill_logger(&mut self) {
        let mut outside = self.outside.borrow_mut();
        let outside = &mut *outside;
        if let Some(copies) = &mut outside.logger.copies {
            let killed = copies.kill(self.random.usize(0..6));
            self.faults += usize::from(killed.is_some());
            let all = copies.count();
            match killed {
                Some(Killed::InFilling) => outside.oracle.paths.reach(Path::CopyDiedInFilling),
                Some(Killed::Whole { others: 1 }) if all == 3 => {
                    outside.oracle.paths.reach(Path::OneCopyLeft);
                }
                _ => {}
            }
        } else if outside.logger.runs {
            let random = &mut self.random;
            outside.logger.crash(|under_way| {
                let kept = random.usize(0..=under_way);
                let flipped = (kept > 0 && random.u8(0..4) == 0).then(|| random.usize(0..kept));
                (kept, flipped)
            });
            self.faults += 1;
        }
    }

    /// Kills a rank, if it lives.
    pub(super) fn kill(&mut self, rank: Rank) {
        let at = rank as usize;
        let opening = self.opening[at].is_some();
        if self.ranks[at].is_none() && !opening {
            return;
        }
        self.see_spilled(rank);
        if opening {
            self.reach(Path::DiedConnecting);
        }
        self.keep_log(rank);
        if self.case.copied && self.random.bool() {
            self.lose_node(rank);
        }
        let lingers = self.random.bool();
        self.net.step(NetStep::Kill { rank: at, lingers });
        self.ranks[at] = None;
        self.opening[at] = None;
        self.met[at] = false;
        self.faults += 1;
        if self.case.deaths {
            self.outside.borrow_mut().oracle.died(rank);
        }
    }

    fn kill_set(&mut self, set: usize) {
        let members = &self.case.sets[set];
        members.iter().for_each(|&member| self.kill(member));
        members.iter().for_each(|&member| self.outside.borrow_mut().oracle.died(member));
        match self.case.causal {
            true => self.died(members),
            false => {
                let outside = &mut *self.outside.borrow_mut();
                outside.oracle.logger_has(outside.logger.set_died(set));
            }
        }
    }
}
