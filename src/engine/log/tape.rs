//! The payload log: what this rank has sent to ranks outside of its set, in the order of sending, in
//! segments that the messages leave from.
//!
//! A place on the tape is its number of the segment times the length of a segment, plus the offset.
//! When the memory given to it is used up, the segments written longest ago go to a file, and come back
//! when they are to be sent again.

use super::cold::Cold;
use crate::Error;
use std::collections::VecDeque;
use taffrail_fabric::{Fabric, MemoryError, SegmentId};

/// A message on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its tag.
    pub(crate) tag: u64,
    /// Where its bytes begin.
    pub(crate) at: u64,
    /// Its length in bytes.
    len: usize,
}

/// Set in the length of a message that leaves in pieces, with its length in front.
const PIECES: usize = 1 << 63;
/// Set in the length of a synchronous one.
const SYNC: usize = 1 << 62;
/// Where in the length its immediate data are: the bits of its context's word that are no context.
const DATA: u32 = 48;
/// The bits of the length itself.
const LEN: usize = (1 << DATA) - 1;

impl Kept {
    /// `data`: the bits of the context's word that are [immediate data](super::super::immediate).
    pub(crate) fn new(tag: u64, len: usize, pieces: bool, sync: bool, data: u16) -> Self {
        let flags = if pieces { PIECES } else { 0 } | if sync { SYNC } else { 0 };
        Kept { tag, at: 0, len: len | flags | usize::from(data) << DATA }
    }

    /// The word of its context, in this context.
    #[inline]
    pub(crate) fn word(&self, context: u16) -> u16 {
        context | ((self.len & !(PIECES | SYNC)) >> DATA) as u16
    }

    /// All of it, to be kept elsewhere.
    pub(crate) fn to_words(self) -> [u64; 3] {
        [self.tag, self.at, self.len as u64]
    }

    /// From [`to_words`](Self::to_words).
    pub(crate) fn from_words([tag, at, len]: [u64; 3]) -> Self {
        Kept { tag, at, len: len as usize }
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len & LEN
    }

    /// Bytes in front of it.
    #[inline]
    pub(crate) fn prefix(&self) -> usize {
        if self.len & PIECES == 0 { 0 } else { PREFIX }
    }

    /// Bytes on the tape.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.prefix() + self.len()
    }

    /// Whether its sender waits for its receiver.
    #[inline]
    pub(crate) fn is_sync(&self) -> bool {
        self.len & SYNC != 0
    }
}

/// A range of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) segment: SegmentId,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// Bytes in front of a message of several pieces, for its length.
const PREFIX: usize = 8;
/// The least room for the first piece of such a message.
const LEAST: usize = 4096;
/// Messages begin at whole lines, unless they are so short that they are copied once more.
const LINE: usize = 64;

/// The payload log.
pub(crate) struct Tape {
    /// All segments, in their order; none in the place of those that are in the file only.
    segments: Vec<Option<SegmentId>>,
    /// The numbers of those in memory, the first to leave it first.
    resident: VecDeque<u32>,
    /// Segments to be used next.
    ahead: VecDeque<SegmentId>,
    cold: Cold,
    /// Bytes of a segment.
    size: usize,
    /// Bytes of the last segment in use.
    fill: usize,
    /// Segments that may be had.
    most: usize,
}

impl Tape {
    /// An empty tape of segments of so many bytes, that takes `memory` bytes at most.
    pub(crate) fn new(size: usize, memory: usize) -> Self {
        Tape {
            segments: Vec::new(),
            resident: VecDeque::new(),
            ahead: VecDeque::new(),
            cold: Cold::default(),
            size,
            fill: size,
            most: (memory / size).max(4),
        }
    }

    /// Bytes that were logged, and how many of them are in memory.
    pub(crate) fn footprint(&self) -> (u64, usize) {
        (self.segments.len() as u64 * self.size as u64, self.in_memory() * self.size)
    }

    fn in_memory(&self) -> usize {
        self.resident.len() + self.ahead.len()
    }

    /// Makes sure that a message of `len` bytes can be written, whole or in pieces of `piece`.
    ///
    /// # Errors
    /// [`Error::Memory`] when the log is full.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        fabric: &mut impl Fabric,
        len: usize,
        piece: usize,
    ) -> Result<(), Error> {
        if self.fill + len.max(LEAST) + 2 * LINE <= self.size {
            return Ok(());
        }
        self.prepare_more(fabric, len.max(piece))
    }

    /// Whether a short message of `len` bytes fits without more ado.
    #[inline]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.fill + len.max(1) + 8 <= self.size
    }

    /// Writes a short message, for which [there is room](Self::has_room). Returns where it is.
    #[inline(always)]
    pub(crate) fn write_short(&mut self, fabric: &mut impl Fabric, bytes: &[u8]) -> u64 {
        self.fill = self.fill.next_multiple_of(8);
        let at = self.place();
        if let Some(&Some(segment)) = self.segments.last() {
            fabric.write_segment(segment, self.fill, bytes);
            self.fill += bytes.len();
        }
        at
    }

    /// Does a little of what will have to be done for the next segments, when there is nothing else to
    /// do: new memory costs more time than what is copied into it.
    pub(crate) fn prepare_in_advance(&self, fabric: &mut impl Fabric) {
        if self.in_memory() < self.most - self.most / 4 {
            fabric.prepare_segment();
        }
    }

    #[cold]
    #[inline(never)]
    fn prepare_more(&mut self, fabric: &mut impl Fabric, len: usize) -> Result<(), Error> {
        // The rest of the last segment may be too short to begin in.
        let segments = (len + PREFIX).div_ceil(self.size) + 1;
        if segments > self.most / 2 + 1 {
            return Err(self.full());
        }
        while self.ahead.len() < segments {
            let segment = self.segment(fabric)?;
            self.ahead.push_back(segment);
        }
        Ok(())
    }

    /// A segment to be written. Those that were written longest ago make room for it.
    fn segment(&mut self, fabric: &mut impl Fabric) -> Result<SegmentId, Error> {
        // A quarter of the memory is being written out when all of it is in use.
        let early = self.most - self.most / 4;
        if self.in_memory() >= early {
            self.cold.reap(fabric, &mut self.segments, false)?;
            self.cool_down(fabric)?;
        }
        while self.in_memory() + self.cold.under_way() >= self.most {
            // Back-pressure: the rank waits for its file.
            self.cool_down(fabric)?;
            if self.cold.under_way() == 0 {
                return Err(self.full());
            }
            self.cold.reap(fabric, &mut self.segments, true)?;
        }
        Ok(fabric.keep_segment()?)
    }

    /// Begins to write out those in memory that were written longest ago, but for the last, which is
    /// not full.
    fn cool_down(&mut self, fabric: &impl Fabric) -> Result<(), Error> {
        let mut stay = VecDeque::new();
        let batch = (self.most / 8).max(1);
        while self.cold.under_way() < batch && self.resident.len() > 1 {
            let Some(number) = self.resident.pop_front() else { break };
            if number as usize + 1 == self.segments.len() {
                stay.push_back(number);
                continue;
            }
            let Some(segment) = self.segments[number as usize] else { continue };
            let bytes = fabric.read_segment(segment, 0, self.size);
            match self.cold.begin(number, bytes) {
                Ok(true) => {}
                Ok(false) => {
                    stay.push_back(number);
                    break;
                }
                Err(error) => {
                    self.resident.push_front(number);
                    return Err(error);
                }
            }
        }
        for number in stay.into_iter().rev() {
            self.resident.push_front(number);
        }
        Ok(())
    }

    #[cold]
    fn full(&self) -> Error {
        Error::Memory(MemoryError::Short {
            what: "the log of sent messages",
            need: ((self.in_memory() + 1) * self.size) as u64,
            have: format!("{} bytes of memory were given to it", self.most * self.size),
            remedy: "give it more with --log-memory; a message must fit into half of it",
        })
    }

    /// Brings the segment of a place back into memory, if it is in the file only. It stays there until
    /// the next segment is written or brought back.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no room, or the file cannot be read.
    pub(crate) fn bring_back(&mut self, fabric: &mut impl Fabric, place: u64) -> Result<(), Error> {
        let number = (place / self.size as u64) as usize;
        if self.segments[number].is_none() {
            let segment = self.segment(fabric)?;
            let bytes = self.cold.read(number as u32, self.size)?;
            fabric.write_segment(segment, 0, &bytes);
            self.segments[number] = Some(segment);
            self.resident.push_back(number as u32);
        }
        Ok(())
    }

    /// Begins a short message, which is not sent from here. Returns where it is.
    #[inline]
    pub(crate) fn begin_short(&mut self, len: usize) -> u64 {
        self.fill = self.fill.next_multiple_of(8);
        // Also an empty one has a place in a segment.
        if self.fill + len.max(1) > self.size {
            self.open();
        }
        self.place()
    }

    /// Begins a message that leaves whole. Returns where it is.
    pub(crate) fn begin_whole(&mut self, len: usize) -> u64 {
        self.fill = self.fill.next_multiple_of(LINE);
        if self.fill + len > self.size {
            self.open();
        }
        self.place()
    }

    /// Begins a message of several pieces, with its length in front. Returns where that is.
    pub(crate) fn begin_pieces(&mut self, fabric: &mut impl Fabric, len: usize) -> u64 {
        self.fill = (self.fill + PREFIX).next_multiple_of(LINE) - PREFIX;
        if self.fill + LEAST > self.size {
            self.open();
            self.fill = LINE - PREFIX;
        }
        let at = self.place();
        self.write(fabric, &(len as u64).to_le_bytes());
        at
    }

    /// Adds bytes, as many as the segment has room for; if it has none, in the next. Returns how many.
    #[inline]
    pub(crate) fn write(&mut self, fabric: &mut impl Fabric, bytes: &[u8]) -> usize {
        if self.fill == self.size && !bytes.is_empty() {
            self.open();
        }
        let now = bytes.len().min(self.size - self.fill);
        if let Some(&Some(segment)) = self.segments.last() {
            fabric.write_segment(segment, self.fill, &bytes[..now]);
            self.fill += now;
        }
        now
    }

    /// Bytes that the next [`write`](Self::write) has room for.
    pub(crate) fn room(&self) -> usize {
        if self.fill == self.size { self.size } else { self.size - self.fill }
    }

    /// The first bytes of `len` from a place on, `most` at the most, as far as they are in one segment.
    #[inline]
    pub(crate) fn range(&self, place: u64, len: usize, most: usize) -> Range {
        let at = (place % self.size as u64) as usize;
        let segment = self.segments[(place / self.size as u64) as usize];
        let segment = segment.expect("it was brought back before");
        Range { segment, at, len: len.min(most).min(self.size - at) }
    }

    #[inline]
    fn place(&self) -> u64 {
        (self.segments.len() as u64 - 1) * self.size as u64 + self.fill as u64
    }

    #[cold]
    fn open(&mut self) {
        let next = self.ahead.pop_front().expect("room was made before");
        self.resident.push_back(self.segments.len() as u32);
        self.segments.push(Some(next));
        self.fill = 0;
    }
}

#[cfg(test)]
mod tests;
