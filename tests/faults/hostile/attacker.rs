//! The hostile rank: it joins as every other one, over a bare line, and then does what a case says.

use super::raw::{Inbox, Slot, socket_to};
use super::{HELLO_TAG, KEY_TAG, OWN, Roles, Z_TAG};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use taffrail::RemoteMemory;
use taffrail_fabric::{
    Body, Fabric, Fault, Head, LinkEvent, PeerId, RemoteKey, Sink, Source, Take, Token,
};
use taffrail_shm::ShmFabric;

pub const EAGER: u8 = 1;
pub const EAGER_SYNC: u8 = 2;
pub const EAGER_FIRST: u8 = 3;
pub const EAGER_FRAG: u8 = 4;
pub const RTS: u8 = 5;
pub const CTS: u8 = 6;
pub const RNDV_DATA: u8 = 7;
pub const ACK: u8 = 8;
pub const ACTIVE: u8 = 9;
pub const LOAN: u8 = 10;
pub const LOAN_RETURN: u8 = 11;
pub const GET_REQ: u8 = 12;
pub const PUT_REQ: u8 = 13;
pub const NAK_KEY: u8 = 14;
pub const ATOMIC: u8 = 22;
pub const THROTTLE: u8 = 15;

/// Bytes that the victim may get.
pub const MEMORY: usize = 64 << 20;

/// What has come from the victim.
#[derive(Default)]
pub struct Heard {
    pub messages: Vec<(Head, Vec<u8>)>,
    victim: u32,
    pub lost: Option<Fault>,
}

impl Sink for Heard {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        if from.0 == self.victim {
            self.messages.push((head, body.here().to_vec()));
        }
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        if peer.0 == self.victim {
            self.lost = match event {
                LinkEvent::Up(_) => return,
                LinkEvent::Closed => Some(Fault::Closed),
                LinkEvent::Broken(why) => Some(why),
            };
        }
    }
}

pub struct Hostile {
    pub line: ShmFabric,
    pub heard: Heard,
    pub me: u32,
    pub victim: u32,
    /// The victim's inbox, and this process's own.
    pub theirs: Inbox,
    pub mine: Inbox,
    /// The next number of channel 0, and the next position of the ring to the victim.
    pub seq: u32,
    pub position: u64,
    /// The line does not know of what was written to the ring.
    pub by_hand: bool,
    /// Memory that the victim was told of.
    pub memory: Vec<u8>,
    pid: i32,
    orders: Rc<Receiver<String>>,
    dismissed: bool,
}

impl Hostile {
    pub fn new(line: ShmFabric, roles: Roles, orders: &Rc<Receiver<String>>) -> Hostile {
        let Roles { hostile: me, victim, .. } = roles;
        let [theirs, mine] = [victim, me].map(|rank| Inbox::of(rank, 3));
        let heard = Heard { victim, ..Heard::default() };
        let memory = vec![0; MEMORY];
        let (seq, position, by_hand, pid) = (0, 1, false, 0);
        let mut hostile = Hostile {
            line,
            heard,
            me,
            victim,
            theirs,
            mine,
            seq,
            position,
            by_hand,
            memory,
            pid,
            orders: orders.clone(),
            dismissed: false,
        };
        // As a `RemoteMemory`: length of the key, key, zeros up to the longest; region, offset, length.
        let mut memory = [0; RemoteMemory::ENCODED];
        let key = key(hostile.memory.as_ptr().expose_provenance() as u64, 0, 0);
        memory[0] = key.as_bytes().len() as u8;
        memory[1..][..key.as_bytes().len()].copy_from_slice(key.as_bytes());
        let len = (hostile.memory.len() as u64).to_le_bytes();
        memory[RemoteMemory::ENCODED - 8..].copy_from_slice(&len);
        hostile.eager(KEY_TAG, &memory);
        hostile
    }

    /// Whether the victim has seen enough.
    pub fn is_dismissed(&mut self) -> bool {
        self.dismissed |= self.orders.try_recv().is_ok();
        self.dismissed
    }

    /// Waits for a message of the victim's that `is` says yes to.
    pub fn await_message(&mut self, what: &str, is: impl Fn(&Head) -> bool) -> (Head, Vec<u8>) {
        let start = Instant::now();
        loop {
            if let Some(found) = self.heard.messages.iter().find(|(head, _)| is(head)) {
                return found.clone();
            }
            self.look();
            assert!(start.elapsed() < Duration::from_secs(20), "{what} does not come");
        }
    }

    /// Takes in what there is.
    pub fn look(&mut self) {
        if self.line.poll(&mut self.heard) == 0 {
            self.line.check(&mut self.heard);
            std::thread::yield_now();
        }
    }

    /// Learns what the victim has under way: everything a case may want to know.
    pub fn learn(&mut self) {
        let (_, hello) =
            self.await_message("the victim's hello", |h| h.kind == EAGER && h.tag == HELLO_TAG);
        let (memory, pid) = hello.split_at(RemoteMemory::ENCODED);
        self.pid = i32::from_le_bytes(pid.try_into().unwrap());
        assert!(memory.iter().any(|&byte| byte != 0));
    }

    /// The region that the victim has registered: number and length.
    pub fn region(&mut self) -> (u64, u64) {
        let (_, hello) =
            self.await_message("the victim's hello", |h| h.kind == EAGER && h.tag == HELLO_TAG);
        let region = &hello[RemoteMemory::ENCODED - 20..][..4];
        let region = u32::from_le_bytes(region.try_into().unwrap());
        (region.into(), OWN as u64)
    }

    /// The victim's name for its announced message.
    pub fn announced(&mut self) -> u64 {
        let (_, body) = self.await_message("an announcement", |h| h.kind == RTS);
        u64::from_le_bytes(body[8..16].try_into().unwrap())
    }

    /// The victim's name for its synchronous message.
    pub fn synchronous(&mut self) -> u64 {
        let (_, body) = self.await_message("a synchronous message", |h| h.kind == EAGER_SYNC);
        u64::from_le_bytes(body[..8].try_into().unwrap())
    }

    /// The number of the victim's loan.
    pub fn lent(&mut self) -> u64 {
        let (_, body) = self.await_message("a loan", |h| h.kind == LOAN);
        u64::from_le_bytes(body[8..16].try_into().unwrap())
    }

    /// The victim's name for the get or put that it asks for.
    pub fn asked(&mut self, kind: u8) -> u64 {
        self.await_message("a get or put to be answered", |h| h.kind == kind).0.tag
    }

    pub fn socket(&self) -> BorrowedFd<'static> {
        socket_to(self.pid)
    }

    /// Sends a message as the line does it. `false`: the victim is gone.
    pub fn send(&mut self, head: Head, body: &[u8]) -> bool {
        loop {
            match self.line.send(PeerId(self.victim), head, Source::Bytes(body)) {
                Ok(_) => break,
                Err(taffrail_fabric::Refused::Busy) => self.look(),
                Err(_) => return false,
            }
            // A victim that has cut us off reads nothing any more.
            if self.is_dismissed() {
                return false;
            }
        }
        self.position += match body.len() {
            45..=268 => 1 + (body.len() as u64 - 44).div_ceil(56),
            _ => 1,
        };
        true
    }

    /// Sends without ever reading anything. `false`: the victim reads nothing any more.
    pub fn send_blindly(&mut self, head: Head, body: &[u8]) -> bool {
        while self.line.send(PeerId(self.victim), head, Source::Bytes(body)).is_err() {
            if self.is_dismissed() {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Sends a control message.
    pub fn say(&mut self, kind: u8, tag: u64, body: &[u8]) {
        self.send(Head { kind, tag, ..Head::default() }, body);
    }

    /// Sends a fragment of the last message that was counted.
    pub fn fragment(&mut self, offset: u64, body: &[u8]) {
        let seq = self.seq.wrapping_sub(1);
        self.send(Head { kind: EAGER_FRAG, context: 0, seq, tag: offset }, body);
    }

    /// Sends bytes of what an operation of the victim waits for.
    pub fn rndv_data(&mut self, name: u64, offset: u64, body: &[u8]) {
        let (context, seq) = ((offset >> 32) as u16, offset as u32);
        self.send(Head { kind: RNDV_DATA, context, seq, tag: name }, body);
    }

    /// Sends a message that is counted.
    pub fn counted(&mut self, kind: u8, tag: u64, body: &[u8]) -> bool {
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        self.send(Head { kind, tag, seq, context: 0 }, body)
    }

    pub fn eager(&mut self, tag: u64, body: &[u8]) -> bool {
        self.counted(EAGER, tag, body)
    }

    /// A slot as it should be, for the next position: a message for the receive of tag 1.
    pub fn slot(&self) -> Slot {
        let mut body = [0; 44];
        body[..5].copy_from_slice(b"hello");
        Slot {
            stamp: self.position as u32,
            context: 0,
            kind: EAGER,
            size: 5,
            tag: super::R_TAG,
            seq: self.seq,
            body,
        }
    }

    /// Writes a slot at the next position.
    pub fn put(&mut self, slot: &Slot) {
        self.theirs.put(self.me, self.position, slot);
    }

    /// Writes a message into the mailbox that the two share.
    pub fn mail(&mut self, slot: &Slot, ack: u32) {
        let (inbox, rank) = match self.me < self.victim {
            true => (self.mine, self.victim),
            false => (self.theirs, self.me),
        };
        inbox.mail(rank, self.me > self.victim, slot, ack);
    }

    /// The victim has taken the slot at the next position, which the line does not know of.
    pub fn taken_by_hand(&mut self, slots: u64, counted: bool) {
        self.position += slots;
        self.seq += u32::from(counted);
        self.by_hand = true;
    }

    /// After the deed: a message like any other.
    pub fn as_if_nothing(&mut self) {
        if self.by_hand {
            let mut slot = Slot { tag: Z_TAG, size: 5, ..self.slot() };
            slot.stamp = self.position as u32;
            self.put(&slot);
        } else {
            self.eager(Z_TAG, b"still");
        }
    }
}

/// A key as it travels: where, in which region, how far in.
pub fn key(addr: u64, region: u32, offset: u64) -> RemoteKey {
    let words = [addr, region.into(), offset].map(u64::to_le_bytes);
    RemoteKey::new(0, words.as_flattened())
}

/// Words, one behind the other.
pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
