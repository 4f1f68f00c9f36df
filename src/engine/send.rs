//! How a message leaves.

use super::core::{MOST_ANSWERS, answers_not_taken};
use super::kind;
use super::loan::{Buffer, Offer};
use super::peer::{Queued, Stream, Waiting};
use super::request::{Slot, Stage};
use crate::{Dest, Endpoint, Error, Rank, Request, Status};
use std::io::IoSlice;
use taffrail_fabric::{Fabric, Fault, Head, PeerId, Reach, Refused, Source, UserBytes};

/// Bytes sent without asking between two looks at what has arrived.
const LISTEN_EVERY: usize = 1 << 20;

impl Endpoint {
    /// Checks that a message may go to `to`.
    #[inline]
    pub(crate) fn check_dest(&self, to: &Dest) -> Result<(), Error> {
        if !self.line.is_parent() {
            return Err(Error::UsedAfterFork);
        }
        match self.core.peers.get(to.rank as usize) {
            Some(peer) if peer.fault.is_none() => Ok(()),
            _ => Err(self.no_dest(to.rank)),
        }
    }

    #[cold]
    fn no_dest(&self, rank: Rank) -> Error {
        match self.core.peers.get(rank as usize).and_then(|p| p.fault.clone()) {
            Some(fault) => Error::PeerFailed { rank, fault },
            None => Error::NoSuchRank { rank, size: self.size() },
        }
    }

    /// Whether a message of `len` bytes may leave whole, at once.
    #[inline]
    fn is_short(&self, to: &Dest, len: usize) -> bool {
        let peer = &self.core.peers[to.rank as usize];
        len <= self.short
            && peer.queue.is_empty()
            && (!peer.announce_all || len <= self.line.limits(PeerId(to.rank)).inline)
    }

    /// Hands a short message to the fabric. `false` when there is no room now.
    #[inline]
    pub(crate) fn send_now(&mut self, to: &Dest, data: &[u8]) -> Result<bool, Error> {
        self.listen(to, data.len())?;
        if !self.is_short(to, data.len()) {
            return Ok(false);
        }
        let Some(context) = self.core.immediate.word(to.context, to.data) else {
            return Ok(false);
        };
        let seq = self.channels.next(to.rank, to.context);
        let head = Head { kind: kind::EAGER, context, seq: *seq, tag: to.tag };
        match self.line.send(PeerId(to.rank), head, Source::Bytes(data)) {
            Ok(_) => {
                *seq = seq.wrapping_add(1);
                Ok(true)
            }
            Err(refused) => self.not_now(to.rank, refused),
        }
    }

    /// Hands as much of an eager message of several pieces to the fabric as there is room for: its head,
    /// and how many bytes have left. `None`: none, or it leaves otherwise.
    #[inline(never)]
    fn send_pieces(&mut self, to: &Dest, data: &[u8]) -> Result<Option<(Head, usize)>, Error> {
        let peer = &self.core.peers[to.rank as usize];
        if data.len() <= self.piece
            || data.len() > self.settings.eager_max
            || peer.announce_all
            || !peer.queue.is_empty()
        {
            return Ok(None);
        }
        let Some(context) = self.core.immediate.word(to.context, to.data) else { return Ok(None) };
        let (peer, seq) = (PeerId(to.rank), self.channels.next(to.rank, to.context));
        let head = Head { kind: kind::FIRST, context, seq: *seq, tag: to.tag };
        let whole = (data.len() as u64).to_le_bytes();
        let (first, rest) = data.split_at(self.piece);
        if let Err(refused) = self.line.send(peer, head, Source::Parts(&[&whole, first])) {
            return self.not_now(to.rank, refused).map(|_| None);
        }
        *seq = seq.wrapping_add(1);
        let more = Head { kind: kind::MORE, ..Head::default() };
        // What finds no room waits in the queue, as does the rest for a peer that has failed.
        let left = rest
            .chunks(self.piece)
            .take_while(|piece| self.line.send(peer, more, Source::Bytes(piece)).is_ok());
        let sent = first.len() + left.map(<[u8]>::len).sum::<usize>();
        Ok(Some((head, sent)))
    }

    /// Whoever sends much without asking listens now and then, too: the receiver may want to be
    /// asked.
    #[inline]
    pub(crate) fn listen(&mut self, to: &Dest, len: usize) -> Result<(), Error> {
        if len > self.line.limits(PeerId(to.rank)).inline {
            self.unheard += len;
            if self.unheard > LISTEN_EVERY {
                self.unheard = 0;
                self.turn();
                // Its failure may be what was heard, and what is started after that nobody ends.
                return self.check_dest(to);
            }
        }
        Ok(())
    }

    #[cold]
    fn not_now(&mut self, rank: Rank, refused: Refused) -> Result<bool, Error> {
        match refused {
            // This rank falls back with it.
            Refused::Failed(fault) if self.core.comes_back(&fault) => Ok(false),
            Refused::Failed(Fault::Vacant) => Err(Error::NoSuchRank { rank, size: self.size() }),
            Refused::Failed(fault) => Err(Error::PeerFailed { rank, fault }),
            _ => Ok(false),
        }
    }

    /// Starts a send.
    ///
    /// # Safety
    /// `len` bytes at `data` stay readable and unchanged until the request is finished.
    pub(crate) unsafe fn start_send(
        &mut self,
        to: Dest,
        data: *const u8,
        len: usize,
        sync: bool,
    ) -> Result<u32, Error> {
        self.check_dest(&to)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(data, len) };
        let leaves_the_set = self.leaves_the_set(to.rank);
        if !sync && leaves_the_set {
            self.log_and_send(&to, &[bytes], len, None)?;
            self.listen(&to, len)?;
            return Ok(self.sent(&to, len));
        }
        let begun = match sync {
            true => None,
            false if self.send_now(&to, bytes)? => return Ok(self.sent(&to, len)),
            false => self.send_pieces(&to, bytes)?,
        };
        if begun.is_some_and(|(_, sent)| sent == len) {
            return Ok(self.sent(&to, len));
        }
        self.check_taken(to.rank)?;
        let request = self.core.requests.start(Stage::Queued, to.rank, data.cast_mut(), len);
        self.core.requests.get(request).status = sent_status(&to, len);
        if let Some((head, sent)) = begun {
            self.enqueue(to.rank, Queued::Eager { head, request, sent });
            return Ok(request);
        }
        if !leaves_the_set {
            self.queue_send(request, to, sync);
            return Ok(request);
        }
        let slot = self.core.requests.get(request);
        slot.stage = Stage::Announced;
        let name = slot.name(request);
        if let Err(error) = self.log_and_send(&to, &[bytes], len, Some(name)) {
            self.core.fail(request, error);
        }
        Ok(request)
    }

    /// Starts a send gathered from several places.
    ///
    /// # Safety
    /// As [`start_send`](Self::start_send), for each slice; the list itself is not kept.
    pub(crate) unsafe fn start_send_vectored(
        &mut self,
        to: Dest,
        data: &[IoSlice<'_>],
    ) -> Result<u32, Error> {
        self.check_dest(&to)?;
        let len = data.iter().map(|d| d.len()).sum();
        if self.leaves_the_set(to.rank) {
            let parts: Vec<&[u8]> = data.iter().map(|d| &**d).collect();
            self.log_and_send(&to, &parts, len, None)?;
            return Ok(self.sent(&to, len));
        }
        self.listen(&to, len)?;
        let word = self.core.immediate.word(to.context, to.data);
        if let Some(context) = word.filter(|_| self.is_short(&to, len)) {
            let parts: Vec<&[u8]> = data.iter().map(|d| &**d).collect();
            let seq = self.channels.next(to.rank, to.context);
            let head = Head { kind: kind::EAGER, context, seq: *seq, tag: to.tag };
            match self.line.send(PeerId(to.rank), head, Source::Parts(&parts)) {
                Ok(_) => {
                    *seq = seq.wrapping_add(1);
                    return Ok(self.sent(&to, len));
                }
                Err(refused) => drop(self.not_now(to.rank, refused)?),
            }
        }
        self.check_taken(to.rank)?;
        let request = self.core.requests.start(Stage::Queued, to.rank, std::ptr::null_mut(), len);
        let slot = self.core.requests.get(request);
        slot.status = sent_status(&to, len);
        slot.extra().parts = data.iter().map(|d| (d.as_ptr().cast_mut(), d.len())).collect();
        self.queue_send(request, to, false);
        Ok(request)
    }

    /// A request for a message that has left already.
    #[inline]
    fn sent(&mut self, to: &Dest, len: usize) -> u32 {
        self.core.requests.start_sent(sent_status(to, len))
    }

    /// Gives a message its number and its protocol, and puts it in the queue.
    #[inline(never)]
    fn queue_send(&mut self, request: u32, to: Dest, sync: bool) {
        let seq = self.channels.next(to.rank, to.context);
        let word = self.core.immediate.word(to.context, to.data);
        let context = word.unwrap_or(to.context);
        // Data for which the word has no room.
        let data = to.data.get().filter(|_| word.is_none());
        let head = Head { kind: kind::EAGER, context, seq: *seq, tag: to.tag };
        *seq = seq.wrapping_add(1);
        let inline = self.line.limits(PeerId(to.rank)).inline;
        let slot = self.core.requests.get(request);
        let len = slot.len;
        let eager_max = match self.core.peers[to.rank as usize].announce_all {
            true => inline - 8,
            false if sync || data.is_some() => self.settings.eager_max.min(self.piece - 8),
            false => self.settings.eager_max,
        };
        if len > eager_max || sync && data.is_some() {
            let announcement = self.announcement(to.rank, request, head, data);
            return self.enqueue(to.rank, announcement);
        }
        let name = slot.name(request);
        let with_front = |front: u64, slot: &Slot| {
            let mut body = front.to_le_bytes().to_vec();
            gather(slot, 0, len, |part| body.extend_from_slice(part));
            body
        };
        let queued = match data {
            _ if sync => {
                slot.stage = Stage::Announced;
                let head = Head { kind: kind::EAGER_SYNC, ..head };
                Queued::Small { head, body: with_front(name, slot), request: None }
            }
            Some(data) => {
                let head = Head { kind: kind::EAGER_DATA, ..head };
                let body = with_front(data.into(), slot);
                Queued::Small { head, body, request: Some(request) }
            }
            None => Queued::Eager { head, request, sent: 0 },
        };
        self.enqueue(to.rank, queued);
    }

    /// The announcement of a message, with data in front if the word of its context has no room for them.
    pub(crate) fn announcement(
        &mut self,
        to: Rank,
        request: u32,
        head: Head,
        data: Option<u32>,
    ) -> Queued {
        let slot = self.core.requests.get(request);
        let (len, at) = (slot.len, slot.at);
        // What is logged comes out of the log, as long as its sender lives.
        let logged = self.core.log.as_ref().is_some_and(|log| !log.is_fellow(to));
        let key = if at.is_null() || logged { None } else { self.key_for(to, at, len) };
        let slot = self.core.requests.get(request);
        slot.stage = Stage::Announced;
        let mut body = data.map_or(Vec::new(), |data| u64::from(data).to_le_bytes().to_vec());
        body.extend_from_slice(&(len as u64).to_le_bytes());
        body.extend_from_slice(&slot.name(request).to_le_bytes());
        if let Some(key) = key {
            body.extend_from_slice(key.as_bytes());
        }
        let kind = if data.is_some() { kind::ANNOUNCE_DATA } else { kind::ANNOUNCE };
        Queued::Small { head: Head { kind, ..head }, body, request: None }
    }

    /// The key of a message's memory: of a region, if it is in one of the pool's.
    fn key_for(
        &mut self,
        to: Rank,
        at: *const u8,
        len: usize,
    ) -> Option<taffrail_fabric::RemoteKey> {
        if let Some((region, offset)) = self.pool.find(at, len)
            && let Ok(key) = self.line.key(PeerId(to), region, offset)
        {
            return Some(key);
        }
        // SAFETY: whoever started the send vouches for its memory until it is finished, and then no peer reads it.
        let bytes = unsafe { UserBytes::new(at, len) };
        self.line.bare_key(PeerId(to), bytes)
    }

    /// Sends a buffer away.
    pub(crate) fn start_loan(&mut self, to: Dest, buffer: Buffer) -> Result<(), Error> {
        self.check_dest(&to)?;
        if self.leaves_the_set(to.rank) {
            // The log has it from now on, and the buffer is free again.
            return self.log_and_send(&to, &[&buffer], buffer.len(), None);
        }
        let key = {
            let block = buffer.block();
            self.line.key(PeerId(to.rank), block.region, block.offset)?
        };
        let word = self.core.immediate.word(to.context, to.data);
        let Some(context) =
            word.filter(|_| self.line.reach(PeerId(to.rank), &key) == Reach::Mapped)
        else {
            self.send_buffer(to, buffer);
            return Ok(());
        };
        let (block, len) = buffer.into_parts();
        self.last_loan += 1;
        let loan = self.last_loan;
        let body = Offer { loan, key }.encode(len as u64);
        self.loans.insert(loan, (to.rank, block));
        let seq = self.channels.next(to.rank, to.context);
        let head = Head { kind: kind::LOAN, context, seq: *seq, tag: to.tag };
        *seq = seq.wrapping_add(1);
        self.post_small(to.rank, head, &body);
        Ok(())
    }

    /// Sends a copy of a message that could not leave at once.
    #[cold]
    pub(crate) fn send_copy(&mut self, to: Dest, data: &[u8]) -> Result<(), Error> {
        self.check_taken(to.rank)?;
        let mut buffer = self.alloc(data.len())?;
        buffer.copy_from_slice(data);
        self.send_buffer(to, buffer);
        Ok(())
    }

    /// Sends what is in a buffer, which then goes back to the pool.
    #[cold]
    fn send_buffer(&mut self, to: Dest, mut buffer: Buffer) {
        let (at, len) = (buffer.as_mut_ptr(), buffer.len());
        let request = self.core.requests.start(Stage::Queued, to.rank, at, len);
        let slot = self.core.requests.get(request);
        slot.status = sent_status(&to, len);
        slot.extra().detached = true;
        slot.extra().buffer = Some(buffer);
        self.queue_send(request, to, false);
    }

    /// Sends a message that is complete in itself, now or when there is room.
    pub(crate) fn post_small(&mut self, to: Rank, head: Head, body: &[u8]) {
        if self.core.peers[to as usize].fault.is_some() {
            return;
        }
        let Some(ticket) = self.gate_ticket(to, head.kind) else { return };
        let is_free = ticket.is_free();
        if is_free && self.core.peers[to as usize].queue.is_empty() {
            match self.line.send(PeerId(to), head, Source::Bytes(body)) {
                Ok(_) => return,
                // The fabric reports the end of the peer by itself.
                Err(Refused::Failed(_)) => return,
                Err(_) => {}
            }
        }
        let peer = &mut self.core.peers[to as usize];
        let weight = if is_free { kind::weight(head.kind, body.len()) } else { 0 };
        let frame = Queued::Small { head, body: body.to_vec(), request: None };
        if head.kind != kind::THROTTLE {
            if peer.answers + weight > MOST_ANSWERS {
                return self.core.distrust(to, answers_not_taken());
            }
            peer.answers += weight;
            return self.enqueue_waiting(to, Waiting { ticket, weight, frame });
        }
        // A peer that sends too much is told at once, and what it was told last counts.
        match peer.front_mut() {
            Some(Queued::Small { head: front, .. }) if front.kind == kind::THROTTLE => {
                *front = head
            }
            _ => {
                peer.answers += weight;
                peer.queue.push_front(Waiting { ticket, weight, frame });
            }
        }
        self.owe(to);
    }

    /// Puts something in a peer's queue that waits for room only, and sends what there is room for.
    pub(crate) fn enqueue(&mut self, to: Rank, frame: Queued) {
        self.enqueue_waiting(to, Waiting::free(frame));
    }

    /// Puts something in a peer's queue, and sends what there is room for.
    pub(crate) fn enqueue_waiting(&mut self, to: Rank, waiting: Waiting) {
        self.core.peers[to as usize].queue.push_back(waiting);
        self.owe(to);
        self.flush_peer(to);
    }

    /// Puts a peer on the list of those that something waits for.
    pub(crate) fn owe(&mut self, to: Rank) {
        if !self.owing.contains(&to) {
            self.owing.push(to);
        }
    }

    /// Begins to send the pieces of a message.
    pub(crate) fn start_stream(&mut self, to: Rank, stream: Stream) {
        self.core.peers[to as usize].streams.push_back(stream);
        self.owe(to);
        self.flush_peer(to);
    }

    /// Sends what waits, as far as there is room. Returns how many messages left.
    pub(crate) fn flush(&mut self) -> usize {
        let mut left = 0;
        let mut k = 0;
        while k < self.owing.len() {
            let to = self.owing[k];
            left += self.flush_peer(to);
            let peer = &self.core.peers[to as usize];
            if peer.queue.is_empty() && peer.streams.is_empty() {
                self.owing.swap_remove(k);
            } else {
                k += 1;
            }
        }
        left
    }

    pub(crate) fn flush_peer(&mut self, to: Rank) -> usize {
        let mut left = 0;
        while !self.core.peers[to as usize].queue.is_empty() {
            if self.core.log.is_some() && !self.passes_gate(to) {
                return left;
            }
            self.obey(to);
            if self.send_front(to) {
                left += 1;
            } else if !self.core.peers[to as usize].queue.is_empty() {
                return left;
            }
        }
        while !self.core.peers[to as usize].streams.is_empty() {
            if !self.send_piece(to) {
                return left;
            }
            left += 1;
        }
        left
    }

    /// Announces the message at the front of the queue, if the peer has asked for that meanwhile.
    fn obey(&mut self, to: Rank) {
        if self.core.log.is_some() {
            self.obey_logged(to);
        }
        let peer = &self.core.peers[to as usize];
        let Some(&Queued::Eager { head, request, sent: 0 }) = peer.front() else { return };
        if !peer.announce_all
            || self.core.requests.get(request).len <= self.line.limits(PeerId(to)).inline
        {
            return;
        }
        let announcement = self.announcement(to, request, head, None);
        self.core.peers[to as usize].queue[0].frame = announcement;
    }

    /// Sends the front of a peer's queue, or its next piece. `false` when there is no room.
    fn send_front(&mut self, to: Rank) -> bool {
        let piece = self.piece;
        if let Some(Queued::Logged(_)) = self.core.peers[to as usize].front() {
            return self.send_front_logged(to);
        }
        let core = &mut self.core;
        let Some(front) = core.peers[to as usize].front_mut() else { return false };
        let (result, over, request) = match front {
            Queued::Logged(_) | Queued::Page(_) => return false,
            Queued::Small { head, body, request } => {
                (self.line.send(PeerId(to), *head, Source::Bytes(body)), true, *request)
            }
            Queued::Eager { head, request, sent } => {
                let slot = core.requests.get(*request);
                let now = (slot.len - *sent).min(piece);
                let whole = (slot.len as u64).to_le_bytes();
                let over = *sent + now == slot.len;
                let mut parts: Vec<&[u8]> = Vec::with_capacity(4);
                let head = match *sent {
                    0 if over => *head,
                    0 => {
                        parts.push(&whole);
                        Head { kind: kind::FIRST, ..*head }
                    }
                    _ => Head { kind: kind::MORE, ..Head::default() },
                };
                gather(slot, *sent, now, |part| parts.push(part));
                let result = match parts[..] {
                    [one] => self.line.send(PeerId(to), head, Source::Bytes(one)),
                    _ => self.line.send(PeerId(to), head, Source::Parts(&parts)),
                };
                if result.is_ok() {
                    *sent += now;
                }
                (result, over, Some(*request))
            }
        };
        match result {
            Ok(_) if over => {
                core.peers[to as usize].pop_front();
                if let Some(request) = request {
                    core.requests.sent(request);
                }
                true
            }
            Ok(_) => true,
            // A failed peer's queue is cleared when the fabric reports it.
            Err(_) => false,
        }
    }

    /// Sends the next piece of a peer's first stream. `false` when there is no room.
    fn send_piece(&mut self, to: Rank) -> bool {
        let piece = self.long_piece;
        let core = &mut self.core;
        let front = core.peers[to as usize].streams.front();
        let Some(&Stream { request, want, to_name, streaming }) = front else { return false };
        self.line.non_temporal(PeerId(to), streaming);
        let slot = core.requests.get(request);
        let now = (want - slot.moved).min(piece);
        let head = Head { kind: kind::PIECE, tag: to_name, ..Head::default() };
        let kept = slot.extra.as_ref().and_then(|extra| extra.kept);
        let sent = if let (Some(place), Some(log)) = (kept, &mut core.log) {
            log.send_piece(&mut self.line, to, head, place + slot.moved as u64, now)
        } else if slot.at.is_null() {
            let mut parts: Vec<&[u8]> = Vec::with_capacity(4);
            gather(slot, slot.moved, now, |part| parts.push(part));
            self.line.send(PeerId(to), head, Source::Parts(&parts)).is_ok().then_some(now)
        } else {
            // SAFETY: whoever started the send vouches for its memory until it is finished.
            let bytes = unsafe { bytes(slot.at.add(slot.moved), now) };
            self.line.send(PeerId(to), head, Source::Bytes(bytes)).is_ok().then_some(now)
        };
        let Some(now) = sent else { return false };
        let slot = self.core.requests.get(request);
        slot.moved += now;
        if slot.moved == want {
            self.core.peers[to as usize].streams.pop_front();
            self.core.requests.sent(request);
        }
        true
    }

    /// Blocking send of a message that could not leave at once.
    #[inline(never)]
    pub(crate) fn send_slowly(&mut self, to: Dest, data: &[u8], sync: bool) -> Result<(), Error> {
        // SAFETY: the borrow lasts until the wait is over, and the wait ends the request.
        let request = unsafe { self.start_send(to, data.as_ptr(), data.len(), sync)? };
        self.wait_for(request).map(drop)
    }

    /// The handle of a request.
    pub(crate) fn handle(&self, request: u32) -> Request {
        self.core.requests.handle(request)
    }
}

/// What a send says at its end.
fn sent_status(to: &Dest, len: usize) -> Status {
    Status { source: to.rank, tag: to.tag, len, data: to.data }
}

/// The bytes at `at`; none for a null pointer.
///
/// # Safety
/// As `slice::from_raw_parts`, but for `len` 0, with which any pointer is good.
pub(crate) unsafe fn bytes<'a>(at: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, len) }
}

/// Shows `f` the `len` bytes from `from` on of what a send sends, in order.
pub(crate) fn gather<'a>(slot: &Slot, from: usize, len: usize, mut f: impl FnMut(&'a [u8])) {
    let whole = [(slot.at, slot.len)];
    let parts: &[(*mut u8, usize)] = match &slot.extra {
        Some(extra) if !extra.parts.is_empty() => &extra.parts,
        _ => &whole,
    };
    let (mut skip, mut left) = (from, len);
    for &(at, room) in parts {
        if skip >= room {
            skip -= room;
            continue;
        }
        let now = left.min(room - skip);
        // SAFETY: whoever started the send vouches for each of its parts until it is finished.
        f(unsafe { bytes(at.add(skip), now) });
        (skip, left) = (0, left - now);
        if left == 0 {
            return;
        }
    }
    if len == 0 {
        f(&[]);
    }
}
