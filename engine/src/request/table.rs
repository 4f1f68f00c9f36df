//! The table of all operations: slots that are taken, found and given back.

use super::{ANY, Slot, Stage};
use crate::recv_record::RecvRecord;
use crate::{Error, Rank, Request, Status};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use taffrail_logging::mutant;

/// All operations of an endpoint.
#[derive(Default)]
pub struct Requests {
    pub(super) slots: Vec<Slot>,
    /// The first slot that is free; as many as there are slots, if none is.
    free: u32,
    /// The completion queue: tracked operations, in the order in which they have completed. Of a multi-receive one for
    /// each of its messages, too.
    pub(super) completed: VecDeque<Request>,
    /// The number of the last operation that was tracked.
    pub(super) serial: u32,
}

impl Requests {
    /// Takes a slot for an operation.
    #[inline]
    pub(crate) fn start(&mut self, stage: Stage, peer: Rank, at: *mut u8, len: usize) -> u32 {
        let (index, slot) = self.take(stage, peer);
        slot.at = at;
        slot.len = len;
        slot.moved = 0;
        index
    }

    /// Takes a slot for a receive into several places; the list itself is not kept.
    pub(crate) fn start_scattered(&mut self, peer: Rank, into: &mut [IoSliceMut<'_>]) -> u32 {
        let len = into.iter().map(|place| place.len()).sum();
        let index = self.start(Stage::Posted, peer, std::ptr::null_mut(), len);
        self.get(index).extra().parts =
            into.iter_mut().map(|place| (place.as_mut_ptr(), place.len())).collect();
        index
    }

    /// Takes a slot for a message that has left already. What only an operation under way needs is left as it
    /// was: a program that sends one message after the other waits for its stores.
    #[inline]
    pub(crate) fn start_sent(&mut self, status: Status) -> u32 {
        let (index, slot) = self.take(Stage::Done, status.source);
        slot.status = status;
        index
    }

    #[inline]
    fn take(&mut self, stage: Stage, peer: Rank) -> (u32, &mut Slot) {
        let index = self.free;
        if index as usize >= self.slots.len() {
            self.grow();
        }
        let slot = &mut self.slots[index as usize];
        self.free = slot.next_free;
        slot.stage = stage;
        slot.serial = 0;
        slot.peer = peer;
        slot.record.flags = 0;
        (index, slot)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.slots.push(Slot {
            stage: Stage::Free,
            serial: 0,
            generation: 0,
            peer: 0,
            at: std::ptr::null_mut(),
            len: 0,
            moved: 0,
            status: Status { source: 0, tag: 0, len: 0, data: crate::Data::NONE },
            post: None,
            record: RecvRecord::default(),
            next_free: self.slots.len() as u32 + 1,
            extra: None,
        });
    }

    /// The operation in a place.
    ///
    /// # Panics
    /// If there is no such place.
    #[inline]
    pub fn get(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Whether this very operation, a send, waits for its receiver.
    pub(crate) fn waits(&self, name: u64) -> bool {
        self.slots.get(name as u32 as usize).is_some_and(|slot| {
            slot.generation == (name >> 32) as u32
                && matches!(slot.stage, Stage::Queued | Stage::RtsSent | Stage::Streaming)
        })
    }

    /// The slot with this index, if there is one, for numbers that a peer has sent.
    pub(crate) fn find(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }

    /// The operation of ours that a peer means, if it is still the same one and has to do with it.
    pub(crate) fn by_name(&mut self, from: u32, name: u64) -> Option<(u32, &mut Slot)> {
        let index = name as u32;
        let slot = self.find(index)?;
        let is_current = slot.generation == (name >> 32) as u32 || mutant!(FormerNameBelieved);
        let same = is_current && slot.peer == from;
        (same && !slot.stage.is_over() && slot.stage != Stage::Free).then_some((index, slot))
    }

    /// Whether this is a multi-receive.
    pub(crate) fn is_multi(&mut self, request: u32) -> bool {
        self.get(request).extra.as_ref().is_some_and(|e| e.multi.is_some())
    }

    /// The answers under way to a rank that nobody here waits for.
    pub(crate) fn detached_of(&mut self, rank: u32) -> Vec<u32> {
        let theirs =
            |slot: &Slot| slot.peer == rank && slot.extra.as_ref().is_some_and(|e| e.detached);
        self.over().filter(|(_, slot)| theirs(slot)).map(|(index, _)| index).collect()
    }

    /// The receives from any source that no message has matched.
    pub(crate) fn any_source_receives(&self) -> Vec<u32> {
        let open =
            |slot: &Slot| slot.stage == Stage::Posted && slot.peer == ANY && slot.post.is_some();
        self.under_way().filter(|(_, slot)| open(slot)).map(|(i, _)| i).collect()
    }

    /// The handle of a slot.
    #[inline]
    pub(crate) fn handle(&self, index: u32) -> Request {
        Request { index, generation: self.slots[index as usize].generation }
    }

    /// The slot behind a handle, unless it is finished and gone.
    #[inline]
    pub fn look(&mut self, request: Request) -> Result<&mut Slot, Error> {
        match self.slots.get_mut(request.index as usize) {
            Some(slot) if slot.generation == request.generation && slot.stage != Stage::Free => {
                Ok(slot)
            }
            _ => Err(Error::StaleRequest(request)),
        }
    }

    /// Gives a slot back, and returns how its operation ended.
    #[inline]
    pub fn finish(&mut self, index: u32) -> Result<Status, Error> {
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.stage.is_over());
        let failed = slot.stage == Stage::Failed;
        if slot.extra.is_some() && slot.has_more_to_report() {
            return slot.keep_reporting();
        }
        let plain = !failed && slot.extra.is_none();
        let status = slot.status;
        self.give_back(index);
        if plain { Ok(status) } else { self.finish_special(index, failed) }
    }

    /// As [`finish`](Self::finish), of an operation that has ended well and to which there is nothing else, as
    /// with most; `None` for others, and if the handle is stale.
    #[inline(always)]
    pub fn finish_ok(&mut self, request: Request) -> Option<Status> {
        let slot = self.slots.get(request.index as usize)?;
        if slot.generation != request.generation
            || slot.stage != Stage::Done
            || slot.extra.is_some()
        {
            return None;
        }
        let status = slot.status.word_by_word();
        self.give_back(request.index);
        Some(status)
    }

    #[inline(always)]
    fn give_back(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.stage = Stage::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.post = None;
        slot.next_free = self.free;
        self.free = index;
    }

    /// As `finish`, of an operation with an error, or with more than most have.
    #[cold]
    fn finish_special(&mut self, index: u32, failed: bool) -> Result<Status, Error> {
        let slot = &mut self.slots[index as usize];
        let extra = slot.extra.take();
        match failed {
            false => Ok(slot.status),
            true => Err(extra.and_then(|e| e.error).unwrap_or(Error::Cancelled)),
        }
    }

    /// Ends an operation well.
    #[inline]
    pub(crate) fn end(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.stage = Stage::Done;
        if slot.serial != 0 {
            self.push_completion(index);
        }
    }

    /// Ends a send, or what nobody holds a handle of.
    #[inline]
    pub(crate) fn sent(&mut self, index: u32) {
        self.end(index);
        let slot = self.get(index);
        if slot.extra.as_ref().is_some_and(|e| e.detached) {
            let _ = self.finish(index);
        }
    }

    /// Ends an operation with an error.
    #[cold]
    pub(crate) fn fail(&mut self, index: u32, error: Error) {
        let slot = &mut self.slots[index as usize];
        slot.extra().error = Some(error);
        slot.stage = Stage::Failed;
        if slot.serial != 0 {
            self.push_completion(index);
        }
    }

    /// The operations that are over and whose result nobody has taken.
    pub(crate) fn over(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.stage.is_over())
    }

    /// The operations that are not over.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let open = |slot: &Slot| !slot.stage.is_over() && slot.stage != Stage::Free;
        (0..).zip(&self.slots).filter(move |(_, slot)| open(slot))
    }
}
