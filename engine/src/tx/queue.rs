//! What waits to leave: the queue of each peer, in order, and the fragments of long messages behind it.

use super::{Tx, transmit};
use crate::core::{Core, answers_not_taken, broken};
use crate::frame::{Frame, MsgHead, Rts, kind};
use crate::peer::{Queued, Stream, Waiting};
use crate::policy::protocol::Sends;
use crate::policy::{Policy, Route, by_policy};
use crate::request::{Requests, Slot, Stage};
use crate::send::{bytes, gather, source_of};
use crate::{Dest, Rank};
use std::task::Poll;
use taffrail_fabric::{
    Fabric, PeerId, Refused, RemoteKey, SendMemory, Sent, Source, Token, UserBytes,
};
use taffrail_logging::{Ticket, mutant};

impl<F: Fabric + SendMemory, P: Policy> Tx<'_, F, P> {
    /// Sends a message that is complete in itself, now or when there is room.
    pub(crate) fn post_frame(&mut self, to: Rank, frame: Frame, body: &[u8]) {
        if self.core.peers[to as usize].fault.is_some() {
            return;
        }
        let ticket = self.ticket(to, frame.kind());
        let peer = &mut self.core.peers[to as usize];
        if peer.is_away() && !(mutant!(AnswerToDeadGated) && !ticket.is_free()) {
            // Its next incarnation asks again.
            return;
        }
        if ticket.is_free() && peer.is_clear_for_frame(&frame) {
            match transmit(self.fabric, to, &frame, Source::Bytes(body)) {
                Ok(_) if !mutant!(FrameSentTwice) => return,
                // The fabric reports the end of the peer by itself.
                Err(Refused::Failed(_)) => return,
                _ => {}
            }
        }
        let most = self.core.most_answers();
        let peer = &mut self.core.peers[to as usize];
        // If it waits for events that is not its peer's fault, and not to be timed.
        let waits_for_peer = ticket.is_free() && !peer.waits_for_events();
        if !waits_for_peer {
            peer.stop_timing();
        }
        let weight = if waits_for_peer { kind::weight(frame.kind(), body.len()) } else { 0 };
        let queued = Queued::Small { frame, body: body.to_vec(), request: None };
        if !matches!(frame, Frame::Throttle { .. }) {
            if peer.answers() + weight > most {
                return self.core.protocol_error(to, answers_not_taken(most));
            }
            return self.enqueue(to, Waiting { ticket, weight, frame: queued });
        }
        // A peer that sends too much hears of it at once, and the last THROTTLE counts.
        match peer.front() {
            Some(Waiting {
                frame: Queued::Small { frame: front @ Frame::Throttle { .. }, .. },
                ..
            }) => *front = frame,
            _ => peer.push_front(Waiting { ticket, weight, frame: queued }),
        }
        self.state.mark_backlog(to);
    }

    /// The events that a control frame has to wait for. Determinants that must be known before it leave first.
    fn ticket(&mut self, to: Rank, kind: u8) -> Ticket {
        if !kind::frees(kind) {
            return Ticket::default();
        }
        let Core { policy, peers, .. } = &mut *self.core;
        let ticket = policy.ticket(peers, to);
        if policy.piggybacks() {
            by_policy!(self.core.policy, precede_frame(self, to));
        }
        ticket
    }

    /// Puts a frame into a peer's queue, and sends what there is room for.
    pub(crate) fn enqueue(&mut self, to: Rank, waiting: Waiting) {
        self.core.peers[to as usize].push(waiting);
        self.state.mark_backlog(to);
        self.flush_peer(to);
    }

    /// Gives a message its number and its protocol, and puts it in the queue.
    #[inline(never)]
    pub(crate) fn queue_send(&mut self, request: u32, to: Dest, sync: bool) {
        let word = self.core.immediate.word(to.context, to.data);
        let context = word.unwrap_or(to.context);
        // Data for which the word has no room.
        let data = to.data.get().filter(|_| word.is_none());
        let seq = self.core.number(&to);
        let msg = MsgHead { context, seq, tag: to.tag };
        let inline = self.core.peers[to.rank as usize].inline();
        let slot = self.core.requests.get(request);
        let len = slot.len;
        let peer = &self.core.peers[to.rank as usize];
        let eager_max = match peer.forces_rendezvous() {
            true => inline - 8,
            false if sync || data.is_some() => self.sizes.eager_max.min(peer.fragment() - 8),
            false => self.sizes.eager_max,
        };
        if len > eager_max || sync && data.is_some() {
            let rts = self.rts(to.rank, request, msg, data);
            return self.enqueue(to.rank, Waiting::free(rts));
        }
        let name = slot.name(request);
        let whole = |frame: Frame, slot: &Slot, request| {
            let mut body = Vec::with_capacity(len);
            gather(slot, 0, len, |part| body.extend_from_slice(part));
            Queued::Small { frame, body, request }
        };
        let queued = match data {
            _ if sync => {
                slot.stage = Stage::RtsSent;
                whole(Frame::EagerSync { msg, name }, slot, None)
            }
            Some(data) => whole(Frame::EagerData { msg, data }, slot, Some(request)),
            None => Queued::Eager { msg, request, sent: 0 },
        };
        self.enqueue(to.rank, Waiting::free(queued));
    }

    /// The RTS of a message, with data in front if the word of its context has no room for them.
    fn rts(&mut self, to: Rank, request: u32, msg: MsgHead, data: Option<u32>) -> Queued {
        let slot = self.core.requests.get(request);
        let (len, at) = (slot.len, slot.at);
        // What is logged comes out of the log, as long as its sender lives.
        let is_kept = self.core.policy.route(to) == Route::Kept;
        let key = if at.is_null() || is_kept { None } else { self.key_for(to, at, len) };
        let slot = self.core.requests.get(request);
        slot.stage = Stage::RtsSent;
        let rts = Rts { name: slot.name(request), key };
        let frame = Frame::Rts { msg, data, len: len as u64, rts };
        Queued::Small { frame, body: Vec::new(), request: None }
    }

    /// The key of a message's memory: of a region, if it is in one of the pool's.
    fn key_for(&mut self, to: Rank, at: *const u8, len: usize) -> Option<RemoteKey> {
        if let Some((region, offset)) = self.lending.find(at, len)
            && let Ok(key) = self.fabric.key(PeerId(to), region, offset)
        {
            return Some(key);
        }
        // SAFETY: the caller that started the send vouches for its memory until it is finished, and then no peer reads it.
        let bytes = unsafe { UserBytes::new(at, len) };
        self.fabric.bare_key(PeerId(to), bytes)
    }

    /// Begins to send the fragments of a message.
    pub(crate) fn start_stream(&mut self, to: Rank, stream: Stream) {
        self.core.peers[to as usize].streams().push_back(stream);
        self.state.mark_backlog(to);
        self.flush_peer(to);
    }

    /// Sends what waits, as far as there is room. Returns how many messages left.
    pub(crate) fn flush(&mut self) -> usize {
        let mut left = 0;
        let mut k = 0;
        while let Some(&to) = self.state.backlog.get(k) {
            left += self.flush_peer(to);
            let peer = &self.core.peers[to as usize];
            if !peer.has_backlog() && peer.stream().is_none() {
                self.state.backlog.swap_remove(k);
            } else {
                k += 1;
            }
        }
        left
    }

    pub(crate) fn flush_peer(&mut self, to: Rank) -> usize {
        let mut left = 0;
        if self.core.peers[to as usize].is_held() {
            return left;
        }
        while self.core.peers[to as usize].has_backlog() {
            if !self.passes_gate(to) {
                return left;
            }
            self.replace_by_rts(to);
            if self.send_front(to) {
                left += 1;
            } else if self.core.peers[to as usize].has_backlog() {
                return left;
            }
        }
        while self.core.peers[to as usize].stream().is_some() {
            if !self.send_rndv_data(to) {
                return left;
            }
            left += 1;
        }
        left
    }

    /// Asks the gate for the frame at the front of a peer's queue: whether the frame may leave.
    fn passes_gate(&mut self, to: Rank) -> bool {
        let Tx { fabric, core: Core { policy, peers, .. }, .. } = self;
        let peer = &mut peers[to as usize];
        loop {
            let Some(front) = peer.front() else { return true };
            if !front.ticket.is_free() {
                if !policy.is_open(&front.ticket) {
                    return false;
                }
                // An open gate stays open: the rest of a long message does not ask again.
                front.ticket = Ticket::default();
            }
            match policy.open_page(*fabric, peer) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return true,
                Poll::Pending => return false,
            }
        }
    }

    /// Puts an RTS in the place of the message at the front of the queue, if that is the way by now.
    fn replace_by_rts(&mut self, to: Rank) {
        let peer = &mut self.core.peers[to as usize];
        let inline = peer.inline();
        let forced = peer.forces_rendezvous();
        let (request, msg) = match peer.front().map(|front| &front.frame) {
            Some(&Queued::Eager { msg, request, sent: 0 }) => {
                if !forced || self.core.requests.get(request).len <= inline {
                    return;
                }
                (request, msg)
            }
            Some(&Queued::Logged(leaving)) => {
                let core = &mut self.core;
                match by_policy!(core.policy, kept_rts(core, to, leaving, forced, inline)) {
                    Some(rts) => rts,
                    None => return,
                }
            }
            _ => return,
        };
        let rts = self.rts(to, request, msg, None);
        if let Some(front) = self.core.peers[to as usize].front() {
            front.frame = rts;
        }
    }

    /// Sends the front of a peer's queue, or its next fragment. `false` when there is no room.
    fn send_front(&mut self, to: Rank) -> bool {
        let Tx { fabric, core, .. } = self;
        let fragment = core.peers[to as usize].fragment();
        let Some(front) = core.peers[to as usize].front() else { return false };
        let (result, over, request) = match &mut front.frame {
            // The gate has opened it.
            Queued::Page(_) => return false,
            Queued::Logged(leaving) => {
                let Core { policy, requests, .. } = core;
                let Some(result) = policy.send_more(*fabric, requests, to, leaving, fragment)
                else {
                    if mutant!(DiskOvertaken) {
                        core.peers[to as usize].let_next_pass();
                    }
                    return false;
                };
                (result, leaving.is_sent(), None)
            }
            Queued::Small { frame, body, request } => {
                (transmit(*fabric, to, frame, Source::Bytes(body)), true, *request)
            }
            Queued::Eager { msg, request, sent } => {
                let slot = core.requests.get(*request);
                let now = (slot.len - *sent).min(fragment);
                let over = *sent + now == slot.len;
                let mut parts: Vec<&[u8]> = Vec::with_capacity(4);
                let frame = match *sent {
                    0 if over => Frame::Eager { msg: *msg },
                    0 => Frame::EagerFirst { msg: *msg, len: slot.len as u64 },
                    _ => msg.fragment(*sent),
                };
                gather(slot, *sent, now, |part| parts.push(part));
                let result = transmit(*fabric, to, &frame, source_of(&parts));
                if result.is_ok() {
                    *sent += now;
                }
                (result, over, Some(*request))
            }
        };
        if let Err(Refused::TooLong { got, limit }) = result {
            // It would wait for ever.
            let expected = format!("at most {limit} bytes");
            core.protocol_error(to, broken("length of a frame", expected, got));
            return false;
        }
        // A failed peer's queue is cleared when the fabric reports it.
        if result.is_ok() && over {
            core.peers[to as usize].pop_front();
            if let Some(request) = request {
                core.requests.sent(request);
            }
        }
        result.is_ok()
    }

    /// Sends the next fragment of a peer's first stream. `false` when there is no room.
    fn send_rndv_data(&mut self, to: Rank) -> bool {
        let core = &mut *self.core;
        let fragment = core.peers[to as usize].rndv_fragment();
        let front = core.peers[to as usize].stream();
        let Some(&Stream { request, want, to: waiting, non_temporal }) = front else {
            return false;
        };
        self.fabric.non_temporal(PeerId(to), non_temporal);
        let slot = core.requests.get(request);
        let now = (want - slot.moved).min(fragment);
        let frame = Frame::RndvData { to: waiting, offset: slot.moved as u64 };
        let kept = slot.extra.as_ref().and_then(|extra| extra.kept);
        let sent = if let Some(place) = kept {
            let place = place + slot.moved as u64;
            core.policy.send_rndv_data(self.fabric, to, &frame, place, now)
        } else if slot.at.is_null() {
            let mut parts: Vec<&[u8]> = Vec::with_capacity(4);
            gather(slot, slot.moved, now, |part| parts.push(part));
            let sent = transmit(self.fabric, to, &frame, Source::Parts(&parts));
            sent.is_ok().then_some(now)
        } else {
            // SAFETY: the caller that started the send vouches for its memory until it is finished.
            let at = unsafe { slot.at.add(slot.moved) };
            // What answers a get may be deregistered at any time, so that the fabric must not keep it.
            let source = if slot.extra.as_ref().is_some_and(|extra| extra.reads.is_some()) {
                // SAFETY: as above.
                Source::Bytes(unsafe { bytes(at, now) })
            } else {
                // SAFETY: as above, and it is finished when the fabric has reported all fragments that it keeps.
                Source::User(unsafe { UserBytes::new(at, now) }, Token(slot.name(request)))
            };
            let sent = transmit(self.fabric, to, &frame, source);
            if sent == Ok(Sent::Later) {
                slot.extra().lent += 1;
            }
            sent.is_ok().then_some(now)
        };
        let Some(now) = sent else { return false };
        let slot = self.core.requests.get(request);
        slot.moved += now;
        if slot.moved == want {
            self.core.peers[to as usize].streams().pop_front();
            self.core.requests.all_sent(request);
        }
        true
    }
}

impl Requests {
    /// A send is done, or all of its fragments have left: it ends when the fabric reads none of them.
    #[inline]
    pub(crate) fn all_sent(&mut self, index: u32) {
        match &mut self.get(index).extra {
            Some(extra) if extra.lent > 0 => extra.ends_when_returned = true,
            _ => self.sent(index),
        }
    }
}
