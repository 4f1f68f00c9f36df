//! Completions that are reported to the program, in the order in which operations have ended.

use super::{Requests, Slot, Stage};
use crate::multi::Landed;
use crate::{Error, Request, Status};

/// Operations whose end is to be told are numbered up to this, and then from 1 on again.
pub(crate) const MOST_SERIAL: u32 = u32::MAX >> 2;

/// What is told of an operation whose end is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is over: how it ended. Its request is used up.
    Ended(Result<Status, Error>),
    /// A multi-receive, which goes on, has got a message.
    Landed(Result<Landed, Error>),
}

impl Requests {
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
}
