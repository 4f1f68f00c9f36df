//! What a faulty fabric holds back, and what it has under way.

use super::{Defect, Faults, Trouble};
use crate::{Fault, Head, LinkEvent, PeerId, RegionId, Token, UserBuf, UserBytes};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

/// One event in this many is spoilt.
const SPOILT: usize = 97;
/// Returned receive buffers that stay readable, so that a reader finds garbage there.
const RETURNED_MAX: usize = 64;
/// What is in a receive buffer that is not the sink's.
pub(super) const GARBAGE: u8 = 0xdb;

pub(super) struct State {
    pub(super) faults: Faults,
    pub(super) random: fastrand::Rng,
    spoilable: usize,
    /// What was taken from the fabric below and not handed over, in the order of arrival.
    pub(super) queue: VecDeque<Held>,
    /// Messages that the fabric below was not given yet.
    pub(super) outgoing: VecDeque<Outgoing>,
    /// How many of these each peer has.
    pub(super) waiting: HashMap<PeerId, usize>,
    /// What the fabric below has under way, by the token it knows.
    pub(super) operations: HashMap<Token, Operation>,
    last_token: u64,
    /// Rests of messages that go into memory of the sink.
    pub(super) rests: Vec<Rest>,
    /// Receive buffers that the sink keeps.
    pub(super) leases: HashMap<u64, Box<[u8]>>,
    pub(super) last_lease: u64,
    returned: VecDeque<Box<[u8]>>,
    /// Links that have ended, as far as the fabric below has said.
    pub(super) ended: HashMap<PeerId, Fault>,
    /// Peers that were disconnected from above.
    pub(super) disconnected: HashSet<PeerId>,
    /// The last message of each peer, for a defect of last messages.
    pub(super) last: HashMap<PeerId, (Head, Vec<u8>)>,
    /// When a peer was last heard of, for a defect of silent peers.
    pub(super) heard: HashMap<PeerId, Instant>,
    /// Peers to which there was no room.
    pub(super) without_room: HashSet<PeerId>,
    pub(super) regions: HashSet<RegionId>,
    /// Somebody believes that the fabric below is armed.
    pub(super) is_armed_in_name: bool,
}

/// What waits to be handed over.
pub(super) struct Held {
    pub(super) peer: PeerId,
    pub(super) event: Event,
}

pub(super) enum Event {
    Message(Head, Vec<u8>),
    Sent(Token, Result<(), Fault>),
    Moved(Token, Result<(), Fault>),
    Link(LinkEvent),
}

/// A message that is to be sent by one of the next polls.
pub(super) struct Outgoing {
    pub(super) to: PeerId,
    pub(super) head: Head,
    pub(super) from: From,
    /// Polls to wait.
    pub(super) polls: usize,
}

pub(super) enum From {
    /// User memory, and the token with which its end is reported, if it is.
    User(UserBytes, Option<Token>),
    Copy(Vec<u8>),
}

/// What the fabric below has under way.
pub(super) enum Operation {
    /// A get or put, or a send that ends later.
    Of(PeerId, Token),
    /// The rest of a message, which goes into the end of these bytes.
    Rest(PeerId, Head, Vec<u8>),
}

/// The rest of a message on its way into memory of the sink.
pub(super) struct Rest {
    pub(super) peer: PeerId,
    pub(super) bytes: Vec<u8>,
    pub(super) into: UserBuf,
    pub(super) done: usize,
    pub(super) token: Token,
}

impl State {
    pub(super) fn new(faults: Faults, me: PeerId) -> State {
        State {
            faults,
            random: fastrand::Rng::with_seed(faults.trouble.seed ^ u64::from(me.0) << 32),
            spoilable: 0,
            queue: VecDeque::new(),
            outgoing: VecDeque::new(),
            waiting: HashMap::new(),
            operations: HashMap::new(),
            last_token: 0,
            rests: Vec::new(),
            leases: HashMap::new(),
            last_lease: 0,
            returned: VecDeque::new(),
            ended: HashMap::new(),
            disconnected: HashSet::new(),
            last: HashMap::new(),
            heard: HashMap::new(),
            without_room: HashSet::new(),
            regions: HashSet::new(),
            is_armed_in_name: false,
        }
    }

    pub(super) fn trouble(&self) -> Trouble {
        self.faults.trouble
    }

    pub(super) fn has(&self, defect: Defect) -> bool {
        self.faults.defect == Some(defect)
    }

    /// Whether the defect is there, and concerns this peer.
    pub(super) fn has_of(&self, defect: Defect, peer: PeerId) -> bool {
        self.has(defect) && self.concerns(peer)
    }

    pub(super) fn concerns(&self, peer: PeerId) -> bool {
        self.faults.of.is_none_or(|of| of == peer)
    }

    /// Whether the next event is one that this defect spoils.
    pub(super) fn spoils(&mut self, defect: Defect) -> bool {
        self.spoilable += usize::from(self.has(defect));
        self.has(defect) && self.spoilable.is_multiple_of(SPOILT)
    }

    /// Whether a send, get or put is to be refused for nothing.
    pub(super) fn refuses(&mut self) -> bool {
        self.trouble().busy && self.random.u8(..3) == 0
    }

    /// Sends a message later.
    pub(super) fn put_off(&mut self, one: Outgoing) {
        *self.waiting.entry(one.to).or_default() += 1;
        self.outgoing.push_back(one);
    }

    pub(super) fn push(&mut self, peer: PeerId, event: Event) {
        self.queue.push_back(Held { peer, event });
    }

    /// Names an operation of the fabric below.
    pub(super) fn start(&mut self, operation: Operation) -> Token {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.operations.insert(token, operation);
        token
    }

    /// Ends a send that was to end later.
    pub(super) fn sent(&mut self, peer: PeerId, token: Token, result: Result<(), Fault>) {
        if self.has(Defect::SentNever) {
            return;
        }
        if self.has(Defect::SentTwice) {
            self.push(peer, Event::Sent(token, result.clone()));
        }
        self.push(peer, Event::Sent(token, result));
    }

    /// Whether polling has something to do.
    pub(super) fn is_busy(&self) -> bool {
        !(self.queue.is_empty() && self.outgoing.is_empty() && self.rests.is_empty())
    }

    /// Takes back a receive buffer.
    pub(super) fn retire(&mut self, lease: u64) {
        let buffer = self.leases.remove(&lease);
        let mut buffer =
            buffer.unwrap_or_else(|| panic!("lease {lease} is returned, and is not kept"));
        buffer.fill(GARBAGE);
        self.returned.push_back(buffer);
        if self.returned.len() > RETURNED_MAX {
            self.returned.pop_front();
        }
    }
}
