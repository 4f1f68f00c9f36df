//! Everything a process holds of one peer.

use crate::layout::Layout;
use crate::loaned_mapping::Lent;
use crate::mailbox::{Half, Mail};
use crate::memory::Mapped;
use crate::ring::{MappedSlots, Reader, SlotHeader, Writer};
use crate::socket::Link;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use rustc_hash::{FxHashMap, FxHashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use taffrail_fabric::{Denied, Fault, Head};

/// One peer: the words of the hot path first, the rest behind a pointer.
pub(crate) struct PeerLink {
    pub(crate) writer: Writer<MappedSlots>,
    pub(crate) reader: Reader<MappedSlots>,
    /// Our half of the mailbox, and the peer's; the same for this process itself, which has none.
    mine: *const Half,
    theirs_half: *const Half,
    /// The position of our last message in the mailbox. No more are posted once it is `u64::MAX`.
    mailed: u64,
    /// The position that our half of the mailbox was last marked with, without a message.
    marked: u64,
    /// The reader's position when a message last left through the ring.
    heard: u64,
    /// The peer still takes messages.
    pub(crate) open: bool,
    /// The peer cannot put a fence into this process, so this one fences itself.
    pub(crate) fence: bool,
    /// Copy the next long payload past the caches.
    pub(crate) non_temporal: bool,
    /// This process polls the peer's ring all the time.
    pub(crate) hot: bool,
    theirs: RingControl,
    ours: RingControl,
    /// The peer's outbox, as far as it is mapped.
    pub(crate) outbox: *const u8,
    pub(crate) outbox_len: u64,
    pub(crate) cold: Box<Cold>,
}

/// The part of a peer that the hot path does not touch.
pub(crate) struct Cold {
    /// `None` for this process itself, and for peer slots of which nobody was met.
    pub(crate) mapped: Option<Maps>,
    /// This process's doorbell, which a message to itself rings as well.
    pub(crate) own_doorbell: Option<OwnedFd>,
    /// Its process, as this one sees it; 0 if it does not.
    pub(crate) pid: i32,
    /// Which start of the rank this process is.
    pub(crate) incarnation: u32,
    /// Whether the kernel lets this process read the peer's memory.
    pub(crate) cma: Result<(), Denied>,
    /// What became of it. A peer that is neither open nor has a fault was not met yet.
    pub(crate) fault: Option<Fault>,
    /// Memory that it allocated and we know of.
    pub(crate) regions: FxHashMap<u32, Remote>,
    /// Our regions that were announced to it.
    pub(crate) announced_regions: FxHashSet<u32>,
    /// Messages it sent while its ring was not hot.
    pub(crate) heat: u32,
    /// The reader's position when idleness was last looked at.
    pub(crate) seen: u64,
    /// The serial of our last get that both sides move.
    pub(crate) serial: u32,
    /// Whether such a get is under way.
    pub(crate) pulling: bool,
}

/// Memory that a peer has allocated.
pub(crate) struct Remote {
    pub(crate) memory: Arc<Lent>,
    /// How many of its bytes count.
    pub(crate) used: u64,
}

/// The mappings of a peer and the way to reach it.
pub(crate) struct Maps {
    pub(crate) link: Arc<Link>,
    /// Keeps the inbox mapped, into which the pair points.
    pub(crate) _inbox: Mapped,
    pub(crate) outbox: Mapped,
    pub(crate) doorbell: OwnedFd,
}

/// The words about one ring in its reader's inbox, and the reader's words about itself.
#[derive(Clone, Copy)]
struct RingControl {
    consumed: *const AtomicU64,
    watched: *const AtomicU32,
    cell: *mut u8,
    armed: *const AtomicU32,
    dirty: *const AtomicU64,
    bit: u64,
}

impl RingControl {
    /// # Safety
    /// The inbox is a mapping of the whole layout, and stays as long as the value is used.
    unsafe fn at(location: RingLocation) -> Self {
        let RingLocation { inbox, layout, peer_slot: writer } = location;
        // SAFETY: all offsets lie inside the layout (caller).
        unsafe {
            RingControl {
                consumed: inbox.add(layout.consumed(writer)).cast(),
                watched: inbox.add(layout.watched(writer)).cast(),
                cell: inbox.add(layout.cell(writer)),
                armed: inbox.add(layout.armed()).cast(),
                dirty: inbox.add(layout.dirty(writer / 64)).cast(),
                bit: 1 << (writer % 64),
            }
        }
    }
}

/// A ring: the inbox that has it, and the peer slot of its writer.
#[derive(Clone, Copy)]
pub(crate) struct RingLocation {
    pub(crate) inbox: *mut u8,
    pub(crate) layout: Layout,
    pub(crate) peer_slot: usize,
}

impl RingLocation {
    /// # Safety
    /// As [`PeerLink::new`].
    unsafe fn ring(&self) -> MappedSlots {
        // SAFETY: the ring lies inside the layout (caller).
        unsafe {
            MappedSlots::new(self.inbox.add(self.layout.ring(self.peer_slot)), self.layout.slots())
        }
    }
}

/// The side that has the mailbox of a pair in its inbox. The first half of it is the owner's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mailbox {
    Ours,
    Theirs,
    /// A process does not write to itself by mail.
    Unused,
}

/// Where a peer's memory is, to make a [`PeerLink`] of.
pub(crate) struct LinkLayout {
    /// Where the peer writes: in our inbox.
    pub(crate) ours: RingLocation,
    /// Where we write: in the peer's.
    pub(crate) theirs: RingLocation,
    pub(crate) mailbox: Mailbox,
    /// The peer's outbox.
    pub(crate) their_outbox: *const u8,
    pub(crate) their_outbox_len: u64,
}

impl PeerLink {
    /// # Safety
    /// Both inboxes are mapped with their layouts, which have the peer slots, and the outbox with its
    /// length; all stay mapped as long as the pair is used.
    pub(crate) unsafe fn new(place: LinkLayout, cold: Cold) -> Self {
        let LinkLayout { ours, theirs, mailbox, their_outbox, their_outbox_len } = place;
        let RingLocation { inbox, layout, peer_slot } =
            if mailbox == Mailbox::Theirs { theirs } else { ours };
        // SAFETY: rings and words lie inside the layouts (caller).
        unsafe {
            let low: *const Half = inbox.add(layout.mailbox(peer_slot)).cast();
            let (mine, theirs_half) = match mailbox {
                Mailbox::Unused => (low, low),
                Mailbox::Ours => (low, low.add(1)),
                Mailbox::Theirs => (low.add(1), low),
            };
            PeerLink {
                mine,
                theirs_half,
                mailed: if mailbox == Mailbox::Unused { u64::MAX } else { 0 },
                marked: 0,
                heard: 0,
                writer: Writer::new(theirs.ring()),
                reader: Reader::new(ours.ring()),
                open: true,
                fence: false,
                non_temporal: false,
                hot: false,
                theirs: RingControl::at(theirs),
                ours: RingControl::at(ours),
                outbox: their_outbox,
                outbox_len: their_outbox_len,
                cold: Box::new(cold),
            }
        }
    }

    /// Whether the peer is being called, and is not there yet.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.open && self.cold.fault.is_none()
    }

    /// How far the peer has read our ring.
    #[inline]
    pub(crate) fn credit(&self) -> &AtomicU64 {
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { &*self.theirs.consumed }
    }

    /// How far we have read the peer's ring, for it to see.
    #[inline]
    pub(crate) fn consumed(&self) -> &'static AtomicU64 {
        // SAFETY: mapped as long as the pair lives (constructor); the caller keeps the reference no
        // longer than that.
        unsafe { &*self.ours.consumed }
    }

    /// Posts a message of up to [`MAIL`](crate::mailbox::MAIL) bytes in the mailbox, if the one before was consumed. There
    /// must be room for one slot.
    #[inline(always)]
    pub(crate) fn mail(&mut self, head: Head, payload: &[u8]) -> bool {
        if self.mailed > self.writer.consumed() || self.writer.fills() {
            return false;
        }
        self.mailed = self.writer.pass();
        let word = SlotHeader::pack(self.mailed, head.context, payload.len(), head.kind);
        let ack = (self.reader.position() - 1) as u32;
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { &*self.mine }.post(word, head, ack, payload);
        true
    }

    /// After a message of this many slots: if it is not an answer but one of several in a row, the cache lines of the
    /// next ones are fetched ahead.
    #[inline(always)]
    pub(crate) fn prefetch_write(&mut self, slots: u64) {
        let heard = self.reader.position();
        if self.heard == heard {
            self.writer.prefetch_write(slots);
        }
        self.heard = heard;
    }

    /// Whether our last message went into the mailbox.
    #[inline]
    pub(crate) fn has_mailed(&self) -> bool {
        self.mailed == self.writer.position() - 1
    }

    /// Keeps our half of the mailbox from being taken for a message when positions come round to
    /// the same low bits: marks it with a position that was just consumed. To be called once in
    /// 2^31 positions or more often.
    pub(crate) fn retire_mail(&mut self) {
        let consumed = self.writer.consumed();
        let held = if self.mailed == u64::MAX { self.marked } else { self.marked.max(self.mailed) };
        if consumed.saturating_sub(held) > 1 << 30 {
            // SAFETY: mapped as long as the pair lives (constructor).
            unsafe { &*self.mine }.mark(consumed as u32);
            self.marked = consumed;
        }
    }

    /// The next message of the peer, if it is in the mailbox.
    #[inline]
    pub(crate) fn mailbox(&self) -> Option<Mail> {
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { &*self.theirs_half }.look(self.reader.position() as u32)
    }

    /// Begins to fetch the mailbox for writing, since an answer will probably go into it. Where a
    /// processor hands a cache line that was read over for reading only, this happens while the message is
    /// looked at.
    #[inline]
    pub(crate) fn own_mailbox(&self) {
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { crate::copy::own(self.mine.cast_mut().cast(), 1) };
    }

    /// Whether a message of the peer is there.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        // SAFETY: mapped as long as the pair lives (constructor).
        self.reader.is_ready() || unsafe { &*self.theirs_half }.holds(self.reader.position() as u32)
    }

    /// The last of our positions that the peer has consumed, for memory to be used again.
    pub(crate) fn released(&self) -> u64 {
        if self.open { self.credit().load(Ordering::Acquire) } else { u64::MAX }
    }

    /// Publishes to the peer whether its ring is polled.
    pub(crate) fn watch(&mut self, watched: bool) {
        self.hot = watched;
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { &*self.ours.watched }.store(watched as u32, Ordering::SeqCst);
    }

    /// Sets our own dirty bit for the peer's ring.
    pub(crate) fn mark_dirty(&self) {
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { &*self.ours.dirty }.fetch_or(self.ours.bit, Ordering::SeqCst);
    }

    /// The cell of gets from the peer.
    pub(crate) fn pull_cell(&self) -> *mut u8 {
        self.ours.cell
    }

    /// The cell of the peer's gets from us.
    pub(crate) fn push_cell(&self) -> *mut u8 {
        self.theirs.cell
    }

    /// After storing a slot: makes sure that the peer looks (`docs/wire.md`, "Being seen").
    #[inline(always)]
    pub(crate) fn notify(&self) {
        if self.fence {
            crate::sync::fence(Ordering::SeqCst);
        } else {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        }
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe {
            if (*self.theirs.watched).load(Ordering::Relaxed) == 0 {
                self.raise();
            }
            if (*self.theirs.armed).load(Ordering::Relaxed) != 0 {
                self.ring_bell();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn raise(&self) {
        // SAFETY: mapped as long as the pair lives (constructor).
        unsafe { &*self.theirs.dirty }.fetch_or(self.theirs.bit, Ordering::SeqCst);
    }

    #[cold]
    #[inline(never)]
    fn ring_bell(&self) {
        // SAFETY: mapped as long as the pair lives (constructor).
        let armed = unsafe { &*self.theirs.armed };
        match armed.swap(0, Ordering::SeqCst) {
            0 => {}
            crate::wait::ON_FUTEX => crate::wait::wake(armed),
            _ => {
                let cold = &self.cold;
                let of_peer = cold.mapped.as_ref().map(|maps| &maps.doorbell);
                if let Some(doorbell) = of_peer.or(cold.own_doorbell.as_ref()) {
                    crate::wait::ring(doorbell.as_fd());
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
