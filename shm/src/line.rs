//! The line: the [`Fabric`] between processes of one node.

use crate::copy;
use crate::fork_guard::ForkGuard;
use crate::layout::Layout;
use crate::mailbox::MAIL;
use crate::memory::Shared;
use crate::outbox::{SEGMENT, Window};
use crate::pair::Pair;
use crate::regions::Regions;
use crate::rejoin::Door;
use crate::ring::{INLINE, LEAD, POOLED, Place, Word, slots_for};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::transfer::Transfers;
use crate::wait::{self, ON_FD, ON_FUTEX};
use crate::watch::{Event, Watch};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;
use taffrail_fabric::{
    Arming, Caps, Cost, Denied, Fabric, Fault, Head, Keep, MemoryError, Payload, PeerId, Refused,
    RegionId, RemoteKey, SegmentId, Sink, Token,
};

/// Bytes of the outbox whose lines are fetched for the next message while this one is read.
pub(crate) const OWN_AHEAD: usize = 16384;

/// The fabric's own kinds of messages.
pub(crate) const ASSIST: u8 = 64;
const GOODBYE: u8 = 65;

/// Rings polled all the time, at most.
const HOT: usize = 8;
/// Messages over a cold ring that make it hot, if there is a place.
const HEAT: u32 = 16;
/// More than a ring holds.
pub(crate) const MOST_SLOTS: usize = 512;
/// Messages taken from one ring before the next has its turn.
const TURN: usize = 32;

/// Whether a message of this kind is for the sink.
#[inline]
fn is_message(kind: u8) -> bool {
    kind < Head::KINDS
}

/// What bytes cost on this host; see [`Config::costs`](crate::Config).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Through the outbox: two copies, overlapped.
    pub outbox: Cost,
    /// The same, copied past the caches.
    pub streaming: Cost,
    /// Out of the peer's memory by the kernel, both sides moving.
    pub kernel: Cost,
    /// Out of the peer's mapped memory.
    pub mapped: Cost,
    /// Bytes of a piece of a long message.
    pub piece: usize,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            outbox: Cost::linear(300.0, 24.0),
            streaming: Cost::linear(450.0, 16.0),
            kernel: Cost::linear(1500.0, 20.0),
            mapped: Cost::linear(200.0, 28.0),
            piece: 16 * 1024,
        }
    }
}

/// The fabric between the processes of one node. Made by [`Setup`](crate::Setup).
pub struct Line {
    pub(crate) me: PeerId,
    pub(crate) pairs: Vec<Pair>,
    /// Peers whose rings are polled all the time.
    hot: Vec<PeerId>,
    pub(crate) window: Window,
    pub(crate) transfers: Transfers,
    /// Peers whose end is not yet said.
    endings: Vec<PeerId>,
    armed: *const AtomicU32,
    dirty: *const AtomicU64,
    dirty_words: usize,
    pub(crate) outbox: Shared,
    pub(crate) regions: Regions,
    caps: Caps,
    pub(crate) costs: Costs,
    pub(crate) watch: Watch,
    events: Vec<(u32, Event)>,
    pub(crate) doorbell: OwnedFd,
    /// Somebody asked for the descriptor, so waits have to make it readable.
    fd_wanted: Cell<bool>,
    fork_guard: ForkGuard,
    pub(crate) inbox: Shared,
    pub(crate) layout: Layout,
    /// Where ranks that were started again come in, if they may be.
    pub(crate) door: Option<Door>,
    /// What peers look for in our memory when they try whether they can read it.
    _cookie: Box<u64>,
}

// SAFETY: the pointers lead into mappings owned by the line itself, and the line is used by one
// thread at a time.
unsafe impl Send for Line {}

/// What [`Setup`](crate::Setup) has put together.
pub(crate) struct Parts {
    pub(crate) me: PeerId,
    pub(crate) door: Option<Door>,
    pub(crate) layout: Layout,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) inbox: Shared,
    pub(crate) outbox: Shared,
    /// Segments of the outbox that may be kept from the beginning.
    pub(crate) kept: usize,
    pub(crate) doorbell: OwnedFd,
    pub(crate) watch: Watch,
    pub(crate) costs: Costs,
    pub(crate) fork_guard: ForkGuard,
    pub(crate) cookie: Box<u64>,
}

impl Line {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            me,
            door,
            layout,
            pairs,
            inbox,
            outbox,
            kept,
            doorbell,
            watch,
            costs,
            fork_guard,
            cookie,
        } = parts;
        // SAFETY: both words lie inside the layout, which is the inbox's size.
        let (armed, dirty) = unsafe {
            (inbox.as_ptr().add(layout.armed()).cast(), inbox.as_ptr().add(layout.dirty(0)).cast())
        };
        let segments = |bytes: usize| (bytes / SEGMENT) as u32;
        let count = segments(outbox.len()) - kept as u32;
        let mut window = Window::new(count, segments(outbox.limit()));
        window.add(kept as u32);
        let mut line = Line {
            me,
            pairs,
            hot: Vec::with_capacity(HOT),
            window,
            transfers: Transfers::default(),
            endings: Vec::new(),
            armed,
            dirty,
            dirty_words: layout.dirty_words(),
            outbox,
            regions: Regions::default(),
            caps: Caps {
                name: "shm",
                max_message: SEGMENT,
                inline: INLINE,
                ordered: true,
                maps: true,
                // What the kernel reads and writes for a peer, it does not ask us about.
                guards: false,
                piece: costs.piece.clamp(4096, SEGMENT),
            },
            costs,
            watch,
            events: Vec::new(),
            doorbell,
            fd_wanted: Cell::new(false),
            fork_guard,
            inbox,
            layout,
            door,
            _cookie: cookie,
        };
        if line.pairs.len() <= HOT + 1 {
            for r in (0..line.pairs.len()).filter(|&r| r != me.index()) {
                line.heat_up(PeerId(r as u32));
            }
        }
        line
    }

    /// Whether this is still the process that opened the line, and not a forked child of it.
    #[inline]
    pub fn is_parent(&self) -> bool {
        self.fork_guard.is_parent()
    }

    /// Bytes of shared memory that this process provides: inbox, outbox, allocations.
    pub fn footprint(&self) -> usize {
        self.inbox.len() + self.outbox.len() + self.regions.allocated()
    }

    /// Whether memory behind this key is reached without the kernel.
    pub fn is_mapped(&self, peer: PeerId, key: &RemoteKey) -> bool {
        peer == self.me || crate::regions::Key::decode(key).region != 0
    }

    /// Whether the next long payload to a peer is copied past the caches: cheaper when the two
    /// processors share none.
    #[inline]
    pub fn past_caches(&mut self, to: PeerId, yes: bool) {
        self.pairs[to.index()].streaming = yes;
    }

    /// What a long payload to or from a peer costs when it is copied [past the
    /// caches](Self::past_caches).
    pub fn streaming_cost(&self) -> Cost {
        self.costs.streaming
    }

    /// The incarnation of a peer that this line is connected with; 0 for this process itself.
    pub fn incarnation(&self, peer: PeerId) -> u32 {
        self.pairs[peer.index()].cold.incarnation
    }

    /// What became of a peer; `None` while it lives.
    pub fn fault(&self, peer: PeerId) -> Option<&Fault> {
        self.pairs[peer.index()].cold.fault.as_ref()
    }

    fn refused(&self, to: PeerId) -> Refused {
        let fault = self.pairs[to.index()].cold.fault.clone();
        Refused::Failed(fault.unwrap_or(Fault::Closed))
    }

    /// Makes sure that there is room for `slots` in the ring to `to`, and for a goodbye.
    #[inline]
    pub(crate) fn room(&mut self, to: PeerId, slots: u64) -> Result<(), Refused> {
        let pair = &mut self.pairs[to.index()];
        if pair.open && pair.writer.has_room(slots + 1) {
            Ok(())
        } else {
            self.more_room(to, slots)
        }
    }

    #[cold]
    #[inline(never)]
    fn more_room(&mut self, to: PeerId, slots: u64) -> Result<(), Refused> {
        let pair = &mut self.pairs[to.index()];
        if !pair.open {
            return Err(self.refused(to));
        }
        let credit: *const AtomicU64 = pair.credit();
        // SAFETY: the word is mapped as long as the pair lives.
        if let Err(fault) = pair.writer.refresh(unsafe { &*credit }) {
            self.cut(to, fault);
            return Err(self.refused(to));
        }
        pair.retire_mail();
        if pair.writer.has_room(slots + 1) { Ok(()) } else { Err(Refused::Busy) }
    }

    /// Sends a payload too long for slots, gathered, through the outbox.
    fn send_pooled(
        &mut self,
        to: PeerId,
        head: Head,
        parts: &[&[u8]],
        len: usize,
    ) -> Result<(), Refused> {
        if len > SEGMENT {
            return Err(Refused::TooLong { got: len, limit: SEGMENT });
        }
        self.room(to, 1)?;
        let position = self.pairs[to.index()].writer.position();
        let Some(offset) = self.take(len, to, position) else {
            return Err(Refused::Busy);
        };
        let pair = &mut self.pairs[to.index()];
        // SAFETY: the window hands out ranges inside the outbox that nobody uses.
        let mut at = unsafe { self.outbox.as_ptr().add(offset as usize) };
        for part in parts {
            // SAFETY: the parts are `len` bytes together, and so is the range.
            unsafe {
                if pair.streaming && part.len() >= 2048 {
                    copy::streaming(at, part.as_ptr(), part.len());
                } else {
                    copy::plain(at, part.as_ptr(), part.len());
                }
                at = at.add(part.len());
            }
        }
        pair.streaming = false;
        pair.writer.put_pooled(head, offset, len as u32);
        pair.notify();
        let (ahead, room) = self.window.ahead();
        // SAFETY: the window knows only bytes inside the outbox.
        unsafe {
            copy::own(self.outbox.as_ptr().add(ahead as usize), len.min(room).min(OWN_AHEAD))
        };
        Ok(())
    }

    /// Takes room in the outbox, which grows when peers that do not read keep it from others.
    fn take(&mut self, len: usize, to: PeerId, position: u64) -> Option<u64> {
        let pairs = &self.pairs;
        let released = |peer: PeerId| pairs[peer.index()].released();
        if let Some(offset) = self.window.take(len, to, position, released) {
            return Some(offset);
        }
        if !self.window.held_by_others(to, released) {
            return None;
        }
        let have = self.outbox.len();
        let want = (have * 2).min(self.outbox.limit());
        if want <= have || self.outbox.grow(want).is_err() {
            return None;
        }
        self.window.add(((self.outbox.len() - have) / SEGMENT) as u32);
        self.window.take(len, to, position, released)
    }

    /// Takes messages out of a peer's ring, `most` at the most.
    ///
    /// Whatever kind of place a message lies in, it is handed on here, so that the sink is compiled
    /// in once.
    #[inline(always)]
    fn drain<S: Sink>(&mut self, from: PeerId, most: usize, sink: &mut S) -> usize {
        let mut joint = std::mem::MaybeUninit::<[u8; INLINE]>::uninit();
        let mut taken = 0;
        while taken < most {
            let pair = &mut self.pairs[from.index()];
            let mail = pair.mailbox();
            let (head, payload, slots, tell) = if let Some(mail) = &mail {
                pair.own_mailbox();
                let Word { context, size, kind, .. } = Word::unpack(mail.word);
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
                (head, Payload::of(bytes), 1, false)
            } else {
                let Some(word) = pair.reader.first() else { break };
                let len = word.size as usize;
                if is_message(word.kind) && len <= LEAD {
                    let reader = &pair.reader;
                    // SAFETY: the bytes lie in the slot at the head of the ring, which is mapped.
                    let payload = unsafe { Payload::contiguous(reader.lead(), len) };
                    (reader.head(word), payload, 1, false)
                } else if is_message(word.kind) && len <= INLINE {
                    // SAFETY: bytes of any value make an array of bytes, and `payload` reads none
                    // that it has not written.
                    let joint = unsafe { &mut *joint.as_mut_ptr() };
                    let reader = &pair.reader;
                    (reader.head(word), reader.payload(len, joint), slots_for(len), false)
                } else if is_message(word.kind) && len == POOLED {
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
                    (head, payload, 1, true)
                } else {
                    taken += 1;
                    match self.own_message(from) {
                        true => continue,
                        false => return taken,
                    }
                }
            };
            taken += 1;
            sink.message(from, head, payload);
            let pair = &mut self.pairs[from.index()];
            pair.reader.advance(slots, tell, pair.consumed());
            if mail.is_some() {
                // Whoever writes by mail waits for an answer: there is nothing behind it.
                break;
            }
        }
        taken
    }

    #[cold]
    fn refuse_mail(&mut self, from: PeerId, kind: u8, size: u16) {
        let fault = Fault::Protocol {
            place: "mailbox",
            expected: format!("kind below {}, at most {MAIL} bytes", Head::KINDS),
            got: format!("kind {kind}, {size} bytes"),
        };
        self.cut(from, fault);
    }

    /// Whether the range lies inside the peer's outbox. If not, the peer is cut off.
    #[inline]
    fn reach(&mut self, from: PeerId, offset: u64, len: u32) -> bool {
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
            got: format!("{len} bytes at {offset}"),
        };
        self.cut(from, fault);
        false
    }

    /// Handles what is not for the sink: one of the fabric's own messages, or none at all. Whether
    /// the ring goes on.
    #[cold]
    #[inline(never)]
    fn own_message(&mut self, from: PeerId) -> bool {
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
            (GOODBYE, Place::Slots(0)) => {
                self.cut(from, Fault::Closed);
                false
            }
            (ASSIST, Place::Slots(len)) => {
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
                    got: format!("{kind} with {place:?}"),
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
        self.endings.push(peer);
    }

    /// Takes what lies in rings that are not hot.
    #[cold]
    #[inline(never)]
    fn sweep<S: Sink>(&mut self, word: usize, sink: &mut S) -> usize {
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
    pub(crate) fn replace(&mut self, peer: PeerId, pair: Pair) {
        debug_assert!(!self.pairs[peer.index()].open);
        self.pairs[peer.index()] = pair;
        if self.pairs.len() <= HOT + 1 {
            self.heat_up(peer);
        }
    }

    fn heat_up(&mut self, peer: PeerId) {
        let pair = &mut self.pairs[peer.index()];
        pair.watch(true);
        pair.cold.heat = 0;
        self.hot.push(peer);
    }

    /// Stops to poll the rings that were idle since the last look, if others wait for a place.
    fn cool_down(&mut self) {
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
    pub(crate) fn settle<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = Transfers::step(self);
        while let Some((token, result)) = self.transfers.ended.pop_front() {
            sink.completed(token, result);
            events += 1;
        }
        for peer in std::mem::take(&mut self.endings) {
            let fault = self.pairs[peer.index()].cold.fault.clone().unwrap_or(Fault::Closed);
            sink.failed(peer, fault);
            events += 1;
        }
        events
    }

    #[inline]
    fn unsettled(&self) -> bool {
        self.transfers.busy() | !self.endings.is_empty()
    }

    /// Whether anything is there to be polled.
    fn anything(&self) -> bool {
        // SAFETY: the words of the bitmap lie inside the inbox.
        let dirty = |word| unsafe { &*self.dirty.add(word) }.load(Ordering::Acquire) != 0;
        self.unsettled()
            || self.hot.iter().any(|p| self.pairs[p.index()].is_ready())
            || (0..self.dirty_words).any(dirty)
    }

    /// Empties the eventfd, if anybody waits on it; that it was empty already is no error.
    fn silence(&self) {
        if self.fd_wanted.get() {
            wait::empty(self.doorbell.as_fd());
        }
    }

    fn armed(&self) -> &AtomicU32 {
        // SAFETY: inside the inbox, which lives as long as the line.
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

impl Fabric for Line {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn me(&self) -> PeerId {
        self.me
    }

    fn peers(&self) -> usize {
        self.pairs.len()
    }

    #[inline]
    fn send(&mut self, to: PeerId, head: Head, payload: &[u8]) -> Result<(), Refused> {
        debug_assert!(head.kind < Head::KINDS);
        if payload.len() <= LEAD {
            self.room(to, 1)?;
            let pair = &mut self.pairs[to.index()];
            if payload.len() > MAIL || !pair.mail(head, payload) {
                pair.writer.put_short(head, payload);
            }
            pair.notify();
            return Ok(());
        }
        if payload.len() <= INLINE {
            self.room(to, slots_for(payload.len()))?;
            let pair = &mut self.pairs[to.index()];
            pair.writer.put_run(head, payload);
            pair.notify();
            return Ok(());
        }
        self.send_pooled(to, head, &[payload], payload.len())
    }

    fn send_gather(&mut self, to: PeerId, head: Head, parts: &[&[u8]]) -> Result<(), Refused> {
        debug_assert!(head.kind < Head::KINDS);
        let len = parts.iter().map(|p| p.len()).sum();
        if len > INLINE {
            return self.send_pooled(to, head, parts, len);
        }
        self.room(to, slots_for(len))?;
        let pair = &mut self.pairs[to.index()];
        pair.writer.put_parts(head, parts, len);
        pair.notify();
        Ok(())
    }

    #[inline(always)]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = 0;
        let mut k = 0;
        while k < self.hot.len() {
            let peer = self.hot[k];
            events += self.drain(peer, TURN, sink);
            // A peer that was cut off is gone from the list, and another stands in its place.
            k += (self.hot.get(k) == Some(&peer)) as usize;
        }
        for word in 0..self.dirty_words {
            // SAFETY: inside the inbox.
            if unsafe { &*self.dirty.add(word) }.load(Ordering::Relaxed) != 0 {
                events += self.sweep(word, sink);
            }
        }
        if self.unsettled() {
            events += self.settle(sink);
        }
        events
    }

    fn check<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        self.watch.poll_dead_or_readable(&mut events);
        let mut happened = 0;
        for (rank, event) in events.drain(..) {
            let peer = PeerId(rank);
            self.read_socket(peer);
            if let Event::HungUp = event {
                happened += self.end(peer, sink);
            }
        }
        self.events = events;
        self.regions.retry(&mut self.pairs);
        self.cool_down();
        happened += self.open_door(sink);
        if self.unsettled() {
            happened += self.settle(sink);
        }
        happened
    }

    fn cut_off(&mut self, peer: PeerId, fault: Fault) {
        self.cut(peer, fault);
    }

    fn send_cost(&self, to: PeerId) -> Cost {
        let _ = to;
        self.costs.outbox
    }

    fn get_cost(&self, from: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied> {
        let _ = len;
        self.way(from, key)
    }

    fn put_cost(&self, to: PeerId, key: &RemoteKey, len: usize) -> Result<Cost, Denied> {
        let _ = len;
        self.way(to, key)
    }

    unsafe fn register(&mut self, at: *mut u8, len: usize) -> Result<RegionId, MemoryError> {
        Ok(self.regions.register(at, len))
    }

    fn alloc(&mut self, len: usize) -> Result<(RegionId, NonNull<u8>, Keep), MemoryError> {
        self.regions.alloc(len)
    }

    fn keep_segment(&mut self) -> Result<SegmentId, MemoryError> {
        self.keep()
    }

    #[inline(always)]
    fn write_segment(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.write_kept(segment, at, bytes);
    }

    fn read_segment(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.kept(segment, at, len)
    }

    #[inline]
    fn send_segment(
        &mut self,
        to: PeerId,
        head: Head,
        segment: SegmentId,
        at: usize,
        len: usize,
    ) -> Result<(), Refused> {
        self.send_kept(to, head, segment, at, len)
    }

    fn give_back_segment(&mut self, segment: SegmentId) {
        self.window.give_back(segment.0);
    }

    fn deregister(&mut self, region: RegionId) -> Result<(), MemoryError> {
        self.give_up(region);
        self.regions.deregister(region, &mut self.pairs)
    }

    fn remote_key(
        &mut self,
        to: PeerId,
        region: RegionId,
        offset: usize,
    ) -> Result<RemoteKey, MemoryError> {
        self.regions.key(region, offset, &mut self.pairs[to.index()])
    }

    fn bare_key(&mut self, to: PeerId, at: *const u8, len: usize) -> Option<RemoteKey> {
        let _ = len;
        self.pairs[to.index()].open.then(|| crate::regions::bare_key(at))
    }

    unsafe fn get(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        offset: u64,
        into: *mut u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.start_get(from, key, offset, into, len, token) }
    }

    unsafe fn put(
        &mut self,
        to: PeerId,
        key: &RemoteKey,
        offset: u64,
        source: *const u8,
        len: usize,
        token: Token,
    ) -> Result<(), Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.start_put(to, key, offset, source, len, token) }
    }

    fn map(
        &mut self,
        from: PeerId,
        key: &RemoteKey,
        len: usize,
    ) -> Result<(NonNull<u8>, Keep), Denied> {
        self.start_map(from, key, len)
    }

    fn arm(&mut self) -> Arming {
        let how = if self.fd_wanted.get() { ON_FD } else { ON_FUTEX };
        // Whoever rang last has put the word back, and nobody else has emptied the eventfd.
        self.silence();
        self.armed().store(how, Ordering::SeqCst);
        crate::wait::fence_writers();
        if self.anything() {
            self.disarm();
            return Arming::Ready;
        }
        Arming::Armed
    }

    fn disarm(&mut self) {
        if self.armed().swap(0, Ordering::SeqCst) != ON_FUTEX {
            self.silence();
        }
    }

    fn sleep(&mut self, limit: Duration) {
        match self.armed().load(Ordering::Acquire) {
            ON_FUTEX => wait::sleep(self.armed(), limit),
            ON_FD => wait::sleep_on(self.watch.fd(), limit),
            _ => {}
        }
        self.disarm();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        if !self.fd_wanted.replace(true) {
            // A wait that was prepared before anybody asked is to make it readable as well.
            let armed = self.armed();
            let _ = armed.compare_exchange(ON_FUTEX, ON_FD, Ordering::SeqCst, Ordering::SeqCst);
        }
        self.watch.fd()
    }
}

impl Drop for Line {
    /// Says goodbye, so that peers need not take this for a failure.
    fn drop(&mut self) {
        if !self.is_parent() {
            return;
        }
        for to in 0..self.pairs.len() {
            let pair = &mut self.pairs[to];
            if to != self.me.index() && pair.open && pair.writer.has_room(1) {
                pair.writer.put_short(Head { kind: GOODBYE, ..Head::default() }, &[]);
                pair.notify();
            }
        }
    }
}
