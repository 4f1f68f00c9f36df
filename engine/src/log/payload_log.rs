//! The payload log: what this rank has sent to ranks outside of its set, in the order of sending, in
//! segments that the messages leave from.
//!
//! A place on the payload log is its number of the segment times the length of a segment, plus the offset.
//! When the memory given to it is used up, the segments written longest ago go to a file, and come back
//! when they are to be sent again. A segment whose messages nobody will ask for any more is given up, and
//! its memory is what is written next.

mod entry;
mod residence;

pub(crate) use entry::LogEntry;

use super::gather::Gather;
use super::host::SpillStore;
use super::spill::SpilledSegments;
use crate::{Error, NotNow};
use entry::PREFIX;
use std::collections::VecDeque;
use taffrail_fabric::{LogRange, SegmentId, SendMemory};

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
    /// The message that is being written through the file.
    long: Option<LongWrite>,
    /// What is to be written waits for the file, or for peers that have not read from what is given up.
    waits: bool,
    /// Why a write to the file has failed, until a message is refused for that.
    failed: Option<Error>,
}

/// A message of several fragments of which a part is written.
#[derive(Clone, Copy)]
struct LongWrite {
    at: u64,
    written: usize,
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
    /// An empty payload log of segments of `size` bytes, that takes `memory` bytes at most and goes to `spill` then.
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
            long: None,
            waits: false,
            failed: None,
        }
    }

    /// Whether what is to be written waits for the file or for peers.
    pub(crate) fn waits(&self) -> bool {
        self.waits
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
    /// [`NotNow::Waits`] until the file has taken others, or peers have read from what was given up, and [`Error::Memory`] when
    /// the log is full.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        memory: &mut impl SendMemory,
        len: usize,
        fragment: usize,
    ) -> Result<(), NotNow> {
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
    /// file meanwhile. Nothing else is written before it is whole. Returns where it is.
    ///
    /// # Errors
    /// [`NotNow::Waits`] while the file takes what is written: the next call continues.
    /// [`Error::Memory`] when there is no room, neither in memory nor in the file; nothing is written then.
    #[cold]
    pub(crate) fn write_long(
        &mut self,
        memory: &mut impl SendMemory,
        parts: &[&[u8]],
        len: usize,
    ) -> Result<u64, NotNow> {
        let LongWrite { at, mut written } = match self.long {
            Some(long) => long,
            None => {
                self.have_ahead(memory, 2)?;
                let skew = taffrail_fabric::skew(parts, len);
                LongWrite { at: self.begin_fragments(memory, len, skew), written: 0 }
            }
        };
        let mut source = Gather::behind(parts, written);
        while written < len {
            self.long = Some(LongWrite { at, written });
            if let Err(not_now) = self.have_ahead(memory, 1) {
                if let NotNow::Failed(_) = not_now {
                    self.abandon_long(memory);
                }
                return Err(not_now);
            }
            let now = self.room().min(len - written);
            source.write(now, |bytes| _ = self.write(memory, bytes));
            written += now;
        }
        self.long = None;
        Ok(at)
    }

    /// Nobody writes the rest of a message that was being written through the file.
    #[cold]
    pub(crate) fn abandon_long(&mut self, memory: &mut impl SendMemory) {
        self.waits = false;
        if let Some(LongWrite { at, written }) = self.long.take() {
            self.release_bytes(memory, at, PREFIX + written);
        }
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
    ) -> Result<LogEntry, NotNow> {
        if !self.fits_at_once(bytes.len()) {
            let at = self.write_long(memory, &[bytes], bytes.len())?;
            return Ok(LogEntry { at, ..*kept });
        }
        let skew = taffrail_fabric::skew(&[bytes], bytes.len());
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

    /// The first bytes of `len` from a place on, `most` at the most, as far as they are in one segment. They are there, or will be when
    /// they are written: the log continues in the segments that were taken ahead.
    ///
    /// # Panics
    /// If they are not in memory, or there was no [room](Self::prepare) for them.
    #[inline]
    #[expect(clippy::expect_used, reason = "callers bring the segment back, or make room, first")]
    pub(crate) fn range(&self, place: u64, len: usize, most: usize) -> LogRange {
        let at = (place % self.size as u64) as usize;
        let number = (place / self.size as u64 - self.first) as usize;
        let segment = match self.segments.get(number) {
            Some(written) => written.segment,
            None => self.ahead.get(number - self.segments.len()).copied(),
        };
        let segment = segment.expect("it was brought back, or room was made, before");
        LogRange { segment, at, len: len.min(most).min(self.size - at) }
    }

    /// The [ranges](Self::range) of all bytes of `len` from a place on.
    pub(crate) fn ranges(&self, place: u64, len: usize) -> Vec<LogRange> {
        let mut ranges = Vec::with_capacity(len / self.size + 2);
        let mut done = 0;
        while done < len {
            let range = self.range(place + done as u64, len - done, usize::MAX);
            done += range.len;
            ranges.push(range);
        }
        ranges
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
}

#[cfg(test)]
mod tests;
