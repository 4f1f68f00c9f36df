//! The sink of one process: checks each arrival and completion against what was promised.

use super::ledger::{Ledger, State};
use super::memory::{Ram, pattern};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use taffrail_fabric::{
    Body, Fault, Head, Incarnation, Lease, Life, LinkEvent, Payload, PeerId, Sink, Take, Token,
};

/// What a process knows of its link with a peer.
#[derive(Clone)]
pub struct Link {
    pub is_up: bool,
    pub session: u32,
    pub incarnation: u32,
    /// The place of the next message, where there is an order.
    pub next: u32,
    /// Verdicts that were heard.
    pub heard: usize,
}

/// A get or put under way.
pub struct Operation {
    pub peer: usize,
    pub incarnation: u32,
    pub is_get: bool,
    pub near: Rc<Ram>,
    /// What it moves, in the list of what is exposed.
    pub exposed: usize,
    pub at: usize,
    /// The memory was there when it was started.
    pub was_open: bool,
    /// This process was said to be drained of the peer meanwhile.
    pub is_drained: bool,
}

/// The rest of a message under way.
struct Rest {
    from: usize,
    number: u64,
    here: usize,
    left: usize,
    into: Rc<Ram>,
}

/// A receive buffer that is kept.
pub struct Kept {
    payload: Payload<'static>,
    bytes: Vec<u8>,
    pub lease: Lease,
}

pub struct Witness {
    pub rank: usize,
    pub ledger: Rc<RefCell<Ledger>>,
    pub links: Vec<Link>,
    pub sends: BTreeMap<u64, (usize, u32, Rc<Ram>)>,
    pub operations: BTreeMap<u64, Operation>,
    rests: BTreeMap<u64, Rest>,
    pub kept: Vec<Kept>,
    pub last_token: u64,
    random: fastrand::Rng,
    is_ordered: bool,
    may_lose_at_close: bool,
}

impl Witness {
    pub fn new(
        rank: usize,
        ledger: Rc<RefCell<Ledger>>,
        links: Vec<Link>,
        seed: u64,
        (is_ordered, may_lose_at_close): (bool, bool),
    ) -> Witness {
        Witness {
            rank,
            ledger,
            links,
            sends: BTreeMap::new(),
            operations: BTreeMap::new(),
            rests: BTreeMap::new(),
            kept: Vec::new(),
            last_token: 0,
            random: fastrand::Rng::with_seed(seed),
            is_ordered,
            may_lose_at_close,
        }
    }

    pub fn token(&mut self) -> Token {
        self.last_token += 1;
        Token(self.last_token)
    }

    pub fn fail(&self, text: String) {
        self.ledger.borrow_mut().fail(format!("rank {}: {text}", self.rank));
    }

    fn check_no_rest(&self, peer: usize, what: &str) {
        if self.rests.values().any(|rest| rest.from == peer) {
            self.fail(format!("{what} of {peer} before the rest of its last message"));
        }
    }

    /// Whether a message may come now, and which it is.
    fn check_arrival(&mut self, from: usize, head: Head, len: usize) -> Option<u64> {
        self.check_no_rest(from, "a message");
        let number = head.tag;
        let ledger = self.ledger.borrow();
        let link = &mut self.links[from];
        let text = match ledger.messages.get(number as usize) {
            None => format!("message {number} was never sent"),
            Some(one) if (one.from, one.to) != (from, self.rank) => {
                format!("message {number} has come from {from}, and is not")
            }
            Some(one) if one.state == State::Refused => format!("message {number} was refused"),
            Some(one) if one.state == State::Arrived => format!("message {number} has come twice"),
            Some(_) if !link.is_up => format!("message {number} has come without a link"),
            Some(one) if one.session != link.session => {
                format!("message {number} is of another link, {} for {}", one.session, link.session)
            }
            Some(one) if self.is_ordered && one.place != link.next => {
                format!("message {number} is not in order: {} for {}", one.place, link.next)
            }
            Some(one) if one.len != len => {
                format!("bytes of message {number}: {len} for {}", one.len)
            }
            Some(_) => {
                link.next += 1;
                return Some(number);
            }
        };
        drop(ledger);
        self.fail(text);
        None
    }

    fn check_bytes(&self, what: &str, number: u64, got: &[u8], expected: &[u8]) {
        if got != expected {
            self.fail(format!("bytes of {what} {number}: {got:x?} for {expected:x?}"));
        }
    }

    fn whole(&mut self, from: usize, head: Head, bytes: &[u8]) {
        if let Some(number) = self.check_arrival(from, head, bytes.len()) {
            self.check_bytes("message", number, bytes, &pattern(number, bytes.len()));
            self.ledger.borrow_mut().arrived(number);
        }
    }

    fn stream(&mut self, from: usize, head: Head, here: Vec<u8>, left: usize) -> Take {
        let len = here.len() + left;
        let Some(number) = self.check_arrival(from, head, len) else { return Take::Done };
        self.check_bytes("message", number, &here, &pattern(number, len)[..here.len()]);
        let room = match self.random.u8(..5) {
            0 => {
                self.ledger.borrow_mut().arrived(number);
                return Take::Done;
            }
            1 => self.random.usize(..left),
            _ => left,
        };
        let into = Ram::new(&vec![0; room]);
        let token = self.token();
        let rest = Rest { from, number, here: here.len(), left, into: into.clone() };
        self.rests.insert(token.0, rest);
        Take::Rest(into.buf(), token)
    }

    fn rest_moved(&mut self, rest: Rest, result: &Result<(), Fault>) {
        if !rest.into.is_guarded() {
            self.fail(format!("the rest of message {} was written beyond its memory", rest.number));
        }
        if result.is_ok() {
            let expected = pattern(rest.number, rest.here + rest.left);
            let room = rest.into.len();
            let expected = &expected[rest.here..rest.here + room];
            self.check_bytes("message", rest.number, &rest.into.all(), expected);
            self.ledger.borrow_mut().arrived(rest.number);
        }
        let room = rest.into.len();
        self.ledger.borrow_mut().give_up(&rest.into, 0, room, "of a rest that had ended");
    }

    fn operation_moved(&mut self, token: u64, one: &Operation, result: &Result<(), Fault>) {
        let len = one.near.len();
        let mut ledger = self.ledger.borrow_mut();
        if result.is_ok() {
            let exposed = &ledger.exposed[one.exposed];
            let is_there = exposed.is_open
                && exposed.owner_lives
                && !ledger.drained.contains(&(one.exposed, one.at));
            let far = exposed.ram.read(one.at, len);
            let text = if one.is_drained {
                None
            } else if len > 0 && !one.was_open {
                Some("a get or put reached memory that was deregistered".to_owned())
            } else if one.is_get
                && one.near.all() != pattern(one.exposed as u64, one.at + len)[one.at..]
            {
                Some(format!("bytes of a get {token} are wrong"))
            } else if !one.is_get && is_there && far != one.near.all() {
                Some(format!("bytes of a put {token} are not there"))
            } else {
                None
            };
            text.into_iter().for_each(|text| ledger.fail(text));
        }
        ledger.give_up(&one.near, 0, len, "of a get or put that had ended");
    }

    /// Gives a receive buffer back. It is as it was.
    pub fn take_kept(&mut self, at: usize) -> Lease {
        let Kept { payload, bytes, lease } = self.kept.swap_remove(at);
        if payload.to_vec() != bytes {
            self.fail("a receive buffer was written while it was kept".into());
        }
        lease
    }

    /// A verdict is true, and none comes that is older than one that was heard.
    pub fn verdict(&mut self, PeerId(peer): PeerId, life: Life) {
        let ledger = self.ledger.borrow();
        let lives = ledger.lives.get(&(peer as usize)).cloned().unwrap_or_default();
        drop(ledger);
        let link = &mut self.links[peer as usize];
        match lives.iter().skip(link.heard).position(|&one| one == life) {
            Some(skipped) => link.heard += skipped + 1,
            None => self.fail(format!("one-verdict: {peer} is {life:?}, and is not: {lives:?}")),
        }
    }

    /// Nothing of an incarnation of a peer reaches memory of this process any more: all of it is used otherwise.
    pub fn drained(&mut self, incarnation: u32, of: (usize, u32)) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.drain(self.rank, incarnation, of);
        let open = self.operations.values_mut();
        for one in open.filter(|one| (one.peer, one.incarnation) == of && !one.is_drained) {
            one.is_drained = true;
            ledger.give_up(&one.near, 0, one.near.len(), "drained");
        }
        let open = self.sends.values().filter(|(peer, of_peer, _)| (*peer, *of_peer) == of);
        open.for_each(|(.., ram)| ram.spoil_all());
    }

    /// The process is no more, and its memory neither.
    pub fn vanish(&self) {
        let mut ledger = self.ledger.borrow_mut();
        self.sends.values().for_each(|(.., ram)| ram.spoil_all());
        let near = self.operations.values().map(|one| &one.near);
        for ram in near.chain(self.rests.values().map(|rest| &rest.into)) {
            ledger.give_up(ram, 0, ram.len(), "of a process that is no more");
        }
    }

    /// A process may start with what was before.
    pub fn knows(&mut self, peer: usize, lives: usize) {
        self.links[peer].heard = lives;
    }

    /// Nothing is left under way.
    pub fn check_nothing_left(&self) {
        if let Some(token) = self.sends.keys().next() {
            self.fail(format!("the end of a send is missing: {token}"));
        }
        if let Some(token) = self.operations.keys().next() {
            self.fail(format!("the end of a get or put is missing: {token}"));
        }
        if let Some(rest) = self.rests.values().next() {
            self.fail(format!("the rest of message {} is missing", rest.number));
        }
        for (peer, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_up) {
            let missing = self.ledger.borrow().missing(peer, self.rank, link.session);
            if !missing.is_empty() {
                self.fail(format!("messages {missing:?} of {peer} have never arrived"));
            }
        }
    }
}

impl Link {
    pub fn up(session: u32) -> Link {
        Link { is_up: true, session, incarnation: 0, next: 0, heard: 0 }
    }

    pub fn down() -> Link {
        Link { is_up: false, ..Link::up(0) }
    }
}

impl Sink for Witness {
    fn message(&mut self, PeerId(from): PeerId, head: Head, body: Body<'_>) -> Take {
        let from = from as usize;
        match body {
            Body::Whole(payload) => {
                self.whole(from, head, &payload.to_vec());
                Take::Done
            }
            Body::Leased(payload, Lease(lease)) => {
                let bytes = payload.to_vec();
                self.whole(from, head, &bytes);
                if self.random.bool() {
                    return Take::Done;
                }
                // SAFETY: the buffer is kept, and not read after its return.
                let payload = unsafe { payload.kept() };
                self.kept.push(Kept { payload, bytes, lease: Lease(lease) });
                Take::Keep(Lease(lease))
            }
            Body::Stream { here, left } => self.stream(from, head, here.to_vec(), left),
        }
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        match self.sends.remove(&token.0) {
            // A late read of it gets garbage.
            Some((.., ram)) => ram.spoil_all(),
            None => self.fail(format!("a send has ended that is not under way: {token:?}")),
        }
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        if let Some(rest) = self.rests.remove(&token.0) {
            return self.rest_moved(rest, &result);
        }
        match self.operations.remove(&token.0) {
            Some(one) => self.operation_moved(token.0, &one, &result),
            None => self.fail(format!("a get or put has ended that is not under way: {token:?}")),
        }
    }

    fn link(&mut self, PeerId(peer): PeerId, event: LinkEvent) {
        let peer = peer as usize;
        self.check_no_rest(peer, "a change of the link");
        let (was_up, session) = (self.links[peer].is_up, self.links[peer].session);
        match event {
            LinkEvent::Up(Incarnation(incarnation)) => {
                if was_up {
                    self.fail(format!("the link with {peer} is up already"));
                }
                let coming = self
                    .ledger
                    .borrow_mut()
                    .coming
                    .get_mut(&(self.rank, peer))
                    .and_then(|one| one.pop_front());
                match coming {
                    Some((session, of)) if of == incarnation => {
                        let heard = self.links[peer].heard;
                        self.links[peer] = Link { incarnation, heard, ..Link::up(session) };
                    }
                    other => {
                        self.fail(format!("{peer}.{incarnation} is up, and is not: {other:?}"))
                    }
                }
            }
            LinkEvent::Closed | LinkEvent::Broken(_) => {
                if !was_up {
                    self.fail(format!("the link with {peer} has ended already"));
                }
                self.links[peer].is_up = false;
                if event == LinkEvent::Closed {
                    self.check_closed(peer, session);
                }
            }
        }
    }
}

impl Witness {
    fn check_closed(&self, peer: usize, session: u32) {
        let of = self.links[peer].incarnation;
        if !self.ledger.borrow().closed.contains(&(peer, of)) {
            self.fail(format!("{peer}.{of} has not closed"));
        }
        let missing = self.ledger.borrow().missing(peer, self.rank, session);
        if !self.may_lose_at_close && !missing.is_empty() {
            self.fail(format!(
                "messages {missing:?} of {peer} have never arrived, and it has closed"
            ));
        }
    }
}
