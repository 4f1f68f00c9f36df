//! The engine's messages that are not whole and eager, one by one (`docs/wire.md`, section 5).

use super::delivery::{put, put_fragment};
use super::{Core, MESSAGE, Unexpected, broken};
use crate::core::Deferred;
use crate::frame::{MsgHead, Rts, kind};
use crate::loan::Offer;
use crate::peer::{Destination, PartialMessage};
use crate::policy::rx::RxPolicy;
use crate::policy::{Policy, by_policy};
use crate::receive::status;
use crate::recv_record::name;
use crate::request::{Slot, Stage};
use crate::{Data, Error, Rank};
use taffrail_fabric::{Fault, Payload};
use taffrail_logging::Admit;
use taffrail_matching::{Arrival, Envelope};

impl<P: Policy> Core<P> {
    /// Lets the policy judge a message, and matches it if it may be: what the policy has said, and the receive
    /// that gets it.
    ///
    /// # Errors
    /// When its number is not the one that it must have.
    pub(crate) fn arrive(&mut self, env: &Envelope) -> Result<(Admit, Option<u32>), Fault> {
        by_policy!(self.policy, self.arrive_by(env))
    }

    /// As [`arrive`](Self::arrive), by the one policy that there is.
    ///
    /// # Errors
    /// When its number is not the one that it must have.
    pub(crate) fn arrive_by<R: RxPolicy<P>>(
        &mut self,
        env: &Envelope,
    ) -> Result<(Admit, Option<u32>), Fault> {
        let admit = R::admit(self, name(env));
        let request = match admit {
            Admit::Match => match self.matcher.arrive(env) {
                Arrival::Matched(request) => {
                    R::matched(self, request, name(env));
                    Some(request)
                }
                Arrival::Unmatched => None,
            },
            Admit::Reserved(whom) => R::take_reserved(self, whom, name(env)),
            Admit::Refill | Admit::Duplicate => None,
            Admit::OutOfOrder { expected } => return Err(broken("seq", expected, env.seq)),
        };
        Ok((admit, request))
    }
}

impl<P: Policy> Core<P> {
    /// Stores what arrived of a message that no receive takes yet.
    pub(crate) fn buffer_unexpected(
        &mut self,
        admit: Admit,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
        sync: Option<u64>,
    ) -> u32 {
        let entry = self.unexpected.put(payload, skip, env.len as usize);
        self.store_unmatched(admit, env, Unexpected::Stored { entry, sync });
        let len = env.len as usize;
        self.grow_unreceived(env.source, len, MESSAGE + self.unexpected.memory(entry));
        entry
    }

    /// Stores what a message says whose bytes are still its sender's.
    pub(crate) fn queue_unexpected(&mut self, admit: Admit, env: &Envelope, found: Unexpected) {
        let memory = found.memory();
        self.store_unmatched(admit, env, found);
        self.grow_unreceived(env.source, 0, memory);
    }

    /// A whole message behind `skip` bytes that say its data, or the name of a send that waits for it to be matched.
    pub(crate) fn eager(
        &mut self,
        from: u32,
        msg: MsgHead,
        (payload, skip): (&Payload<'_>, usize),
        (data, sync): (Option<u32>, Option<u64>),
    ) -> Result<(), Fault> {
        let mut env = self.envelope(from, msg, (payload.len() - skip) as u64);
        env.data = data.map_or(env.data, Data::new);
        match self.arrive(&env)? {
            (_, Some(request)) => {
                self.deliver(request, &env, payload, skip);
                sync.into_iter().for_each(|name| self.deferred.acknowledge(from, name));
                self.check_buffer_limit(from)
            }
            (admit, None) => self.eager_unmatched(admit, &env, payload, skip, sync),
        }
    }

    pub(crate) fn first(
        &mut self,
        from: u32,
        msg: MsgHead,
        len: u64,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let here = payload.len() - 8;
        if self.peers[from as usize].partial.is_some() {
            return Err(broken("kind", "EAGER_FRAG, after EAGER_FIRST", kind::EAGER_FIRST));
        }
        let most = self.policy.eager_limit();
        if len > most as u64 || here as u64 >= len {
            return Err(broken("length", format!("{here}..={most}"), len));
        }
        let env = self.envelope(from, msg, len);
        self.begin_partial(&env, payload, 8)?;
        self.check_buffer_limit(from)
    }

    /// The beginning of a message is here, from byte `skip` of a payload on.
    pub(crate) fn begin_partial(
        &mut self,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
    ) -> Result<(), Fault> {
        let (from, here) = (env.source, payload.len() - skip);
        let destination = match self.arrive(env)? {
            (_, Some(request)) => {
                let slot = self.requests.get(request);
                slot.status = status(env);
                let request = self.land(request);
                let slot = self.requests.get(request);
                slot.stage = Stage::Arriving;
                slot.peer = from;
                slot.moved = here;
                put(slot, 0, payload, skip, here.min(slot.len));
                Destination::Request(request)
            }
            (Admit::Refill, None) => self.arrives_again(env, payload, skip, None)?,
            (Admit::Duplicate, None) => Destination::Nowhere,
            (admit, None) if self.is_dropped(admit) => Destination::Nowhere,
            (admit, None) => {
                Destination::Buffer(self.buffer_unexpected(admit, env, payload, skip, None))
            }
        };
        let (context, seq, len) = (env.context, env.seq, env.len as usize);
        self.peers[from as usize].partial =
            Some(PartialMessage { destination, context, seq, here, len });
        Ok(())
    }

    /// The next fragment of the message that began: `name` and `offset` say that it is that (*no-order-leans*).
    pub(crate) fn fragment(
        &mut self,
        from: u32,
        (word, seq): (u16, u32),
        offset: u64,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        let context = self.immediate.context(word);
        let Some(partial) = &self.peers[from as usize].partial else {
            return Err(broken("kind", "EAGER_FIRST before EAGER_FRAG", kind::EAGER_FRAG));
        };
        let next = (partial.context, partial.seq, partial.here as u64);
        if next != (context, seq, offset) {
            return Err(broken(
                "fragment",
                format!("{next:?}"),
                format!("{:?}", (context, seq, offset)),
            ));
        }
        self.more(from, payload)
    }

    /// More bytes of the message that began.
    pub(crate) fn more(&mut self, from: u32, payload: &Payload<'_>) -> Result<(), Fault> {
        let Some(partial) = &mut self.peers[from as usize].partial else { return Ok(()) };
        let at = partial.here;
        if payload.len() > partial.len - at {
            return Err(broken("length", format!("1..={}", partial.len - at), payload.len()));
        }
        partial.here += payload.len();
        let over = partial.here == partial.len;
        match partial.destination {
            Destination::Waiting(_) | Destination::Nowhere => {}
            Destination::Buffer(entry) => self.unexpected.append(entry, payload),
            Destination::Request(request) => {
                let slot = self.requests.get(request);
                put_fragment(slot, at, payload);
                slot.moved = at + payload.len();
                if over {
                    self.complete(request);
                }
            }
        }
        if over && let Some(partial) = self.peers[from as usize].partial.take() {
            self.partial_completed(from, &partial);
        }
        Ok(())
    }

    pub(crate) fn rts(
        &mut self,
        from: u32,
        msg: MsgHead,
        (len, data): (u64, Option<u32>),
        rts: Rts,
    ) -> Result<(), Fault> {
        let mut env = self.envelope(from, msg, len);
        env.data = data.map_or(env.data, Data::new);
        match self.arrive(&env)? {
            (_, Some(request)) => {
                let slot = self.requests.get(request);
                slot.status = status(&env);
                self.rts_matched(request, from, rts);
            }
            (admit @ (Admit::Refill | Admit::Duplicate), None) => {
                if let Some(request) = self.rts_again(admit, &env, rts)? {
                    self.rts_matched(request, from, rts);
                }
            }
            (admit, None) => self.queue_unexpected(admit, &env, Unexpected::Rts(Box::new(rts))),
        }
        self.check_buffer_limit(from)
    }

    pub(crate) fn loan(
        &mut self,
        from: u32,
        msg: MsgHead,
        len: u64,
        offer: Offer,
    ) -> Result<(), Fault> {
        let env = self.envelope(from, msg, len);
        match self.arrive(&env)? {
            (_, Some(request)) => {
                let slot = self.requests.get(request);
                slot.status = status(&env);
                self.lent(request, from, offer);
            }
            (Admit::Refill | Admit::Duplicate, None) => {
                return Err(broken("seq", "no loan a second time", msg.seq));
            }
            (admit, None) => self.queue_unexpected(admit, &env, Unexpected::Loan(Box::new(offer))),
        }
        self.check_buffer_limit(from)
    }

    /// A receive has matched a loan.
    pub(crate) fn lent(&mut self, request: u32, from: Rank, offer: Offer) {
        // More may match a multi-receive before the loan is taken.
        let request = self.part(request);
        self.deferred.push(Deferred::Borrow { request, from, offer });
    }

    /// Bytes of what an operation of ours waits for. They may come in any order (*no-order-leans*).
    pub(crate) fn rndv_data(
        &mut self,
        from: u32,
        to: u64,
        offset: u64,
        payload: &Payload<'_>,
    ) -> Result<(), Fault> {
        // Otherwise it is of an operation that has failed meanwhile.
        if let Some((request, slot)) = self.requests.by_name(from, to) {
            let at = check_range(slot, offset, payload.len())?;
            put_fragment(slot, at, payload);
            slot.moved += payload.len();
            self.end_fragments(request);
        }
        Ok(())
    }

    /// Ends a request that has all the fragments that it wants.
    pub(crate) fn end_fragments(&mut self, request: u32) {
        let slot = self.requests.get(request);
        if slot.moved == slot.wanted() {
            match slot.stage {
                Stage::AskedGet => self.requests.end(request),
                _ => self.complete(request),
            }
        }
    }

    /// A peer asks for the fragments of an announced message.
    pub(crate) fn cts(
        &mut self,
        from: u32,
        name: u64,
        (want, to): (u64, u64),
        non_temporal: bool,
    ) -> Result<(), Fault> {
        let Some((request, slot)) = self.requests.by_name(from, name) else { return Ok(()) };
        if slot.stage != Stage::RtsSent || want > slot.status.len as u64 {
            return Err(broken("CTS", format!("at most {} bytes, once", slot.status.len), want));
        }
        slot.stage = Stage::Streaming;
        slot.moved = 0;
        let want = want as usize;
        self.deferred.push(Deferred::Stream { request, want, to, non_temporal });
        Ok(())
    }

    pub(crate) fn finished(&mut self, from: u32, name: u64, fault: Option<Fault>) {
        let Some((request, slot)) = self.requests.by_name(from, name) else { return };
        match (slot.stage, fault) {
            (Stage::RtsSent | Stage::AskedPut, None) => self.requests.all_sent(request),
            (Stage::AskedGet | Stage::AskedPut, Some(fault)) => {
                let error = Error::PeerFailed { rank: from, fault };
                self.fail(request, error);
            }
            _ => {}
        }
    }
}

/// Where bytes of what an operation waits for belong, if they are part of it and it lacks that many.
///
/// # Errors
/// [`Fault::Protocol`] when they are not.
pub(crate) fn check_range(slot: &Slot, offset: u64, len: usize) -> Result<usize, Fault> {
    let want = slot.wanted();
    let fits = usize::try_from(offset).is_ok_and(|at| at <= want && len <= want - at);
    if fits && len <= want - slot.moved {
        return Ok(offset as usize);
    }
    let expected = format!("within {want} bytes, {} of which are missing", want - slot.moved);
    Err(broken("RNDV_DATA", expected, format!("{len} from {offset} on")))
}
