//! Looking for messages without receiving them.

use crate::engine::call::{Operation, Outcome};
use crate::engine::claim::Claimed;
use crate::engine::receive::status;
use crate::{Endpoint, Error, Pattern, Status, Transport};

impl<F: Transport> Endpoint<F> {
    /// What a receive with this pattern would get, if something is there.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::UsedAfterFork`]; [`Error::PeerFailed`] when nothing is there
    /// and nobody is left to send it.
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// endpoint.send((0, 1), b"how long?")?;
    /// let status = endpoint.probe((0, 1))?.expect("a message to itself is there at once");
    /// let mut into = vec![0; status.len];
    /// endpoint.recv((status.source, status.tag), &mut into)?;
    /// assert_eq!(into, b"how long?");
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn probe(&mut self, from: impl Into<Pattern>) -> Result<Option<Status>, Error> {
        let from = from.into();
        self.engine.check_pattern(&from)?;
        match self.complete(Operation::Probe(&from))? {
            Outcome::Seen(envelope) => Ok(Some(status(&envelope))),
            _ => Ok(None),
        }
    }

    /// Takes a message out of the queue, so that only [`recv_claimed`](Self::recv_claimed) gets it.
    /// Drop what is returned to discard the message.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    ///
    /// ```
    /// # let mut jobs = taffrail::Job::local(1);
    /// # let mut endpoint = jobs[0].endpoint()?;
    /// endpoint.send((0, 1), b"any length")?;
    /// let claimed = endpoint.claim((0, 1))?.expect("a message to itself is there at once");
    /// assert_eq!(endpoint.probe((0, 1))?, None);
    /// let mut into = vec![0; claimed.status().len];
    /// endpoint.recv_claimed(claimed, &mut into)?;
    /// assert_eq!(into, b"any length");
    /// # Ok::<(), taffrail::Error>(())
    /// ```
    pub fn claim(&mut self, from: impl Into<Pattern>) -> Result<Option<Claimed>, Error> {
        let from = from.into();
        self.engine.check_pattern(&from)?;
        match self.complete(Operation::Claim(&from))? {
            Outcome::Claimed(id, envelope) => Ok(Some(self.engine.claimed(id, &envelope))),
            _ => Ok(None),
        }
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    ///
    /// # Panics
    /// If it was claimed at another endpoint.
    pub fn recv_claimed(&mut self, claimed: Claimed, into: &mut [u8]) -> Result<Status, Error> {
        // SAFETY: the borrow lasts until the wait is over.
        let request =
            unsafe { self.engine.receive_claimed(claimed, into.as_mut_ptr(), into.len())? };
        self.wait_for(request)
    }
}
