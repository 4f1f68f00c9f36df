//! What becomes of the bytes of a message: delivered to its receive, fetched, or dropped with an error.

use super::{Core, Deferred, Unexpected, broken};
use crate::frame::Rts;
use crate::peer::Destination;
use crate::policy::Policy;
use crate::receive::status;
use crate::recv_record::name;
use crate::request::{Slot, Stage};
use crate::{Error, Rank, Status};
use taffrail_fabric::Payload;
use taffrail_logging::mutant;
use taffrail_matching::Envelope;

impl<P: Policy> Core<P> {
    /// Delivers a whole message to the receive it matched.
    #[inline(always)]
    pub(crate) fn deliver(
        &mut self,
        request: u32,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
    ) {
        let slot = self.requests.get(request);
        let len = payload.len() - skip;
        slot.status = Status { len, ..status(env) };
        if slot.extra.is_some() {
            return self.deliver_special(request, payload, skip);
        }
        if skip == 0 {
            // SAFETY: the caller that posted the receive vouches for `slot.len` bytes at `slot.at`.
            unsafe { payload.copy_to(slot.at, slot.len) };
        } else {
            // SAFETY: as above.
            unsafe { payload.copy_part(skip, slot.at, len.min(slot.len)) };
        }
        if len > slot.len {
            return self.truncated(request);
        }
        slot.stage = Stage::Done;
        if slot.serial != 0 {
            self.requests.push_completion(request);
        }
    }

    #[cold]
    #[inline(never)]
    fn deliver_special(&mut self, request: u32, payload: &Payload<'_>, skip: usize) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        let len = (payload.len() - skip).min(slot.len);
        put(slot, 0, payload, skip, len);
        self.complete(request);
    }

    /// Gives a receive that has no memory of its own the memory for its message, now that its
    /// status is known. Returns the request that receives the bytes.
    pub(crate) fn land(&mut self, request: u32) -> u32 {
        let slot = self.requests.get(request);
        let status = slot.status;
        let Some(extra) = &mut slot.extra else { return request };
        if let Some(view) = &mut extra.view {
            (slot.at, slot.len) = view.make_room(status.len);
            return request;
        }
        self.part(request)
    }

    /// The request that receives the message a receive has matched: of a multi-receive one of its
    /// own, so that the next message may come.
    pub(crate) fn part(&mut self, request: u32) -> u32 {
        if self.requests.is_multi(request) {
            crate::multi_recv::allocate_part(self, request)
        } else {
            request
        }
    }

    /// Delivers a message that lies in this process's reach to a receive whose status is known.
    pub(crate) fn deliver_private(&mut self, request: u32, bytes: &[u8]) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        put(slot, 0, &Payload::of(bytes), 0, bytes.len().min(slot.len));
        self.complete(request);
    }

    /// Ends a receive whose bytes are there.
    pub(crate) fn complete(&mut self, request: u32) {
        let slot = self.requests.get(request);
        if slot.is_lent() && !mutant!(EndsWhileWritten) {
            slot.extra().ends_when_returned = true;
            return;
        }
        let peer = &mut self.peers[slot.status.source as usize];
        if let Some(timed) = peer.take_timed(request) {
            let ns = (self.clock.now() - timed.since).as_nanos() as f64;
            peer.rndv_paths(timed.mapped).note(timed.len, timed.way, ns);
        }
        if slot.status.len > slot.len {
            self.truncated(request);
        } else {
            self.requests.end(request);
        }
        let slot = self.requests.get(request);
        if slot.extra.as_ref().is_some_and(|e| e.part_of.is_some()) {
            crate::multi_recv::part_completed(self, request);
        }
    }

    #[cold]
    fn truncated(&mut self, request: u32) {
        let slot = self.requests.get(request);
        let Status { source, tag, len, data } = slot.status;
        let error = match slot.extra.as_ref().is_some_and(|extra| extra.view.is_some()) {
            true => crate::view::no_room(len).into(),
            false => Error::Truncated { len, room: slot.len, source_rank: source, tag, data },
        };
        self.requests.fail(request, error);
    }

    /// Ends an operation with an error; a part of a multi-receive reports to its whole.
    pub(crate) fn fail(&mut self, request: u32, error: Error) {
        if self.requests.is_multi(request) {
            return crate::multi_recv::end(self, request, error);
        }
        self.requests.fail(request, error);
        for peer in &mut self.peers {
            peer.take_timed(request);
        }
        let slot = self.requests.get(request);
        if slot.extra.as_ref().is_some_and(|e| e.part_of.is_some()) {
            crate::multi_recv::part_completed(self, request);
        }
    }

    /// Begins a receive of a message that was taken out of the unexpected store.
    pub(crate) fn receive_unexpected(&mut self, request: u32, env: Envelope, found: Unexpected) {
        let slot = self.requests.get(request);
        slot.status = status(&env);
        slot.post = None;
        self.shrink_unreceived(env.source, 0, found.memory());
        match found {
            Unexpected::Rts(rts) => {
                self.rts_matched(request, env.source, *rts);
            }
            Unexpected::Loan(offer) => self.lent(request, env.source, *offer),
            Unexpected::Stored { entry, sync } => {
                if let Some(name) = sync {
                    self.deferred.acknowledge(env.source, name);
                }
                self.receive_stored(request, env, entry);
            }
            Unexpected::Kept(kept) => self.receive_kept(request, &env, *kept),
        }
    }

    fn receive_stored(&mut self, request: u32, env: Envelope, entry: u32) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        let stored = self.unexpected.get(entry);
        let have = stored.len();
        let payload = Payload::of(stored);
        put(slot, 0, &payload, 0, have.min(slot.len));
        slot.moved = have;
        let len = env.len as usize;
        let memory = self.unexpected.memory(entry);
        self.unexpected.release(entry);
        self.shrink_unreceived(env.source, len, memory);
        let peer = &mut self.peers[env.source as usize];
        if (have as u64) < env.len {
            match peer.partial.as_mut().filter(|partial| partial.is_into(entry)) {
                Some(partial) => partial.destination = Destination::Request(request),
                // Its sender has died, and sends it again.
                None => {
                    if let Some(destination) = self.policy.partial(name(&env)) {
                        *destination = Destination::Request(request);
                    }
                }
            }
            self.requests.get(request).stage = Stage::Arriving;
            self.requests.get(request).peer = env.source;
        } else {
            self.complete(request);
        }
    }

    /// A receive has matched an announced message.
    pub(crate) fn rts_matched(&mut self, request: u32, from: Rank, rts: Rts) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        slot.stage = Stage::Reading;
        slot.peer = from;
        slot.moved = 0;
        if self.comes_again(request) {
            self.requests.get(request).stage = Stage::CtsSent;
            return;
        }
        self.deferred.push(Deferred::Fetch { request, from, rts });
    }

    /// Receives `want` bytes of a message to ourselves: those of our own send with this name. What the
    /// RTS says of their place is not looked at, since others can write to our ring.
    pub(crate) fn copy_own(&mut self, request: u32, name: u64, want: usize) {
        let rank = self.requests.get(request).peer;
        let send =
            self.requests.by_name(rank, name).filter(|(_, slot)| slot.stage == Stage::RtsSent);
        let Some((send, slot)) = send.filter(|(_, slot)| slot.len >= want) else {
            let fault = broken("rts", "a send under way", name);
            return self.fail(request, Error::PeerFailed { rank, fault });
        };
        let mut parts = Vec::new();
        crate::send::gather(slot, 0, want, |part| parts.push(part));
        let slot = self.requests.get(request);
        let mut at = 0;
        for part in parts {
            put_fragment(slot, at, &Payload::of(part));
            at += part.len();
        }
        self.requests.sent(send);
        self.complete(request);
    }
}

/// Copies `len` bytes of a payload, from `skip` on, to where byte `at` of a receive belongs.
/// Beyond the end of the receive nothing is written.
pub(crate) fn put(slot: &mut Slot, at: usize, payload: &Payload<'_>, skip: usize, len: usize) {
    let len = len.min(slot.len.saturating_sub(at));
    if let Some(extra) = slot.extra.as_ref().filter(|e| !e.parts.is_empty()) {
        let (mut at, mut skip, mut left) = (at, skip, len);
        for &(to, room) in &extra.parts {
            if at >= room {
                at -= room;
                continue;
            }
            let now = left.min(room - at);
            // SAFETY: the caller that posted the receive vouches for each of its parts.
            unsafe { payload.copy_part(skip, to.add(at), now) };
            (at, skip, left) = (0, skip + now, left - now);
            if left == 0 {
                break;
            }
        }
        return;
    }
    if len > 0 {
        // SAFETY: the caller that posted the receive vouches for `slot.len` bytes at `slot.at`.
        unsafe { payload.copy_part(skip, slot.at.add(at), len) };
    }
}

/// Copies a whole fragment to where byte `at` of a receive belongs.
pub(crate) fn put_fragment(slot: &mut Slot, at: usize, payload: &Payload<'_>) {
    put(slot, at, payload, 0, payload.len());
}
