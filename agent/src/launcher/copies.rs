//! Copies of the events of a node's ranks on other nodes, so that the loss of nodes costs only their own work.
//! `docs/spec/agent.md`, section 11.

use super::nodes::NodeState;
use super::starts::{Phase, Rank};
use super::{Config, Launcher, Report};
use crate::NodeId;
use crate::wire::{CopyOrder, Durability, Frame, Malformed};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A node that could not be reached is tried again after this time.
const AVOIDED_FOR: Duration = Duration::from_secs(5);

/// Nothing else is ordered for this time where copying has failed: ranks may report that their node is parted from others.
const SETTLING: Duration = Duration::from_secs(5);

/// How many event loggers of each node copy to other nodes: all but the first.
pub(super) fn loggers_that_copy(config: &Config) -> u32 {
    match config.logging.as_ref().map(|logging| &logging.durability) {
        Some(Durability::Copies(copies)) if config.hosts.0.len() > 1 => copies - 1,
        _ => 0,
    }
}

/// The copies of a node's events.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// One for each event logger of the node behind the first.
    all: Vec<Copy>,
    /// Nodes that this one could not reach, and until when they are not tried again.
    avoid: BTreeMap<NodeId, Duration>,
    /// In causal logging: ranks of a lost node have come to others here. Their events are cut by an event logger each, so that a
    /// copy may have one without another that it depends on: there is none any more.
    is_mixed: bool,
}

/// One of them: all that is stable is in each that counts.
#[derive(Debug, Default)]
struct Copy {
    /// The last order; 0: there was none.
    epoch: u64,
    /// Where it has asked for; nowhere, if no node is left.
    to: Option<NodeId>,
    /// The order by which all of it is on a node, and that.
    whole: Option<(u64, NodeId)>,
    /// Another order is needed.
    is_void: bool,
    /// Until when it waits, since the node could not copy. What was copied before counts meanwhile.
    settles: Option<Duration>,
}

impl Copy {
    /// The node where it is, or is brought to, and where no other copy may be.
    fn node(&self) -> Option<NodeId> {
        self.to.filter(|_| !self.is_void || self.whole.is_some())
    }

    /// The node does not have all of it any more.
    fn void(&mut self) {
        self.is_void = true;
        if !mutant!(FormerCopyCounts) {
            self.whole = None;
        }
    }
}

impl Copies {
    /// Those of a node with this number of event loggers behind the first; none was ordered.
    pub fn new(loggers: u32) -> Copies {
        let all = (0..loggers).map(|_| Copy::default()).collect();
        Copies { all, ..Copies::default() }
    }

    /// When another node may be tried for those that have none.
    pub fn due(&self) -> Option<Duration> {
        let waits = self.all.iter().any(|copy| copy.to.is_none() || copy.is_void);
        let avoided = self.avoid.values().copied().min().filter(|_| waits);
        avoided.into_iter().chain(self.all.iter().filter_map(|copy| copy.settles)).min()
    }

    /// What was to be waited for until now.
    fn wait_no_more(&mut self, now: Duration) {
        self.avoid.retain(|_, until| *until > now);
        for copy in &mut self.all {
            copy.settles = copy.settles.filter(|until| *until > now);
        }
    }

    /// The copy that was ordered last by this number; none, if there was another order since.
    fn of_order(&mut self, epoch: u64) -> Result<Option<&mut Copy>, Malformed> {
        let newest = self.all.iter().map(|copy| copy.epoch).max().unwrap_or(0);
        if epoch == 0 || epoch > newest {
            return Err(Malformed::new("order", format!("1 to {newest}"), epoch));
        }
        Ok(self.all.iter_mut().find(|copy| copy.epoch == epoch && !copy.is_void))
    }

    /// The orders by which all of it is on other nodes.
    #[cfg(test)]
    pub fn orders(&self) -> Vec<u64> {
        self.all.iter().filter_map(|copy| Some(copy.whole?.0)).collect()
    }

    /// Whether this number is that of the last order of one of them.
    pub fn are_of(&self, epoch: u64) -> bool {
        self.all.iter().any(|copy| copy.epoch == epoch)
    }

    /// Whether one may be brought to a node, as far as the node itself and the other copies are concerned.
    fn may_be_on(&self, node: NodeId, number: usize) -> bool {
        let mut others = self.all.iter().enumerate().filter(|(other, _)| *other != number);
        let is_free = mutant!(TwoOnOneNode) || others.all(|(_, copy)| copy.node() != Some(node));
        is_free && !self.avoid.contains_key(&node)
    }
}

/// Where the events of a node may be copied to.
enum Choice {
    Node(NodeId),
    /// That one, which is not up yet.
    Later(NodeId),
    Nowhere,
}

impl Launcher {
    /// Whether events are to be on several nodes.
    pub(super) fn copies(&self) -> bool {
        self.nodes.iter().any(|node| !node.copies.all.is_empty())
    }

    /// A node that has a whole copy of the events of another one, and the order by which it has it. In causal logging it
    /// lacks those that survivors hold alone.
    pub(super) fn holder(&self, home: NodeId) -> Option<(NodeId, u64)> {
        let all = self.nodes[usize::from(home)].copies.all.iter();
        let first = if mutant!(FirstCopyAlone) { 1 } else { usize::MAX };
        let mut whole = all.take(first).filter_map(|copy| copy.whole);
        let (epoch, node) = whole.find(|(_, node)| self.nodes[usize::from(*node)].is_up())?;
        Some((node, epoch))
    }

    /// The copies of a node do not have all of it any more: ranks arrive there, or it is lost.
    pub(super) fn void_copies(&mut self, home: NodeId) {
        self.nodes[usize::from(home)].copies.all.iter_mut().for_each(Copy::void);
    }

    /// A node is lost. In causal logging the copies of the others may lack events that its ranks' replays depend on,
    /// of a moment ago: another one is survived once all were copied again.
    pub(super) fn void_all_copies(&mut self, lost: NodeId) {
        if self.is_causal() {
            let others = (0..self.nodes.len() as NodeId).filter(|home| *home != lost);
            others.for_each(|home| self.void_copies(home));
        }
    }

    /// Ranks of a lost node arrive at this one.
    pub(super) fn mix(&mut self, node: NodeId) {
        let stays = |rank: &Rank| match rank.phase {
            Phase::Waiting { .. } => false,
            Phase::Published { node: on, .. } | Phase::Placed { node: on } => {
                on == node && !rank.moves
            }
            Phase::Over => rank.last == node,
        };
        if self.is_causal() && self.ranks.iter().any(stays) {
            self.nodes[usize::from(node)].copies.is_mixed = true;
        }
    }

    /// A node can keep copies of others there. Those that it has had before are gone.
    pub(super) fn store(&mut self, node: NodeId, address: String) {
        self.nodes[usize::from(node)].store = Some(address);
        self.void_copies_on(node, |_| true);
    }

    /// A node does not have what these orders have asked for.
    pub(super) fn void_copies_on(&mut self, node: NodeId, is_lost: impl Fn(u64) -> bool) {
        let all = self.nodes.iter_mut().flat_map(|home| &mut home.copies.all);
        let on_node = all.filter(|copy| copy.to == Some(node) && is_lost(copy.epoch));
        on_node.for_each(Copy::void);
    }

    /// A rank of a lost node was started from a copy by this order. In causal logging other copies may lack events that it
    /// depends on: those of the same node start from the same copy.
    pub(super) fn use_one_copy(&mut self, home: NodeId, epoch: u64) {
        if self.is_causal() {
            let all = self.nodes[usize::from(home)].copies.all.iter_mut();
            all.filter(|copy| copy.epoch != epoch).for_each(Copy::void);
        }
    }

    /// All events of a node's ranks are where an order has asked for.
    pub(super) fn copied(&mut self, home: NodeId, epoch: u64) -> Result<(), Malformed> {
        if let Some(copy) = self.nodes[usize::from(home)].copies.of_order(epoch)? {
            copy.whole = copy.to.map(|to| (epoch, to));
        }
        Ok(())
    }

    /// They cannot be brought there.
    pub(super) fn uncopied(
        &mut self,
        home: NodeId,
        epoch: u64,
        why: String,
    ) -> Result<(), Malformed> {
        let now = self.now;
        let copies = &mut self.nodes[usize::from(home)].copies;
        if let Some(copy) = copies.of_order(epoch)? {
            (copy.is_void, copy.settles) = (true, copy.whole.map(|_| now + SETTLING));
            let until = copy.settles.unwrap_or(now) + AVOIDED_FOR;
            let to = copy.to;
            copies.avoid.extend(to.map(|to| (to, until)));
            self.report(Report::Uncopied { node: home, why });
        }
        Ok(())
    }

    /// Orders copies that there are to be, and are not.
    pub(super) fn check_copies(&mut self) {
        // A link that was cut may have healed.
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.copies.wait_no_more(now));
        if self.ending {
            return;
        }
        for home in 0..self.nodes.len() as NodeId {
            let has_ranks = self.ranks.iter().any(|rank| rank.node() == home);
            let arrives = |phase| matches!(phase, Phase::Published { node, .. } if node == home);
            let arriving = self.ranks.iter().any(|rank| rank.moves && arrives(rank.phase));
            if has_ranks && !arriving && self.nodes[usize::from(home)].is_up() {
                let mut awaited = BTreeSet::new();
                for number in 0..self.nodes[usize::from(home)].copies.all.len() {
                    self.check_copy(home, number, &mut awaited);
                }
            }
        }
    }

    /// Orders a copy if that is needed. It may wait for a node that is not up, which is added to those that others wait for.
    fn check_copy(&mut self, home: NodeId, number: usize, awaited: &mut BTreeSet<NodeId>) {
        let Copy { epoch, to, is_void, .. } = self.nodes[usize::from(home)].copies.all[number];
        let is_there = to.is_some_and(|to| self.nodes[usize::from(to)].is_up());
        if epoch > 0 && !is_void && is_there || self.keeps_former(home, number) {
            return;
        }
        if to.is_some() && !is_void {
            self.nodes[usize::from(home)].copies.all[number].void();
        }
        match self.successor(home, number, awaited) {
            Choice::Node(to) => self.order_copy(home, number, Some(to), awaited),
            Choice::Later(node) => _ = awaited.insert(node),
            Choice::Nowhere if self.may_try_again(home, number) => {}
            Choice::Nowhere if epoch == 0 || to.is_some() => {
                self.order_copy(home, number, None, awaited);
            }
            Choice::Nowhere => {}
        }
    }

    /// Whether this copy counts, and its node is up.
    fn counts(&self, home: NodeId, number: usize) -> bool {
        let whole = self.nodes[usize::from(home)].copies.all[number].whole;
        whole.is_some_and(|(_, node)| self.nodes[usize::from(node)].is_up())
    }

    /// A node cannot copy any more, and may be ended because others do not reach it, either: what was copied before has all that
    /// is stable until another order is sent.
    fn keeps_former(&self, home: NodeId, number: usize) -> bool {
        let settles = self.nodes[usize::from(home)].copies.all[number].settles.is_some();
        self.counts(home, number) && (settles || self.is_parted(home))
    }

    /// Whether the former copy is kept: it counts, and a node that could not be reached is tried again later.
    fn may_try_again(&self, home: NodeId, number: usize) -> bool {
        self.counts(home, number) && !self.nodes[usize::from(home)].copies.avoid.is_empty()
    }

    fn order_copy(
        &mut self,
        home: NodeId,
        number: usize,
        to: Option<NodeId>,
        awaited: &BTreeSet<NodeId>,
    ) {
        self.copy_epoch += 1;
        let epoch = self.copy_epoch;
        let store = to.and_then(|to| self.nodes[usize::from(to)].store.clone());
        let copies = &mut self.nodes[usize::from(home)].copies;
        let copy = &mut copies.all[number];
        (copy.epoch, copy.to, copy.is_void, copy.settles) = (epoch, to, false, None);
        if !mutant!(FormerCopyCounts) {
            copy.whole = None;
        }
        let nodes: BTreeSet<NodeId> = copies.all.iter().filter_map(Copy::node).collect();
        let is_up = |node: &&NodeId| self.nodes[usize::from(**node)].is_up();
        let nodes = (nodes.iter().filter(is_up).count() + awaited.len()) as u32;
        let (node, address) = (to.unwrap_or(home), store.unwrap_or_default());
        let logger = number as u32 + 1;
        self.send(home, Frame::Copy(CopyOrder { epoch, logger, node, address }));
        self.report(Report::Copying { node: home, logger, to, nodes });
    }

    /// The reliable host, else one without ranks before one that has some, in the order behind this node; where no other copy
    /// is, and for which none waits.
    fn successor(&mut self, home: NodeId, number: usize, awaited: &BTreeSet<NodeId>) -> Choice {
        let nodes = self.nodes.len() as NodeId;
        let copies = &self.nodes[usize::from(home)].copies;
        if copies.is_mixed {
            return Choice::Nowhere;
        }
        let others = (1..nodes).map(|behind| (home + behind) % nodes);
        let is_free = |node: &NodeId| copies.may_be_on(*node, number) && !awaited.contains(node);
        let mut order: Vec<NodeId> = others.filter(is_free).collect();
        let has_ranks = |node| self.ranks.iter().any(|rank| rank.node() == node);
        let is_other = |node| self.config.reliable != Some(node) || mutant!(ReliablePassedOver);
        order.sort_by_key(|node| (is_other(*node), has_ranks(*node)));
        for node in order {
            match &self.nodes[usize::from(node)] {
                of if of.is_up() && of.store.is_some() => return Choice::Node(node),
                of if of.is_up() => return Choice::Later(node),
                of => match of.state {
                    NodeState::Starting { .. } => return Choice::Later(node),
                    NodeState::Idle => {
                        self.start_agent(node);
                        return Choice::Later(node);
                    }
                    NodeState::Up | NodeState::Cut | NodeState::Revoked | NodeState::Ended => {}
                },
            }
        }
        Choice::Nowhere
    }

    /// Whether the job survives that these nodes are gone: all ranks run, or are done, and those of each of the nodes have as many
    /// copies that count as there are nodes of whose loss nothing is known, and one more for each of these copy stores.
    #[cfg(test)]
    pub(crate) fn survives(&self, gone: &[NodeId], stores: usize) -> bool {
        let is_new = |node: &&NodeId| self.nodes[usize::from(**node)].state != NodeState::Ended;
        let lost: Vec<NodeId> = gone.iter().filter(is_new).copied().collect();
        let finished = |rank: usize| {
            let entry = self.roster.entry(rank as u32);
            entry.is_some_and(|entry| entry.state == crate::roster::RankState::Finished)
        };
        let is_safe = |(number, rank): (usize, &Rank)| {
            let Phase::Placed { node } = rank.phase else { return finished(number) };
            let copies = self.nodes[usize::from(node)].copies.all.len();
            let counting = (0..copies).filter(|copy| self.counts(node, *copy)).count();
            !lost.contains(&node) || counting >= lost.len() + stores
        };
        self.ranks.iter().enumerate().all(is_safe)
    }
}
