//! Looking for messages without receiving them.

use crate::engine::receive::Claimed;
use crate::{Endpoint, Error, Pattern, Status};

impl Endpoint {
    /// What a receive with this pattern would get, if something is there.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::UsedAfterFork`].
    pub fn probe(&mut self, from: impl Into<Pattern>) -> Result<Option<Status>, Error> {
        self.look_for(&from.into())
    }

    /// Takes a message out of the queue, so that only [`recv_claimed`](Self::recv_claimed) gets it.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn claim(&mut self, from: impl Into<Pattern>) -> Result<Option<Claimed>, Error> {
        self.claim_message(&from.into())
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_claimed(&mut self, claimed: Claimed, into: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: the borrow lasts until the wait is over.
        let request = unsafe { self.receive_claimed(claimed, into.as_mut_ptr(), into.len())? };
        self.wait_for(request)
    }
}
