//! Which segments of the payload log are in memory, which in the file, and which are given up.
//!
//! ```text
//!             written                 cool_down              reap
//!   (ahead) ----------> in memory ------------> writing -----------> in the file
//!                           ^                                             |
//!                           | bring_back: the bytes are taken             | bring_back
//!                           +-------------------- reading <---------------+
//! ```
//!
//! Nothing here waits: for the file, or for peers that have not read what is in segments that were given up. What needs
//! that, or the end of a read or write, says [`NotNow::Waits`], has changed nothing but what a repeated call finds again,
//! and is called again: a send by the wait of the API, before it has a number; a message that is to leave from the log by
//! the next flush of its peer's queue, whose front it stays (*in-order*).
//!
//! *Invariants:* the segments in memory, ahead, being written and being read are [`most`](PayloadLog::most) at the most.
//! The memory of a segment that is being written is not given back. What is read goes to memory that nobody else has, and
//! to a segment only when the read has ended, so that a segment in memory is whole.

use super::{LogEntry, LogSegment, PayloadLog};
use crate::log::host::SpillStore;
use crate::log::spill;
use crate::{Error, NotNow};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use taffrail_fabric::{MemoryError, SegmentId, SendMemory};
use taffrail_logging::{Payload, Run, mutant};

impl<S: SpillStore> PayloadLog<S> {
    pub(super) fn in_memory(&self) -> usize {
        self.resident.len() + self.ahead.len()
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
    pub(super) fn prepare_more(
        &mut self,
        memory: &mut impl SendMemory,
        len: usize,
    ) -> Result<(), NotNow> {
        self.have_ahead(memory, self.segments_for(len))
    }

    /// Allocates segments until this number of them waits to be used.
    pub(super) fn have_ahead(
        &mut self,
        memory: &mut impl SendMemory,
        segments: usize,
    ) -> Result<(), NotNow> {
        while self.ahead.len() < segments {
            let segment = self.segment(memory)?;
            self.ahead.push_back(segment);
        }
        Ok(())
    }

    /// A segment to be written. Those that were written longest ago make room for it.
    fn segment(&mut self, memory: &mut impl SendMemory) -> Result<SegmentId, NotNow> {
        let mut room = self.make_room(memory);
        if let Some(failed) = self.failed.take() {
            room = Err(failed.into());
        }
        self.waits = matches!(room, Err(NotNow::Waits));
        room?;
        let taken = memory.take().map_err(Error::from)?;
        self.waits = taken.is_none();
        taken.ok_or(NotNow::Waits)
    }

    /// Segments that take memory, or will.
    fn in_use(&self) -> usize {
        self.in_memory() + self.spilled.under_way() + self.spilled.reads(self.size)
    }

    /// Makes room for a segment.
    fn make_room(&mut self, memory: &mut impl SendMemory) -> Result<(), NotNow> {
        // A quarter of the memory is being written out when all of it is in use.
        let early = self.most - self.most / 4;
        if self.in_use() >= early {
            self.reap(memory);
            self.cool_down(memory)?;
        }
        if self.in_use() < self.most {
            return Ok(());
        }
        self.spilled.age();
        if self.spilled.makes_room(self.size) {
            // Back-pressure: the rank waits for its file.
            return Err(NotNow::Waits);
        }
        Err(self.failed.take().unwrap_or_else(|| self.full()).into())
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
    /// [`NotNow::Waits`] until the read has ended, and until there is memory; [`Error::Memory`] when there will be none, or the
    /// file cannot be read.
    #[inline]
    pub(crate) fn bring_back(
        &mut self,
        memory: &mut impl SendMemory,
        place: u64,
    ) -> Result<(), NotNow> {
        let number = place / self.size as u64;
        match self.held(number).segment {
            Some(_) => Ok(()),
            None => self.bring_segment_back(memory, number),
        }
    }

    #[cold]
    fn bring_segment_back(
        &mut self,
        memory: &mut impl SendMemory,
        number: u64,
    ) -> Result<(), NotNow> {
        self.reap(memory);
        let (place, size) = (number * self.size as u64, self.size);
        let bytes = match self.spilled.take(place, size) {
            Err(NotNow::Waits) if mutant!(SegmentUsedUnread) => Some(vec![0; size]),
            taken => taken?,
        };
        let Some(bytes) = bytes else {
            // Who writes needs memory as well.
            if self.spilled.reads(size) >= (self.most / 4).max(1) {
                self.spilled.age();
                return Err(NotNow::Waits);
            }
            self.make_room(memory)?;
            let from = number - u64::from(mutant!(SpillReadElsewhere) && number > self.first);
            self.spilled.begin_read(place, from * size as u64, size)?;
            return Err(NotNow::Waits);
        };
        let Some(segment) = memory.take().map_err(Error::from)? else {
            self.spilled.put_back(place, bytes);
            self.waits = true;
            return Err(NotNow::Waits);
        };
        memory.write(segment, 0, &bytes);
        self.is_at(number, segment);
        self.held(number).segment = Some(segment);
        self.resident.push_back(number);
        Ok(())
    }

    /// Reads bytes that are in one segment, from wherever it is.
    ///
    /// # Errors
    /// [`NotNow::Waits`] until the read has ended; [`Error::Memory`] when the file cannot be read.
    pub(crate) fn read(
        &mut self,
        memory: &mut impl SendMemory,
        place: u64,
        len: usize,
    ) -> Result<Vec<u8>, NotNow> {
        let at = (place % self.size as u64) as usize;
        if let Some(segment) = self.held(place / self.size as u64).segment {
            return Ok(memory.read(segment, at, len).to_vec());
        }
        self.reap(memory);
        match self.spilled.take(place, len)? {
            Some(bytes) => Ok(bytes),
            None => {
                self.spilled.begin_read(place, place, len)?;
                Err(NotNow::Waits)
            }
        }
    }

    /// Writes down where a segment is (*places*).
    pub(super) fn is_at(&self, number: u64, segment: SegmentId) {
        self.spilled.spill.is_in_memory(segment.0, number);
    }

    /// Gives a segment of the memory back.
    fn give_back(&self, memory: &mut impl SendMemory, segment: SegmentId) {
        self.spilled.spill.left_memory(segment.0);
        memory.release(segment);
    }

    /// Gives back what is in the file by now. That a write has failed is for the next message that [needs
    /// memory](Self::segment).
    pub(super) fn reap(&mut self, memory: &mut impl SendMemory) {
        let (written, result) = self.spilled.reap();
        self.failed = result.err().or(self.failed.take());
        for number in written {
            if let Err(error) = self.spilled.spill.is_spilled(number, true) {
                self.failed = Some(spill::refused(error));
                continue;
            }
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

    /// Peers cannot ask any more for this number of the messages of a segment.
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
            // If the segment map cannot be changed, a successor finds a segment that no peer asks for.
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
