//! A host: its agent, its guard, the processes of its ranks.

use super::case::Clock;
use super::channel::Channel;
use crate::agent::Agent;
use crate::network::HostAddress;
use crate::roster::Roster;
use crate::wire::{Direction, Hello};
use crate::{Incarnation, RankIncarnation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// Where events of its ranks are to be copied, by the event logger that does.
    pub targets: BTreeMap<u32, Target>,
    /// What each rank has here.
    pub logs: BTreeMap<u32, RankLog>,
    /// How often its copy store has ended.
    pub store: u64,
    /// Copies for other hosts, by their orders.
    pub copies: BTreeMap<(u64, u32), RankLog>,
    /// Orders whose copies were handed out.
    pub closed: BTreeSet<u64>,
    /// Events of ranks on other hosts that ranks of this one depend on: up to these.
    pub held: BTreeMap<u32, u64>,
    /// What others have held, for ranks that are to be recovered here.
    pub held_by_others: BTreeMap<u32, u64>,
    /// What was found of ranks that are to be started here again.
    pub recovered: BTreeMap<u32, RankLog>,
    /// Hosts that this one does not reach, and until when.
    pub cut_from: BTreeMap<usize, Cut>,
    /// Links that its ranks have reported.
    pub links_down: BTreeSet<(RankIncarnation, RankIncarnation)>,
    /// Its ranks that waited for a message over such a link and got it from another rank, and whether they have not polled since.
    pub computed: BTreeMap<RankIncarnation, bool>,
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
            targets: BTreeMap::new(),
            logs: BTreeMap::new(),
            store: 0,
            copies: BTreeMap::new(),
            held: BTreeMap::new(),
            held_by_others: BTreeMap::new(),
            closed: BTreeSet::new(),
            recovered: BTreeMap::new(),
            cut_from: BTreeMap::new(),
            links_down: BTreeSet::new(),
            computed: BTreeMap::new(),
            crashed: false,
            was_up: false,
            tick: 0,
            faulty: false,
        }
    }
}

/// A time in which two hosts do not reach each other.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub since: u64,
    pub until: u64,
}

/// Where an event logger copies to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub epoch: u64,
    /// Nowhere, if that is the host itself.
    pub to: usize,
    /// Which of its copy stores.
    pub store: u64,
    /// All events are there.
    pub is_copied: bool,
}

/// What outlives the processes of a rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankLog {
    /// How many events it has had.
    pub events: u64,
    /// How many of them its last checkpoint covers; 0: there is none.
    pub checkpoint: u64,
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

/// What the agent of a node says first: the node has a bridge, as all have, and an address of its own.
pub fn hello(node: usize) -> Hello {
    let one = |interface: &str, address: [u8; 4], prefix| HostAddress {
        interface: interface.to_owned(),
        address: address.into(),
        prefix,
    };
    let own = one("eth0", [10, 0, 0, node as u8 + 1], 24);
    Hello { interfaces: vec![one("docker0", [172, 17, 0, 1], 16), own], ..Hello::default() }
}
