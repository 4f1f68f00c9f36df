//! Operations under way.

use super::multi::Landed;
use crate::{Error, Rank, Request, Status};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use taffrail_fabric::RemoteKey;
use taffrail_matching::PostId;

/// Operations whose end is to be told are numbered up to this, and then from 1 on again.
pub(crate) const MOST_SERIAL: u32 = u32::MAX >> 2;

/// Stands for "no particular rank".
pub const ANY: u32 = u32::MAX;

/// What an operation is, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The slot is not in use.
    Free,
    /// A receive that no message has matched yet.
    Posted,
    /// A receive whose message arrives piece by piece, as its sender began it.
    Arriving,
    /// A receive that has asked for the fragments of its message.
    CtsSent,
    /// A receive that reads its message out of the sender's memory.
    Reading,
    /// A send whose message waits for room.
    Queued,
    /// A send that was announced, or waits to be acknowledged.
    RtsSent,
    /// A send whose receiver has asked for the fragments.
    Streaming,
    /// A one-sided get or put that the fabric does.
    OneSided,
    /// A get that the target's engine answers.
    AskedGet,
    /// A put that the target's engine does.
    AskedPut,
    /// Ends when a peer is gone.
    Watching,
    /// Ended, with a status.
    Done,
    /// Ended, with an error.
    Failed,
    /// A multi-receive whose result was taken before all of its messages were told.
    Telling,
}

impl Stage {
    /// Whether the operation is over.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Done | Stage::Failed | Stage::Telling)
    }
}

/// One operation. Two lines of its own: it is found by a shift.
#[repr(align(64))]
pub struct Slot {
    /// How far it has come.
    pub stage: Stage,
    /// Not 0: its end is to be [told](Requests::ended), under this number.
    pub(crate) serial: u32,
    pub(crate) generation: u32,
    /// The other side, or [`ANY`].
    pub peer: Rank,
    /// The user's memory: `len` bytes. Null for memory yet to be found, see [`Extra`].
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
    /// Bytes moved so far.
    pub(crate) moved: usize,
    /// Of a receive: what its message says of itself; of a send: what it says at the end.
    pub(crate) status: Status,
    pub(crate) post: Option<PostId>,
    /// Where messages are logged.
    pub(crate) record: super::recv_record::RecvRecord,
    /// The next slot that is free, of one that is free.
    next_free: u32,
    /// What few operations need.
    pub extra: Option<Box<Extra>>,
}

/// What few operations need.
#[derive(Default)]
pub struct Extra {
    pub(crate) error: Option<Error>,
    /// Several places instead of one.
    pub(crate) parts: Vec<(*mut u8, usize)>,
    /// Pieces whose bytes the fabric still reads ([`Sent::Later`](taffrail_fabric::Sent::Later)).
    pub(crate) lent_fragments: u32,
    /// The last fragment has left, and the send ends when none is lent any more.
    pub(crate) is_all_sent: bool,
    /// Where in the log its bytes are, instead of in memory of the program.
    pub(crate) kept: Option<u64>,
    /// Where the sender's memory is, and its request, for a receive that reads.
    pub(crate) source: Option<(RemoteKey, u64)>,
    /// What a get or put of the fabric asks its target for if the fabric fails.
    pub(crate) target: Option<super::memory::Target>,
    /// Nobody holds a handle: the slot is given back when the operation ends.
    pub(crate) detached: bool,
    /// The memory that an answer to a peer's get is read from.
    pub(crate) reads: Option<super::memory::MemoryName>,
    /// Memory that goes back to the pool when the operation ends.
    pub(crate) buffer: Option<super::loan::Buffer>,
    /// The receive makes its own memory when it knows how much.
    pub view: Option<super::view::ViewBuffer>,
    /// A receive of many messages into one buffer.
    pub multi: Option<super::multi::Multi>,
    /// A receive of one message into the buffer of the [`Multi`](super::multi::Multi) at this index.
    pub(crate) part_of: Option<u32>,
}

/// What is told of an operation whose end is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is over: how it ended. Its request is used up.
    Ended(Result<Status, Error>),
    /// A multi-receive, which goes on, has got a message.
    Landed(Result<Landed, Error>),
}

/// All operations of an endpoint.
#[derive(Default)]
pub struct Requests {
    slots: Vec<Slot>,
    /// The first slot that is free; as many as there are slots, if none is.
    free: u32,
    /// Those whose end is to be told, in the order in which they ended. Of a multi-receive one for each
    /// of its messages, too.
    ended: VecDeque<Request>,
    /// The number of the last whose end was to be told.
    serial: u32,
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
    /// was: whoever sends one message after the other waits for its stores.
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
            record: super::recv_record::RecvRecord::default(),
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
        if slot.extra.is_some() && slot.has_more_to_tell() {
            return slot.keep_telling();
        }
        let plain = !failed && slot.extra.is_none();
        let status = slot.status;
        self.give_back(index);
        if plain { Ok(status) } else { self.finish_special(index, failed) }
    }

    /// As [`finish`](Self::finish), of an operation that has ended well and to which there is nothing else, as
    /// with most; `None` for others, and if the handle is stale.
    #[inline(always)]
    pub fn finish_well(&mut self, request: Request) -> Option<Status> {
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

    /// The multi-receive behind a handle, also when its result was taken already.
    pub(crate) fn look_telling(&mut self, request: Request) -> Result<&mut Slot, Error> {
        let late = self.find(request.index).is_some_and(|slot| {
            slot.stage == Stage::Telling && slot.generation == request.generation.wrapping_add(1)
        });
        if late {
            return Ok(self.get(request.index));
        }
        self.look(request)
    }

    /// Ends an operation well.
    #[inline]
    pub(crate) fn end(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.stage = Stage::Done;
        if slot.serial != 0 {
            self.is_to_be_told(index);
        }
    }

    /// Something of an operation is to be told.
    #[inline(never)]
    pub(crate) fn is_to_be_told(&mut self, index: u32) {
        let request = self.handle(index);
        self.ended.push_back(request);
    }

    /// Whether the end of any operation was to be told so far.
    #[inline]
    pub(crate) fn has_any_reported(&self) -> bool {
        self.serial != 0
    }

    /// The number of the last whose end was to be told.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Begins behind this number.
    pub(crate) fn count_from(&mut self, serial: u32) {
        self.serial = serial;
    }

    /// Whether that of the operation with this number was. Numbers begin anew after the last.
    pub(crate) fn has_reported(&self, serial: u32) -> bool {
        // In as many bits as the numbers have.
        let behind = self.serial.wrapping_sub(serial) << MOST_SERIAL.leading_zeros();
        self.has_any_reported() && behind as i32 >= 0
    }

    /// Lets the end of an operation be told.
    pub fn report(&mut self, index: u32) {
        self.serial = (self.serial.wrapping_add(1) & MOST_SERIAL).max(1);
        let slot = &mut self.slots[index as usize];
        slot.serial = self.serial;
        let multi = slot.extra.as_ref().and_then(|extra| extra.multi.as_ref());
        let landed = multi.map_or(0, |multi| multi.untold());
        let told = landed + usize::from(slot.stage.is_over());
        (0..told).for_each(|_| self.is_to_be_told(index));
    }

    /// Whether nothing else is to be told than what is [next](Self::ended), which there is.
    #[inline]
    pub(crate) fn only_one_is_ended(&mut self) -> bool {
        let others = self.ended.len() - 1;
        others == 0 || !self.ended.iter().skip(1).any(|&r| self.is_current(r))
    }

    /// Whether this handle is not finished and gone.
    #[inline]
    fn is_current(&self, request: Request) -> bool {
        let slot = self.slots.get(request.index as usize);
        slot.is_some_and(|s| s.generation == request.generation && s.stage != Stage::Free)
    }

    /// The next of which something is to be told; [`tell`](Self::tell) it.
    #[inline]
    pub(crate) fn ended(&mut self) -> Option<Request> {
        loop {
            let request = *self.ended.front()?;
            if self.is_current(request) {
                return Some(request);
            }
            // Its result was taken by a test.
            self.ended.pop_front();
        }
    }

    /// Takes what is to be told next, if it has ended well and there is nothing else to it.
    #[inline(always)]
    pub fn tell_well(&mut self) -> Option<(Request, Status)> {
        let request = *self.ended.front()?;
        let status = self.finish_well(request)?;
        self.ended.pop_front();
        Some((request, status))
    }

    /// Takes what is to be told next.
    #[inline]
    pub fn tell_next(&mut self) -> Option<(Request, Completion)> {
        let request = self.ended()?;
        Some((request, self.tell(request)))
    }

    /// The one with this number, if something of it is to be told.
    pub(crate) fn ended_with(&self, serial: u32) -> Option<Request> {
        let slots = &self.slots;
        let it = |r: &&Request| {
            let slot = &slots[r.index as usize];
            slot.generation == r.generation && slot.serial == serial
        };
        self.ended.iter().find(it).copied()
    }

    /// Takes what is to be told first of an operation.
    #[inline]
    pub fn tell(&mut self, request: Request) -> Completion {
        if self.ended.front() == Some(&request) {
            self.ended.pop_front();
        } else if let Some(k) = self.ended.iter().position(|r| *r == request) {
            self.ended.remove(k);
        }
        let slot = &mut self.slots[request.index as usize];
        if slot.has_more_to_tell()
            && let Some(landed) = slot.extra().multi.as_mut().and_then(|multi| multi.next())
        {
            return Completion::Landed(landed);
        }
        Completion::Ended(self.finish(request.index))
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
            self.is_to_be_told(index);
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

impl Slot {
    /// How many bytes in fragments it wants in all. Of other operations, no more than it has.
    pub(crate) fn wanted(&self) -> usize {
        match self.stage {
            Stage::CtsSent => self.status.len.min(self.len),
            Stage::AskedGet => self.len,
            // Nobody has asked: these bytes are the fabric's to write, or nobody's.
            _ => self.moved,
        }
    }

    /// Whether this is a multi-receive with messages that the program does not know of yet.
    #[inline]
    pub(crate) fn has_more_to_tell(&self) -> bool {
        let multi = self.extra.as_ref().and_then(|extra| extra.multi.as_ref());
        multi.is_some_and(|multi| !multi.is_told())
    }

    /// Whether this is a multi-receive with messages of a rank that the program does not know of yet.
    pub(crate) fn has_landed_of(&self, rank: Rank) -> bool {
        let multi = self.extra.as_ref().and_then(|extra| extra.multi.as_ref());
        multi.is_some_and(|multi| multi.has_untold_of(rank))
    }

    /// Gives away the result of a multi-receive, whose handle is good for its messages only from
    /// now on.
    #[cold]
    fn keep_telling(&mut self) -> Result<Status, Error> {
        let failed = self.stage == Stage::Failed;
        self.stage = Stage::Telling;
        self.generation = self.generation.wrapping_add(1);
        match self.extra().error.take().filter(|_| failed) {
            Some(error) => Err(error),
            None => Ok(self.status),
        }
    }

    /// What few operations need, made if it is not there.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// What a peer must say to mean this very operation and no later one in the same slot.
    pub(crate) fn name(&self, index: u32) -> u64 {
        index as u64 | (self.generation as u64) << 32
    }
}
