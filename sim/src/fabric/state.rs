//! What a network holds: processes, the links between them, and what is on the way.

use super::coverage::{Coverage, Situation};
use super::ram::{Pages, Span};
use super::roster::Verdicts;
use super::watch::Watch;
use super::{Mutant, Settings};
use crate::broken::Broken;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use taffrail_fabric::{Fault, Head, Incarnation, Life, LinkEvent, Token};

pub(super) struct Net {
    pub(super) settings: Settings,
    /// The node of each process, if there are several.
    pub(super) nodes: Vec<usize>,
    /// What is wrong with its rosters, on purpose.
    pub(super) broken: Option<Broken>,
    pub(super) kinds: Kinds,
    pub(super) processes: Vec<Process>,
    /// Of each process, in the order of peers.
    ends: Vec<End>,
    /// From each process, in the order of receivers.
    channels: Vec<Channel>,
    /// Sends that end later.
    pub(super) sends: BTreeMap<u64, Sending>,
    pub(super) operations: BTreeMap<u64, Operation>,
    pub(super) views: Vec<Viewed>,
    /// What became of each process.
    pub(super) lives: Vec<Vec<Life>>,
    last: u64,
    pub(super) steps: u64,
    pub(super) coverage: Coverage,
    pub(super) violations: Vec<Violation>,
    pub(super) trace: Vec<String>,
    pub(super) watch: Option<Rc<RefCell<dyn Watch>>>,
}

/// A view that a process has, or had, of memory of another.
pub(super) struct Viewed {
    pub(super) owner: usize,
    pub(super) by: (usize, u32),
    pub(super) seen: Weak<Seen>,
}

/// Keeps what is viewed.
pub(super) struct Seen {
    pub(super) _pages: Arc<Pages>,
}

/// The constants of the fabrics that decide which steps are possible.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    pub(super) ordered: bool,
    pub(super) streams: bool,
}

/// A rule that was broken, by the fabric or by its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What has happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Lives,
    Dead,
    Closed,
}

pub(super) struct Process {
    pub(super) incarnation: u32,
    pub(super) state: State,
    /// What polls will hand over.
    pub(super) ready: VecDeque<Ready>,
    /// Messages of which the sink has the beginning, by peer.
    pub(super) rests: BTreeMap<usize, Rest>,
    /// Memory that peers reach. Names are never used again.
    pub(super) regions: BTreeMap<u32, Region>,
    /// Verdicts that the roster has not handed over.
    pub(super) verdicts: Verdicts,
    /// How many verdicts on each process it has heard.
    pub(super) heard: Vec<usize>,
}

/// Something for the sink.
pub(super) struct Ready {
    pub(super) peer: usize,
    pub(super) what: What,
}

pub(super) enum What {
    Arrival(Arrival),
    Sent(Token, Result<(), Fault>),
    Moved(Token, Result<(), Fault>),
    Link(LinkEvent),
}

/// What a process knows of its link with a peer.
pub(super) struct End {
    pub(super) link: Link,
    /// The link is up as far as the sink knows.
    pub(super) is_reported: bool,
    /// A message or an end of it has made it more than possible.
    pub(super) was_used: bool,
    /// The incarnation that the link connects with, or has connected with last.
    pub(super) incarnation: u32,
    /// Why the link has ended, which the process has not noticed yet.
    pub(super) ended: Option<Fault>,
    /// The process will have no more to do with this incarnation.
    pub(super) cut: Option<Incarnation>,
    /// The process wants a link with this incarnation of a peer on another node.
    pub(super) asked: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// It is up, and not reported to the sink yet.
    Coming,
    Down(Fault),
    /// With a process on another node: it can be made, and neither has asked for it.
    Unasked,
}

#[derive(Default)]
pub(super) struct Channel {
    pub(super) flight: VecDeque<Message>,
    /// Messages that were accepted, and not handed over yet.
    pub(super) waiting: usize,
    pub(super) is_jammed: bool,
    /// Links so far.
    pub(super) epoch: u32,
}

pub(super) struct Message {
    pub(super) number: u64,
    pub(super) head: Head,
    pub(super) len: usize,
    pub(super) content: Content,
    pub(super) epoch: u32,
    /// The incarnation that has sent it.
    pub(super) of: u32,
    /// Its send ended in an error.
    pub(super) has_failed: bool,
}

/// Where the payload of a message is.
pub(super) enum Content {
    Owned(Vec<u8>),
    /// In a log segment, and a copy of what was there.
    Log {
        span: Span,
        copy: Vec<u8>,
        _in_use: Rc<()>,
    },
    /// In the memory of the program, and a copy of what was there.
    User {
        span: Span,
        copy: Vec<u8>,
    },
}

/// A message at its receiver, or the beginning of one.
pub(super) struct Arrival {
    pub(super) message: Message,
    /// The bytes that are here, unless they are read in place.
    pub(super) here: Vec<u8>,
    pub(super) in_place: bool,
}

impl Arrival {
    pub(super) fn is_whole(&self) -> bool {
        self.in_place || self.here.len() == self.message.len
    }
}

/// A message of which the sink has the beginning.
pub(super) struct Rest {
    pub(super) message: Message,
    /// Bytes that have arrived.
    pub(super) here: usize,
    /// Bytes that the sink was given before.
    pub(super) begins: usize,
    pub(super) into: Option<(Span, Token)>,
}

/// A send that ends later.
pub(super) struct Sending {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The incarnation that it is sent to.
    pub(super) incarnation: u32,
    pub(super) token: Token,
    pub(super) result: Option<Result<(), Fault>>,
}

/// A get or put.
pub(super) struct Operation {
    pub(super) by: (usize, u32),
    pub(super) with: (usize, u32),
    pub(super) token: Token,
    pub(super) is_get: bool,
    /// `None` for a get of a process that is dead.
    pub(super) near: Option<Span>,
    pub(super) region: u32,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) done: usize,
    pub(super) fault: Option<Fault>,
    /// No more bytes move.
    pub(super) is_stopped: bool,
    /// The process that has started it is dead or has closed.
    pub(super) is_orphan: bool,
}

pub(super) struct Region {
    pub(super) span: Span,
    /// Peers may map it.
    pub(super) is_allocated: bool,
}

impl Net {
    pub(super) fn new(processes: usize, settings: Settings, kinds: Kinds) -> Net {
        let end = || End {
            link: Link::Up,
            is_reported: true,
            was_used: false,
            incarnation: 0,
            ended: None,
            cut: None,
            asked: None,
        };
        let process = || Process {
            incarnation: 0,
            state: State::Lives,
            ready: VecDeque::new(),
            rests: BTreeMap::new(),
            regions: BTreeMap::new(),
            verdicts: Verdicts::default(),
            heard: vec![0; processes],
        };
        Net {
            settings,
            nodes: Vec::new(),
            broken: None,
            kinds,
            processes: (0..processes).map(|_| process()).collect(),
            ends: (0..processes * processes).map(|_| end()).collect(),
            channels: (0..processes * processes).map(|_| Channel::default()).collect(),
            sends: BTreeMap::new(),
            operations: BTreeMap::new(),
            views: Vec::new(),
            lives: vec![Vec::new(); processes],
            last: 0,
            steps: 0,
            coverage: Coverage::default(),
            violations: Vec::new(),
            trace: Vec::new(),
            watch: None,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.processes.len()
    }

    /// Whether two processes are on different nodes: a link of them is made when one asks for it.
    pub(super) fn are_far(&self, a: usize, b: usize) -> bool {
        !self.nodes.is_empty() && self.nodes[a] != self.nodes[b]
    }

    /// Whether there is or was a link of a process with another one, for all that it knows.
    pub(super) fn was_linked(&self, rank: usize, peer: usize) -> bool {
        !self.are_far(rank, peer) || self.end(rank, peer).was_used
    }

    pub(super) fn lives(&self, rank: usize) -> bool {
        self.processes[rank].state == State::Lives
    }

    /// What `rank` knows of its link with `peer`.
    pub(super) fn end(&self, rank: usize, peer: usize) -> &End {
        &self.ends[rank * self.processes.len() + peer]
    }

    pub(super) fn end_mut(&mut self, rank: usize, peer: usize) -> &mut End {
        &mut self.ends[rank * self.processes.len() + peer]
    }

    pub(super) fn channel(&self, from: usize, to: usize) -> &Channel {
        &self.channels[from * self.processes.len() + to]
    }

    pub(super) fn channel_mut(&mut self, from: usize, to: usize) -> &mut Channel {
        &mut self.channels[from * self.processes.len() + to]
    }

    /// A number that was not given before: of messages, operations and regions.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn has(&self, mutant: Mutant) -> bool {
        self.settings.mutant == Some(mutant)
    }

    pub(super) fn reach(&mut self, situation: Situation) {
        self.coverage.reach(situation);
    }

    pub(super) fn violated(&mut self, rule: &'static str, text: String) {
        self.say(|| format!("VIOLATED {rule}: {text}"));
        self.violations.push(Violation { rule, text });
    }

    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        if self.settings.trace {
            self.trace.push(format!("{:>6} {}", self.steps, line()));
        }
    }

    pub(super) fn push(&mut self, rank: usize, peer: usize, what: What) {
        self.processes[rank].ready.push_back(Ready { peer, what });
    }

    /// Ahead of all that waits, for what a peer's messages wait for.
    pub(super) fn push_first(&mut self, rank: usize, peer: usize, what: What) {
        self.processes[rank].ready.push_front(Ready { peer, what });
    }
}

impl End {
    pub(super) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up | Link::Coming)
    }

    /// Whether the process has still to notice the end, or there is none.
    pub(super) fn is_up_with(&self, incarnation: Incarnation) -> bool {
        self.is_up() && self.incarnation == incarnation.0
    }

    /// Why nothing can be sent, if so.
    pub(super) fn fault(&self) -> Option<Fault> {
        match &self.link {
            Link::Up => None,
            Link::Coming => Some(Fault::Lost("the link is just coming up".into())),
            Link::Down(fault) => Some(fault.clone()),
            Link::Unasked => Some(Fault::Lost("there is no link".into())),
        }
    }
}
