//! Links between ranks of two nodes that are down for good, while the launcher reaches both nodes: one of the two is ended as
//! lost. `docs/spec/agent.md`, section 6.
//!
//! Invariant: silence is never evidence. A rank that has reported a link may have got its message elsewhere and compute: then it
//! notices neither that the link is up again nor says so. So
//!
//! - a report counts for `Config::link_lapse`. A report that comes later begins the time of its link anew;
//! - the time of a link counts from the first of these reports to the last one but one. The last one may be of an attempt that
//!   failed long before the rank noticed that. It was made after the report before it, and so the link was down until that one;
//! - nodes and jobs are ended only when a report of the link comes, and not because time has passed.
//!
//! Reports of one rank are enough, about one peer: the other end may compute, or wait for nothing. Reports of several ranks are not
//! added up. A rank that waits repeats its reports more often than once in `link_lapse`. A rank that polls less often is not
//! waiting, and ends no node.

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
    /// The first report.
    since: Duration,
    /// The last report but one: the link was down until then.
    confirmed: Duration,
    /// The last report.
    last: Duration,
    why: String,
}

impl Down {
    fn new(now: Duration, why: String) -> Down {
        Down { since: now, confirmed: now, last: now, why }
    }

    /// It is reported again. Several reports that arrive together are one.
    fn repeat(&mut self, now: Duration) {
        if now > self.last {
            (self.confirmed, self.last) = (self.last, now);
        }
    }

    /// For how long it has been down at least.
    fn length(&self, now: Duration) -> Duration {
        if mutant!(SilenceCounts) {
            return now.saturating_sub(self.since);
        }
        self.confirmed.saturating_sub(self.since)
    }
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
        self.forget_unrepeated();
        let now = self.now;
        match down {
            Some(why) => {
                let of_link = self.links.0.entry((life, peer));
                of_link.or_insert_with(|| Down::new(now, why)).repeat(now);
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
        let restart = |down: &mut Down| (down.since, down.confirmed) = (now, now);
        self.links.0.values_mut().for_each(restart);
    }

    /// Links whose reports were not repeated count as up.
    fn forget_unrepeated(&mut self) {
        let (now, lapse) = (self.now, self.config.link_lapse);
        self.links.0.retain(|_, down| now < down.last + lapse || mutant!(SilenceCounts));
    }

    /// Links that have been down for too long, of those that are reported now: one of the two nodes is ended, or the job.
    pub(super) fn check_links(&mut self) {
        self.forget_unrepeated();
        let mut links = std::mem::take(&mut self.links.0);
        links.retain(|(life, peer), _| {
            self.reached(*life).is_some() && self.reached(*peer).is_some()
        });
        self.links.0 = links;
        if !self.judges_links() {
            return;
        }
        let now = self.now;
        for apart in self.apart(|down| down.last == now || mutant!(SilenceCounts)) {
            let took = apart.down.length(now);
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
        self.judges_links() && self.apart(|_| true).iter().any(|apart| apart.nodes.contains(&node))
    }

    /// When the first report stops counting, if it is not repeated.
    pub(super) fn links_due(&self) -> Option<Duration> {
        let last = self.links.0.values().map(|down| down.last).min();
        let due = last.filter(|_| self.judges_links())? + self.config.link_lapse;
        (self.now < due).then_some(due)
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

    /// Nodes that cannot reach each other by these links, with the link that has been down for the longest time first.
    fn apart(&self, counts: impl Fn(&Down) -> bool) -> Vec<Apart> {
        let mut pairs: BTreeMap<[NodeId; 2], Apart> = BTreeMap::new();
        for ((life, peer), down) in self.links.0.iter().filter(|(_, down)| counts(down)) {
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
        let apart = self.apart(|_| true);
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
        let why = self.words(apart, self.config.link_timeout);
        self.send(node, Frame::Revoke { why: why.clone() });
        self.nodes[usize::from(node)].state = NodeState::Revoked;
        let ranks = self.placed_on(node);
        self.report(Report::NodeRevoked { node, why, ranks, copy });
        if mutant!(EndedWhenRevoked) {
            self.node_ended(node, "it was revoked");
        }
    }

    fn fail_apart(&mut self, apart: &Apart) {
        let limit = self.config.link_timeout;
        let (what, limit) = (self.words(apart, 2 * limit), limit.as_secs_f32());
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

    fn words(&self, apart: &Apart, took: Duration) -> String {
        let [one, other] = apart.nodes.map(|node| &self.nodes[usize::from(node)].name);
        let [of_one, of_other] = apart.ranks;
        let seconds = took.as_secs_f32();
        let why = &apart.down.why;
        format!(
            "node {one} (rank {of_one}) and node {other} (rank {of_other}) have not reached each other for {seconds} s ({why}), and the \
             launcher reaches both"
        )
    }
}
