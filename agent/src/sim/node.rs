//! A host: its agent, its guard, the processes of its ranks.

use super::case::Clock;
use super::channel::Channel;
use crate::agent::Agent;
use crate::roster::Roster;
use crate::wire::Direction;
use crate::{Incarnation, RankIncarnation};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub struct Host {
    pub clock: Clock,
    /// None before it was started, and once it has ended.
    pub agent: Option<Agent>,
    pub up: Channel,
    pub down: Channel,
    /// When the guard kills everything.
    pub guard: Option<u64>,
    /// The agent stands still so long; what comes meanwhile waits.
    pub paused_until: u64,
    pub waiting: VecDeque<crate::agent::Event>,
    /// What the ranks of this node see.
    pub published: Roster,
    pub barriers: u64,
    pub values: BTreeMap<String, String>,
    pub processes: BTreeMap<u32, Process>,
    /// Where events of its ranks are to be copied, by which order; nowhere, if that is this host.
    pub target: Option<(u64, usize)>,
    /// All of them are there.
    pub is_copied: bool,
    /// Events that each rank has had here.
    pub events: BTreeMap<u32, u64>,
    /// Copies for other hosts: the order, and how many events of each rank.
    pub copies: BTreeMap<(u64, u32), u64>,
    /// What was found of ranks that are to be started here again.
    pub recovered: BTreeMap<u32, u64>,
    /// It is gone: nothing is started on it.
    pub crashed: bool,
    /// Its agent was welcomed.
    pub was_up: bool,
    /// When its agent looks at its clock next.
    pub tick: u64,
    /// A fault has concerned it, so that it may be fenced.
    pub faulty: bool,
}

impl Host {
    pub fn new(clock: Clock, ranks: u32) -> Host {
        Host {
            clock,
            agent: None,
            up: Channel::new(Direction::Up),
            down: Channel::new(Direction::Down),
            guard: None,
            paused_until: 0,
            waiting: VecDeque::new(),
            published: Roster::new(ranks as usize),
            barriers: 0,
            values: BTreeMap::new(),
            processes: BTreeMap::new(),
            target: None,
            is_copied: false,
            events: BTreeMap::new(),
            copies: BTreeMap::new(),
            recovered: BTreeMap::new(),
            crashed: false,
            was_up: false,
            tick: 0,
            faulty: false,
        }
    }
}

/// The process of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub incarnation: Incarnation,
    /// Barriers that it has entered.
    pub entered: u64,
    /// Barriers that it has passed.
    pub passed: u64,
    /// SIGKILL was sent: it ends soon, and acts until then.
    pub killed: bool,
}

impl Process {
    pub fn life(&self, rank: u32) -> RankIncarnation {
        RankIncarnation { rank, incarnation: self.incarnation }
    }
}
