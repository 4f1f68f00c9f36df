//! What arrives, and what becomes of it: the state that a fabric's poll works on.
//!
//! Here a message is matched as it comes off the fabric, before its payload is touched. Whatever
//! needs the fabric again (an answer, a read of the sender's memory) becomes an [`Action`], done
//! after the poll.

use super::kind;
use super::log::{Log, Verdict};
use super::peer::{Inflow, Landing, Peer};
use super::request::{ANY, Requests, Slot, Stage};
use super::store::Store;
use crate::{Error, Rank, Status};
use std::collections::VecDeque;
use taffrail_fabric::{Fault, Head, Payload, PeerId, RemoteKey, Sink, Token};
use taffrail_logging::Restart;
use taffrail_matching::{Arrival, Envelope, Matcher};

/// A message that arrived before its receive was posted.
pub(crate) enum Unexpected {
    /// Its bytes are in the store, or on their way there; `sync` names the send to acknowledge.
    Stored { entry: u32, sync: Option<u64> },
    /// It was announced.
    Announced(Announcement),
    /// It is a loan.
    Loan(super::loan::Offer),
}

impl Unexpected {
    /// The name of the send that waits for this to be received, if one does.
    pub(crate) fn waiting_send(&self) -> Option<u64> {
        match self {
            Unexpected::Stored { sync, .. } => *sync,
            Unexpected::Announced(announcement) => Some(announcement.name),
            Unexpected::Loan(_) => None,
        }
    }
}

/// What an announcement says beside the envelope.
#[derive(Clone, Copy)]
pub(crate) struct Announcement {
    /// The send, as its owner names it.
    pub(crate) name: u64,
    /// Where its memory is, if it can be read.
    pub(crate) key: Option<RemoteKey>,
}

/// Something to be done after the poll.
pub(crate) enum Action {
    /// Send a message without payload.
    Answer { to: Rank, head: Head },
    /// Begin to move an announced message that `request` has matched.
    Fetch { request: u32, from: Rank, announcement: Announcement },
    /// Begin to send the pieces of an announced message.
    Stream { request: u32, want: usize, to_name: u64, streaming: bool },
    /// Take a loan that `request` has matched.
    Borrow { request: u32, from: Rank, offer: super::loan::Offer },
    /// A read by the fabric ended.
    Read { token: Token, result: Result<(), Fault> },
    /// Answer a peer's get or put that the fabric cannot do.
    OneSided { from: Rank, head: Head, body: Vec<u8> },
    /// A view or a loaned buffer comes back.
    Returned { loan: u64, from: Rank },
    /// A peer is gone.
    Failed { rank: Rank },
    /// A peer that had died is there again.
    Back { rank: Rank },
    /// A peer says what it has of us.
    Told { from: Rank, restart: Restart },
}

/// An active message whose handler is to be called.
pub(crate) struct Active {
    pub(crate) from: Rank,
    pub(crate) handler: u16,
    pub(crate) header: u64,
    /// Its payload, in the store.
    pub(crate) entry: u32,
}

/// The state that a poll works on.
pub(crate) struct Core {
    pub(crate) matcher: Matcher<u32, Unexpected>,
    pub(crate) requests: Requests,
    pub(crate) peers: Vec<Peer>,
    pub(crate) store: Store,
    pub(crate) actions: VecDeque<Action>,
    /// Actions that there was no room for.
    pub(crate) put_off: VecDeque<Action>,
    pub(crate) active: VecDeque<Active>,
    /// Message logging, if this job has it.
    pub(crate) log: Option<Box<Log>>,
    /// The rank that fell silent last.
    pub(crate) last_gone: Option<Rank>,
    /// Unexpected bytes of one peer above which it is told to announce.
    pub(crate) unexpected_limit: usize,
    /// Bytes that what a peer has sent, and nobody has received, may take of our memory.
    most_held: usize,
}

/// What a message that waits costs beside its bytes.
pub(crate) const EACH: usize = 128;
/// A peer may go on for so long after it was told to announce: more than rings and outboxes hold.
const GRACE: usize = 64 << 20;
/// Answers to a peer that it does not take, at most.
pub(crate) const MOST_ANSWERS: usize = 1 << 18;

impl Core {
    pub(crate) fn new(size: u32, unexpected_limit: usize) -> Self {
        Core {
            matcher: Matcher::new(),
            requests: Requests::default(),
            peers: (0..size).map(|_| Peer::default()).collect(),
            store: Store::default(),
            actions: VecDeque::new(),
            put_off: VecDeque::new(),
            active: VecDeque::new(),
            log: None,
            last_gone: None,
            unexpected_limit,
            most_held: unexpected_limit.saturating_mul(4).saturating_add(GRACE),
        }
    }

    /// Delivers a whole message to the receive it matched.
    #[inline(always)]
    pub(crate) fn deliver(
        &mut self,
        request: u32,
        from: u32,
        tag: u64,
        payload: &Payload<'_>,
        skip: usize,
    ) {
        let slot = self.requests.get(request);
        let len = payload.len() - skip;
        slot.status = Status { source: from, tag, len };
        if slot.extra.is_some() {
            return self.deliver_special(request, payload, skip);
        }
        if skip == 0 {
            // SAFETY: whoever posted the receive vouches for `slot.len` bytes at `slot.at`.
            unsafe { payload.copy_to(slot.at, slot.len) };
        } else {
            // SAFETY: as above.
            unsafe { payload.copy_part(skip, slot.at, len.min(slot.len)) };
        }
        slot.stage = Stage::Done;
        if len > slot.len {
            self.truncated(request);
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

    fn is_multi(&mut self, request: u32) -> bool {
        self.requests.get(request).extra.as_ref().is_some_and(|e| e.multi.is_some())
    }

    /// The request that receives the message a receive has matched: of a multi-receive one of its
    /// own, so that the next message may come.
    fn part(&mut self, request: u32) -> u32 {
        if self.is_multi(request) { super::multi::carve(self, request) } else { request }
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
        slot.stage = Stage::Done;
        let peer = &mut self.peers[slot.status.source as usize];
        if let Some(timed) = peer.timed.take_if(|t| t.request == request) {
            let ns = timed.since.elapsed().as_nanos() as f64;
            peer.ways(timed.mapped).note(timed.len, timed.way, ns);
        }
        if slot.status.len > slot.len {
            self.truncated(request);
        }
        let slot = self.requests.get(request);
        if slot.extra.as_ref().is_some_and(|e| e.part_of.is_some()) {
            super::multi::part_done(self, request);
        }
    }

    #[cold]
    fn truncated(&mut self, request: u32) {
        let slot = self.requests.get(request);
        let Status { source, tag, len } = slot.status;
        let error = match slot.extra.as_ref().is_some_and(|extra| extra.view.is_some()) {
            true => super::view::no_room(len).into(),
            false => Error::Truncated { len, room: slot.len, source_rank: source, tag },
        };
        self.requests.fail(request, error);
    }

    /// Ends an operation with an error; a part of a multi-receive tells its whole.
    pub(crate) fn fail(&mut self, request: u32, error: Error) {
        if self.is_multi(request) {
            return super::multi::end(self, request, error);
        }
        self.requests.fail(request, error);
        for peer in &mut self.peers {
            peer.timed.take_if(|t| t.request == request);
        }
        let slot = self.requests.get(request);
        if slot.extra.as_ref().is_some_and(|e| e.part_of.is_some()) {
            super::multi::part_done(self, request);
        }
    }

    /// Begins a receive of a message that was taken out of the unexpected store.
    pub(crate) fn receive_unexpected(&mut self, request: u32, env: Envelope, found: Unexpected) {
        let slot = self.requests.get(request);
        slot.status = Status { source: env.source, tag: env.tag, len: env.len as usize };
        slot.post = None;
        let peer = &mut self.peers[env.source as usize];
        peer.held -= EACH;
        match found {
            Unexpected::Announced(announcement) => {
                self.announced(request, env.source, announcement);
            }
            Unexpected::Loan(offer) => self.lent(request, env.source, offer),
            Unexpected::Stored { entry, sync } => {
                if let Some(name) = sync {
                    self.acknowledge(env.source, name);
                }
                self.receive_stored(request, env, entry);
            }
        }
    }

    fn receive_stored(&mut self, request: u32, env: Envelope, entry: u32) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        let stored = self.store.get(entry);
        let have = stored.len();
        let payload = Payload::of(stored);
        put(slot, 0, &payload, 0, have.min(slot.len));
        slot.moved = have;
        let peer = &mut self.peers[env.source as usize];
        peer.unexpected_bytes -= env.len as usize;
        peer.held -= env.len as usize;
        if peer.throttled && peer.unexpected_bytes <= self.unexpected_limit / 2 {
            peer.throttled = false;
            self.throttle(env.source, false);
        }
        self.store.release(entry);
        let peer = &mut self.peers[env.source as usize];
        if (have as u64) < env.len {
            match peer.inflow.as_mut().filter(|inflow| inflow.is_into(entry)) {
                Some(inflow) => inflow.landing = Landing::Request(request),
                // Its sender has died, and sends it again.
                None => self.log.iter_mut().for_each(|log| log.redirect(&env, request)),
            }
            self.requests.get(request).stage = Stage::Arriving;
            self.requests.get(request).peer = env.source;
        } else {
            self.complete(request);
        }
    }

    /// A receive has matched an announced message.
    fn announced(&mut self, request: u32, from: Rank, announcement: Announcement) {
        let request = self.land(request);
        let slot = self.requests.get(request);
        slot.stage = Stage::Reading;
        slot.peer = from;
        slot.moved = 0;
        if self.log.is_some() && self.comes_again(request) {
            self.requests.get(request).stage = Stage::Cleared;
            return;
        }
        self.actions.push_back(Action::Fetch { request, from, announcement });
    }

    pub(crate) fn acknowledge(&mut self, to: Rank, name: u64) {
        let head = Head { kind: kind::FINISHED, tag: name, ..Head::default() };
        self.actions.push_back(Action::Answer { to, head });
    }

    fn throttle(&mut self, rank: Rank, on: bool) {
        let head = Head { kind: kind::THROTTLE, seq: on as u32, ..Head::default() };
        self.actions.push_back(Action::Answer { to: rank, head });
    }

    /// Everything that is not a plain message.
    #[inline(never)]
    pub(crate) fn other(
        &mut self,
        from: u32,
        head: Head,
        payload: Payload<'_>,
    ) -> Result<(), Fault> {
        if self.peers[from as usize].fault.is_some() {
            // What a peer says that was cut off a moment ago.
            return Ok(());
        }
        let len = payload.len();
        if head.kind > kind::THROTTLE && self.log.is_none() {
            return Err(broken("kind", "1..=15, since nothing is logged", head.kind));
        }
        kind::check_length(head.kind, len).map_err(|expected| broken("length", expected, len))?;
        match head.kind {
            kind::EAGER_SYNC => self.eager_sync(from, head, &payload),
            kind::FIRST => self.first(from, head, &payload),
            kind::MORE => self.more(from, &payload),
            kind::ANNOUNCE => self.announcement(from, head, &payload),
            kind::LOAN => self.loan(from, head, &payload),
            kind::PIECE => self.piece(from, head, &payload),
            kind::CLEAR => self.clear(from, head, &payload),
            kind::FINISHED => {
                self.finished(from, head.tag, None);
                Ok(())
            }
            kind::NO_MEMORY => {
                let why = Fault::NoSuchMemory("the target knows no such region".into());
                self.finished(from, head.tag, Some(why));
                Ok(())
            }
            kind::ACTIVE => {
                let entry = self.store.put(&payload, 0, payload.len());
                let Head { context: handler, tag: header, .. } = head;
                self.active.push_back(Active { from, handler, header, entry });
                self.peers[from as usize].held += len + EACH;
                self.check_held(from)
            }
            kind::RETURNED => {
                self.actions.push_back(Action::Returned { loan: head.tag, from });
                Ok(())
            }
            kind::ASK | kind::TELL => {
                let body = payload.to_vec();
                self.actions.push_back(Action::OneSided { from, head, body });
                Ok(())
            }
            kind::THROTTLE => {
                self.peers[from as usize].announce_all = head.seq != 0;
                Ok(())
            }
            kind::RESTART => self.restart(from, &payload),
            kind::FAREWELL => {
                self.farewell(from);
                Ok(())
            }
            kind::DETERMINANTS => self.determinants(from, &payload),
            kind::UNRECEIVED => {
                self.unreceived(from, head.tag);
                Ok(())
            }
            other => Err(broken("kind", "1..=19", other)),
        }
    }

    pub(crate) fn envelope(from: u32, head: Head, len: u64) -> Envelope {
        Envelope {
            source: from,
            context: head.context,
            tag: head.tag,
            seq: head.seq,
            len,
            ident: 0,
        }
    }

    /// Stores what arrived of a message that no receive takes yet.
    pub(crate) fn keep(
        &mut self,
        verdict: Verdict,
        env: &Envelope,
        payload: &Payload<'_>,
        skip: usize,
        sync: Option<u64>,
    ) -> u32 {
        let entry = self.store.put(payload, skip, env.len as usize);
        self.store_message(verdict, env, Unexpected::Stored { entry, sync });
        let limit = self.unexpected_limit;
        let peer = &mut self.peers[env.source as usize];
        peer.unexpected_bytes += env.len as usize;
        peer.held += env.len as usize + EACH;
        if peer.unexpected_bytes > limit && !peer.throttled {
            peer.throttled = true;
            self.throttle(env.source, true);
        }
        entry
    }

    /// Stores what a message says whose bytes are still its sender's.
    fn note(&mut self, verdict: Verdict, env: &Envelope, found: Unexpected) {
        self.store_message(verdict, env, found);
        self.peers[env.source as usize].held += EACH;
    }

    /// A peer that goes on sending what nobody receives, though it was asked to announce it, must
    /// not take all memory.
    #[inline]
    pub(crate) fn check_held(&self, from: u32) -> Result<(), Fault> {
        let (held, most) = (self.peers[from as usize].held, self.most_held);
        if held <= most { Ok(()) } else { Err(held_too_much(held, most)) }
    }

    fn eager_sync(&mut self, from: u32, head: Head, payload: &Payload<'_>) -> Result<(), Fault> {
        let name = read_u64(payload, 0).ok_or_else(|| broken("length", ">= 8", payload.len()))?;
        let env = Self::envelope(from, head, payload.len() as u64 - 8);
        match self.arrive(&env)? {
            Verdict::Request(request) => {
                self.deliver(request, from, head.tag, payload, 8);
                self.acknowledge(from, name);
                self.check_held(from)
            }
            verdict => self.eager_unmatched(verdict, &env, payload, 8, Some(name)),
        }
    }

    fn first(&mut self, from: u32, head: Head, payload: &Payload<'_>) -> Result<(), Fault> {
        let len = read_u64(payload, 0).ok_or_else(|| broken("length", ">= 8", payload.len()))?;
        let here = payload.len() - 8;
        if self.peers[from as usize].inflow.is_some() {
            return Err(broken("kind", "MORE, after FIRST", head.kind));
        }
        if len > super::EAGER_LIMIT as u64 || here as u64 >= len {
            return Err(broken("length", format!("{here}..={}", super::EAGER_LIMIT), len));
        }
        let env = Self::envelope(from, head, len);
        let landing = match self.arrive(&env)? {
            Verdict::Request(request) => {
                let slot = self.requests.get(request);
                slot.status = Status { source: from, tag: head.tag, len: len as usize };
                let request = self.land(request);
                let slot = self.requests.get(request);
                slot.stage = Stage::Arriving;
                slot.peer = from;
                slot.moved = here;
                put(slot, 0, payload, 8, here.min(slot.len));
                Landing::Request(request)
            }
            Verdict::Again => self.arrives_again(&env, payload, 8, None)?,
            Verdict::Old => Landing::Nowhere,
            verdict => Landing::Store(self.keep(verdict, &env, payload, 8, None)),
        };
        let (context, seq, len) = (env.context, env.seq, len as usize);
        self.peers[from as usize].inflow = Some(Inflow { landing, context, seq, here, len });
        self.check_held(from)
    }

    fn more(&mut self, from: u32, payload: &Payload<'_>) -> Result<(), Fault> {
        let Some(inflow) = &mut self.peers[from as usize].inflow else {
            return Err(broken("kind", "FIRST before MORE", kind::MORE));
        };
        let at = inflow.here;
        if payload.is_empty() || payload.len() > inflow.len - at {
            return Err(broken("length", format!("1..={}", inflow.len - at), payload.len()));
        }
        inflow.here += payload.len();
        let over = inflow.here == inflow.len;
        match inflow.landing {
            Landing::Waiting(_) | Landing::Nowhere => {}
            Landing::Store(entry) => self.store.append(entry, payload),
            Landing::Request(request) => {
                let slot = self.requests.get(request);
                put_piece(slot, at, payload);
                slot.moved = at + payload.len();
                if over {
                    self.complete(request);
                }
            }
        }
        if over && let Some(inflow) = self.peers[from as usize].inflow.take() {
            self.over(from, &inflow);
        }
        Ok(())
    }

    fn announcement(&mut self, from: u32, head: Head, payload: &Payload<'_>) -> Result<(), Fault> {
        let (Some(len), Some(name)) = (read_u64(payload, 0), read_u64(payload, 8)) else {
            return Err(broken("length", "16 or 40", payload.len()));
        };
        let key = match payload.len() {
            16 => None,
            40 => {
                let mut key = [0; RemoteKey::LEN];
                // SAFETY: the array has room for what is asked.
                unsafe { payload.copy_part(16, key.as_mut_ptr(), key.len()) };
                Some(RemoteKey(key))
            }
            other => return Err(broken("length", "16 or 40", other)),
        };
        let announcement = Announcement { name, key };
        let env = Self::envelope(from, head, len);
        match self.arrive(&env)? {
            Verdict::Request(request) => {
                let slot = self.requests.get(request);
                slot.status = Status { source: from, tag: head.tag, len: len as usize };
                self.announced(request, from, announcement);
            }
            verdict @ (Verdict::Again | Verdict::Old) => {
                if let Some(request) = self.announced_again(verdict, &env, announcement)? {
                    self.announced(request, from, announcement);
                }
            }
            verdict => self.note(verdict, &env, Unexpected::Announced(announcement)),
        }
        self.check_held(from)
    }

    fn loan(&mut self, from: u32, head: Head, payload: &Payload<'_>) -> Result<(), Fault> {
        let Some((len, offer)) = super::loan::Offer::decode(payload) else {
            return Err(broken("length", "40", payload.len()));
        };
        let env = Self::envelope(from, head, len);
        match self.arrive(&env)? {
            Verdict::Request(request) => {
                let slot = self.requests.get(request);
                slot.status = Status { source: from, tag: head.tag, len: len as usize };
                self.lent(request, from, offer);
            }
            Verdict::Again | Verdict::Old => {
                return Err(broken("seq", "no loan a second time", head.seq));
            }
            verdict => self.note(verdict, &env, Unexpected::Loan(offer)),
        }
        self.check_held(from)
    }

    /// A receive has matched a loan.
    fn lent(&mut self, request: u32, from: Rank, offer: super::loan::Offer) {
        // More may match a multi-receive before the loan is taken.
        let request = self.part(request);
        self.actions.push_back(Action::Borrow { request, from, offer });
    }

    /// The operation of ours that a peer means, if it is still the same one and has to do with it.
    pub(crate) fn named(&mut self, from: u32, name: u64) -> Option<(u32, &mut Slot)> {
        let index = name as u32;
        let slot = self.requests.find(index)?;
        let same = slot.generation == (name >> 32) as u32 && slot.peer == from;
        (same && !slot.stage.is_over() && slot.stage != Stage::Free).then_some((index, slot))
    }

    fn piece(&mut self, from: u32, head: Head, payload: &Payload<'_>) -> Result<(), Fault> {
        let Some((request, slot)) = self.named(from, head.tag) else {
            // Of an operation that has failed meanwhile.
            return Ok(());
        };
        let want = match slot.stage {
            Stage::Cleared => slot.status.len.min(slot.len),
            Stage::AskedGet => slot.len,
            // Nobody has asked: these bytes are the fabric's to write, or nobody's.
            _ => slot.moved,
        };
        if payload.is_empty() || payload.len() > want - slot.moved {
            return Err(broken("piece", format!("1..={}", want - slot.moved), payload.len()));
        }
        put_piece(slot, slot.moved, payload);
        slot.moved += payload.len();
        if slot.moved == want {
            match slot.stage {
                Stage::AskedGet => slot.stage = Stage::Done,
                _ => self.complete(request),
            }
        }
        Ok(())
    }

    fn clear(&mut self, from: u32, head: Head, payload: &Payload<'_>) -> Result<(), Fault> {
        let (Some(want), Some(to_name)) = (read_u64(payload, 0), read_u64(payload, 8)) else {
            return Err(broken("length", "16", payload.len()));
        };
        let Some((request, slot)) = self.named(from, head.tag) else { return Ok(()) };
        if slot.stage != Stage::Announced || want > slot.status.len as u64 {
            return Err(broken("clear", format!("at most {} bytes, once", slot.status.len), want));
        }
        slot.stage = Stage::Streaming;
        slot.moved = 0;
        let (want, streaming) = (want as usize, head.seq != 0);
        self.actions.push_back(Action::Stream { request, want, to_name, streaming });
        Ok(())
    }

    fn finished(&mut self, from: u32, name: u64, fault: Option<Fault>) {
        let Some((request, slot)) = self.named(from, name) else { return };
        match (slot.stage, fault) {
            (Stage::Announced | Stage::AskedPut, None) => self.requests.sent(request),
            (Stage::AskedGet | Stage::AskedPut, Some(fault)) => {
                let error = Error::PeerFailed { rank: from, fault };
                self.fail(request, error);
            }
            _ => {}
        }
    }

    /// Ends everything that needs a peer which is gone.
    pub(crate) fn bury(&mut self, rank: u32, fault: Fault) {
        if self.peers[rank as usize].fault.is_some() {
            return;
        }
        let error = Error::PeerFailed { rank, fault: fault.clone() };
        let orphans = self.matcher.fail(rank);
        for request in orphans.receives {
            self.fail(request, error.clone());
        }
        let peer = &mut self.peers[rank as usize];
        peer.fault = Some(fault);
        peer.is_silent = true;
        self.last_gone = Some(rank);
        peer.queue.clear();
        peer.answers = 0;
        peer.streams.clear();
        if let Some(Inflow { landing: Landing::Store(entry), .. }) = peer.inflow.take() {
            self.discard(rank, entry);
        }
        let theirs = |slot: &Slot| slot.peer == rank && slot.stage != Stage::Posted;
        let under_way: Vec<u32> =
            self.requests.under_way().filter(|(_, s)| theirs(s)).map(|(i, _)| i).collect();
        for request in under_way {
            // The fabric reports the end of what reads or writes memory, and only then is it over;
            // what has not begun to read has an action that finds out.
            let slot = self.requests.get(request);
            if !matches!(slot.stage, Stage::Reading | Stage::OneSided) {
                self.fail(request, error.clone());
            }
        }
        self.actions.push_back(Action::Failed { rank });
    }

    /// Drops a message in the store whose rest will never come.
    fn discard(&mut self, rank: u32, entry: u32) {
        let this = |found: &Unexpected| matches!(found, Unexpected::Stored { entry: e, .. } if *e == entry);
        let waiting = self.matcher.unexpected_from(rank).chain(self.matcher.claimed());
        let id = waiting.filter(|(.., found)| this(found)).map(|(id, ..)| id).next();
        if let Some((env, _)) = id.and_then(|id| self.matcher.take_message(id)) {
            let peer = &mut self.peers[rank as usize];
            peer.unexpected_bytes -= env.len as usize;
            peer.held -= env.len as usize + EACH;
            self.store.release(entry);
        }
    }
}

impl Core {
    /// The answers under way to a rank that nobody here waits for.
    pub(crate) fn detached_of(&mut self, rank: u32) -> Vec<u32> {
        let theirs =
            |slot: &Slot| slot.peer == rank && slot.extra.as_ref().is_some_and(|e| e.detached);
        self.requests.ended().filter(|(_, slot)| theirs(slot)).map(|(index, _)| index).collect()
    }

    /// Whether every rank but `me` sends nothing any more.
    pub(crate) fn everybody_is_silent(&self, me: Rank) -> bool {
        (0..).zip(&self.peers).all(|(rank, peer)| rank == me || peer.is_silent)
    }

    /// The error of what waits for a rank that is gone, or whose program is over.
    pub(crate) fn silence(&self, rank: Rank) -> Error {
        let fault = self.peers[rank as usize].fault.clone();
        Error::PeerFailed { rank, fault: fault.unwrap_or(Fault::Closed) }
    }

    /// The receives from any source that no message has matched.
    pub(crate) fn any_source_receives(&self) -> Vec<u32> {
        let open =
            |slot: &Slot| slot.stage == Stage::Posted && slot.peer == ANY && slot.post.is_some();
        self.requests.under_way().filter(|(_, slot)| open(slot)).map(|(i, _)| i).collect()
    }

    /// Takes a receive out of the queue.
    pub(crate) fn cancel_post(&mut self, request: u32) {
        if let Some(post) = self.requests.get(request).post.take() {
            self.matcher.cancel(post);
        }
    }
}

impl Sink for Core {
    #[inline(always)]
    fn message(&mut self, from: PeerId, head: Head, payload: Payload<'_>) {
        if head.kind == kind::EAGER {
            let env = Self::envelope(from.0, head, payload.len() as u64);
            match self.matcher.arrive(&env) {
                Arrival::Matched(request) => {
                    return self.deliver(request, from.0, head.tag, &payload, 0);
                }
                Arrival::Unmatched => {
                    if self.peers[from.index()].fault.is_none() {
                        self.keep(Verdict::Nobody, &env, &payload, 0, None);
                        if let Err(fault) = self.check_held(from.0) {
                            self.distrust(from.0, fault);
                        }
                    }
                    return;
                }
                Arrival::Early { .. } | Arrival::Old { .. } => {
                    let expected = self.matcher.expected(from.0, head.context);
                    return self.distrust(from.0, broken("seq", expected, head.seq));
                }
            }
        }
        if let Err(fault) = self.other(from.0, head, payload) {
            self.distrust(from.0, fault);
        }
    }

    fn completed(&mut self, token: Token, result: Result<(), Fault>) {
        self.actions.push_back(Action::Read { token, result });
    }

    fn failed(&mut self, peer: PeerId, why: Fault) {
        self.bury(peer.0, why);
    }
}

impl Core {
    /// A peer has broken the protocol above the fabric: nothing of it is believed any more.
    #[cold]
    pub(crate) fn distrust(&mut self, rank: u32, fault: Fault) {
        if self.peers[rank as usize].fault.is_none() {
            tracing::warn!(rank, %fault, "cut off");
            self.bury(rank, fault);
        }
    }
}

impl Core {
    /// Receives `want` bytes of a message to ourselves: those of our own send with this name. What the
    /// announcement says of their place is not looked at, since others can write to our ring.
    pub(crate) fn copy_own(&mut self, request: u32, name: u64, want: usize) {
        let rank = self.requests.get(request).peer;
        let send = self.named(rank, name).filter(|(_, slot)| slot.stage == Stage::Announced);
        let Some((send, slot)) = send.filter(|(_, slot)| slot.len >= want) else {
            let fault = broken("announcement", "a send under way", name);
            return self.fail(request, Error::PeerFailed { rank, fault });
        };
        let mut parts = Vec::new();
        super::send::gather(slot, 0, want, |part| parts.push(part));
        let slot = self.requests.get(request);
        let mut at = 0;
        for part in parts {
            put_piece(slot, at, &Payload::of(part));
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
            // SAFETY: whoever posted the receive vouches for each of its parts.
            unsafe { payload.copy_part(skip, to.add(at), now) };
            (at, skip, left) = (0, skip + now, left - now);
            if left == 0 {
                break;
            }
        }
        return;
    }
    if len > 0 {
        // SAFETY: whoever posted the receive vouches for `slot.len` bytes at `slot.at`.
        unsafe { payload.copy_part(skip, slot.at.add(at), len) };
    }
}

/// Copies a whole piece to where byte `at` of a receive belongs.
fn put_piece(slot: &mut Slot, at: usize, payload: &Payload<'_>) {
    put(slot, at, payload, 0, payload.len());
}

pub(crate) fn read_u64(payload: &Payload<'_>, at: usize) -> Option<u64> {
    if payload.len() < at + 8 {
        return None;
    }
    let mut bytes = [0; 8];
    // SAFETY: the array has room for what is asked, and the payload holds it.
    unsafe { payload.copy_part(at, bytes.as_mut_ptr(), 8) };
    Some(u64::from_le_bytes(bytes))
}

#[cold]
fn held_too_much(held: usize, most: usize) -> Fault {
    let expected = format!(
        "at most {most} bytes that no receive takes; if the program means this, raise \
         TAFFRAIL_UNEXPECTED"
    );
    broken("unexpected messages", expected, held)
}

/// The fault of a peer that asks without reading the answers.
#[cold]
pub(crate) fn answers_not_taken() -> Fault {
    broken("answers not taken", format!("at most {MOST_ANSWERS}"), MOST_ANSWERS + 1)
}

pub(crate) fn broken(place: &'static str, expected: impl ToString, got: impl ToString) -> Fault {
    Fault::Protocol { place, expected: expected.to_string(), got: got.to_string() }
}
