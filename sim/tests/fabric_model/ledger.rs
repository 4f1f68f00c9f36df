//! What all processes together know: messages, links and lives as they are.

use super::memory::Ram;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use taffrail_fabric::Life;

/// A message that was accepted, or refused.
pub struct Record {
    pub from: usize,
    pub to: usize,
    /// The link that it was sent on.
    pub session: u32,
    /// Its place among the messages of this link and direction.
    pub place: u32,
    pub len: usize,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Refused,
    OnTheWay,
    Arrived,
}

/// Memory that peers reach.
pub struct Exposed {
    pub owner: usize,
    pub incarnation: u32,
    pub region: Option<taffrail_fabric::RegionId>,
    pub ram: Rc<Ram>,
    /// For each peer, the key that it has.
    pub keys: Vec<Option<taffrail_fabric::RemoteKey>>,
    /// Peers read what is there; otherwise each put has a place of its own.
    pub is_source: bool,
    /// Bytes that puts were given so far.
    pub used: usize,
    /// It was not deregistered.
    pub is_open: bool,
    pub owner_lives: bool,
}

/// Where a put of an incarnation goes.
pub struct Slot {
    pub by: (usize, u32),
    pub exposed: usize,
    pub at: usize,
    pub len: usize,
}

#[derive(Default)]
pub struct Ledger {
    pub messages: Vec<Record>,
    /// What comes up at each process for each peer: the link and the incarnation of the peer.
    pub coming: HashMap<(usize, usize), VecDeque<(u32, u32)>>,
    pub last_session: u32,
    /// How many messages each link has carried in each direction, and how many are on the way.
    pub counts: HashMap<(usize, usize, u32), (u32, usize)>,
    /// What became of each process.
    pub lives: HashMap<usize, Vec<Life>>,
    /// Incarnations that have closed in good order.
    pub closed: HashSet<(usize, u32)>,
    pub exposed: Vec<Exposed>,
    pub slots: Vec<Slot>,
    /// Slots that nobody may write any more, for their owner is drained.
    pub drained: HashSet<(usize, usize)>,
    /// Memory that nobody may touch any more, and why.
    pub given_up: Vec<(Rc<Ram>, usize, usize, &'static str)>,
    pub found: Vec<String>,
}

impl Ledger {
    pub fn fail(&mut self, text: String) {
        self.found.push(text);
    }

    /// Writes a message down before it is sent, and returns its number.
    pub fn offer(&mut self, from: usize, to: usize, session: u32, len: usize) -> u64 {
        let state = State::Refused;
        self.messages.push(Record { from, to, session, place: 0, len, state });
        self.messages.len() as u64 - 1
    }

    pub fn accepted(&mut self, number: u64, capacity: usize) {
        let record = &mut self.messages[number as usize];
        let counts = self.counts.entry((record.from, record.to, record.session)).or_default();
        (record.place, record.state) = (counts.0, State::OnTheWay);
        *counts = (counts.0 + 1, counts.1 + 1);
        if counts.1 > capacity {
            let text = format!("{} messages on the way: more than the capacity", counts.1);
            self.fail(text);
        }
    }

    /// A message is at its receiver, or gets lost on its way into memory there.
    pub fn arrived(&mut self, number: u64) {
        let record = &mut self.messages[number as usize];
        record.state = State::Arrived;
        let counts = self.counts.entry((record.from, record.to, record.session)).or_default();
        counts.1 = counts.1.saturating_sub(1);
    }

    /// Messages of one link and direction that have not arrived.
    pub fn missing(&self, from: usize, to: usize, session: u32) -> Vec<usize> {
        let of = (from, to, session);
        let mine = |(_, one): &(usize, &Record)| {
            (one.from, one.to, one.session) == of && one.state == State::OnTheWay
        };
        self.messages.iter().enumerate().filter(mine).map(|(number, _)| number).collect()
    }

    pub fn connected(&mut self, a: usize, b: usize, of: [u32; 2]) {
        self.last_session += 1;
        let session = self.last_session;
        self.coming.entry((a, b)).or_default().push_back((session, of[1]));
        self.coming.entry((b, a)).or_default().push_back((session, of[0]));
    }

    pub fn give_up(&mut self, ram: &Rc<Ram>, at: usize, len: usize, why: &'static str) {
        ram.spoil(at, len);
        self.given_up.push((ram.clone(), at, len, why));
    }

    /// The owner of some memory is drained of an incarnation.
    pub fn drain(&mut self, owner: usize, incarnation: u32, of: (usize, u32)) {
        for slot in std::mem::take(&mut self.slots) {
            let exposed = &self.exposed[slot.exposed];
            let is_theirs =
                slot.by == of && (exposed.owner, exposed.incarnation) == (owner, incarnation);
            if is_theirs && exposed.is_open && exposed.owner_lives {
                let ram = exposed.ram.clone();
                self.drained.insert((slot.exposed, slot.at));
                self.give_up(&ram, slot.at, slot.len, "drained");
            } else {
                self.slots.push(slot);
            }
        }
    }

    /// Whether all memory that was given up is as it was.
    pub fn check_given_up(&mut self) {
        let touched = self.given_up.iter().find(|(ram, at, len, _)| !ram.is_spoilt(*at, *len));
        if let Some((.., why)) = touched {
            let text = format!("memory was written that was {why}");
            self.fail(text);
        }
    }
}
