//! A peer that sends what it likes, above rings that are in order.

use crate::VICTIM;
use crate::told::Told;
use arbitrary::Arbitrary;
use taffrail::{Buffer, Dest, Endpoint};
use taffrail_fabric::{Head, RemoteKey};
use taffrail_fuzz::memory::{Address, Length};

/// Contexts of receives, the first two of which the hostile peer counts by itself.
pub const CONTEXTS: u16 = 3;
/// The context of what its engine sends.
const OWN: u16 = 2;
/// What its messages are cut from.
static DATA: [u8; 300_000] = [7; 300_000];
/// The longest message of the fabric.
const MOST: usize = 64 * 1024;

/// A message of the engine (`docs/wire.md`, section 5).
#[derive(Arbitrary, Debug)]
pub enum Control {
    Eager {
        place: Place,
        len: u16,
    },
    EagerSync {
        place: Place,
        name: Name,
        len: u16,
    },
    First {
        place: Place,
        len: Length,
        here: u16,
        wrong: Rarely,
    },
    More {
        len: u16,
        wrong: Rarely,
    },
    Announce {
        place: Place,
        len: Length,
        name: Name,
        key: Option<Key>,
    },
    Clear {
        name: Name,
        streaming: bool,
        want: Length,
        to: Name,
        wrong: Rarely,
    },
    Piece {
        name: Name,
        offset: Length,
        len: u16,
        wrong: Rarely,
    },
    Finished(Name),
    Active {
        handler: u8,
        header: u64,
        len: u16,
    },
    Loan {
        place: Place,
        len: Length,
        loan: u8,
        key: Key,
    },
    Returned {
        loan: u8,
    },
    Ask {
        name: Name,
        region: u8,
        offset: Length,
        len: Length,
    },
    Tell {
        name: Name,
        region: u8,
        offset: Length,
        last: bool,
        len: u16,
    },
    NoMemory(Name),
    Throttle(u8),
    /// Anything under any kind.
    Any {
        kind: u8,
        place: Place,
        body: [u8; 40],
        len: u8,
        wrong: Rarely,
    },
    /// What the engine of the hostile peer sends for it, in good order.
    Send {
        tag: u8,
        len: u32,
    },
    Lend {
        tag: u8,
        len: u32,
    },
    /// Makes memory known to the victim that later keys may name.
    Tells {
        len: u16,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Place {
    context: u8,
    tag: u8,
    seq: Seq,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Seq {
    off: i8,
    wrong: Rarely,
}

impl Seq {
    fn is_off(self) -> bool {
        self.wrong.is() && self.off != 0
    }
}

/// A rule is broken now and then: who breaks one is cut off, and gets no deeper.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Rarely(u8);

impl Rarely {
    fn is(self) -> bool {
        self.0 >= 245
    }
}

/// The name of an operation of the victim.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Name {
    /// Of an operation that is under way.
    Live(u8),
    Likely {
        index: u8,
        generation: u8,
    },
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Key {
    addr: Address,
    region: u8,
    offset: Length,
}

pub struct Hostile {
    pub endpoint: Endpoint,
    /// Bytes sent, with what a message takes in any case.
    pub sent: usize,
    next: [u32; OWN as usize],
    /// The victim's operations, as it names them.
    pub names: Vec<u64>,
    told: Told,
    /// A message of several fragments: its head with the offset of the next fragment, and how many bytes are to come.
    coming: (Head, usize),
    buffers: Vec<Buffer>,
}

impl Name {
    fn get(self, names: &[u64]) -> u64 {
        match self {
            Name::Live(which) if names.is_empty() => which.into(),
            Name::Live(which) => names[which as usize % names.len()],
            Name::Likely { index, generation } => {
                u64::from(index % 24) | u64::from(generation % 3) << 32
            }
            Name::Any(name) => name,
        }
    }
}

impl Key {
    fn remote(self) -> RemoteKey {
        let words = [self.addr.get(), u64::from(self.region % 4), self.offset.get()];
        RemoteKey::new(0, words.map(u64::to_le_bytes).as_flattened())
    }
}

impl Hostile {
    pub fn new(endpoint: Endpoint) -> Hostile {
        Hostile {
            endpoint,
            sent: 0,
            next: [0; 2],
            names: Vec::new(),
            told: Told::default(),
            coming: (Head::default(), 0),
            buffers: Vec::new(),
        }
    }

    /// Reads what the victim says.
    pub fn listen(&mut self) {
        self.endpoint.overhear(&mut self.told);
    }

    pub fn say(&mut self, control: &Control) {
        match *control {
            Control::Eager { place, len } => self.numbered(1, place, &[], len.into()),
            Control::EagerSync { place, name, len } => {
                self.numbered(2, place, &[name.get(&self.names)], len.into());
            }
            Control::First { place, len, here, wrong } => {
                let (mut len, mut here) = (len.get(), here as usize);
                if !wrong.is() {
                    len = 2 + len % (1 << 18);
                    here %= (len as usize).min(MOST - 8);
                }
                if wrong.is() || self.coming.1 == 0 {
                    let (context, seq) = (place.context(), self.seq(place));
                    self.numbered(3, place, &[len], here);
                    let next = Head { kind: 4, context, seq, tag: here as u64 };
                    self.coming = (next, (len as usize).saturating_sub(here));
                }
            }
            Control::More { len, wrong } => {
                let (mut head, left) = self.coming;
                let len = if wrong.is() { len as usize } else { left.min(len as usize) };
                if wrong.is() || len > 0 {
                    self.send(head, &body(&[], len));
                    head.tag += len as u64;
                    self.coming = (head, left.saturating_sub(len));
                }
            }
            Control::Announce { place, len, name, key: None } => {
                self.numbered(5, place, &[len.get(), name.get(&self.names)], 0);
            }
            Control::Announce { place, len, name, key: Some(key) } => {
                self.keyed(5, place, len.get(), name.get(&self.names), key);
            }
            Control::Clear { name, streaming, want, to, wrong } => {
                let (mut name, mut want) = (name.get(&self.names), want.get());
                if !wrong.is() {
                    let Some((told, has)) = self.told.has.pop() else { return };
                    (name, want) = (told, want % (has as u64 + 1));
                }
                self.named(6, name, streaming.into(), &[want, to.get(&self.names)], 0);
            }
            Control::Piece { name, offset, len, wrong } => {
                let (mut name, mut offset, mut len) =
                    (name.get(&self.names), offset.get(), len as usize);
                if !wrong.is() {
                    let Some(wanted) = self.told.wants.last_mut() else { return };
                    (name, offset, len) = (wanted.name, wanted.from, len.min(wanted.left));
                    wanted.from += len as u64;
                    wanted.left -= len;
                    if wanted.left == 0 {
                        self.told.wants.pop();
                    }
                }
                let (context, seq) = ((offset >> 32) as u16, offset as u32);
                self.send(Head { kind: 7, context, seq, tag: name }, &body(&[], len));
            }
            Control::Finished(name) => self.named(8, name.get(&self.names), 0, &[], 0),
            Control::Active { handler, header, len } => {
                let head = Head { kind: 9, context: u16::from(handler % 3), seq: 0, tag: header };
                self.send(head, &vec![1; len as usize % MOST]);
            }
            Control::Loan { place, len, loan, key } => {
                self.keyed(10, place, len.get(), loan.into(), key);
            }
            Control::Returned { loan } => self.named(11, u64::from(loan % 8), 0, &[], 0),
            Control::Ask { name, region, offset, len } => {
                let place = [u64::from(region % 4), offset.get(), len.get()];
                self.named(12, name.get(&self.names), 0, &place, 0);
            }
            Control::Tell { name, region, offset, last, len } => {
                let place = [u64::from(region % 4), offset.get(), last.into()];
                self.named(13, name.get(&self.names), 0, &place, len.into());
            }
            Control::NoMemory(name) => self.named(14, name.get(&self.names), 0, &[], 0),
            Control::Throttle(what) => self.named(15, 0, u32::from(what % 4), &[], 0),
            Control::Any { wrong, .. } if !wrong.is() => {}
            Control::Any { kind, place, ref body, len, .. } => {
                let head = Head {
                    kind: kind % Head::KINDS,
                    context: place.context(),
                    seq: self.seq(place),
                    tag: place.tag.into(),
                };
                let sent = self.send(head, &body[..len as usize % 41]);
                self.count(place, sent && matches!(head.kind, 1..=3 | 5 | 10));
            }
            Control::Send { tag, len } => {
                let len = len as usize % DATA.len();
                let to = Dest::new(VICTIM, u64::from(tag % 4)).context(OWN);
                // SAFETY: the bytes stay until the endpoint is gone, and nobody writes to them.
                let _ = unsafe { self.endpoint.isend_raw(to, DATA.as_ptr(), len) };
                self.sent += len + 64;
            }
            Control::Lend { tag, len } => {
                let to = Dest::new(VICTIM, u64::from(tag % 4)).context(OWN);
                let len = len as usize % DATA.len();
                if let Ok(buffer) = self.endpoint.alloc(len) {
                    let _ = self.endpoint.loan(to, buffer);
                }
                self.sent += len + 1024;
            }
            Control::Tells { len } => {
                if let Ok(buffer) = self.endpoint.alloc(len.into()) {
                    // SAFETY: nobody reads or writes the buffer here.
                    let _ = unsafe { self.endpoint.remote_buffer(VICTIM, &buffer) };
                    self.buffers.push(buffer);
                }
                self.sent += len as usize + 1024;
            }
        }
    }

    /// A message with a number in its channel: words, then `len` bytes.
    fn numbered(&mut self, kind: u8, place: Place, words: &[u64], len: usize) {
        let (context, tag) = (place.context(), u64::from(place.tag % 4));
        let head = Head { kind, context, seq: self.seq(place), tag };
        let sent = self.send(head, &body(words, len));
        self.count(place, sent);
    }

    /// A length, a name and a key.
    fn keyed(&mut self, kind: u8, place: Place, len: u64, name: u64, key: Key) {
        let (context, tag) = (place.context(), u64::from(place.tag % 4));
        let head = Head { kind, context, seq: self.seq(place), tag };
        let sent = self.send(head, &[&body(&[len, name], 0)[..], key.remote().as_bytes()].concat());
        self.count(place, sent);
    }

    fn named(&mut self, kind: u8, name: u64, seq: u32, words: &[u64], len: usize) {
        self.send(Head { kind, context: 0, seq, tag: name }, &body(words, len));
    }

    fn seq(&self, place: Place) -> u32 {
        let next = self.next[place.context() as usize % self.next.len()];
        if place.seq.is_off() { next.wrapping_add_signed(place.seq.off.into()) } else { next }
    }

    fn count(&mut self, place: Place, sent: bool) {
        let right = !place.seq.is_off();
        let next = &mut self.next[place.context() as usize % OWN as usize];
        *next += u32::from(sent && right);
    }

    fn send(&mut self, head: Head, body: &[u8]) -> bool {
        self.sent += body.len() + 64;
        self.endpoint.send_anything(VICTIM, head, body)
    }
}

impl Place {
    fn context(self) -> u16 {
        u16::from(self.context) % OWN
    }
}

fn body(words: &[u64], len: usize) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    words.chain((0..len).map(|k| k as u8)).take(MOST).collect()
}
