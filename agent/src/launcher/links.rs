//! Links between ranks of two nodes that are down for good, while the launcher reaches both nodes: one of the two is ended as
//! lost. `docs/spec/agent.md`, section 6.

use super::nodes::NodeState;
use super::{Launcher, Report};
use crate::wire::{Frame, Malformed};
use crate::{NodeId, RankIncarnation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Links that are down, by the rank that has reported it and its peer.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<(RankIncarnation, RankIncarnation), Down>);

#[derive(Clone, Debug)]
struct Down {
    since: Duration,
    why: String,
}

/// Two nodes that cannot reach each other.
struct Apart {
    nodes: [NodeId; 2],
    /// A rank of each.
    ranks: [u32; 2],
    down: Down,
}

impl Launcher {
    /// A rank reports that the node of a peer cannot be reached, or can again.
    ///
    /// # Errors
    /// There is no such peer.
    pub(super) fn link(
        &mut self,
        life: RankIncarnation,
        peer: RankIncarnation,
        down: Option<String>,
    ) -> Result<(), Malformed> {
        let ranks = self.config.ranks;
        if peer.rank as usize >= ranks || peer.rank == life.rank {
            let expected = format!("below {ranks}, and another rank than {}", life.rank);
            return Err(Malformed::new("peer", expected, peer.rank));
        }
        let since = self.now;
        match down {
            Some(why) => {
                self.links.0.entry((life, peer)).or_insert(Down { since, why });
            }
            None => {
                self.links.0.remove(&(life, peer));
            }
        }
        Ok(())
    }

    /// A node was lost: what is down may be so because of it, and copies are made anew.
    pub(super) fn restart_links(&mut self) {
        let now = self.now;
        self.links.0.values_mut().for_each(|down| down.since = now);
    }

    /// Links that have been down for too long: one of the two nodes is ended, or the job.
    pub(super) fn check_links(&mut self) {
        let mut links = std::mem::take(&mut self.links.0);
        links.retain(|(life, peer), _| {
            self.reached(*life).is_some() && self.reached(*peer).is_some()
        });
        self.links.0 = links;
        if !self.judges_links() {
            return;
        }
        for apart in self.apart() {
            let took = self.now.saturating_sub(apart.down.since);
            if took < self.config.link_timeout {
                continue;
            }
            if let Some((node, copy)) = self.expendable(apart.nodes) {
                return self.give_up(node, copy, &apart);
            }
            if took >= 2 * self.config.link_timeout {
                return self.fail_apart(&apart);
            }
        }
    }

    /// Whether another node does not reach this one.
    pub(super) fn is_parted(&self, node: NodeId) -> bool {
        self.judges_links() && self.apart().iter().any(|apart| apart.nodes.contains(&node))
    }

    /// When they are to be looked at again.
    pub(super) fn links_due(&self) -> Option<Duration> {
        let limit = self.config.link_timeout;
        let due = |apart: Apart| {
            let first = apart.down.since + limit;
            if self.now < first { first } else { first + limit }
        };
        self.judges_links().then(|| self.apart().into_iter().map(due).min()).flatten()
    }

    /// One node at a time is lost. Links without a log end by themselves, with an error of the program.
    fn judges_links(&self) -> bool {
        let is_leaving = |state: NodeState| matches!(state, NodeState::Cut | NodeState::Revoked);
        self.config.logging.is_some()
            && !self.ending
            && !self.is_asking()
            && !self.nodes.iter().any(|node| is_leaving(node.state))
            && !mutant!(LinksAwaited)
    }

    /// The node of this incarnation, if it runs where the launcher reaches it.
    fn reached(&self, life: RankIncarnation) -> Option<NodeId> {
        let (node, present) = self.placed(life.rank)?;
        (present == life && self.nodes[usize::from(node)].is_up()).then_some(node)
    }

    /// Nodes that cannot reach each other, with the link that has been down for the longest time first.
    fn apart(&self) -> Vec<Apart> {
        let mut pairs: BTreeMap<[NodeId; 2], Apart> = BTreeMap::new();
        for ((life, peer), down) in &self.links.0 {
            let (Some(one), Some(other)) = (self.reached(*life), self.reached(*peer)) else {
                continue;
            };
            let mut ends = [(one, life.rank), (other, peer.rank)];
            ends.sort_unstable();
            let (nodes, ranks) = (ends.map(|end| end.0), ends.map(|end| end.1));
            let apart = Apart { nodes, ranks, down: down.clone() };
            let is_first =
                pairs.get(&nodes).is_none_or(|known| apart.down.since < known.down.since);
            if one != other && is_first {
                pairs.insert(nodes, apart);
            }
        }
        let mut pairs: Vec<Apart> = pairs.into_values().collect();
        pairs.sort_by_key(|apart| (apart.down.since, apart.nodes));
        pairs
    }

    /// The one of two nodes that more others cannot reach, else the later one whose loss is survived; and the node with its copy.
    /// Never the reliable host. Without the other one its links would still be down.
    fn expendable(&self, nodes: [NodeId; 2]) -> Option<(NodeId, NodeId)> {
        let apart = self.apart();
        let unreached_by = |node: NodeId| {
            let pairs = apart.iter().filter(|apart| apart.nodes.contains(&node));
            pairs.map(|apart| apart.nodes).collect::<BTreeSet<_>>().len()
        };
        let may_end = |node: &NodeId| self.config.reliable != Some(*node);
        let most = nodes.into_iter().filter(may_end).map(unreached_by).max()?;
        let worst = nodes.into_iter().filter(|node| may_end(node) && unreached_by(*node) == most);
        worst.filter_map(|node| Some((node, self.holder(node)?.0))).max()
    }

    /// Ends the ranks of a node: it is lost when its agent has said so, or its lease has ended.
    fn give_up(&mut self, node: NodeId, copy: NodeId, apart: &Apart) {
        let why = self.words(apart);
        self.send(node, Frame::Revoke { why: why.clone() });
        self.nodes[usize::from(node)].state = NodeState::Revoked;
        let ranks = self.placed_on(node);
        self.report(Report::NodeRevoked { node, why, ranks, copy });
        if mutant!(EndedWhenRevoked) {
            self.node_ended(node, "it was revoked");
        }
    }

    fn fail_apart(&mut self, apart: &Apart) {
        let (what, limit) = (self.words(apart), self.config.link_timeout.as_secs_f32());
        let whole = match self.copies() {
            true => "no other node has a whole copy of the events of either",
            false => "the events of each are on it alone",
        };
        self.fail(format!(
            "{what}. Expected: a way between all nodes within {limit} s (--link-timeout), or a node that can be ended and whose ranks \
             can restart elsewhere; {whole}. Check the network between the two (--network takes another one), or name another \
             host, with --durability node"
        ));
    }

    fn words(&self, apart: &Apart) -> String {
        let [one, other] = apart.nodes.map(|node| &self.nodes[usize::from(node)].name);
        let [of_one, of_other] = apart.ranks;
        let seconds = self.now.saturating_sub(apart.down.since).as_secs();
        let why = &apart.down.why;
        format!(
            "node {one} (rank {of_one}) and node {other} (rank {of_other}) have not reached each other for {seconds} s ({why}), and the \
             launcher reaches both"
        )
    }
}
