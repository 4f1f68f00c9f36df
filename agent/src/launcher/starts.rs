//! Ranks: where they are placed, and when they may be started.

use super::moves::Way;
use super::nodes::{Node, NodeState};
use super::{Launcher, Report};
use crate::place::{self, Seat};
use crate::roster::RankState;
use crate::wire::{End, Frame, LeftBehind, Malformed};
use crate::{Incarnation, NodeId, RankIncarnation};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The node whose ranks' logs, or whose copy, have all that it has logged: the one where it was started last.
    pub home: NodeId,
    /// The node that was asked what it leaves for its next incarnation.
    pub recovering: Option<NodeId>,
    /// The order by which that node has its log; 0: it has run there.
    pub copy: u64,
    /// The node that has its log.
    pub log: NodeId,
    /// Its log is to be brought to the node where it is to be started.
    pub way: Option<Way>,
    /// Nodes to which it could not be brought.
    pub avoid: BTreeSet<NodeId>,
    /// It is about to be started on another node than before, with its log.
    pub moves: bool,
    /// What it leaves was reported, and it is not to be started yet.
    is_reported: bool,
}

impl Rank {
    /// A rank that was placed, and not started yet.
    pub fn new(node: NodeId) -> Rank {
        let phase = Phase::Waiting { node: Some(node) };
        Rank {
            incarnation: Incarnation(0),
            phase,
            last: node,
            home: node,
            recovering: None,
            copy: 0,
            log: node,
            way: None,
            avoid: BTreeSet::new(),
            moves: false,
            is_reported: false,
        }
    }

    /// Where it runs or will, or has been last.
    pub fn node(&self) -> NodeId {
        self.holds().unwrap_or(self.last)
    }

    /// Whether its log is on its way: it is to be said, or to be brought, where it is.
    pub fn awaits_log(&self) -> bool {
        self.recovering.is_some() || self.way.is_some()
    }

    /// Whether it is to be started from a copy of its lost node's events, which was handed out.
    pub fn has_copy(&self) -> bool {
        !matches!(self.phase, Phase::Placed { .. }) && !self.awaits_log() && self.log != self.home
    }

    /// The node of which it takes a slot: also while its log is on the way there.
    fn takes(&self) -> Option<NodeId> {
        let comes = self.way.and_then(Way::to).or(self.recovering);
        let waits = (self.phase == Phase::Over && self.log != self.home).then_some(self.log);
        self.holds().or(comes).or(waits)
    }

    /// The node where it is, or is to be.
    fn holds(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Waiting { node } => node,
            Phase::Published { node, .. } | Phase::Placed { node } => Some(node),
            Phase::Over => None,
        }
    }

    /// Its log is not taken from the copy that was handed out.
    pub fn forget_copy(&mut self) {
        self.log = self.home;
        if let Phase::Waiting { node } = &mut self.phase {
            *node = None;
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
            let is_needed = has_ranks || self.config.reliable == Some(node);
            if is_needed && self.nodes[usize::from(node)].state == NodeState::Idle {
                self.start_agent(node);
            }
        }
    }

    /// What ranks that have ended leave for their next incarnations is to be found out.
    pub(super) fn recover(&mut self, ranks: &[u32]) {
        for &number in ranks {
            match self.ranks.get(number as usize).map(|rank| rank.phase) {
                Some(Phase::Over) => self.ask_for_log(number),
                Some(_) => {
                    return self
                        .fail(format!("rank {number} is to be recovered and has not ended"));
                }
                None => {}
            }
        }
    }

    /// The incarnation whose log the next one needs.
    pub(super) fn ended(&self, number: u32) -> RankIncarnation {
        let rank = &self.ranks[number as usize];
        let before = Incarnation(rank.incarnation.0.saturating_sub(1));
        let incarnation = if rank.phase == Phase::Over { rank.incarnation } else { before };
        RankIncarnation { rank: number, incarnation }
    }

    /// Asks the node of a rank for what it leaves, or, if that cannot be reached any more, the node with a copy.
    pub(super) fn ask_for_log(&mut self, number: u32) {
        let home = self.ranks[number as usize].home;
        let copy = match self.nodes[usize::from(home)].is_up() {
            true => Some((home, 0)),
            false => self.holder(home),
        };
        let Some((node, copy)) = copy else { return self.fail_without_log(number) };
        if copy > 0 && !self.stays_with_others(number) {
            let rank = &mut self.ranks[number as usize];
            (rank.way, rank.recovering) = (Some(Way::Wanted), None);
            return;
        }
        if copy > 0 && self.is_causal() {
            self.ranks[number as usize].recovering = Some(node);
            return self.ask_survivors(number);
        }
        self.ask(number, node, copy);
    }

    /// Asks a node for what a rank leaves, which it has by this order.
    pub(super) fn ask(&mut self, number: u32, node: NodeId, copy: u64) {
        let life = self.ended(number);
        let rank = &mut self.ranks[number as usize];
        (rank.recovering, rank.copy, rank.way) = (Some(node), copy, None);
        self.send(node, Frame::Recover { life, copy });
    }

    /// The agent that was asked has found that out.
    pub(super) fn recovered(
        &mut self,
        node: NodeId,
        life: RankIncarnation,
        left: LeftBehind,
    ) -> Result<(), Malformed> {
        let ended = self.ended(life.rank);
        let rank = &mut self.ranks[life.rank as usize];
        if rank.recovering != Some(node) || life != ended {
            let expected = "one that this node was asked for";
            return Err(Malformed::new("incarnation that was recovered", expected, life));
        }
        (rank.recovering, rank.log) = (None, node);
        match rank.phase {
            Phase::Over if rank.is_reported => {}
            Phase::Over => {
                rank.is_reported = true;
                self.report(Report::Recovered { life, left });
            }
            // It was to be started on a node that is lost.
            _ => rank.phase = Phase::Waiting { node: Some(node) },
        }
        Ok(())
    }

    /// A rank is to be started again, and its log was on a node that is lost (*log-by-value-off-node*).
    pub(super) fn fail_without_log(&mut self, number: u32) {
        let node = &self.nodes[usize::from(self.ranks[number as usize].home)].name;
        self.fail(match self.copies() {
            true => format!(
                "rank {number} cannot be restarted: node {node} is lost, and no other node has a whole copy of its events"
            ),
            false => format!(
                "rank {number} cannot be restarted: its events and messages were logged on node {node} alone, which is lost"
            ),
        });
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
            rank.is_reported = false;
            let is_logged = self.config.logging.is_some() && !mutant!(RestartedWithoutLog);
            let node = if is_logged { rank.log } else { rank.last };
            let is_up = self.nodes[usize::from(node)].is_up();
            let is_asked = rank.awaits_log();
            rank.phase = Phase::Waiting { node: (is_up && !is_asked).then_some(node) };
            self.exchange.begin(number);
            if !is_up && !is_asked && is_logged {
                self.ask_for_log(number);
            }
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
        let (mut lost, mut without_log) = (Vec::new(), Vec::new());
        let is_logged = self.config.logging.is_some();
        for (number, rank) in (0..).zip(&mut self.ranks) {
            let was_asked = rank.recovering == Some(node);
            if rank.phase == (Phase::Placed { node }) {
                rank.phase = Phase::Over;
                lost.push(RankIncarnation { rank: number, incarnation: rank.incarnation });
            } else if rank.is_waiting_for(node) && !mutant!(NotPlacedAnew) {
                rank.phase = Phase::Waiting { node: None };
                if is_logged && rank.incarnation.0 > 0 {
                    without_log.push(number);
                }
            } else if was_asked && !mutant!(LostAnswerAwaited) {
                without_log.push(number);
            }
        }
        for life in &lost {
            self.change(*life, node, RankState::Dead);
        }
        without_log.into_iter().for_each(|number| self.ask_for_log(number));
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
            if rank.phase == (Phase::Waiting { node: None }) && !rank.awaits_log() {
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

    pub(super) fn seats(&self) -> Vec<Seat> {
        let seat = |(number, node): (NodeId, &Node)| {
            let ranks = self.ranks.iter().filter(|rank| rank.takes() == Some(number)).count();
            Seat { state: node.seat(), slots: node.slots, ranks: ranks as u32 }
        };
        (0..).zip(&self.nodes).map(seat).collect()
    }

    /// Puts those whose node is up into the roster.
    fn announce(&mut self) {
        let epoch = self.roster.epoch() + 1;
        for number in 0..self.ranks.len() {
            let Phase::Waiting { node: Some(node) } = self.ranks[number].phase else { continue };
            if self.lacks_another(number) && !mutant!(SetInParts) {
                continue;
            }
            let rank = &mut self.ranks[number];
            if self.nodes[usize::from(node)].is_up() {
                rank.phase = Phase::Published { node, epoch };
                let moves = std::mem::replace(&mut rank.last, node) != node;
                rank.moves = moves;
                rank.log = node;
                let incarnation = rank.incarnation;
                let life = RankIncarnation { rank: number as u32, incarnation };
                self.take_back_finalizing(life);
                self.change(life, node, RankState::Live);
                if moves && !mutant!(ArrivalsNotCopied) {
                    self.mix(node);
                    self.void_copies(node);
                }
            }
        }
    }

    /// Starts those whose incarnation all nodes have in their rosters. A job begins as a whole: the first ranks wait
    /// for each other.
    fn start(&mut self) {
        let ready: Vec<usize> =
            (0..self.ranks.len()).filter(|rank| self.may_start(*rank)).collect();
        let waits = ready.len() < self.ranks.len() || !self.listeners.are_known();
        if !self.begun && !mutant!(BeginsEarly) && waits {
            return;
        }
        for number in ready {
            self.begun = true;
            let rank = &mut self.ranks[number];
            let Phase::Published { node, .. } = rank.phase else { continue };
            rank.phase = Phase::Placed { node };
            rank.moves = false;
            rank.avoid.clear();
            let (home, copy) = (rank.home, rank.copy);
            if !mutant!(FormerLogUsed) {
                rank.home = node;
            }
            if home != node && !mutant!(OtherCopyUsed) {
                self.use_one_copy(home, copy);
            }
            let rank = &self.ranks[number];
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
