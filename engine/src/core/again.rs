//! Messages that no posted receive has matched: unexpected and reserved ones, and those that are sent again because their
//! sender was restarted.

use super::delivery::put;
use super::{Core, MESSAGE, Unexpected, broken};
use crate::frame::Rts;
use crate::peer::{Destination, PartialMessage};
use crate::policy::Policy;
use crate::recv_record::name;
use crate::request::Stage;
use taffrail_fabric::{Fault, Payload};
use taffrail_logging::{Admit, MsgId};
use taffrail_matching::{Envelope, MessageId};

impl<P: Policy> Core<P> {
    /// A whole message that no posted receive has matched. `sync` names its send, if that waits for an ACK.
    #[inline(never)]
    pub(crate) fn eager_unmatched(
        &mut self,
        admit: Admit,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
        sync: Option<u64>,
    ) -> Result<(), Fault> {
        match admit {
            Admit::Refill => {
                self.arrives_again(env, payload, skip, sync)?;
            }
            Admit::Duplicate => {
                if let Some(send) = sync {
                    self.sync_again(env, send);
                }
            }
            // One that a send waits for is refused, and stays: if the send is started again it is refused again.
            admit if sync.is_none() && self.is_dropped(admit) => {}
            admit => {
                self.buffer_unexpected(admit, env, payload, skip, sync);
            }
        }
        self.check_buffer_limit(env.source)
    }

    /// Stores an unexpected message, or one that is reserved for a receive that is not posted yet.
    pub(crate) fn store_unmatched(
        &mut self,
        admit: Admit,
        env: &Envelope,
        found: Unexpected,
    ) -> MessageId {
        if let Some(send) = found.waiting_send() {
            self.refuse(env.source, send);
        }
        match admit {
            Admit::Reserved(_) => {
                let id = self.matcher.store_claimed(env, found);
                self.policy.reserved(name(env), id);
                id
            }
            _ => self.matcher.store_unexpected(env, found),
        }
    }

    /// A message of which a part is here is sent again, from its first byte on: its bytes go to the same place.
    /// Returns which, for the fragments that follow.
    ///
    /// # Errors
    /// When its length is not that of the first time.
    pub(crate) fn arrives_again(
        &mut self,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
        sync: Option<u64>,
    ) -> Result<Destination, Fault> {
        let here = payload.len() - skip;
        let whole = here as u64 == env.len;
        let destination = self.policy.take_partial(name(env));
        let destination = match destination.unwrap_or(Destination::Nowhere) {
            Destination::Request(request) => {
                let slot = self.requests.get(request);
                if slot.status.len as u64 != env.len {
                    return Err(changed(slot.status.len as u64, env.len));
                }
                slot.stage = Stage::Arriving;
                slot.moved = here;
                put(slot, 0, payload, skip, here.min(slot.len));
                if whole {
                    self.complete(request);
                }
                Destination::Request(request)
            }
            Destination::Buffer(entry) => {
                self.waiting_message(name(env)).map_or(Ok(()), |(_, before)| same(&before, env))?;
                self.unexpected.begin_again(entry, payload, skip);
                Destination::Buffer(entry)
            }
            Destination::Waiting(id) => match self.matcher.message_mut(id) {
                None => Destination::Nowhere,
                Some((before, found)) => {
                    same(before, env)?;
                    let entry = self.unexpected.put(payload, skip, env.len as usize);
                    let stored = Unexpected::Stored { entry, sync: None };
                    let announced = std::mem::replace(found, stored);
                    let memory = MESSAGE + self.unexpected.memory(entry);
                    self.grow_unreceived(env.source, env.len as usize, memory);
                    self.shrink_unreceived(env.source, 0, announced.memory());
                    Destination::Buffer(entry)
                }
            },
            Destination::Nowhere => Destination::Nowhere,
        };
        if whole {
            self.policy.is_whole(name(env));
        }
        if let Some(send) = sync {
            self.sync_again(env, send);
        }
        Ok(destination)
    }

    /// The last byte of a message of several fragments is here.
    pub(crate) fn partial_completed(&mut self, from: u32, partial: &PartialMessage) {
        self.policy.is_whole(Self::partial_name(from, partial));
    }

    /// A synchronous message was sent again: the new incarnation of its sender waits for an ACK.
    pub(crate) fn sync_again(&mut self, env: &Envelope, send: u64) {
        let waiting = self.waiting_message(name(env));
        match waiting.and_then(|(id, _)| self.matcher.message_mut(id)) {
            Some((_, Unexpected::Stored { sync, .. })) => {
                *sync = Some(send);
                self.refuse(env.source, send);
            }
            Some(_) => {}
            None => self.deferred.acknowledge(env.source, send),
        }
    }

    /// An RTS of a message that is here, in part or whole. Returns the receive that has matched it, if that is to begin
    /// a rendezvous.
    ///
    /// # Errors
    /// When its length is not that of the first time.
    pub(crate) fn rts_again(
        &mut self,
        admit: Admit,
        env: &Envelope,
        rts: Rts,
    ) -> Result<Option<u32>, Fault> {
        if admit == Admit::Duplicate {
            self.deferred.acknowledge(env.source, rts.name);
            return Ok(None);
        }
        let name = name(env);
        let destination = self.policy.take_partial(name);
        if destination.is_some() {
            // Its bytes wait in its sender's memory now.
            self.policy.is_whole(name);
        }
        match destination.unwrap_or(Destination::Nowhere) {
            Destination::Request(request) => {
                let len = self.requests.get(request).status.len as u64;
                if len != env.len { Err(changed(len, env.len)) } else { Ok(Some(request)) }
            }
            Destination::Waiting(id) => {
                if let Some((before, found)) = self.matcher.message_mut(id) {
                    same(before, env)?;
                    let again = Unexpected::Rts(Box::new(rts));
                    let memory = again.memory();
                    let announced = std::mem::replace(found, again);
                    self.grow_unreceived(env.source, 0, memory);
                    self.shrink_unreceived(env.source, 0, announced.memory());
                    self.refuse(env.source, rts.name);
                }
                Ok(None)
            }
            Destination::Buffer(entry) => {
                // The part that is here is dropped: the whole message waits in its sender's memory now.
                let found = self.waiting_message(name);
                if let Some((before, found)) =
                    found.and_then(|(id, _)| self.matcher.message_mut(id))
                {
                    same(before, env)?;
                    let announced = Unexpected::Rts(Box::new(rts));
                    let memory = announced.memory();
                    *found = announced;
                    let stored = MESSAGE + self.unexpected.memory(entry);
                    self.unexpected.release(entry);
                    self.grow_unreceived(env.source, 0, memory);
                    self.shrink_unreceived(env.source, env.len as usize, stored);
                    self.refuse(env.source, rts.name);
                }
                Ok(None)
            }
            Destination::Nowhere => {
                self.deferred.acknowledge(env.source, rts.name);
                Ok(None)
            }
        }
    }

    /// The name of a message of which a part is here.
    pub(crate) fn partial_name(from: u32, partial: &PartialMessage) -> MsgId {
        MsgId { source: from, context: partial.context, seq: partial.seq }
    }

    /// Whether a part of the message that this request receives is here, and its sender has died: the message is sent
    /// again, and there is no rendezvous.
    pub(crate) fn comes_again(&mut self, request: u32) -> bool {
        let slot = self.requests.get(request);
        let Some(name) = slot.record.name(slot.peer) else { return false };
        match self.policy.partial(name) {
            Some(destination) => {
                *destination = Destination::Request(request);
                true
            }
            None => false,
        }
    }

    /// A message that no receive has got, and its handle.
    pub(crate) fn waiting_message(&self, message: MsgId) -> Option<(MessageId, Envelope)> {
        let mut all = self.matcher.unexpected_from(message.source).chain(self.matcher.claimed());
        let this = |(id, envelope, _): (MessageId, &Envelope, _)| {
            (name(envelope) == message).then_some((id, *envelope))
        };
        all.find_map(this)
    }

    /// A message that was claimed is being received.
    pub(crate) fn receives(&mut self, request: u32, envelope: &Envelope) {
        self.requests.get(request).record.set_name(envelope.context, envelope.seq);
    }
}

/// Whether a message that is sent again is as long as it was.
fn same(before: &Envelope, now: &Envelope) -> Result<(), Fault> {
    if before.len == now.len { Ok(()) } else { Err(changed(before.len, now.len)) }
}

fn changed(before: u64, now: u64) -> Fault {
    broken(
        "length of a message that is sent again",
        format!("{before}, as before: a program must be determined by its messages"),
        now,
    )
}
