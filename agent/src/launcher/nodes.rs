//! The nodes of a job: whether they have an agent, and the leases of those.

use super::copies::Copies;
use super::{Action, Launcher, Report};
use crate::NodeId;
use crate::hosts::Host;
use crate::lease::Granted;
use crate::network::HostAddress;
use crate::place::SeatState;
use crate::wire::Frame;
use std::collections::BTreeSet;
use std::time::Duration;

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// It has no agent.
    Idle,
    /// Its agent was started, and has not said HELLO.
    Starting { until: Duration },
    /// Its agent can be reached.
    Up,
    /// Its agent cannot be reached; its ranks may live until the lease has expired.
    Cut,
    /// Its agent was asked to end its ranks for good: they may live until it has said so, or the lease has expired.
    Revoked,
    /// No rank lives on it, and none is started any more.
    Ended,
}

#[derive(Debug)]
pub(super) struct Node {
    pub name: String,
    pub slots: u32,
    pub state: NodeState,
    pub granted: Granted,
    /// The addresses of its host.
    pub interfaces: Vec<HostAddress>,
    /// The last update of the roster that its ranks see.
    pub acked: u64,
    /// Bytes of output under way.
    pub output: u32,
    /// Programs that it knows.
    pub programs: BTreeSet<u32>,
    /// Where its copy store listens.
    pub store: Option<String>,
    /// The copies of its own events.
    pub copies: Copies,
}

impl Node {
    pub fn new(host: &Host, copies: u32) -> Node {
        Node {
            name: host.name.clone(),
            slots: host.slots,
            state: NodeState::Idle,
            granted: Granted::default(),
            interfaces: Vec::new(),
            acked: 0,
            output: 0,
            programs: BTreeSet::new(),
            store: None,
            copies: Copies::new(copies),
        }
    }

    pub fn is_up(&self) -> bool {
        self.state == NodeState::Up
    }

    /// Whether ranks may live on it, which must see the roster before anything is started.
    pub fn may_act(&self) -> bool {
        match self.state {
            NodeState::Up => true,
            NodeState::Cut | NodeState::Revoked => !mutant!(AcksOfCutNotAwaited),
            _ => false,
        }
    }

    pub fn seat(&self) -> SeatState {
        match self.state {
            NodeState::Idle => SeatState::Spare,
            NodeState::Starting { .. } | NodeState::Up => SeatState::Used,
            NodeState::Cut | NodeState::Revoked | NodeState::Ended => SeatState::Gone,
        }
    }

    /// When something is to be decided about it.
    pub fn due(&self) -> Option<Duration> {
        match self.state {
            NodeState::Starting { until } => Some(until),
            NodeState::Up => self.granted.expiry().into_iter().chain(self.copies.due()).min(),
            NodeState::Cut | NodeState::Revoked => self.granted.expiry(),
            NodeState::Idle | NodeState::Ended => None,
        }
    }
}

impl Launcher {
    /// Starts the agent of a host.
    pub(super) fn start_agent(&mut self, node: NodeId) {
        let until = self.now + self.config.start_timeout;
        self.nodes[usize::from(node)].state = NodeState::Starting { until };
        self.actions.push(Action::StartAgent(node));
    }

    /// A channel has ended: whether the ranks of that node have, only its lease says.
    pub(super) fn broken(&mut self, node: NodeId, why: &str) {
        match self.nodes[usize::from(node)].state {
            NodeState::Starting { .. } => self.node_ended(node, why),
            NodeState::Up => {
                self.nodes[usize::from(node)].state = NodeState::Cut;
                self.actions.push(Action::Close(node));
                let ranks = self.placed_on(node);
                let copy = self.holder(node).map(|(node, _)| node);
                self.report(Report::NodeCut { node, why: why.to_owned(), ranks, copy });
                if mutant!(EndedWhenBroken) {
                    self.node_ended(node, why);
                }
            }
            NodeState::Idle | NodeState::Cut | NodeState::Revoked | NodeState::Ended => {}
        }
    }

    /// The nodes whose agents give no sign of life: their leases are about to end.
    pub fn silent(&self, now: Duration) -> impl Iterator<Item = NodeId> {
        let terms = self.config.terms;
        let is_silent = move |node: &Node| {
            let expiry = node.granted.expiry().filter(|_| node.is_up());
            expiry.is_some_and(|expiry| terms.is_late(expiry, now))
        };
        let silent = (0..).zip(&self.nodes).filter(move |(_, node)| is_silent(node));
        silent.map(|(number, _)| number)
    }

    /// Start timeouts and leases that are over.
    pub(super) fn check_nodes(&mut self) {
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let why = match node.state {
                NodeState::Starting { until } if self.now >= until => {
                    "no agent has answered in time"
                }
                NodeState::Up if node.granted.has_expired(self.now) => {
                    "no word from its agent for the length of its lease"
                }
                NodeState::Cut if node.granted.has_expired(self.now) => {
                    "the connection with its agent is lost, and its lease has ended"
                }
                NodeState::Revoked if node.granted.has_expired(self.now) => {
                    "its agent has not said that its ranks have ended, and its lease has ended"
                }
                _ => continue,
            };
            self.node_ended(number as NodeId, why);
        }
    }

    /// No rank of a node lives any more.
    pub(super) fn node_ended(&mut self, node: NodeId, why: &str) {
        let number = usize::from(node);
        let before = self.nodes[number].state;
        let is_open = !matches!(before, NodeState::Idle | NodeState::Cut | NodeState::Ended);
        if is_open && !mutant!(LateBelieved) {
            self.send(node, Frame::Revoke { why: why.to_owned() });
            self.actions.push(Action::Close(node));
        }
        self.leaves(node, why, [0; 5]);
        let was_named =
            self.ranks.iter().any(|rank| rank.last == node) || self.config.reliable == Some(node);
        if matches!(before, NodeState::Starting { .. }) && !self.begun && was_named {
            let name = &self.nodes[number].name;
            self.fail(format!("host {name} did not come up: {why}"));
        }
    }

    /// An agent has said that no process of the job is left on its node.
    pub(super) fn goodbye(&mut self, node: NodeId, refused: [u64; 5]) {
        let why = match self.nodes[usize::from(node)].state {
            NodeState::Revoked => "its agent has ended its ranks",
            _ => "its agent has left",
        };
        self.actions.push(Action::Close(node));
        self.leaves(node, why, refused);
    }

    /// No rank lives on a node from now on.
    fn leaves(&mut self, node: NodeId, why: &str, refused: [u64; 5]) {
        self.nodes[usize::from(node)].state = NodeState::Ended;
        let lost = self.lose(node);
        let (why, copy) = (why.to_owned(), self.holder(node).map(|(node, _)| node));
        if !lost.is_empty() {
            self.void_all_copies(node);
            self.restart_links();
        }
        self.report(Report::NodeEnded { node, why, lost, refused, copy });
        self.check_answers(node);
    }

    /// The job has ended.
    pub(super) fn finish(&mut self) {
        self.ending = true;
        self.finishing = true;
        self.send_all(&Frame::Farewell);
        for number in 0..self.nodes.len() {
            if matches!(self.nodes[number].state, NodeState::Starting { .. }) {
                self.nodes[number].state = NodeState::Ended;
                self.actions.push(Action::Close(number as NodeId));
            }
        }
    }

    /// Nodes that are cut off are left to their leases.
    pub(super) fn check_done(&mut self) {
        if self.finishing && !self.done && !self.nodes.iter().any(Node::is_up) {
            self.done = true;
            self.report(Report::Done);
        }
    }
}
