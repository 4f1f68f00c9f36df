//! Arriving messages: those that a replay has reserved, unexpected ones, and those that are sent again.

use super::Logging;
use super::host::Host;
use super::nondeterminism::{CoreParts, name};
use crate::core::delivery::put;
use crate::core::{Core, Deferred, Unexpected, broken};
use crate::frame::{Rts, body, kind};
use crate::peer::{Destination, PartialMessage};
use crate::policy::Policy;
use crate::policy::rx::RxPolicy;
use crate::request::Stage;
use taffrail_fabric::{Fault, Payload};
use taffrail_logging::{Admit, MsgId, Numbers, Reserved, mutant};
use taffrail_matching::{Envelope, MessageId};

/// Turns between two in which a restarted rank takes messages in while its resend backlog is high. Peers resend faster
/// than it replays, so without a limit all messages that they ever sent to it would be in its memory.
const AHEAD_EVERY: u32 = 256;
/// Bytes of unreceived messages, overheads included, above which the resend backlog is high.
const RESEND_BACKLOG_MAX: usize = 256 << 10;

impl<H: Host> Logging<H> {
    /// Judges a message that is not simply to be matched: not the next of its channel, or in a replay.
    pub(crate) fn judge(&mut self, numbers: &mut Numbers, message: MsgId) -> Admit {
        match self.replaying {
            true => self.inbound.admit_in_replay(numbers, message, &mut self.replay),
            false => self.inbound.admit(numbers, message),
        }
    }
}

impl<P: Policy> RxPolicy<P> for Logging<P::Host> {
    /// Nothing while events wait for room (*nothing-passes-an-event*), and little while more was sent again than this
    /// rank needs now.
    #[inline(always)]
    fn takes_in(core: &mut Core<P>, turn: u32) -> bool {
        let CoreParts { log, peers, .. } = core.parts();
        (!log.is_behind() || log.catch_up(peers))
            && (!log.resend_backlog_high || turn.is_multiple_of(AHEAD_EVERY))
    }

    #[inline(always)]
    fn taken_in(core: &mut Core<P>, things: usize) {
        let CoreParts { log, peers, .. } = core.parts();
        if log.incarnation > 0 && (things > 0 || log.resend_backlog_high) {
            let buffered_bytes: usize = peers.iter().map(|peer| peer.buffered_bytes).sum();
            log.resend_backlog_high = buffered_bytes > RESEND_BACKLOG_MAX;
        }
    }

    #[inline(always)]
    fn admit_next(core: &mut Core<P>, message: MsgId) -> bool {
        let CoreParts { log, numbers, .. } = core.parts();
        !log.replaying && numbers.count(message)
    }

    fn admit_other(core: &mut Core<P>, message: MsgId) -> Admit {
        let CoreParts { log, numbers, .. } = core.parts();
        log.judge(numbers, message)
    }

    #[inline(always)]
    fn matched(core: &mut Core<P>, request: u32, message: MsgId) {
        let CoreParts { log, requests, peers, .. } = core.parts();
        log.record_match(peers, &mut requests.get(request).record, message);
    }

    #[inline(always)]
    fn received_directly(core: &mut Core<P>, from_any: bool, message: MsgId) {
        let CoreParts { log, peers, .. } = core.parts();
        log.record_direct(peers, from_any, message);
    }
}

impl<P: Policy> Core<P> {
    /// A message has come that the replay has reserved for a receive or claim. Returns the receive, if it is posted.
    #[inline(never)]
    pub(crate) fn take_reserved(&mut self, whom: Reserved, message: MsgId) -> Option<u32> {
        let log = self.policy.log_mut()?;
        let awaited = match whom {
            Reserved::Post(_) => log.awaited.remove(&message),
            Reserved::Claim => None,
        };
        if awaited.is_some_and(|request| log.got_one(request)) {
            self.deferred.extend(awaited.map(|request| Deferred::Advance { request }));
        }
        log.look_at_replay();
        awaited
    }

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
        match (admit, self.policy.log_mut()) {
            (Admit::Reserved(_), Some(log)) => {
                let id = self.matcher.store_claimed(env, found);
                log.reserved.insert(name(env), id);
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
        let destination = self.policy.log_mut().and_then(|log| log.partial.remove(&name(env)));
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
                self.unexpected.begin_again(entry, payload, skip);
                Destination::Buffer(entry)
            }
            Destination::Waiting(id) => match self.matcher.payload_mut(id) {
                None => Destination::Nowhere,
                Some(found) => {
                    let entry = self.unexpected.put(payload, skip, env.len as usize);
                    *found = Unexpected::Stored { entry, sync: None };
                    let peer = &mut self.peers[env.source as usize];
                    peer.unexpected_bytes += env.len as usize;
                    peer.buffered_bytes += env.len as usize;
                    Destination::Buffer(entry)
                }
            },
            Destination::Nowhere => Destination::Nowhere,
        };
        if whole {
            self.is_whole(env);
        }
        if let Some(send) = sync {
            self.sync_again(env, send);
        }
        Ok(destination)
    }

    /// The last byte of a message that came again is here.
    fn is_whole(&mut self, env: &Envelope) {
        if let Some(log) = self.policy.log_mut() {
            log.inbound.is_whole(name(env));
        }
    }

    /// The last byte of a message of several fragments is here.
    pub(crate) fn partial_completed(&mut self, from: u32, partial: &PartialMessage) {
        if let Some(log) = self.policy.log_mut() {
            log.inbound.is_whole(Self::partial_name(from, partial));
        }
    }

    /// A synchronous message was sent again: the new incarnation of its sender waits for an ACK.
    pub(crate) fn sync_again(&mut self, env: &Envelope, send: u64) {
        let waiting = self.waiting_message(name(env));
        match waiting.and_then(|(id, _)| self.matcher.payload_mut(id)) {
            Some(Unexpected::Stored { sync, .. }) => {
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

        let Some(log) = self.policy.log_mut() else { return Ok(None) };
        // It stays a partial message until its bytes are here.
        let destination = log.partial.get(&name(env)).copied().unwrap_or(Destination::Nowhere);
        match destination {
            Destination::Request(request) => {
                log.partial.remove(&name(env));
                log.inbound.is_whole(name(env));
                let len = self.requests.get(request).status.len as u64;
                if len != env.len { Err(changed(len, env.len)) } else { Ok(Some(request)) }
            }
            Destination::Waiting(id) => {
                log.partial.remove(&name(env));
                log.inbound.is_whole(name(env));
                if let Some(found) = self.matcher.payload_mut(id) {
                    *found = Unexpected::Rts(rts);
                    self.refuse(env.source, rts.name);
                }
                Ok(None)
            }
            Destination::Buffer(entry) => {
                // The part that is here is dropped: the whole message waits in its sender's memory now.
                log.partial.remove(&name(env));
                log.inbound.is_whole(name(env));
                let found = self.waiting_message(name(env));
                if let Some(found) = found.and_then(|(id, _)| self.matcher.payload_mut(id)) {
                    *found = Unexpected::Rts(rts);
                    self.unexpected.release(entry);
                    let peer = &mut self.peers[env.source as usize];
                    peer.unexpected_bytes -= env.len as usize;
                    peer.buffered_bytes -= env.len as usize;
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

    /// RESTART1 or RESTART2 has come.
    pub(crate) fn restart(&mut self, from: u32, payload: &Payload<'_>) -> Result<(), Fault> {
        if self.policy.log().is_none_or(|log| log.is_same_set(from)) {
            return Err(broken("kind", "no RESTART within a set", kind::RESTART));
        }
        let restart = body::read_restart(payload)?;
        let is_believed = |log: &Logging<_>| log.inbound.believes(from, restart.incarnation);
        if !self.policy.log().is_some_and(is_believed) && !mutant!(OldIncarnationMet) {
            // Its sender is dead, or has not connected yet (*old-incarnations-die*).
            tracing::warn!(from, restart.incarnation, "not the incarnation that has connected");
            return Ok(());
        }
        self.deferred.push(Deferred::PeerState { from, restart });
        Ok(())
    }

    /// FINALIZE has come: all messages that the peer sent are here (*nothing-after-farewell*), and receives that wait for
    /// another one fail.
    pub(crate) fn finalize_received(&mut self, from: u32) {
        if self.policy.log().is_none() || self.peers[from as usize].is_finished {
            return;
        }
        self.peers[from as usize].is_finished = true;
        self.last_finished = Some(from);
        let error = self.finished_error(from);
        for request in self.matcher.fail(from) {
            self.fail(request, error.clone());
        }
    }

    /// The name of a message of which a part is here.
    pub(crate) fn partial_name(from: u32, partial: &PartialMessage) -> MsgId {
        MsgId { source: from, context: partial.context, seq: partial.seq }
    }

    /// Whether a part of the message that this request receives is here, and its sender has died: the message is sent
    /// again, and there is no rendezvous.
    pub(crate) fn comes_again(&mut self, request: u32) -> bool {
        let Some(log) = self.policy.log_mut() else { return false };
        let slot = self.requests.get(request);
        let Some(name) = slot.record.name(slot.peer) else { return false };
        match log.partial.get_mut(&name) {
            Some(destination) => {
                *destination = Destination::Request(request);
                true
            }
            None => false,
        }
    }
}

fn changed(before: u64, now: u64) -> Fault {
    broken(
        "length of a message that is sent again",
        format!("{before}, as before: a program must be determined by its messages"),
        now,
    )
}

impl<H: Host> Logging<H> {
    /// The bytes of a message of which a part is here go to this request when they are sent again.
    pub(crate) fn redirect(&mut self, env: &Envelope, request: u32) {
        if let Some(destination) = self.partial.get_mut(&name(env)) {
            *destination = Destination::Request(request);
        }
    }
}
