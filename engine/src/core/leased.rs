//! Messages in receive buffers of the fabric: one that no receive has matched stays in its buffer (`docs/spec/seam.md`,
//! section 3).

use super::delivery::put;
use super::{Core, Unexpected};
use crate::frame::{MsgHead, kind};
use crate::policy::Policy;
use crate::policy::rx::RxPolicy;
use crate::unexpected::{KeptMessage, UnexpectedBuffers};
use crate::unposted_recv::UnpostedRecv;
use taffrail_fabric::{Fault, Head, Lease, Payload, Take};
use taffrail_logging::Admit;
use taffrail_matching::Envelope;

impl<P: Policy> Core<P> {
    /// Receives a message of any kind, whose receive buffer the fabric can do without. `want` is the receive that a call waits for.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive_leased<R: RxPolicy<P>>(
        &mut self,
        want: Option<&mut UnpostedRecv>,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
        lease: Lease,
    ) -> Take {
        if let Some(want) = want
            && self.take_unposted::<R>(want, from, head, payload)
        {
            return Take::Done;
        }
        let peer = &self.peers[from as usize];
        let may_keep = peer.fault.is_none() && UnexpectedBuffers::may_keep(peer, payload.len());
        if head.kind != kind::EAGER || !may_keep {
            self.receive_apart::<R>(from, head, payload);
            return Take::Done;
        }
        self.receive_or_keep::<R>(from, head, payload, lease).unwrap_or_else(|fault| {
            self.protocol_error(from, fault);
            Take::Done
        })
    }

    /// A whole message of a peer that may keep one more receive buffer.
    fn receive_or_keep<R: RxPolicy<P>>(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
        lease: Lease,
    ) -> Result<Take, Fault> {
        let env = self.envelope(from, MsgHead::of(head), payload.len() as u64);
        match self.arrive_by::<R>(&env)? {
            (_, Some(request)) => self.deliver(request, &env, payload, 0),
            (admit, None) if self.is_dropped(admit) => {}
            (admit @ (Admit::Match | Admit::Reserved(_)), None) => {
                let peer = &mut self.peers[from as usize];
                let kept = self.unexpected.keep(peer, payload, &lease);
                let found = Unexpected::Kept(Box::new(kept));
                self.grow_unreceived(from, payload.len(), found.memory() + payload.len());
                self.store_unmatched(admit, &env, found);
                // Also if the peer has broken the limit with it: the message is stored.
                if let Err(fault) = self.check_buffer_limit(from) {
                    self.protocol_error(from, fault);
                }
                return Ok(Take::Keep(lease));
            }
            (admit, None) => self.receive_unmatched(admit, &env, payload),
        }
        Ok(Take::Done)
    }

    /// Copies an unexpected message out of its receive buffer to the receive that has matched it.
    pub(super) fn receive_kept(&mut self, request: u32, env: &Envelope, kept: KeptMessage) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        let payload = kept.payload();
        put(slot, 0, payload, 0, payload.len());
        slot.moved = payload.len();
        self.unexpected.give_back(&mut self.peers[env.source as usize], kept);
        self.shrink_unreceived(env.source, env.len as usize, env.len as usize);
        self.complete(request);
    }
}
