//! Copies of the events of a node's ranks on another node, so that the loss of a node costs only its own work.
//! `docs/spec/agent.md`, section 11.

use super::nodes::NodeState;
use super::starts::Phase;
use super::{Launcher, Report};
use crate::NodeId;
use crate::wire::{CopyOrder, Durability, Frame, LoggingProtocol, Malformed};
use std::collections::BTreeSet;

/// The copy of a node.
#[derive(Debug, Default)]
pub(super) struct Copy {
    /// The last order; 0: there was none.
    epoch: u64,
    /// Where it has asked for; nowhere, if no node is left.
    to: Option<NodeId>,
    /// The order by which all of it is on a node, and that.
    whole: Option<(u64, NodeId)>,
    /// Another order is needed.
    is_void: bool,
    /// Nodes that this one cannot reach.
    avoid: BTreeSet<NodeId>,
}

/// Where the events of a node may be copied to.
enum Choice {
    Node(NodeId),
    /// One that is not up yet.
    Later,
    Nowhere,
}

impl Launcher {
    /// Whether events are to be on two nodes.
    pub(super) fn copies(&self) -> bool {
        let logging = self.config.logging.as_ref();
        let durability = logging.map(|logging| &logging.durability);
        self.nodes.len() > 1 && matches!(durability, Some(Durability::Copies(2..)))
    }

    /// The node that has a whole copy of the events of another one, and the order by which it has it. In causal logging it
    /// lacks those that survivors hold alone.
    pub(super) fn holder(&self, home: NodeId) -> Option<(NodeId, u64)> {
        let protocol = self.config.logging.as_ref().map(|logging| logging.protocol);
        if protocol == Some(LoggingProtocol::Causal) {
            return None;
        }
        let (epoch, node) = self.nodes[usize::from(home)].copy.whole?;
        self.nodes[usize::from(node)].is_up().then_some((node, epoch))
    }

    /// The copy of a node does not have all of it any more: ranks arrive there, or it is lost.
    pub(super) fn void_copy(&mut self, home: NodeId) {
        let copy = &mut self.nodes[usize::from(home)].copy;
        copy.is_void = true;
        if !mutant!(FormerCopyCounts) {
            copy.whole = None;
        }
    }

    /// A node can keep copies of others there. Those that it has had before are gone.
    pub(super) fn store(&mut self, node: NodeId, address: String) {
        self.nodes[usize::from(node)].store = Some(address);
        for home in 0..self.nodes.len() {
            if self.nodes[home].copy.to == Some(node) {
                self.void_copy(home as NodeId);
            }
        }
    }

    /// All events of a node's ranks are where an order has asked for.
    pub(super) fn copied(&mut self, home: NodeId, epoch: u64) -> Result<(), Malformed> {
        let copy = &mut self.nodes[usize::from(home)].copy;
        if epoch == 0 || epoch > copy.epoch {
            return Err(Malformed::new("order", format!("1 to {}", copy.epoch), epoch));
        }
        if epoch == copy.epoch && !copy.is_void {
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
        let copy = &mut self.nodes[usize::from(home)].copy;
        if epoch == 0 || epoch > copy.epoch {
            return Err(Malformed::new("order", format!("1 to {}", copy.epoch), epoch));
        }
        if epoch == copy.epoch && !copy.is_void {
            copy.avoid.extend(copy.to);
            self.void_copy(home);
            self.report(Report::Uncopied { node: home, why });
        }
        Ok(())
    }

    /// Orders copies that there are to be, and are not.
    pub(super) fn check_copies(&mut self) {
        if !self.copies() || self.ending {
            return;
        }
        for home in 0..self.nodes.len() as NodeId {
            let has_ranks = self.ranks.iter().any(|rank| rank.node() == home);
            let arrives = |phase| matches!(phase, Phase::Published { node, .. } if node == home);
            let arriving = self.ranks.iter().any(|rank| rank.moves && arrives(rank.phase));
            if has_ranks && !arriving && self.nodes[usize::from(home)].is_up() {
                self.check_copy(home);
            }
        }
    }

    fn check_copy(&mut self, home: NodeId) {
        let Copy { epoch, to, is_void, .. } = self.nodes[usize::from(home)].copy;
        let is_there = to.is_some_and(|to| self.nodes[usize::from(to)].is_up());
        if epoch > 0 && !is_void && is_there {
            return;
        }
        if to.is_some() && !is_void {
            self.void_copy(home);
        }
        match self.successor(home) {
            Choice::Node(to) => self.order_copy(home, Some(to)),
            Choice::Later => {}
            Choice::Nowhere if epoch == 0 || to.is_some() => self.order_copy(home, None),
            Choice::Nowhere => {}
        }
    }

    fn order_copy(&mut self, home: NodeId, to: Option<NodeId>) {
        self.copy_epoch += 1;
        let epoch = self.copy_epoch;
        let store = to.and_then(|to| self.nodes[usize::from(to)].store.clone());
        let copy = &mut self.nodes[usize::from(home)].copy;
        (copy.epoch, copy.to, copy.is_void) = (epoch, to, false);
        let (node, address) = (to.unwrap_or(home), store.unwrap_or_default());
        self.send(home, Frame::Copy(CopyOrder { epoch, node, address }));
        self.report(Report::Copying { node: home, to });
    }

    /// The reliable host, else one without ranks before one that has some, in the order behind this node.
    fn successor(&mut self, home: NodeId) -> Choice {
        let nodes = self.nodes.len() as NodeId;
        let avoid = &self.nodes[usize::from(home)].copy.avoid;
        let others = (1..nodes).map(|behind| (home + behind) % nodes);
        let mut order: Vec<NodeId> = others.filter(|node| !avoid.contains(node)).collect();
        let has_ranks = |node| self.ranks.iter().any(|rank| rank.node() == node);
        let is_other = |node| self.config.reliable != Some(node) || mutant!(ReliablePassedOver);
        order.sort_by_key(|node| (is_other(*node), has_ranks(*node)));
        for node in order {
            match &self.nodes[usize::from(node)] {
                of if of.is_up() && of.store.is_some() => return Choice::Node(node),
                of if of.is_up() => return Choice::Later,
                of => match of.state {
                    NodeState::Starting { .. } => return Choice::Later,
                    NodeState::Idle => {
                        self.start_agent(node);
                        return Choice::Later;
                    }
                    NodeState::Up | NodeState::Cut | NodeState::Ended => {}
                },
            }
        }
        Choice::Nowhere
    }
}
