//! The completion queue: completions of tracked operations, in the order in which they have completed.

use super::{Requests, Slot, Stage};
use crate::multi::Landed;
use crate::{Error, Request, Status};

/// Tracked operations are numbered up to this, and then from 1 on again.
pub(crate) const MAX_SERIAL: u32 = u32::MAX >> 2;

/// A completion of a tracked operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is over: how it ended. Its request is used up.
    Ended(Result<Status, Error>),
    /// A multi-receive, which stays posted, has got a message.
    Landed(Result<Landed, Error>),
}

impl Requests {
    /// The multi-receive behind a handle, also when its result was taken already.
    pub(crate) fn look_reporting(&mut self, request: Request) -> Result<&mut Slot, Error> {
        let late = self.find(request.index).is_some_and(|slot| {
            slot.stage == Stage::Reporting && slot.generation == request.generation.wrapping_add(1)
        });
        if late {
            return Ok(self.get(request.index));
        }
        self.look(request)
    }

    /// A tracked operation has completed, or a multi-receive has got a message.
    #[inline(never)]
    pub(crate) fn push_completion(&mut self, index: u32) {
        let request = self.handle(index);
        self.completed.push_back(request);
    }

    /// Whether any operation was tracked so far.
    #[inline]
    pub(crate) fn has_any_reported(&self) -> bool {
        self.serial != 0
    }

    /// The number of the last operation that was tracked.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Begins behind this number.
    pub(crate) fn count_from(&mut self, serial: u32) {
        self.serial = serial;
    }

    /// Whether an operation with this number was tracked. Numbers begin anew after the last.
    pub(crate) fn has_reported(&self, serial: u32) -> bool {
        // In as many bits as the numbers have.
        let behind = self.serial.wrapping_sub(serial) << MAX_SERIAL.leading_zeros();
        self.has_any_reported() && behind as i32 >= 0
    }

    /// Tracks an operation: its completion is reported.
    pub fn track(&mut self, index: u32) {
        self.serial = (self.serial.wrapping_add(1) & MAX_SERIAL).max(1);
        let slot = &mut self.slots[index as usize];
        slot.serial = self.serial;
        let multi = slot.extra.as_ref().and_then(|extra| extra.multi.as_ref());
        let landed = multi.map_or(0, |multi| multi.unreported());
        let completions = landed + usize::from(slot.stage.is_over());
        (0..completions).for_each(|_| self.push_completion(index));
    }

    /// Whether the [next](Self::next_completed) completion, which there is, is the only one.
    #[inline]
    pub(crate) fn only_one_is_completed(&mut self) -> bool {
        let others = self.completed.len() - 1;
        others == 0 || !self.completed.iter().skip(1).any(|&r| self.is_current(r))
    }

    /// Whether this handle is not finished and gone.
    #[inline]
    fn is_current(&self, request: Request) -> bool {
        let slot = self.slots.get(request.index as usize);
        slot.is_some_and(|s| s.generation == request.generation && s.stage != Stage::Free)
    }

    /// The operation of the next completion, to be [taken](Self::take_completion).
    #[inline]
    pub(crate) fn next_completed(&mut self) -> Option<Request> {
        loop {
            let request = *self.completed.front()?;
            if self.is_current(request) {
                return Some(request);
            }
            // Its result was taken by a test.
            self.completed.pop_front();
        }
    }

    /// Takes the next completion, if it has no error and nothing else to it, as most.
    #[inline(always)]
    pub fn take_ok(&mut self) -> Option<(Request, Status)> {
        let request = *self.completed.front()?;
        let status = self.finish_ok(request)?;
        self.completed.pop_front();
        Some((request, status))
    }

    /// Takes the next completion.
    #[inline]
    pub fn take_next(&mut self) -> Option<(Request, Completion)> {
        let request = self.next_completed()?;
        Some((request, self.take_completion(request)))
    }

    /// The operation with this number, if it has a completion in the queue.
    pub(crate) fn completed_with(&self, serial: u32) -> Option<Request> {
        let slots = &self.slots;
        let it = |r: &&Request| {
            let slot = &slots[r.index as usize];
            slot.generation == r.generation && slot.serial == serial
        };
        self.completed.iter().find(it).copied()
    }

    /// Takes the first completion of an operation.
    #[inline]
    pub fn take_completion(&mut self, request: Request) -> Completion {
        if self.completed.front() == Some(&request) {
            self.completed.pop_front();
        } else if let Some(k) = self.completed.iter().position(|r| *r == request) {
            self.completed.remove(k);
        }
        let slot = &mut self.slots[request.index as usize];
        if slot.has_more_to_report()
            && let Some(landed) = slot.extra().multi.as_mut().and_then(|multi| multi.next())
        {
            return Completion::Landed(landed);
        }
        Completion::Ended(self.finish(request.index))
    }
}
