//! What fails.

use super::World;
use crate::case::Fault;
use crate::network::End;

impl World<'_> {
    /// Lets something fail, if it is there to fail.
    pub(super) fn fail(&mut self, fault: &Fault) {
        match fault {
            Fault::Kill(ranks) => {
                for &rank in ranks {
                    self.kill_set(self.set_of[(rank % self.case.ranks) as usize]);
                }
            }
            Fault::Cut(a, b) => {
                let (a, b) = (a % self.case.ranks, b % self.case.ranks);
                let apart = self.set_of[a as usize] != self.set_of[b as usize];
                let whole = [(a, b), (b, a)].into_iter().all(|(rank, peer)| {
                    let end = self.network.see(rank, peer);
                    end.open && !end.cut
                });
                if apart && whole {
                    let kept = [self.random.usize(0..4), self.random.usize(0..4)];
                    self.network.lost(a, b, kept);
                    self.faults += 1;
                }
            }
            Fault::Logger => self.kill_logger(),
            Fault::Node(rank) => {
                self.kill_set(self.set_of[(rank % self.case.ranks) as usize]);
                self.kill_logger();
            }
        }
    }

    fn kill_logger(&mut self) {
        if !self.logger.runs {
            return;
        }
        let random = &mut self.random;
        self.logger.crash(|under_way| {
            let kept = random.usize(0..=under_way);
            let flipped = (kept > 0 && random.u8(0..4) == 0).then(|| random.usize(0..kept));
            (kept, flipped)
        });
        self.faults += 1;
    }

    fn kill_set(&mut self, set: usize) {
        let members = &self.case.sets[set];
        for &member in members {
            if self.ranks[member as usize].take().is_some() {
                self.faults += 1;
            }
            self.storing[member as usize] = None;
            self.network.died(member);
        }
        if self.case.causal {
            self.died(members);
        }
        for &member in members {
            self.oracle.died(member);
        }
        for &member in members {
            for &fellow in members {
                *self.network.end(member, fellow) = End::default();
            }
        }
        if !self.case.causal {
            self.logger.set_died(set);
        }
    }
}
