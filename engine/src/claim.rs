//! Messages taken out of the queue before they are received.

use super::core::Unexpected;
use super::loan::{Return, ReturnQueue};
use super::receive::status;
use super::request::Stage;
use crate::Engine;
use crate::policy::Policy;
use crate::{Error, Status};
use std::io::IoSliceMut;
use std::sync::Arc;
use taffrail_fabric::{Fabric, SendMemory};
use taffrail_matching::{Envelope, MessageId};

/// A message taken out of the queue by `Endpoint::claim`, to be received with
/// `Endpoint::recv_claimed`.
///
/// A message whose `Claimed` is dropped is discarded when the endpoint makes progress: its memory is
/// free again, and its sender continues as if it had been received.
#[must_use = "a claimed message is received by nobody else, and discarded when this is dropped"]
pub struct Claimed {
    /// `None` once it is being received.
    id: Option<MessageId>,
    status: Status,
    back: Arc<ReturnQueue>,
}

impl Claimed {
    /// What the message says of itself.
    pub fn status(&self) -> Status {
        self.status
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.back.put(Return::Message(id));
        }
    }
}

impl std::fmt::Debug for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claimed").field("status", &self.status).finish_non_exhaustive()
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// The handle of a claimed message.
    pub fn claimed(&self, id: MessageId, envelope: &Envelope) -> Claimed {
        Claimed { id: Some(id), status: status(envelope), back: self.lending.queue() }
    }

    /// Starts to receive a claimed message.
    ///
    /// # Safety
    /// As [`start_recv`](Self::start_recv).
    pub unsafe fn receive_claimed(
        &mut self,
        claimed: Claimed,
        into: *mut u8,
        len: usize,
    ) -> Result<u32, Error> {
        self.check_claimed(&claimed)?;
        let source = claimed.status.source;
        let request = self.core.requests.start(Stage::Posted, source, into, len);
        self.take_claimed(claimed, request);
        Ok(request)
    }

    /// Starts to receive a claimed message into several places.
    ///
    /// # Safety
    /// As [`start_recv_vectored`](Self::start_recv_vectored).
    pub unsafe fn receive_claimed_vectored(
        &mut self,
        claimed: Claimed,
        into: &mut [IoSliceMut<'_>],
    ) -> Result<u32, Error> {
        self.check_claimed(&claimed)?;
        let request = self.core.requests.start_scattered(claimed.status.source, into);
        self.take_claimed(claimed, request);
        Ok(request)
    }

    fn check_claimed(&self, claimed: &Claimed) -> Result<(), Error> {
        if self.fabric.in_child() {
            return Err(Error::UsedAfterFork);
        }
        assert!(self.lending.is_queue(&claimed.back), "claimed at another endpoint");
        Ok(())
    }

    /// Gives a claimed message to the request that receives it.
    fn take_claimed(&mut self, mut claimed: Claimed, request: u32) {
        match claimed.id.take().and_then(|id| self.core.matcher.take_message(id)) {
            Some((env, found)) => {
                self.core.receives(request, &env);
                self.core.receive_unexpected(request, env, found);
                self.run_deferred();
            }
            // Its sender has failed before all of it was here.
            None => {
                let source = claimed.status.source;
                let fault = self.core.peers[source as usize].fault().cloned();
                let error = fault.map(|fault| Error::PeerFailed { rank: source, fault });
                self.core.fail(request, error.unwrap_or(Error::Cancelled));
            }
        }
    }

    /// Discards a claimed message that nobody is going to receive.
    pub(crate) fn discard_claimed(&mut self, id: MessageId) {
        let Some((env, found)) = self.core.matcher.take_message(id) else { return };
        let memory = found.memory();
        match found {
            Unexpected::Rts(rts) => {
                self.core.shrink_unreceived(env.source, 0, memory);
                self.core.deferred.acknowledge(env.source, rts.name);
            }
            Unexpected::Loan(offer) => {
                self.core.shrink_unreceived(env.source, 0, memory);
                self.tx().give_back(env.source, offer.loan);
            }
            // Received to nowhere: of some the rest is still to come.
            found @ (Unexpected::Stored { .. } | Unexpected::Kept(_)) => {
                let nowhere = std::ptr::null_mut();
                let request = self.core.requests.start(Stage::Posted, env.source, nowhere, 0);
                self.core.receives(request, &env);
                self.core.receive_unexpected(request, env, found);
                self.discarding.push(request);
            }
        }
        self.run_deferred();
        self.reap_discarded();
    }

    /// Gives back the requests of messages that are discarded and were still arriving.
    pub(crate) fn reap_discarded(&mut self) {
        let requests = &mut self.core.requests;
        self.discarding.retain(|&request| {
            let over = requests.get(request).stage.is_over();
            if over {
                // That it was longer than nothing is no news.
                let _ = requests.finish(request);
            }
            !over
        });
    }
}
