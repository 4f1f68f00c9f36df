//! Events kept in memory, and handed to a rank that is started again: packed, since of what it takes to keep
//! one new memory is the most (`docs/logging.md`, section 9, has the bytes).
//!
//! Most events are much like the one before: the next receive has got the next message of a channel. So a
//! packed event says only what is not as expected, and that of most is a byte which was in the ring.
//! Each block, which is what the logger takes out of a ring at once, begins with no expectations, so that a
//! logger which takes over needs to know none.

mod copy;
mod file;
mod unpacked;

use super::batch::{Batch, EventCode, Expected};
use super::file::{FILE_HEADER, FileError, Owner, header};
use crate::{Event, MsgId, Rank};
use rustc_hash::FxHashMap;

pub(super) use copy::copy_packed;
pub(super) use file::PackedFile;
pub use unpacked::Unpacked;

const MAGIC: u64 = u64::from_le_bytes(*b"TAFFPACK");
const VERSION: u32 = 2;
/// Bytes of a block before its events.
const HEAD: usize = 24;

/// In the first byte of an event: it is given in full, else it is as expected after the one before.
const FULL: u8 = 1 << 7;
/// In the first byte of an event in full: its polls follow; without this flag it has none.
const POLLS: u8 = 1 << 3;
/// A number follows; else it is one more than the last of its kind.
const NUMBER: u8 = 1 << 4;
/// A source and a context follow; else they are those of the last message.
const CHANNEL: u8 = 1 << 5;
/// The number of the message follows; else it is the next of its channel.
const SEQ: u8 = 1 << 6;

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// It is another one.
    #[error("it begins with record {got}")]
    Misplaced {
        /// The clock of its first record.
        got: u64,
    },
    /// Its bytes are not what was written.
    #[error("its checksum is {got:#010x}, its bytes make {expected:#010x}")]
    Damaged {
        /// The checksum of its bytes.
        expected: u32,
        /// What it says.
        got: u32,
    },
    /// It is not all there.
    #[error("it ends behind byte {got}")]
    Short {
        /// How many.
        got: usize,
    },
    /// Its bytes are no events, or more or fewer than it says.
    #[error("it says that its events are {count}, and its bytes are not")]
    Events {
        /// How many it says there are.
        count: u32,
    },
}

/// What is expected of the next event in full; only what differs is stored.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The number of the next receive.
    post: u32,
    /// What is found next.
    index: u32,
    /// Of the last message.
    channel: Option<(Rank, u16)>,
    /// The number of the next message of that channel.
    seq: u32,
    /// The same, of all others.
    seqs: FxHashMap<(Rank, u16), u32>,
}

impl Known {
    fn pack(&mut self, event: &Event, into: &mut Vec<u8>) {
        let at = into.len();
        into.push(0);
        let (kind, polls, number, message) = event.parts();
        let mut first = FULL | kind;
        if polls != 0 {
            first |= POLLS;
            put(into, polls);
        }
        if let Some(number) = number {
            let next = *self.number(kind);
            if number != next {
                first |= NUMBER;
                put(into, zigzag(number.wrapping_sub(next)));
            }
        }
        if let Some(MsgId { source, context, seq }) = message {
            if self.channel != Some((source, context)) {
                first |= CHANNEL;
                put(into, source);
                put(into, u32::from(context));
                self.turn_to(source, context);
            }
            if seq != self.seq {
                first |= SEQ;
                put(into, zigzag(seq.wrapping_sub(self.seq)));
            }
        }
        into[at] = first;
        self.follow(event);
    }

    /// The event in full of which this is the first byte; takes its other bytes.
    fn unpack(&mut self, first: u8, bytes: &mut &[u8]) -> Option<Event> {
        let kind = first & 7;
        let mut given = |flag| if first & flag != 0 { get(bytes).map(Some) } else { Some(None) };
        let polls = given(POLLS)?.unwrap_or(0);
        let number = given(NUMBER)?.map_or(0, unzigzag);
        let (source, context) = (given(CHANNEL)?, given(CHANNEL)?);
        let seq = given(SEQ)?.map_or(0, unzigzag);
        let number = if matches!(kind, 1..=3) { self.number(kind).wrapping_add(number) } else { 0 };
        let mut message = MsgId { source: 0, context: 0, seq: 0 };
        if matches!(kind, 1 | 4 | 5) {
            message = self.message(source, context, seq)?;
        }
        let event = Event::of_parts(kind, polls, number, message)?;
        self.follow(&event);
        Some(event)
    }

    /// This event was the last.
    fn follow(&mut self, event: &Event) {
        let (kind, _, number, message) = event.parts();
        if let Some(number) = number {
            *self.number(kind) = number.wrapping_add(1);
        }
        if let Some(MsgId { source, context, seq }) = message {
            if self.channel != Some((source, context)) {
                self.turn_to(source, context);
            }
            self.seq = seq.wrapping_add(1);
        }
    }

    /// The next number of an event of this kind.
    fn number(&mut self, kind: u8) -> &mut u32 {
        if kind == 3 { &mut self.index } else { &mut self.post }
    }

    fn message(&mut self, source: Option<u32>, context: Option<u32>, seq: u32) -> Option<MsgId> {
        if let (Some(source), Some(context)) = (source, context) {
            self.turn_to(source, context.try_into().ok()?);
        }
        let (source, context) = self.channel?;
        Some(MsgId { source, context, seq: self.seq.wrapping_add(seq) })
    }

    fn turn_to(&mut self, source: Rank, context: u16) {
        if let Some(last) = self.channel.replace((source, context)) {
            self.seqs.insert(last, self.seq);
        }
        self.seq = self.seqs.get(&(source, context)).copied().unwrap_or_default();
    }
}

/// The events of a block, one after the other.
#[derive(Clone, Debug, Default)]
struct Packer {
    known: Known,
    /// The last event, which need not be known yet.
    last: Option<Event>,
}

impl Packer {
    fn pack(&mut self, event: &Event, into: &mut Vec<u8>) {
        match self.expected().says(event) {
            says if says < FULL => into.push(says),
            _ => self.known().pack(event, into),
        }
        self.last = Some(*event);
    }

    /// Events that are each as expected after the one before.
    #[expect(clippy::expect_used, reason = "a run says \"as expected\" only of events that are")]
    fn pack_run(&mut self, run: &[EventCode], into: &mut Vec<u8>) {
        if run.iter().fold(0, |all, says| all | says) < FULL {
            into.extend_from_slice(run);
            self.last = self.expected().last(run).or(self.last);
            return;
        }
        for &says in run {
            let event = self.expected().event(says).expect("it is as expected");
            self.pack(&event, into);
        }
    }

    /// The next event, of which the bytes are taken.
    fn unpack(&mut self, bytes: &mut &[u8]) -> Option<Event> {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        let event = match first {
            says if says < FULL => self.expected().event(says)?,
            first => self.known().unpack(first, bytes)?,
        };
        self.last = Some(event);
        Some(event)
    }

    fn expected(&self) -> Expected {
        self.last.as_ref().map_or(Expected::NOTHING, Expected::after)
    }

    fn known(&mut self) -> &mut Known {
        if let Some(last) = &self.last {
            self.known.follow(last);
        }
        &mut self.known
    }
}

/// The block of these events of `rank`, the first of which is at `clock`, appended.
pub(super) fn pack(rank: Rank, clock: u64, batch: &Batch, into: &mut Vec<u8>) {
    let begin = into.len();
    into.resize(begin + HEAD, 0);
    let mut packer = Packer::default();
    for (event, run) in batch.runs() {
        packer.pack(event, into);
        packer.pack_run(run, into);
    }
    let len = (into.len() - begin - HEAD) as u32;
    let block = &mut into[begin..];
    block[..4].copy_from_slice(&len.to_le_bytes());
    block[4..8].copy_from_slice(&(batch.len() as u32).to_le_bytes());
    block[8..16].copy_from_slice(&clock.to_le_bytes());
    let sum = checksum(rank, block);
    block[16..20].copy_from_slice(&sum.to_le_bytes());
}

/// A packed store with these events behind its own.
///
/// # Errors
/// As [`Unpacked::new`].
pub fn extend_packed(
    owner: Owner,
    name: &str,
    bytes: Vec<u8>,
    events: impl IntoIterator<Item = Event>,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = bytes;
    let last = Unpacked::new(owner, name, bytes.clone())?.last_clock();
    let batch: Batch = events.into_iter().collect();
    if !batch.is_empty() {
        pack(owner.rank, last + 1, &batch, &mut bytes);
    }
    Ok(bytes)
}

/// Goes through a block, whose first event is to be at `clock`. Returns how many events it has.
///
/// # Errors
/// [`BlockError`].
///
/// # Panics
/// If the block is not as long as it says.
fn unpack(rank: Rank, clock: u64, block: &[u8]) -> Result<u64, BlockError> {
    let count = check(rank, clock, block)?;
    let (mut bytes, mut packer) = (&block[HEAD..], Packer::default());
    for _ in 0..count {
        packer.unpack(&mut bytes).ok_or(BlockError::Events { count })?;
    }
    if bytes.is_empty() { Ok(u64::from(count)) } else { Err(BlockError::Events { count }) }
}

/// Whether a block is as it was written. Returns how many events it says it has.
fn check(rank: Rank, clock: u64, block: &[u8]) -> Result<u32, BlockError> {
    assert_eq!(block.len(), block_len(block), "the whole block");
    let (expected, got) = (checksum(rank, block), word(block, 16));
    if expected != got {
        return Err(BlockError::Damaged { expected, got });
    }
    let got = u64::from(word(block, 8)) | u64::from(word(block, 12)) << 32;
    if got != clock {
        return Err(BlockError::Misplaced { got });
    }
    Ok(word(block, 4))
}

/// The bytes of the block with this head.
fn block_len(head: &[u8]) -> usize {
    HEAD + word(head, 0) as usize
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Over all of a block but itself, and the rank.
fn checksum(rank: Rank, block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(rank, &block[..16]), &block[20..])
}

/// Seven bits a byte, the lowest first; the highest bit says that there is more.
fn put(into: &mut Vec<u8>, mut value: u32) {
    while value >= 128 {
        into.push(value as u8 | 128);
        value >>= 7;
    }
    into.push(value as u8);
}

fn get(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return value.try_into().ok();
        }
    }
    None
}

/// Small numbers for those that are near 0 on either side.
fn zigzag(value: u32) -> u32 {
    value << 1 ^ ((value as i32) >> 31) as u32
}

fn unzigzag(value: u32) -> u32 {
    value >> 1 ^ 0_u32.wrapping_sub(value & 1)
}

/// The first bytes of a store.
pub fn packed_header(owner: Owner) -> [u8; FILE_HEADER] {
    header(MAGIC, VERSION, owner)
}

#[cfg(test)]
mod tests;
