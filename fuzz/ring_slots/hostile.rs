//! A process that writes into shared memory what it likes, keeping the rules or not.

use crate::sink::Ear;
use arbitrary::Arbitrary;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use taffrail_fabric::{Head, PeerId};
use taffrail_fuzz::inbox::{ARMED, DIRTY, Inbox};
use taffrail_fuzz::memory::{Address, Length};
use taffrail_shm::ShmFabric;

const RANKS: usize = 3;
const INBOX: Inbox = Inbox { ranks: RANKS };
/// Bytes of the body of a slot that are payload.
const LEAD: usize = 44;
const RUN: usize = 56;
const ASSIST: u8 = 64;

#[derive(Arbitrary, Debug)]
pub enum Write {
    /// A message at the next position, in slots.
    Slots {
        head: Any,
        len: u16,
        fill: u8,
    },
    /// The descriptor of a payload in the outbox.
    Pooled {
        head: Any,
        offset: Length,
        len: Length,
    },
    /// The announcement of a get that both sides move.
    Assist {
        addr: Address,
        into: Address,
        len: Length,
        serial: u32,
        cut: u8,
    },
    /// A message in the mailbox.
    Mail {
        head: Any,
        len: u8,
        ahead: i8,
        ack: Ack,
        payload: [u8; 8],
    },
    /// A slot of its ring, near the next position, as it comes.
    Slot {
        ahead: u8,
        stamp: i8,
        word: u32,
        body: [u8; 28],
    },
    /// How much of the victim's it claims to have read.
    Credit(Ack),
    /// Whether it is looking, and whether it sleeps.
    Watched(u32),
    Armed(u32),
    /// Bits of the victim's bitmap.
    Dirty(u64),
    /// The cell of its gets, or of the victim's.
    Cell {
        of_victim: bool,
        word: u8,
        serial: u8,
        front: u8,
        back: u8,
    },
    /// A packet over the socket.
    Region {
        region: u8,
        len: Length,
        used: Length,
        fd: Fd,
    },
    Packet {
        bytes: [u8; 24],
        len: u8,
        fds: u8,
    },
    /// Anything anywhere in the victim's inbox.
    Anywhere {
        at: u16,
        word: u64,
    },
}

/// The head of a message, mostly a good one.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Any {
    kind: u8,
    /// Kinds of the fabric's own are written only if this is a multiple of 8.
    own: u8,
    context: u16,
    seq: u32,
    tag: u64,
}

/// A position said to be consumed.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Ack {
    True,
    Off(i8),
    Any(u64),
}

/// A descriptor that comes with a region.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Fd {
    Sealed,
    Unsealed,
    Event,
    Closed,
}

pub struct Hostile {
    me: usize,
    victim: usize,
    /// The position to fill next.
    next: u64,
}

impl Any {
    fn head(self) -> Head {
        let kind = if self.own.is_multiple_of(8) { self.kind % 128 } else { self.kind % 64 };
        Head { kind, context: self.context, seq: self.seq, tag: self.tag }
    }
}

impl Hostile {
    pub fn new(me: u32, victim: u32, next: u64) -> Hostile {
        Hostile { me: me as usize, victim: victim as usize, next }
    }

    pub fn write(&mut self, line: &ShmFabric, write: &Write, ear: &mut Ear) {
        match *write {
            Write::Slots { head, len, fill } => self.slots(line, head.head(), len, fill, ear),
            Write::Pooled { head, offset, len } => {
                self.pooled(line, head.head(), offset.get(), len.get(), ear);
            }
            Write::Assist { addr, into, len, serial, cut } => {
                ear.lawless();
                let (addr, into) = (addr.get().to_le_bytes(), into.get().to_le_bytes());
                let (len, serial) = (len.get().to_le_bytes(), serial.to_le_bytes());
                let body = [&addr[..], &into, &len, &serial].concat();
                let size = if cut < 250 { body.len() } else { cut as usize % 28 };
                let head = Head { kind: ASSIST, ..Head::default() };
                self.slot(line, self.next, word(self.next, head, size), head, &body);
                self.next += 1;
            }
            Write::Mail { head, len, ahead, ack, payload } => {
                self.mail(line, head.head(), len, ahead, ack, payload, ear);
            }
            Write::Slot { ahead, stamp, word, ref body } => {
                ear.lawless();
                let at = self.next + u64::from(ahead);
                let stamp = at.wrapping_add_signed(stamp.into()) as u32;
                self.slot(
                    line,
                    at,
                    u64::from(word) << 32 | u64::from(stamp),
                    Head::default(),
                    body,
                );
            }
            Write::Credit(ack) => {
                ear.lawless();
                let at = INBOX.consumed(self.victim);
                let now = word_of(line, self.me, at).load(Ordering::Relaxed);
                word_of(line, self.me, at).store(ack.near(now), Ordering::Release);
            }
            Write::Watched(watched) => half_of(line, self.me, INBOX.watched(self.victim), watched),
            // That of one who waits at the descriptor may be written to.
            Write::Armed(armed) => half_of(line, self.me, ARMED, armed),
            Write::Dirty(bits) => {
                word_of(line, self.victim, DIRTY).fetch_or(bits, Ordering::SeqCst);
            }
            Write::Cell { of_victim, word, serial, front, back } => {
                ear.lawless();
                let (of, at) = match of_victim {
                    true => (self.victim, INBOX.cell(self.me)),
                    false => (self.me, INBOX.cell(self.victim)),
                };
                let value = u64::from(serial % 4) << 32 | u64::from(back) << 16 | u64::from(front);
                let value = if word % 3 == 2 { u64::from(serial % 4) } else { value };
                let at = at + 8 * (word as usize % 3);
                word_of(line, of, at).store(value, Ordering::Release);
            }
            Write::Region { region, len, used, fd } => {
                ear.lawless();
                self.region(line, region % 4, len, used, fd);
            }
            Write::Packet { ref bytes, len, fds } => {
                ear.lawless();
                let files: Vec<OwnedFd> = (0..fds % 5).map(|_| memory(4096, true)).collect();
                send(line, PeerId(self.victim as u32), &bytes[..len as usize % 25], &files);
            }
            Write::Anywhere { at, word } => {
                ear.trespass();
                let words = line.raw_inbox(PeerId(self.victim as u32)).len() / 8;
                let at = 8 * (at as usize % words);
                word_of(line, self.victim, at).store(word, Ordering::Release);
            }
        }
    }

    /// Whether so many slots are free at the next position.
    fn has_room(&self, line: &ShmFabric, slots: u64) -> bool {
        let at = INBOX.consumed(self.me);
        let consumed = word_of(line, self.victim, at).load(Ordering::Acquire);
        self.next + slots - 1 <= consumed + INBOX.slots() as u64
    }

    fn slots(&mut self, line: &ShmFabric, head: Head, len: u16, fill: u8, ear: &mut Ear) {
        let len = len as usize % 512;
        let lawful = head.kind < Head::KINDS && len <= LEAD + 4 * RUN;
        let payload: Vec<u8> =
            (0..len.min(LEAD + 4 * RUN)).map(|k| fill.wrapping_add(k as u8)).collect();
        let runs = payload.len().saturating_sub(LEAD).div_ceil(RUN) as u64;
        if lawful && self.has_room(line, 1 + runs) {
            ear.expect(head, payload.clone());
        } else {
            ear.lawless();
        }
        let (lead, rest) = payload.split_at(payload.len().min(LEAD));
        for (run, position) in rest.chunks(RUN).zip(self.next + 1..) {
            self.body(line, position, run);
            self.word(line, position, u64::from(position as u32));
        }
        self.slot(line, self.next, word(self.next, head, len), head, lead);
        self.next += 1 + runs;
    }

    fn pooled(&mut self, line: &ShmFabric, head: Head, offset: u64, len: u64, ear: &mut Ear) {
        let len = len as u32;
        let outbox = line.raw_outbox();
        let end = offset.checked_add(len.into()).filter(|&end| end <= outbox.len() as u64);
        let lawful = head.kind < Head::KINDS && len <= 64 * 1024 && self.has_room(line, 1);
        match end.filter(|_| lawful) {
            Some(_) => {
                // SAFETY: the range was just found inside the mapping, and nobody else writes to it.
                let at = unsafe { outbox.cast::<u8>().add(offset as usize) };
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len as usize) };
                // What an earlier message holds is not written again.
                ear.expect(head, bytes.to_vec());
            }
            None => ear.lawless(),
        }
        let body = [&offset.to_le_bytes()[..], &len.to_le_bytes()].concat();
        self.slot(line, self.next, word(self.next, head, 511), head, &body);
        self.next += 1;
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a message")]
    fn mail(
        &mut self,
        line: &ShmFabric,
        head: Head,
        len: u8,
        ahead: i8,
        ack: Ack,
        payload: [u8; 8],
        ear: &mut Ear,
    ) {
        // A half holds one message, which the victim may not have read.
        ear.lawless();
        let (of, at) = match self.me < self.victim {
            true => (self.me, INBOX.mailbox(self.victim)),
            false => (self.victim, INBOX.mailbox(self.me) + 32),
        };
        let ahead = if ahead % 4 == 0 { 0 } else { ahead / 4 };
        let position = self.next.wrapping_add_signed(ahead.into());
        let consumed = word_of(line, self.me, INBOX.consumed(self.victim)).load(Ordering::Relaxed);
        let numbers = u64::from(head.seq) | ack.near(consumed) << 32;
        let put = |k: usize, value| word_of(line, of, at + 8 * k).store(value, Ordering::Relaxed);
        put(1, head.tag);
        put(2, numbers);
        put(3, u64::from_ne_bytes(payload));
        let size = if len % 16 == 15 { 511 } else { len as usize % 12 };
        word_of(line, of, at).store(word(position, head, size), Ordering::Release);
        self.next += u64::from(ahead == 0);
    }

    fn region(&self, line: &ShmFabric, region: u8, len: Length, used: Length, fd: Fd) {
        let claim = len.get();
        // What a file holds is allocated when it is mapped.
        let real = claim.min(1 << 20);
        let file = match fd {
            Fd::Sealed => memory(real, true),
            Fd::Unsealed => memory(real, false),
            Fd::Event => eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"),
            Fd::Closed => std::fs::File::open("/dev/null").expect("a descriptor").into(),
        };
        let words = [u64::from_le_bytes(*b"TAFFREGN"), region.into(), claim, used.get()];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        send(line, PeerId(self.victim as u32), &bytes, &[file]);
    }

    /// Fills a slot of our ring, the word last.
    fn slot(&self, line: &ShmFabric, position: u64, word: u64, head: Head, payload: &[u8]) {
        let front = [&head.tag.to_le_bytes()[..], &head.seq.to_le_bytes()].concat();
        self.body(line, position, &[&front, &payload[..payload.len().min(LEAD)]].concat());
        self.word(line, position, word);
    }

    fn body(&self, line: &ShmFabric, position: u64, bytes: &[u8]) {
        let inbox = line.raw_inbox(PeerId(self.victim as u32)).cast::<u8>();
        assert!(bytes.len() <= RUN);
        // SAFETY: a slot has 56 bytes behind its word, and the layout lies inside the inbox.
        unsafe {
            let at = inbox.add(INBOX.slot(self.me, position) + 8);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.as_ptr(), bytes.len());
        }
    }

    fn word(&self, line: &ShmFabric, position: u64, word: u64) {
        let at = INBOX.slot(self.me, position);
        word_of(line, self.victim, at).store(word, Ordering::Release);
    }
}

impl Ack {
    /// The position, by somebody who knows `now`.
    fn near(self, now: u64) -> u64 {
        match self {
            Ack::True => now,
            Ack::Off(by) => now.wrapping_add_signed(by.into()),
            Ack::Any(position) => position,
        }
    }
}

/// The first word of a message.
fn word(position: u64, head: Head, size: usize) -> u64 {
    u64::from(position as u32)
        | u64::from(head.context) << 32
        | (size as u64) << 48
        | u64::from(head.kind) << 57
}

fn word_of(line: &ShmFabric, of: usize, at: usize) -> &AtomicU64 {
    let inbox = line.raw_inbox(PeerId(of as u32));
    assert!(at % 8 == 0 && at + 8 <= inbox.len());
    // SAFETY: inside the mapping, which lives as long as the line.
    unsafe { inbox.cast::<u8>().add(at).cast().as_ref() }
}

fn half_of(line: &ShmFabric, of: usize, at: usize, value: u32) {
    let inbox = line.raw_inbox(PeerId(of as u32));
    assert!(at % 4 == 0 && at + 4 <= inbox.len());
    // SAFETY: as above.
    let half: &AtomicU32 = unsafe { inbox.cast::<u8>().add(at).cast().as_ref() };
    half.store(value, Ordering::SeqCst);
}

fn memory(len: u64, sealed: bool) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("fuzz", flags).expect("a descriptor");
    ftruncate(&file, len).expect("a length");
    if sealed {
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    }
    file
}

fn send(line: &ShmFabric, to: PeerId, bytes: &[u8], files: &[OwnedFd]) {
    let Some(link) = line.raw_link(to) else { return };
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    // A socket that is full or closed takes nothing more.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = sendmsg(link, &[IoSlice::new(bytes)], &mut control, flags);
}
