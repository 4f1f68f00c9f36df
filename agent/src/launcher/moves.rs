//! Ranks of a lost node, each of which may be started on another node than the one that has the copy of its log: the log is
//! brought there first. `docs/spec/agent.md`, section 11.

use super::nodes::NodeState;
use super::{Launcher, Report};
use crate::place::{self, SeatState};
use crate::wire::{BringOrder, Frame, Malformed};
use crate::{NodeId, RankIncarnation};
use std::collections::BTreeMap;
use std::time::Duration;

/// After this number of attempts a rank is started where the copy of its log is.
const ATTEMPTS_MAX: usize = 2;

/// How far the log of a rank is on its way. Nothing of the rank lives meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A node is to be chosen.
    Wanted,
    /// That node is not up, or its copy store is not.
    Awaits { to: NodeId, until: Duration },
    /// One that has a copy, by the order `copy`, was asked to bring it there.
    Ordered { from: NodeId, copy: u64, to: NodeId, epoch: u64, until: Duration },
}

impl Way {
    /// Where it leads.
    pub fn to(self) -> Option<NodeId> {
        match self {
            Way::Wanted => None,
            Way::Awaits { to, .. } | Way::Ordered { to, .. } => Some(to),
        }
    }

    fn until(self) -> Option<Duration> {
        match self {
            Way::Wanted => None,
            Way::Awaits { until, .. } | Way::Ordered { until, .. } => Some(until),
        }
    }
}

impl Launcher {
    /// When a log that is on its way is too late.
    pub(super) fn moves_due(&self) -> Option<Duration> {
        let ways = self.ranks.iter().filter(|_| !self.ending);
        ways.filter_map(|rank| rank.way?.until()).min()
    }

    /// Takes logs that are to be brought as far as they may go.
    pub(super) fn check_moves(&mut self) {
        if self.ending {
            return;
        }
        for rank in 0..self.ranks.len() as u32 {
            self.check_way(rank);
        }
        let mut wanted: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for (number, rank) in (0..).zip(&self.ranks) {
            if rank.way == Some(Way::Wanted) {
                wanted.entry(rank.home).or_default().push(number);
            }
        }
        for (home, ranks) in wanted {
            self.choose(home, &ranks);
        }
        for rank in 0..self.ranks.len() as u32 {
            self.bring(rank);
        }
    }

    /// A way that leads nowhere any more is given up: nothing was started at its end.
    fn check_way(&mut self, rank: u32) {
        let Some(way) = self.ranks[rank as usize].way else { return };
        let is_late = way.until().is_some_and(|until| self.now >= until) && !mutant!(BringAwaited);
        let is_up = |node: NodeId| self.nodes[usize::from(node)].is_up();
        let leads = match way {
            Way::Wanted => true,
            Way::Awaits { to, .. } => {
                let starts =
                    matches!(self.nodes[usize::from(to)].state, NodeState::Starting { .. });
                starts || is_up(to)
            }
            Way::Ordered { to, .. } => is_up(to),
        };
        let from_lost = matches!(way, Way::Ordered { from, .. } if !is_up(from));
        if let Some(to) = way.to().filter(|_| is_late || !leads) {
            let why = if is_late { "it takes too long" } else { "the node is lost" };
            self.give_up_way(rank, to, why.to_owned());
        } else if from_lost {
            self.ranks[rank as usize].way = Some(Way::Wanted);
        }
    }

    /// The log of a rank is brought to another node than this one, which does not have it.
    pub(super) fn give_up_way(&mut self, number: u32, to: NodeId, why: String) {
        let life = self.ended(number);
        self.report(Report::NotMoved { life, to, why });
        self.ranks[number as usize].avoid.insert(to);
        self.ask_for_log(number);
    }

    /// Chooses nodes for ranks that have been on the same one.
    fn choose(&mut self, home: NodeId, ranks: &[u32]) {
        let Some((holder, copy)) = self.holder(home) else {
            return self.fail_without_log(ranks[0]);
        };
        for (&rank, to) in ranks.iter().zip(self.destinations(holder, ranks)) {
            if to == holder {
                self.ask(rank, holder, copy);
                continue;
            }
            if self.nodes[usize::from(to)].state == NodeState::Idle {
                self.start_agent(to);
            }
            let until = self.now + self.config.start_timeout + self.config.link_timeout;
            self.ranks[rank as usize].way = Some(Way::Awaits { to, until });
        }
    }

    /// Where the copy is, if that node has room for all of them; else as ranks without a log are placed.
    fn destinations(&self, holder: NodeId, ranks: &[u32]) -> Vec<NodeId> {
        let mut seats = self.seats();
        let there = seats[usize::from(holder)];
        let has_room = there.ranks as usize + ranks.len() <= there.slots as usize;
        let avoided = |rank: &u32| &self.ranks[*rank as usize].avoid;
        if has_room || ranks.iter().any(|rank| avoided(rank).len() >= ATTEMPTS_MAX) {
            return vec![holder; ranks.len()];
        }
        for node in ranks.iter().flat_map(avoided).filter(|node| **node != holder) {
            seats[usize::from(*node)].state = SeatState::Gone;
        }
        // Of equals the holder comes first: nothing travels then.
        seats.rotate_left(holder.into());
        let count = seats.len() as NodeId;
        let nodes = place::restart(&mut seats, ranks.len() as u32, false).into_iter().flatten();
        let mut nodes: Vec<NodeId> = nodes.map(|behind| (holder + behind) % count).collect();
        nodes.resize(ranks.len(), holder);
        nodes
    }

    /// Has the log of a rank brought to a node that is up.
    fn bring(&mut self, number: u32) {
        let Some(Way::Awaits { to, .. }) = self.ranks[number as usize].way else { return };
        let node = &self.nodes[usize::from(to)];
        let Some(address) = node.store.clone().filter(|_| node.is_up()) else { return };
        let home = self.ranks[number as usize].home;
        let Some((from, copy)) = self.holder(home) else { return self.fail_without_log(number) };
        self.copy_epoch += 1;
        let (life, epoch) = (self.ended(number), self.copy_epoch);
        let order = BringOrder { copy, epoch, node: to, address };
        self.send(from, Frame::Bring { life, order });
        self.report(Report::Moving { life, from, to });
        let until = self.now + self.config.link_timeout;
        self.ranks[number as usize].way = Some(Way::Ordered { from, copy, to, epoch, until });
        if mutant!(BringNotAwaited) {
            self.ask(number, to, epoch);
        }
    }

    /// A log is where it was to be brought, or could not be brought there; or a node does not have what it was asked for.
    pub(super) fn brought(
        &mut self,
        node: NodeId,
        life: RankIncarnation,
        epoch: u64,
        why: String,
    ) -> Result<(), Malformed> {
        if epoch == 0 || epoch > self.copy_epoch {
            return Err(Malformed::new("order", format!("1 to {}", self.copy_epoch), epoch));
        }
        match self.ranks[life.rank as usize].way {
            Some(Way::Ordered { from, to, epoch: of, .. }) if (from, of) == (node, epoch) => {
                match why.is_empty() {
                    true => self.ask(life.rank, to, epoch),
                    false => self.give_up_way(life.rank, to, why),
                }
            }
            // Of an order that was given up.
            _ if why.is_empty() => {}
            _ => self.lacks(node, life.rank, epoch, why),
        }
        Ok(())
    }
}
