//! The payload log: what this rank has sent to ranks outside of its set, in the order of sending, in
//! segments that the messages leave from.
//!
//! A place on the tape is its number of the segment times the length of a segment, plus the offset.

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

impl Kept {
    pub(crate) fn new(tag: u64, len: usize, pieces: bool, sync: bool) -> Self {
        let flags = if pieces { PIECES } else { 0 } | if sync { SYNC } else { 0 };
        Kept { tag, at: 0, len: len | flags }
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len & !(PIECES | SYNC)
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
    segments: Vec<SegmentId>,
    /// Segments to be used next.
    ahead: VecDeque<SegmentId>,
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
        let most = (memory / size).max(2);
        Tape { segments: Vec::new(), ahead: VecDeque::new(), size, fill: size, most }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn footprint(&self) -> usize {
        (self.segments.len() + self.ahead.len()) * self.size
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

    #[cold]
    #[inline(never)]
    fn prepare_more(&mut self, fabric: &mut impl Fabric, len: usize) -> Result<(), Error> {
        // The rest of the last segment may be too short to begin in.
        let segments = (len + PREFIX).div_ceil(self.size) + 1;
        while self.ahead.len() < segments {
            if self.segments.len() + self.ahead.len() >= self.most {
                return Err(Error::Memory(MemoryError::Short {
                    what: "the log of sent messages",
                    need: (self.footprint() + self.size) as u64,
                    have: format!("{} bytes of memory were given to it", self.most * self.size),
                    remedy: "give it more with --log-memory",
                }));
            }
            self.ahead.push_back(fabric.keep_segment()?);
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
        if let Some(&segment) = self.segments.last() {
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
        Range { segment, at, len: len.min(most).min(self.size - at) }
    }

    #[inline]
    fn place(&self) -> u64 {
        (self.segments.len() as u64 - 1) * self.size as u64 + self.fill as u64
    }

    #[cold]
    fn open(&mut self) {
        let next = self.ahead.pop_front().expect("room was made before");
        self.segments.push(next);
        self.fill = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use taffrail_fabric::loopback::{Manners, mesh};

    const SIZE: usize = 64 << 10;
    const INLINE: usize = 200;
    const PIECE: usize = 16 << 10;

    /// Writes a message as a send does.
    fn keep(tape: &mut Tape, fabric: &mut impl Fabric, bytes: &[u8]) -> u64 {
        let len = bytes.len();
        tape.prepare(fabric, len, PIECE).unwrap();
        let at = if len <= INLINE {
            tape.begin_short(len)
        } else if len <= PIECE {
            tape.begin_whole(len)
        } else {
            tape.begin_pieces(fabric, len)
        };
        let mut left = bytes;
        while !left.is_empty() {
            let now = left.len().min(PIECE).min(tape.room());
            assert_eq!(tape.write(fabric, &left[..now]), now);
            left = &left[now..];
        }
        at
    }

    fn read(tape: &Tape, fabric: &impl Fabric, at: u64, len: usize) -> Vec<u8> {
        let whole = len <= PIECE;
        let (mut at, end) = (at, at + (len + if whole { 0 } else { PREFIX }) as u64);
        let mut bytes = Vec::new();
        while at < end {
            let Range { segment, at: from, len } = tape.range(at, (end - at) as usize, PIECE);
            bytes.extend_from_slice(fabric.read_segment(segment, from, len));
            at += len as u64;
            assert!(!whole || at == end, "in one range");
        }
        if !whole {
            assert_eq!(bytes.drain(..PREFIX).as_slice(), (len as u64).to_le_bytes());
        }
        bytes
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            lens in prop::collection::vec(prop_oneof![0..300usize, 0..20_000usize, 0..300_000usize], 1..60),
        ) {
            let mut fabric = mesh(1, Manners::Good).remove(0);
            let mut tape = Tape::new(SIZE, 1 << 30);
            let bytes = |k: usize, len: usize| -> Vec<u8> { (0..len).map(|i| (i * 7 + k) as u8).collect() };
            let kept: Vec<u64> = lens.iter().enumerate()
                .map(|(k, &len)| keep(&mut tape, &mut fabric, &bytes(k, len)))
                .collect();
            for (k, (&len, &at)) in lens.iter().zip(&kept).enumerate() {
                prop_assert!(read(&tape, &fabric, at, len) == bytes(k, len), "message {}", k);
            }
        }
    }

    #[test]
    fn a_full_log_says_so_and_stays_as_it_is() {
        let mut fabric = mesh(1, Manners::Good).remove(0);
        let mut tape = Tape::new(SIZE, 4 * SIZE);
        let at = keep(&mut tape, &mut fabric, &[7; 3 * SIZE - 100]);
        let error = tape.prepare(&mut fabric, SIZE, PIECE).unwrap_err();
        assert!(error.to_string().contains("--log-memory"), "{error}");
        assert!(read(&tape, &fabric, at, 3 * SIZE - 100) == vec![7; 3 * SIZE - 100]);
        assert_eq!(tape.footprint(), 4 * SIZE);
    }
}
