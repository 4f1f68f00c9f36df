//! How messages are taken from the rings, and which rings are looked at all the time.

use super::{ASSIST, GOODBYE, HEAT, HOT, ShmFabric, TURN, is_message};
use crate::mailbox::MAIL;
use crate::outbox::SEGMENT;
use crate::pair::PeerLink;
use crate::ring::{INDIRECT, INLINE, LEAD, PayloadLocation, SlotHeader, slots_for};
use crate::sync::{AtomicU32, Ordering};
use crate::transfer::Transfers;
use crate::wait;
use std::os::fd::AsFd;
use taffrail_fabric::words::counted;
use taffrail_fabric::{Body, Fault, Head, LinkEvent, Payload, PeerId, Sink};

impl ShmFabric {
    /// Takes messages out of a peer's ring, `most` at the most.
    ///
    /// Whatever kind of place a message lies in, it is handed on here, so that the sink is compiled
    /// in once.
    #[inline(always)]
    pub(super) fn drain<S: Sink>(&mut self, from: PeerId, most: usize, sink: &mut S) -> usize {
        let mut joint = std::mem::MaybeUninit::<[u8; INLINE]>::uninit();
        let mut taken = 0;
        while taken < most {
            let pair = &mut self.pairs[from.index()];
            let mail = pair.mailbox();
            let (head, body, slots, publish) = if let Some(mail) = &mail {
                pair.own_mailbox();
                let SlotHeader { context, size, kind, .. } = SlotHeader::unpack(mail.word);
                let head = Head { kind, context, seq: mail.seq, tag: mail.tag };
                let Some(bytes) = mail.payload.get(..size as usize).filter(|_| is_message(kind))
                else {
                    self.refuse_mail(from, kind, size);
                    return taken + 1;
                };
                if let Err(fault) = pair.writer.acknowledge(mail.ack) {
                    self.cut(from, fault);
                    return taken + 1;
                }
                (head, Body::Whole(Payload::of(bytes)), 1, false)
            } else {
                let Some(word) = pair.reader.first() else { break };
                let len = word.size as usize;
                if taken > 0 {
                    pair.reader.fetch_ahead();
                }
                if is_message(word.kind) && len <= LEAD {
                    let reader = &pair.reader;
                    // SAFETY: the bytes lie in the slot at the head of the ring, which is mapped.
                    let payload = unsafe { Payload::contiguous(reader.lead(), len) };
                    (reader.head(word), Body::Whole(payload), 1, false)
                } else if is_message(word.kind) && len <= INLINE {
                    // SAFETY: bytes of any value make an array of bytes, and `payload` reads none
                    // that it has not written.
                    let joint = unsafe { &mut *joint.as_mut_ptr() };
                    let reader = &pair.reader;
                    (
                        reader.head(word),
                        Body::Whole(reader.payload(len, joint)),
                        slots_for(len),
                        false,
                    )
                } else if is_message(word.kind) && len == INDIRECT {
                    let head = pair.reader.head(word);
                    let (offset, len) = pair.reader.pooled();
                    if !self.reach(from, offset, len) {
                        return taken + 1;
                    }
                    let pair = &self.pairs[from.index()];
                    // SAFETY: `reach` has found the range inside the mapped outbox.
                    let payload = unsafe {
                        Payload::contiguous(pair.outbox.add(offset as usize), len as usize)
                    };
                    (head, Body::Whole(payload), 1, true)
                } else {
                    taken += 1;
                    match self.own_message(from) {
                        true => continue,
                        false => return taken,
                    }
                }
            };
            taken += 1;
            let _ = sink.message(from, head, body);
            let pair = &mut self.pairs[from.index()];
            pair.reader.advance(slots, publish, pair.consumed());
            if mail.is_some() {
                // A peer that writes to the mailbox waits for an answer: there is nothing behind it.
                break;
            }
        }
        taken
    }

    #[cold]
    pub(super) fn refuse_mail(&mut self, from: PeerId, kind: u8, size: u16) {
        let fault = Fault::Protocol {
            place: "mailbox",
            expected: format!("kind below {}, at most {MAIL} bytes", Head::KINDS),
            got: format!("kind {kind}, {}", counted(size, "byte")),
        };
        self.cut(from, fault);
    }

    /// Whether the range lies inside the peer's outbox. If not, the peer is cut off.
    #[inline]
    pub(super) fn reach(&mut self, from: PeerId, offset: u64, len: u32) -> bool {
        let pair = &mut self.pairs[from.index()];
        let inside = |have: u64| offset.checked_add(len as u64).is_some_and(|end| end <= have);
        if inside(pair.outbox_len) && len as usize <= SEGMENT {
            return true;
        }
        if let Some(maps) = &mut pair.cold.mapped {
            if let Err(error) = maps.outbox.extend() {
                self.cut(from, error.into());
                return false;
            }
            pair.outbox_len = maps.outbox.len() as u64;
        } else {
            pair.outbox_len = self.outbox.len() as u64;
        }
        if inside(pair.outbox_len) && len as usize <= SEGMENT {
            return true;
        }
        let fault = Fault::Protocol {
            place: "slot.offset, slot.len",
            expected: format!("at most {SEGMENT} bytes inside an outbox of {}", pair.outbox_len),
            got: format!("{} at {offset}", counted(len, "byte")),
        };
        self.cut(from, fault);
        false
    }

    /// Handles what is not for the sink: one of the fabric's own messages, or none at all. Whether
    /// the next slot is to be read.
    #[cold]
    #[inline(never)]
    pub(super) fn own_message(&mut self, from: PeerId) -> bool {
        let pair = &mut self.pairs[from.index()];
        let (head, place) = match pair.reader.peek() {
            Ok(None) => return false,
            Ok(Some(found)) => found,
            Err(fault) => {
                self.cut(from, fault);
                return false;
            }
        };
        match (head.kind, place) {
            (GOODBYE, PayloadLocation::Slots(0)) => {
                self.cut(from, Fault::Closed);
                false
            }
            (ASSIST, PayloadLocation::Slots(len)) => {
                let mut body = [0; INLINE];
                let mut joint = [0; INLINE];
                pair.reader.payload(len, &mut joint).read(&mut body);
                let pushed = self.transfers.assist(from, pair, &body[..len]);
                pair.reader.advance(slots_for(len), false, pair.consumed());
                if let Err(fault) = pushed {
                    self.cut(from, fault);
                    return false;
                }
                true
            }
            (kind, place) => {
                let fault = Fault::Protocol {
                    place: "slot.kind",
                    expected: format!("below {}, {ASSIST} or {GOODBYE}", Head::KINDS),
                    got: format!("{kind}, {place}"),
                };
                self.cut(from, fault);
                false
            }
        }
    }

    /// Ends all traffic with a peer.
    #[cold]
    pub(crate) fn cut(&mut self, peer: PeerId, fault: Fault) {
        let pair = &mut self.pairs[peer.index()];
        if pair.is_awaited() {
            return self.hang_up(peer, fault);
        }
        if !pair.open {
            return;
        }
        pair.open = false;
        pair.watch(false);
        self.hot.retain(|&p| p != peer);
        if let Some(maps) = &pair.cold.mapped {
            self.watch.remove(peer.0, &maps.link);
        }
        self.transfers.peer_failed(peer, pair, &fault);
        pair.cold.fault = Some(fault);
        self.failed_peers.push(peer);
    }

    /// Takes what lies in rings that are not hot.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep<S: Sink>(&mut self, word: usize, sink: &mut S) -> usize {
        // SAFETY: `word < dirty_words`, inside the inbox.
        let dirty = unsafe { &*self.dirty.add(word) };
        let mut bits = dirty.swap(0, Ordering::SeqCst);
        let mut events = 0;
        while bits != 0 {
            let rank = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if rank >= self.pairs.len() || !self.pairs[rank].open {
                continue;
            }
            let peer = PeerId(rank as u32);
            let taken = self.drain_all(peer, sink);
            events += taken;
            let pair = &mut self.pairs[rank];
            if pair.open && pair.is_ready() {
                pair.mark_dirty();
            }
            pair.cold.heat = pair.cold.heat.saturating_add(taken as u32);
            if pair.open && !pair.hot && pair.cold.heat >= HEAT && self.hot.len() < HOT {
                self.heat_up(peer);
            }
        }
        events
    }

    /// As [`drain`](Self::drain), for where time does not matter.
    #[inline(never)]
    pub(crate) fn drain_all<S: Sink>(&mut self, from: PeerId, sink: &mut S) -> usize {
        self.drain(from, TURN, sink)
    }

    /// Puts another process in the place of a peer with which all traffic has ended.
    pub(crate) fn replace(&mut self, peer: PeerId, pair: PeerLink) {
        debug_assert!(!self.pairs[peer.index()].open);
        self.pairs[peer.index()] = pair;
        if self.pairs.len() <= HOT + 1 {
            self.heat_up(peer);
        }
    }

    /// Whether one more ring can be polled all the time.
    pub(crate) fn has_hot_place(&self) -> bool {
        self.hot.len() < HOT
    }

    pub(crate) fn heat_up(&mut self, peer: PeerId) {
        let pair = &mut self.pairs[peer.index()];
        pair.watch(true);
        pair.cold.heat = 0;
        self.hot.push(peer);
    }

    /// Stops to poll the rings that were idle since the last look, if others wait for a place.
    pub(super) fn cool_down(&mut self) {
        let wanted = self.hot.len() == HOT
            && self.pairs.iter().any(|p| p.open && !p.hot && p.cold.heat >= HEAT);
        if !wanted {
            return;
        }
        let mut cooled = Vec::new();
        self.hot.retain(|&peer| {
            let pair = &mut self.pairs[peer.index()];
            let idle = pair.reader.position() == pair.cold.seen;
            pair.cold.seen = pair.reader.position();
            if idle {
                pair.watch(false);
                cooled.push(peer);
            }
            !idle
        });
        if cooled.is_empty() {
            return;
        }
        crate::wait::fence_writers();
        for peer in cooled {
            let pair = &self.pairs[peer.index()];
            if pair.is_ready() {
                pair.mark_dirty();
            }
        }
    }

    /// Says what ended and moves what is under way.
    #[cold]
    #[inline(never)]
    pub(crate) fn flush_completions<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = Transfers::step(self);
        while let Some((token, result)) = self.transfers.ended.pop_front() {
            sink.moved(token, result);
            events += 1;
        }
        if self.is_calling() {
            events += self.meet_soon();
        }
        let pairs = &self.pairs;
        self.failed_peers.retain(|&peer| {
            let Some(fault) = &pairs[peer.index()].cold.fault else { return true };
            sink.link(peer, link_event(fault));
            events += 1;
            false
        });
        events
    }

    /// Whether a call is under way. A called peer is in `failed_peers`, which every poll checks, so that polls
    /// advance the call.
    #[cold]
    fn is_calling(&self) -> bool {
        self.failed_peers.iter().any(|peer| self.pairs[peer.index()].is_awaited())
    }

    /// Whether there is more to do than to wait for the answer to a call. Such an answer wakes the waiting thread.
    fn is_busy(&self) -> bool {
        let is_end = |peer: &PeerId| !self.pairs[peer.index()].is_awaited();
        self.transfers.busy() || self.failed_peers.iter().any(is_end)
    }

    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        self.transfers.busy() | !self.failed_peers.is_empty()
    }

    /// Whether anything is there to be polled.
    pub(super) fn anything(&self) -> bool {
        // SAFETY: the words of the bitmap lie inside the inbox.
        let dirty = |word| unsafe { &*self.dirty.add(word) }.load(Ordering::Acquire) != 0;
        self.is_busy()
            || self.hot.iter().any(|p| self.pairs[p.index()].is_ready())
            || (0..self.dirty_words).any(dirty)
    }

    /// Empties the eventfd, if anybody waits on it; that it was empty already is no error.
    pub(super) fn silence(&self) {
        if self.fd_wanted.get() {
            wait::empty(self.doorbell.as_fd());
        }
    }

    pub(super) fn armed(&self) -> &AtomicU32 {
        // SAFETY: inside the inbox, which lives as long as the fabric.
        unsafe { &*self.armed }
    }

    /// Reads what came over a peer's socket.
    pub(crate) fn read_socket(&mut self, peer: PeerId) {
        let pair = &mut self.pairs[peer.index()];
        if let Err(fault) = crate::regions::receive(&mut pair.cold) {
            self.cut(peer, fault);
        }
    }
}

/// How the end of the link with a peer is reported.
fn link_event(why: &Fault) -> LinkEvent {
    match why {
        Fault::Closed => LinkEvent::Closed,
        why => LinkEvent::Broken(why.clone()),
    }
}
