//! Ranks: where they are placed, and when they may be started.

use super::nodes::{Node, NodeState};
use super::{Launcher, Report};
use crate::place::{self, Seat};
use crate::roster::RankState;
use crate::wire::{End, Frame, LeftBehind, Malformed};
use crate::{Incarnation, NodeId, RankIncarnation};
use std::collections::BTreeMap;

/// How far an incarnation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is to be started, perhaps on this node.
    Waiting { node: Option<NodeId> },
    /// The roster has it since this epoch.
    Published { node: NodeId, epoch: u64 },
    /// The node was told to start it: its process may live.
    Placed { node: NodeId },
    /// Its process has ended.
    Over,
}

#[derive(Debug)]
pub(super) struct Rank {
    pub incarnation: Incarnation,
    pub phase: Phase,
    /// Where it was placed last.
    pub last: NodeId,
    /// Its node was asked what it leaves for its next incarnation.
    pub recovering: bool,
}

impl Rank {
    /// A rank that was placed, and not started yet.
    pub fn new(node: NodeId) -> Rank {
        let phase = Phase::Waiting { node: Some(node) };
        Rank { incarnation: Incarnation(0), phase, last: node, recovering: false }
    }

    /// Where it runs or will, or has been last.
    pub fn node(&self) -> NodeId {
        self.holds().unwrap_or(self.last)
    }

    /// The node of which it takes a slot.
    fn holds(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Waiting { node } => node,
            Phase::Published { node, .. } | Phase::Placed { node } => Some(node),
            Phase::Over => None,
        }
    }

    fn is_waiting_for(&self, lost: NodeId) -> bool {
        match self.phase {
            Phase::Waiting { node } => node == Some(lost),
            Phase::Published { node, .. } => node == lost,
            Phase::Placed { .. } | Phase::Over => false,
        }
    }
}

impl Launcher {
    /// Starts the agents of the hosts that have ranks.
    pub(super) fn begin(&mut self) {
        for node in 0..self.nodes.len() as NodeId {
            let has_ranks = self.ranks.iter().any(|rank| rank.last == node);
            if has_ranks && self.nodes[usize::from(node)].state == NodeState::Idle {
                self.start_agent(node);
            }
        }
    }

    /// What ranks that have ended leave for their next incarnations is to be found out.
    pub(super) fn recover(&mut self, ranks: &[u32]) {
        for &number in ranks {
            let Some(rank) = self.ranks.get_mut(number as usize) else { continue };
            let (node, life) =
                (rank.last, RankIncarnation { rank: number, incarnation: rank.incarnation });
            if rank.phase != Phase::Over || !self.nodes[usize::from(node)].is_up() {
                return self.fail_without_log(number);
            }
            rank.recovering = true;
            self.send(node, Frame::Recover { life });
        }
    }

    /// The agent of a rank's node has found that out.
    pub(super) fn recovered(
        &mut self,
        node: NodeId,
        life: RankIncarnation,
        left: LeftBehind,
    ) -> Result<(), Malformed> {
        let rank = &mut self.ranks[life.rank as usize];
        let is_asked = std::mem::replace(&mut rank.recovering, false);
        if !is_asked || (rank.last, rank.incarnation) != (node, life.incarnation) {
            let expected = "one that this node was asked for";
            return Err(Malformed::new("incarnation that was recovered", expected, life));
        }
        self.report(Report::Recovered { life, left });
        Ok(())
    }

    /// A rank is to be started again, and its log was on a node that is lost (*log-by-value-off-node*).
    fn fail_without_log(&mut self, number: u32) {
        let node = &self.nodes[usize::from(self.ranks[number as usize].last)].name;
        self.fail(format!(
            "rank {number} cannot be restarted: its events and messages were logged on node {node} alone, which is lost"
        ));
    }

    /// Ranks that have ended are to be started again.
    pub(super) fn restart(&mut self, ranks: &[u32], generation: u32) {
        for &number in ranks {
            let Some(rank) = self.ranks.get_mut(number as usize) else { continue };
            if rank.phase != Phase::Over {
                return self.fail(format!("rank {number} is to be started and has not ended"));
            }
            self.generations[number as usize] = generation;
            rank.incarnation = Launcher::next(rank.incarnation);
            let stays = self.nodes[usize::from(rank.last)].is_up();
            if !stays && self.config.logging.is_some() && !mutant!(RestartedWithoutLog) {
                return self.fail_without_log(number);
            }
            rank.phase = Phase::Waiting { node: stays.then_some(rank.last) };
            self.exchange.begin(number);
        }
    }

    /// A rank has ended.
    pub(super) fn rank_ended(&mut self, life: RankIncarnation, end: End) {
        let state = match end {
            End::Exited(0) => RankState::Finished,
            _ => RankState::Dead,
        };
        let rank = &mut self.ranks[life.rank as usize];
        rank.phase = Phase::Over;
        let node = rank.last;
        self.change(life, node, state);
        self.report(Report::Ended { life, end });
    }

    /// The ranks that were started on a node, and have not ended.
    pub(super) fn placed_on(&self, node: NodeId) -> Vec<RankIncarnation> {
        let all = (0..).zip(&self.ranks);
        let placed = all.filter(|(_, rank)| rank.phase == Phase::Placed { node });
        placed.map(|(rank, of)| RankIncarnation { rank, incarnation: of.incarnation }).collect()
    }

    /// The ranks of a node have ended with it; those that were to be started there will be elsewhere.
    pub(super) fn lose(&mut self, node: NodeId) -> Vec<RankIncarnation> {
        let mut lost = Vec::new();
        for (number, rank) in (0..).zip(&mut self.ranks) {
            if rank.phase == (Phase::Placed { node }) {
                rank.phase = Phase::Over;
                lost.push(RankIncarnation { rank: number, incarnation: rank.incarnation });
            } else if rank.is_waiting_for(node) && !mutant!(NotPlacedAnew) {
                rank.phase = Phase::Waiting { node: None };
            }
        }
        for life in &lost {
            self.change(*life, node, RankState::Dead);
        }
        // Those whose processes were lost are dead; the logs of those that were to be restarted are, too.
        let is_without_log = |rank: &Rank| {
            let waits = rank.phase == (Phase::Waiting { node: None }) && rank.incarnation.0 > 0;
            rank.last == node && (rank.recovering || waits)
        };
        if self.config.logging.is_some()
            && !mutant!(LostAnswerAwaited)
            && let Some(number) = self.ranks.iter().position(is_without_log)
        {
            self.fail_without_log(number as u32);
        }
        lost
    }

    /// Takes ranks that are to be started as far as they may go.
    pub(super) fn advance(&mut self) {
        if self.ending {
            return;
        }
        self.place();
        self.announce();
        self.start();
    }

    /// Gives a node to those that have none. Those of one set, or of one lost node, are placed together.
    fn place(&mut self) {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            if rank.phase == (Phase::Waiting { node: None }) {
                let sets = self.config.sets.as_ref();
                let group = sets.map_or(usize::from(rank.last), |sets| sets[number]);
                groups.entry(group).or_default().push(number);
            }
        }
        for ranks in groups.into_values() {
            let mut seats: Vec<Seat> = self.seats();
            let together = self.config.sets.is_some();
            let Some(nodes) = place::restart(&mut seats, ranks.len() as u32, together) else {
                let last = &self.nodes[usize::from(self.ranks[ranks[0]].last)].name;
                return self.fail(format!("no host is left; the last one was {last}"));
            };
            for (rank, node) in ranks.into_iter().zip(nodes) {
                self.ranks[rank].phase = Phase::Waiting { node: Some(node) };
                if self.nodes[usize::from(node)].state == NodeState::Idle {
                    self.start_agent(node);
                }
            }
        }
    }

    fn seats(&self) -> Vec<Seat> {
        let seat = |(number, node): (NodeId, &Node)| {
            let ranks = self.ranks.iter().filter(|rank| rank.holds() == Some(number)).count();
            Seat { state: node.seat(), slots: node.slots, ranks: ranks as u32 }
        };
        (0..).zip(&self.nodes).map(seat).collect()
    }

    /// Puts those whose node is up into the roster.
    fn announce(&mut self) {
        let epoch = self.roster.epoch() + 1;
        for number in 0..self.ranks.len() {
            let rank = &mut self.ranks[number];
            let Phase::Waiting { node: Some(node) } = rank.phase else { continue };
            if self.nodes[usize::from(node)].is_up() {
                rank.phase = Phase::Published { node, epoch };
                rank.last = node;
                let incarnation = rank.incarnation;
                let life = RankIncarnation { rank: number as u32, incarnation };
                self.change(life, node, RankState::Live);
            }
        }
    }

    /// Starts those whose incarnation all nodes have in their rosters. A job begins as a whole: the first ranks wait
    /// for each other.
    fn start(&mut self) {
        let ready: Vec<usize> =
            (0..self.ranks.len()).filter(|rank| self.may_start(*rank)).collect();
        if !self.begun && !mutant!(BeginsEarly) && ready.len() < self.ranks.len() {
            return;
        }
        for number in ready {
            self.begun = true;
            let rank = &mut self.ranks[number];
            let Phase::Published { node, .. } = rank.phase else { continue };
            rank.phase = Phase::Placed { node };
            let life = RankIncarnation { rank: number as u32, incarnation: rank.incarnation };
            let app = self.config.apps.get(number).copied().unwrap_or(0);
            let is_new = self.nodes[usize::from(node)].programs.insert(app);
            let program = self.config.programs.iter().find(|program| program.app == app);
            if let Some(program) = program.filter(|_| is_new) {
                self.send(node, Frame::Program(program.clone()));
            }
            let generations = self.generations.clone();
            self.send(node, Frame::Start { life, app, generations });
        }
    }

    fn may_start(&self, rank: usize) -> bool {
        let Phase::Published { node, epoch } = self.ranks[rank].phase else { return false };
        let there = &self.nodes[usize::from(node)];
        let mut others = self.nodes.iter().filter(|node| node.may_act());
        let acked = mutant!(AcksNotAwaited) || others.all(|node| node.acked >= epoch);
        there.is_up() && there.acked >= epoch && acked
    }
}
