//! The receiving side: the state that a poll of the fabric works on.
//!
//! A message is matched as it comes off the fabric, before its payload is touched. An action that needs the fabric
//! again (an answer, a read of the sender's memory) becomes a [`Deferred`], which runs after the poll.

mod again;
mod arrivals;
pub(crate) mod deferred;
pub(crate) mod delivery;
mod leased;
mod loss;
mod rest;
pub(crate) mod state;
mod suspension;
mod unreceived;

pub(crate) use crate::error::broken;
pub(crate) use deferred::Deferred;
pub(crate) use state::MESSAGE;
pub use state::{Active, Core, Departures, Unexpected};

use super::frame::{Frame, MsgHead};
use super::policy::protocol::Recovery;
use super::policy::rx::RxPolicy;
use super::policy::{Policy, by_policy};
use taffrail_fabric::{Fault, Head, LinkEvent, Payload, PeerId, Token};
use taffrail_logging::mutant;
use taffrail_matching::Envelope;

impl<P: Policy> Core<P> {
    /// Everything that is not a plain message.
    #[inline(always)]
    pub(crate) fn other(
        &mut self,
        from: u32,
        head: Head,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        if self.peers[from as usize].fault.is_some() {
            // What a peer says that was cut off a moment ago.
            return Ok(());
        }
        if !self.policy.takes_kind(head.kind) {
            return Err(broken("kind", "one that the policy of this job takes", head.kind));
        }
        let (frame, skip) = Frame::decode(head, payload)?;
        match frame {
            Frame::Eager { msg } => self.eager(from, msg, (payload, skip), (None, None)),
            Frame::EagerSync { msg, name } => {
                self.eager(from, msg, (payload, skip), (None, Some(name)))
            }
            Frame::EagerData { msg, data } => {
                self.eager(from, msg, (payload, skip), (Some(data), None))
            }
            Frame::EagerFirst { msg, len } => self.first(from, msg, len, payload),
            Frame::EagerFrag { context, seq, offset } => {
                self.fragment(from, (context, seq), offset, payload)
            }
            Frame::Rts { msg, data, len, rts } => self.rts(from, msg, (len, data), rts),
            Frame::Loan { msg, len, offer } => self.loan(from, msg, len, offer),
            Frame::RndvData { to, offset } => self.rndv_data(from, to, offset, payload),
            Frame::Cts { name, non_temporal, len, to } => {
                self.cts(from, name, (len, to), non_temporal)
            }
            Frame::Ack { name } => {
                self.finished(from, name, None);
                Ok(())
            }
            Frame::NakKey { name, why } => {
                self.finished(from, name, Some(why.fault()));
                Ok(())
            }
            Frame::Active { handler, header } => self.active(from, handler, header, payload),
            Frame::LoanReturn { loan } => {
                self.deferred.push(Deferred::Returned { loan, from });
                Ok(())
            }
            Frame::GetReq { .. } | Frame::PutReq { .. } | Frame::Atomic { .. } => {
                let body = payload.to_vec().split_off(skip);
                self.deferred.push(Deferred::OneSided { from, frame, body });
                Ok(())
            }
            Frame::Throttle { what } => {
                if self.peers[from as usize].obey(what) {
                    self.deferred.push(Deferred::Resumed { rank: from });
                }
                Ok(())
            }
            Frame::Restart => by_policy!(self.policy, restart_received(self, from, payload)),
            Frame::Finalize => {
                self.finalize_received(from);
                Ok(())
            }
            Frame::Determinants => {
                by_policy!(self.policy, determinants_received(self, from, payload))
            }
            Frame::FinalizeNak { name } => {
                self.unreceived(from, name);
                Ok(())
            }
        }
    }

    /// An active message, whose handler is to be called.
    fn active(
        &mut self,
        from: u32,
        handler: u16,
        header: u64,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let entry = self.unexpected.put(payload, 0, payload.len());
        self.active.push_back(Active { from, handler, header, entry });
        self.grow_unreceived(from, 0, Active::MEMORY + self.unexpected.memory(entry));
        self.check_buffer_limit(from)
    }

    pub(crate) fn envelope(&self, from: u32, msg: MsgHead, len: u64) -> Envelope {
        Envelope {
            source: from,
            context: self.immediate.context(msg.context),
            tag: msg.tag,
            seq: msg.seq,
            len,
            ident: 0,
            data: self.immediate.data(msg.context),
        }
    }
}

impl<P: Policy> Core<P> {
    pub(crate) fn rendezvous_done<R: RxPolicy<P>>(
        &mut self,
        token: Token,
        result: Result<(), Fault>,
    ) {
        if state::is_rest(token) {
            return self.end_message::<R>(token, result);
        }
        self.deferred.push(Deferred::Read { token, result });
    }

    /// The link with a peer has changed.
    pub(crate) fn link(&mut self, peer: PeerId, event: LinkEvent) {
        match event {
            LinkEvent::Up(incarnation) => self.peer_restarted(peer.0, incarnation.0),
            LinkEvent::Broken(_) if mutant!(LinkTakenForVerdict) => {
                self.peer_lost(peer.0, Fault::Died);
            }
            LinkEvent::Broken(why) => self.peer_lost(peer.0, why),
            LinkEvent::Closed => self.peer_failed(peer.0, Fault::Closed),
        }
    }
}

/// The fault of a peer that asks without reading the answers.
#[cold]
pub(crate) fn answers_not_taken(most: usize) -> Fault {
    broken("answers not taken", format!("at most {most}"), most + 1)
}
