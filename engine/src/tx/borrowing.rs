//! Loans of peers that receives have matched: looked at, and given back.

use super::Tx;
use crate::frame::Frame;
use crate::loan::{Borrowed, Offer};
use crate::policy::Policy;
use crate::view::ViewBuffer;
use crate::{Error, Rank};
use taffrail_fabric::{Fabric, Fault, PeerId, SendMemory};

impl<F: Fabric + SendMemory, P: Policy> Tx<'_, F, P> {
    /// Takes a loan that `request` has matched: as a view if that is what it wants, else as a copy.
    pub(crate) fn borrow(&mut self, request: u32, from: Rank, offer: Offer) {
        let len = self.core.requests.get(request).status.len;
        let (at, keep) = match self.fabric.map(PeerId(from), &offer.key, len) {
            Ok(mapped) => mapped,
            Err(denied) => {
                self.give_back(from, offer.loan);
                let fault = self.core.peers[from as usize].fault().cloned();
                let fault = fault.unwrap_or(Fault::NoSuchMemory(denied.why));
                return self.core.fail(request, Error::PeerFailed { rank: from, fault });
            }
        };
        let back = self.lending.queue();
        let borrowed = Borrowed { at, len, _keep: keep, owner: from, loan: offer.loan, back };
        let slot = self.core.requests.get(request);
        if let Some(view) = slot.extra.as_mut().and_then(|e| e.view.as_mut()) {
            *view = ViewBuffer::Borrowed(borrowed);
            (slot.at, slot.len) = (at.as_ptr(), len);
            return self.core.complete(request);
        }
        self.core.deliver_private(request, borrowed.bytes());
    }

    pub(crate) fn give_back(&mut self, owner: Rank, loan: u64) {
        self.post_frame(owner, Frame::LoanReturn { loan }, &[]);
    }
}
