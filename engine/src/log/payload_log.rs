//! The payload log: what this rank has sent to ranks outside of its set, in the order of sending, in
//! segments that the messages leave from.
//!
//! A place on the payload log is its number of the segment times the length of a segment, plus the offset.
//! When the memory given to it is used up, the segments written longest ago go to a file, and come back
//! when they are to be sent again. A segment whose messages nobody will ask for any more is given up, and
//! its memory is what is written next.

use super::host::SpillStore;
use super::spill::{self, SpilledSegments};
use crate::Error;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use taffrail_fabric::{LogRange, MemoryError, SegmentId, SendMemory};
use taffrail_logging::{Payload, Run, mutant};

/// A message on the payload log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// Its tag.
    pub(crate) tag: u64,
    /// Where its bytes begin.
    pub(crate) at: u64,
    /// Its length in bytes.
    len: usize,
}

/// Set in the length of a message that leaves in fragments, with its length in front.
const FRAGMENTED: usize = 1 << 63;
/// Set in the length of a synchronous one.
const SYNC: usize = 1 << 62;
/// Where in the length its immediate data are: the bits of its context's word that are no context.
const DATA: u32 = 48;
/// The bits of the length itself.
const LEN: usize = (1 << DATA) - 1;

impl LogEntry {
    /// `data`: the bits of the context's word that are [immediate data](super::super::immediate).
    pub(crate) fn new(tag: u64, len: usize, fragments: bool, sync: bool, data: u16) -> Self {
        let flags = if fragments { FRAGMENTED } else { 0 } | if sync { SYNC } else { 0 };
        LogEntry { tag, at: 0, len: len | flags | usize::from(data) << DATA }
    }

    /// The word of its context, in this context.
    #[inline]
    pub(crate) fn word(&self, context: u16) -> u16 {
        context | ((self.len & !(FRAGMENTED | SYNC)) >> DATA) as u16
    }

    /// All of it, to be kept elsewhere.
    pub(crate) fn to_words(self) -> [u64; 3] {
        [self.tag, self.at, self.len as u64]
    }

    /// From [`to_words`](Self::to_words).
    pub(crate) fn from_words([tag, at, len]: [u64; 3]) -> Self {
        LogEntry { tag, at, len: len as usize }
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len & LEN
    }

    /// Bytes in front of it.
    #[inline]
    pub(crate) fn prefix(&self) -> usize {
        if self.len & FRAGMENTED == 0 { 0 } else { PREFIX }
    }

    /// Bytes on the payload log.
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

impl Payload for LogEntry {
    #[inline(always)]
    fn distance(&self, other: &LogEntry) -> Option<u64> {
        let is_alike = (self.tag, self.len) == (other.tag, other.len);
        is_alike.then(|| other.at.wrapping_sub(self.at))
    }

    #[inline]
    fn behind(&self, distance: u64) -> LogEntry {
        LogEntry { at: self.at.wrapping_add(distance), ..*self }
    }
}

/// Bytes in front of a message of several fragments, for its length.
const PREFIX: usize = 8;
/// Bytes of room that the first fragment of a fragmented message needs at least.
const LEAST: usize = 4096;
/// Messages begin at whole lines, or as far into one as they do in the program, unless they are so short that
/// they are copied once more.
const LINE: usize = 64;

/// The payload log.
pub(crate) struct PayloadLog<S> {
    /// The segments from the first on that is not given up.
    segments: VecDeque<LogSegment>,
    /// The number of that one.
    first: u64,
    /// The numbers of those in memory, the first to leave it first.
    resident: VecDeque<u64>,
    /// Segments to be used next.
    ahead: VecDeque<SegmentId>,
    spilled: SpilledSegments<S>,
    /// Bytes of a segment.
    size: usize,
    /// The last segment in use, its bytes in use, and how many messages are in it.
    last: Option<SegmentId>,
    fill: usize,
    live: u32,
    /// Segments that may be had.
    most: usize,
}

/// A segment of the payload log.
#[derive(Default)]
struct LogSegment {
    /// Where it is in memory, if it is.
    segment: Option<SegmentId>,
    /// The file has it.
    in_file: bool,
    /// Messages of which it has a part and that may be asked for; of the last segment this is elsewhere.
    live: u32,
}

impl LogSegment {
    fn is_given_up(&self) -> bool {
        self.live == 0 && self.segment.is_none() && !self.in_file
    }
}

impl<S: SpillStore> PayloadLog<S> {
    /// An empty payload log of segments of so many bytes, that takes `memory` bytes at most and goes to `spill` then.
    pub(crate) fn new(size: usize, memory: usize, spill: S) -> Self {
        PayloadLog {
            segments: VecDeque::new(),
            first: 0,
            resident: VecDeque::new(),
            ahead: VecDeque::new(),
            spilled: SpilledSegments::new(spill),
            size,
            last: None,
            fill: size,
            live: 0,
            most: (memory / size).max(4),
        }
    }

    fn in_memory(&self) -> usize {
        self.resident.len() + self.ahead.len()
    }

    /// Whether a message of `len` bytes may be written without giving up memory meanwhile. Longer ones are
    /// written by [`write_long`](Self::write_long).
    #[inline]
    pub(crate) fn fits_at_once(&self, len: usize) -> bool {
        self.segments_for(len) <= self.most / 2 + 1
    }

    /// Segments that have a part of a message of `len` bytes, at the most: the rest of the last one may be
    /// too short to begin in.
    fn segments_for(&self, len: usize) -> usize {
        len.saturating_add(PREFIX).div_ceil(self.size) + 1
    }

    /// Makes sure that a message of `len` bytes, which [fits](Self::fits_at_once), can be written, whole or in
    /// fragments of `fragment`.
    ///
    /// # Errors
    /// [`Error::Memory`] when the log is full.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        memory: &mut impl SendMemory,
        len: usize,
        fragment: usize,
    ) -> Result<(), Error> {
        if self.fill + len.max(LEAST) + 2 * LINE <= self.size {
            return Ok(());
        }
        self.prepare_more(memory, len.max(fragment))
    }

    /// Whether a short message of `len` bytes fits without more ado.
    #[inline]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.fill + len.max(1) + 8 <= self.size
    }

    /// Writes a short message, for which [there is room](Self::has_room). Returns where it is.
    #[inline(always)]
    pub(crate) fn write_short(&mut self, memory: &mut impl SendMemory, bytes: &[u8]) -> u64 {
        self.fill = self.fill.next_multiple_of(8);
        let at = self.place();
        if let Some(segment) = self.last {
            memory.write(segment, self.fill, bytes);
            self.fill += bytes.len();
            self.live += 1;
        }
        at
    }

    /// Does a little of what will have to be done for the next segments, when there is nothing else to
    /// do: new memory costs more time than what is copied into it.
    pub(crate) fn prepare_in_advance(&self, memory: &mut impl SendMemory) {
        if self.in_memory() < self.most - self.most / 4 {
            memory.prepare();
        }
    }

    #[cold]
    #[inline(never)]
    fn prepare_more(&mut self, memory: &mut impl SendMemory, len: usize) -> Result<(), Error> {
        self.have_ahead(memory, self.segments_for(len))
    }

    /// Allocates segments until this number of them waits to be used.
    fn have_ahead(&mut self, memory: &mut impl SendMemory, segments: usize) -> Result<(), Error> {
        while self.ahead.len() < segments {
            let segment = self.segment(memory)?;
            self.ahead.push_back(segment);
        }
        Ok(())
    }

    /// A segment to be written. Those that were written longest ago make room for it.
    fn segment(&mut self, memory: &mut impl SendMemory) -> Result<SegmentId, Error> {
        // A quarter of the memory is being written out when all of it is in use.
        let early = self.most - self.most / 4;
        if self.in_memory() >= early {
            self.reap(memory, false)?;
            self.cool_down(memory)?;
        }
        while self.in_memory() + self.spilled.under_way() >= self.most {
            // Back-pressure: the rank waits for its file.
            self.cool_down(memory)?;
            if self.spilled.under_way() > 0 {
                self.reap(memory, true)?;
            } else if self.in_memory() >= self.most {
                return Err(self.full());
            }
        }
        Ok(memory.take()?)
    }

    /// Begins to write out those in memory that were written longest ago, but for the last, which is
    /// not full. Those that were brought back from the file leave memory at once.
    fn cool_down(&mut self, memory: &mut impl SendMemory) -> Result<(), Error> {
        let mut stay = VecDeque::new();
        let batch = (self.most / 8).max(1);
        while self.spilled.under_way() < batch && self.resident.len() > 1 {
            let Some(number) = self.resident.pop_front() else { break };
            if number == self.number() {
                stay.push_back(number);
                continue;
            }
            let held = self.held(number);
            let (segment, in_file) = (held.segment, held.in_file);
            let Some(segment) = segment else { continue };
            if in_file {
                self.held(number).segment = None;
                self.give_back(memory, segment);
                continue;
            }
            let bytes = memory.read(segment, 0, self.size);
            match self.spilled.begin(number, bytes) {
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
            need: self.size as u64,
            have: format!("all {} bytes of its memory are in use", self.most * self.size),
            remedy: "give it more with --log-memory",
        })
    }

    /// Brings the segment of a place back into memory, if it is in the file only. It stays there until
    /// the next segment is written or brought back.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no room, or the file cannot be read.
    pub(crate) fn bring_back(
        &mut self,
        memory: &mut impl SendMemory,
        place: u64,
    ) -> Result<(), Error> {
        let number = place / self.size as u64;
        if self.held(number).segment.is_none() {
            let segment = self.segment(memory)?;
            let mut bytes = vec![0; self.size];
            let from = number - u64::from(mutant!(SpillReadElsewhere) && number > self.first);
            self.spilled.read(from * self.size as u64, &mut bytes)?;
            memory.write(segment, 0, &bytes);
            self.is_at(number, segment);
            self.held(number).segment = Some(segment);
            self.resident.push_back(number);
        }
        Ok(())
    }

    /// Reads bytes that are in one segment, from wherever it is.
    ///
    /// # Errors
    /// [`Error::Memory`] when the file cannot be read.
    pub(crate) fn read(
        &mut self,
        memory: &impl SendMemory,
        place: u64,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let at = (place % self.size as u64) as usize;
        match self.held(place / self.size as u64).segment {
            Some(segment) => into.copy_from_slice(memory.read(segment, at, into.len())),
            None => self.spilled.read(place, into)?,
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
        self.live += 1;
        self.place()
    }

    /// Begins a message that leaves whole, [so far](taffrail_fabric::skew) into a line. Returns where it is.
    pub(crate) fn begin_whole(&mut self, len: usize, skew: usize) -> u64 {
        self.fill = self.fill.next_multiple_of(LINE) + skew;
        if self.fill + len > self.size {
            self.open();
            self.fill = if skew + len > self.size { 0 } else { skew };
        }
        self.live += 1;
        self.place()
    }

    /// Begins a message of several fragments, [so far](taffrail_fabric::skew) into a line, with its length in
    /// front. Returns where that is.
    pub(crate) fn begin_fragments(
        &mut self,
        memory: &mut impl SendMemory,
        len: usize,
        skew: usize,
    ) -> u64 {
        self.fill = (self.fill + PREFIX).next_multiple_of(LINE) + skew - PREFIX;
        if self.fill + LEAST > self.size {
            self.open();
            self.fill = LINE + skew - PREFIX;
        }
        self.live += 1;
        let at = self.place();
        self.write(memory, &(len as u64).to_le_bytes());
        at
    }

    /// Writes a message of several fragments that need not fit into memory: what is written of it goes to the
    /// file meanwhile. `next` is called with a number, and returns as many of its next bytes. Returns where it is.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is no room, neither in memory nor in the file; nothing is written then.
    #[cold]
    pub(crate) fn write_long<M: SendMemory>(
        &mut self,
        memory: &mut M,
        len: usize,
        skew: usize,
        mut next: impl FnMut(usize, &mut dyn FnMut(&[u8])),
    ) -> Result<u64, Error> {
        self.have_ahead(memory, 2)?;
        let at = self.begin_fragments(memory, len, skew);
        let mut written = 0;
        while written < len {
            if let Err(error) = self.have_ahead(memory, 1) {
                self.release_bytes(memory, at, PREFIX + written);
                return Err(error);
            }
            let now = self.room().min(len - written);
            next(now, &mut |bytes| _ = self.write(memory, bytes));
            written += now;
        }
        Ok(at)
    }

    /// Writes a message that was on another payload_log, for which [there is room](Self::prepare) if it
    /// [fits](Self::fits_at_once). Returns it as it is here.
    ///
    /// # Errors
    /// As [`write_long`](Self::write_long), of one that does not.
    pub(crate) fn write_again(
        &mut self,
        memory: &mut impl SendMemory,
        kept: &LogEntry,
        bytes: &[u8],
        is_short: bool,
    ) -> Result<LogEntry, Error> {
        let skew = taffrail_fabric::skew(&[bytes], bytes.len());
        if !self.fits_at_once(bytes.len()) {
            let mut left = bytes;
            let at = self.write_long(memory, bytes.len(), skew, |len, write| {
                let (now, rest) = left.split_at(len);
                left = rest;
                write(now);
            })?;
            return Ok(LogEntry { at, ..*kept });
        }
        let at = match kept.prefix() {
            0 if is_short => self.begin_short(bytes.len()),
            0 => self.begin_whole(bytes.len(), skew),
            _ => self.begin_fragments(memory, bytes.len(), skew),
        };
        let mut left = bytes;
        while !left.is_empty() {
            let written = self.write(memory, left);
            left = &left[written..];
        }
        Ok(LogEntry { at, ..*kept })
    }

    /// Adds bytes, as many as the segment has room for; if it has none, in the next. Returns how many.
    #[inline]
    pub(crate) fn write(&mut self, memory: &mut impl SendMemory, bytes: &[u8]) -> usize {
        if self.fill == self.size && !bytes.is_empty() {
            self.open();
            self.live += 1;
        }
        let now = bytes.len().min(self.size - self.fill);
        if let Some(segment) = self.last {
            memory.write(segment, self.fill, &bytes[..now]);
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
    #[expect(clippy::expect_used, reason = "callers bring the segment back first")]
    pub(crate) fn range(&self, place: u64, len: usize, most: usize) -> LogRange {
        let at = (place % self.size as u64) as usize;
        let number = place / self.size as u64;
        let segment = self.segments[(number - self.first) as usize].segment;
        let segment = segment.expect("it was brought back before");
        LogRange { segment, at, len: len.min(most).min(self.size - at) }
    }

    /// The number of the last segment, if there is one.
    #[inline]
    fn number(&self) -> u64 {
        (self.first + self.segments.len() as u64).wrapping_sub(1)
    }

    #[inline]
    fn place(&self) -> u64 {
        self.number() * self.size as u64 + self.fill as u64
    }

    fn held(&mut self, number: u64) -> &mut LogSegment {
        &mut self.segments[(number - self.first) as usize]
    }

    #[cold]
    #[expect(clippy::expect_used, reason = "callers make room first")]
    fn open(&mut self) {
        let next = self.ahead.pop_front().expect("room was made before");
        if let Some(before) = self.segments.back_mut() {
            before.live = std::mem::take(&mut self.live);
        }
        self.segments.push_back(LogSegment { segment: Some(next), ..LogSegment::default() });
        self.resident.push_back(self.number());
        self.is_at(self.number(), next);
        self.last = Some(next);
        self.fill = 0;
    }

    /// Writes down where a segment is (*places*).
    fn is_at(&self, number: u64, segment: SegmentId) {
        self.spilled.spill.is_in_memory(segment.0, number);
    }

    /// Gives a segment of the memory back.
    fn give_back(&self, memory: &mut impl SendMemory, segment: SegmentId) {
        self.spilled.spill.left_memory(segment.0);
        memory.release(segment);
    }

    /// Gives back what is in the file by now; waits for one if `wait`.
    fn reap(&mut self, memory: &mut impl SendMemory, wait: bool) -> Result<(), Error> {
        let (written, result) = self.spilled.reap(wait);
        for number in written {
            self.spilled.spill.is_spilled(number, true).map_err(spill::refused)?;
            let held = self.held(number);
            held.in_file = true;
            let (segment, is_needed) = (held.segment.take(), held.live > 0);
            if let Some(segment) = segment {
                self.give_back(memory, segment);
            }
            if !is_needed {
                self.give_up(memory, number);
            }
        }
        result
    }
}

/// What is given up.
impl<S: SpillStore> PayloadLog<S> {
    /// Messages that will not be asked for any more.
    pub(crate) fn release(&mut self, memory: &mut impl SendMemory, run: Run<LogEntry>) {
        let first = run.first.payload;
        let last = first.behind(u64::from(run.count - 1) * run.step);
        let segments = self.segments_of(first.at, (last.at - first.at) as usize + last.bytes());
        if segments.clone().count() == 1 {
            return self.release_of(memory, *segments.start(), run.count);
        }
        for message in run.entries() {
            self.release_bytes(memory, message.payload.at, message.payload.bytes());
        }
    }

    /// What was written from a place on, as one, will not be asked for any more.
    pub(crate) fn release_bytes(&mut self, memory: &mut impl SendMemory, place: u64, bytes: usize) {
        self.segments_of(place, bytes).for_each(|number| self.release_of(memory, number, 1));
    }

    /// The numbers of the segments of bytes from a place on.
    fn segments_of(&self, place: u64, bytes: usize) -> RangeInclusive<u64> {
        let size = self.size as u64;
        place / size..=(place + bytes.max(1) as u64 - 1) / size
    }

    /// So many less of the messages of a segment may be asked for.
    fn release_of(&mut self, memory: &mut impl SendMemory, number: u64, messages: u32) {
        if number == self.number() {
            self.live -= messages;
            return;
        }
        let held = self.held(number);
        held.live -= messages;
        if held.live <= u32::from(mutant!(SegmentReusedEarly)) {
            self.give_up(memory, number);
        }
    }

    /// Gives up segments that nothing was left of when the next was begun.
    pub(crate) fn release_empty(&mut self, memory: &mut impl SendMemory) {
        let last = self.number();
        let empty = |(number, held): &(u64, &LogSegment)| {
            *number != last && held.live == 0 && !held.is_given_up()
        };
        let all: Vec<u64> =
            (self.first..).zip(&self.segments).filter(empty).map(|(number, _)| number).collect();
        all.into_iter().for_each(|number| self.give_up(memory, number));
    }

    fn give_up(&mut self, memory: &mut impl SendMemory, number: u64) {
        // One that is being written to the file is read until then.
        if self.spilled.writes(number) && !mutant!(SegmentReusedInWrite) {
            return;
        }
        let held = self.held(number);
        let (segment, in_file) = (held.segment.take(), std::mem::take(&mut held.in_file));
        if let Some(segment) = segment {
            self.give_back(memory, segment);
            match self.resident.front() == Some(&number) {
                true => _ = self.resident.pop_front(),
                false => self.resident.retain(|other| *other != number),
            }
        }
        if in_file {
            // If that cannot be written down it is found by whoever needs nothing of it.
            let noted = self.spilled.spill.is_spilled(number, false);
            noted.unwrap_or_else(|error| tracing::debug!(%error, "a place stays written down"));
            self.spilled.forget(number, self.size);
        }
        while self.segments.len() > 1 && self.segments[0].is_given_up() {
            self.segments.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests;
