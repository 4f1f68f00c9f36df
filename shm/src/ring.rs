//! The ring between two processes: one writes, one reads, and a slot says itself whether it is full.
//!
//! Format: `docs/wire.md`, section 2. The invariant is that a slot's word holds the stamp of
//! position `p` only while the slot, and the further slots of its message, hold message `p`: the
//! writer stores the first word last (release), the reader believes nothing before it has seen that
//! word (acquire), and the writer fills `p + s` only after it has seen `consumed >= p` (acquire),
//! which the reader stores after its last look at `p` (release).

use crate::sync::{AtomicU64, Ordering};
use taffrail_fabric::words::counted;
use taffrail_fabric::{Fault, Head, Payload};

/// Bytes of a slot: a cache line.
pub(crate) const SLOT: usize = 64;
/// Payload bytes in the first slot of a message.
pub(crate) const LEAD: usize = 44;
/// Payload bytes in each further slot.
pub(crate) const RUN: usize = 56;
/// The longest payload that travels in slots.
pub(crate) const INLINE: usize = LEAD + 4 * RUN;
/// The size field of a message with its payload in the outbox.
pub(crate) const INDIRECT: usize = 511;

/// Distance in slots at which a slot is fetched for writing. The reader may be polling the nearer ones.
const OWNED_AHEAD: u64 = 6;
/// The slot so far behind the one that is read is fetched.
const FETCHED_AHEAD: u64 = 3;

/// The positions with these bits set are a lap of any ring (none has more than 256 slots).
const LAP: u32 = (1 << 30) - 256;

/// Slots that a payload of `len <= INLINE` bytes takes.
#[inline]
pub(crate) fn slots_for(len: usize) -> u64 {
    if len <= LEAD { 1 } else { 1 + (len - LEAD).div_ceil(RUN) as u64 }
}

/// The memory of a ring: `count` slots of a word and 56 bytes.
pub(crate) trait Slots {
    /// How many slots, a power of two.
    fn count(&self) -> u64;
    /// The word of slot `i < count`.
    fn word(&self, i: u64) -> &AtomicU64;
    /// Lets the writer write the 56 bytes behind the word, which are aligned to 8.
    fn write<R>(&self, i: u64, f: impl FnOnce(*mut u8) -> R) -> R;
    /// Lets the reader read the 56 bytes behind the word.
    fn read<R>(&self, i: u64, f: impl FnOnce(*const u8) -> R) -> R;
    /// Begins to fetch slot `i` for writing.
    fn own(&self, i: u64) {
        let _ = i;
    }
    /// Begins to fetch slot `i` for reading.
    fn fetch(&self, i: u64) {
        let _ = i;
    }
}

/// What the first word of a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotHeader {
    pub stamp: u32,
    pub context: u16,
    pub size: u16,
    pub kind: u8,
}

impl SlotHeader {
    #[inline]
    pub(crate) fn pack(position: u64, context: u16, size: usize, kind: u8) -> u64 {
        position as u32 as u64 | (context as u64) << 32 | (size as u64) << 48 | (kind as u64) << 57
    }

    #[inline]
    pub(crate) fn unpack(word: u64) -> SlotHeader {
        SlotHeader {
            stamp: word as u32,
            context: (word >> 32) as u16,
            size: (word >> 48) as u16 & 0x1ff,
            kind: (word >> 57) as u8,
        }
    }
}

/// The writing end.
pub(crate) struct Writer<S> {
    slots: S,
    /// The position to fill next, from 1.
    next: u64,
    /// The last position that may be filled.
    limit: u64,
}

impl<S: Slots> Writer<S> {
    pub(crate) fn new(slots: S) -> Self {
        let limit = slots.count();
        Writer { slots, next: 1, limit }
    }

    /// Starts at this position, as if all before had been filled and consumed.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, position: u64) {
        (self.next, self.limit) = (position, position - 1 + self.slots.count());
    }

    /// The position that the next message gets.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Whether `need` slots can be filled without asking.
    #[inline]
    pub(crate) fn has_room(&self, need: u64) -> bool {
        self.next + need <= self.limit + 1
    }

    /// Whether the next position must be filled in the ring. Messages that travel elsewhere leave
    /// their slots as they are; were that so for 2^32 positions, an old stamp would look new. So
    /// once in 2^30 positions, a whole lap is filled.
    #[inline]
    pub(crate) fn fills(&self) -> bool {
        self.next as u32 & LAP == LAP
    }

    /// Takes the next position for a message that travels elsewhere. There must be room.
    #[inline]
    pub(crate) fn pass(&mut self) -> u64 {
        debug_assert!(self.has_room(1));
        self.next += 1;
        self.next - 1
    }

    /// The last position that the reader is known to have consumed.
    #[inline]
    pub(crate) fn consumed(&self) -> u64 {
        self.limit - self.slots.count()
    }

    /// Records that the reader has consumed the position with the low bits `ack`.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: u32) -> Result<(), Fault> {
        let known = self.consumed();
        let news = ack.wrapping_sub(known as u32) as i32;
        if news > 0 { self.credit(known + news as u64) } else { Ok(()) }
    }

    /// Looks at what the reader has consumed by now.
    pub(crate) fn refresh(&mut self, credit: &AtomicU64) -> Result<(), Fault> {
        // The reader's word lags behind what it acknowledges by mail.
        let consumed = credit.load(Ordering::Acquire);
        if consumed <= self.consumed() { Ok(()) } else { self.credit(consumed) }
    }

    /// The reader says what it has consumed in two places, each of which may be behind the other.
    #[inline]
    fn credit(&mut self, consumed: u64) -> Result<(), Fault> {
        let known = self.consumed();
        if consumed >= self.next {
            return Err(impossible_credit(known..self.next, consumed));
        }
        self.limit = consumed.max(known) + self.slots.count();
        Ok(())
    }

    /// Writes a message of one slot. There must be room.
    #[inline]
    pub(crate) fn put_short(&mut self, head: Head, payload: &[u8]) {
        debug_assert!(payload.len() <= LEAD);
        self.put_one(head, payload.len(), |to| {
            // SAFETY: 44 bytes are left in the slot.
            unsafe { Payload::of(payload).copy_to(to, LEAD) };
        });
    }

    /// Writes the descriptor of a payload in the outbox. There must be room for one slot.
    #[inline]
    pub(crate) fn put_pooled(&mut self, head: Head, offset: u64, len: u32) {
        self.put_one(head, INDIRECT, |to| {
            // SAFETY: 44 bytes are left in the slot; the descriptor has 12.
            unsafe {
                to.cast::<u64>().write_unaligned(offset);
                to.add(8).cast::<u32>().write(len);
            }
        });
    }

    /// Writes a message of more than [`LEAD`] and up to [`INLINE`] bytes. There must be room.
    #[inline]
    pub(crate) fn put_run(&mut self, head: Head, payload: &[u8]) {
        debug_assert!(payload.len() > LEAD);
        self.put_slots(head, payload.len(), LEAD, payload);
    }

    /// Writes a message of up to [`INLINE`] bytes, gathered. There must be room.
    pub(crate) fn put_parts(&mut self, head: Head, parts: &[&[u8]], len: usize) {
        self.put_slots(head, len, len.min(LEAD), Gather(parts));
    }

    /// Writes one slot: `fill` is given the 44 bytes behind the head.
    #[inline(always)]
    fn put_one(&mut self, head: Head, size: usize, fill: impl FnOnce(*mut u8)) {
        debug_assert!(self.has_room(1));
        let i = self.next & (self.slots.count() - 1);
        // SAFETY: a body has 56 bytes.
        self.slots.write(i, |body| fill(unsafe { write_head(body, head) }));
        let word = SlotHeader::pack(self.next, head.context, size, head.kind);
        self.slots.word(i).store(word, Ordering::Release);
        self.next += 1;
    }

    /// Writes as many slots as `len` bytes take, `lead` of them in the first.
    #[inline(always)]
    fn put_slots(&mut self, head: Head, len: usize, lead: usize, source: impl Source) {
        debug_assert!(len <= INLINE && lead == len.min(LEAD) && self.has_room(slots_for(len)));
        let mask = self.slots.count() - 1;
        let first = self.next & mask;
        let mut done = lead;
        let mut position = self.next + 1;
        while done < len {
            let i = position & mask;
            let now = (len - done).min(RUN);
            // SAFETY: a body has 56 bytes.
            self.slots.write(i, |body| unsafe { source.copy(done, body, now) });
            self.slots.word(i).store(position as u32 as u64, Ordering::Relaxed);
            done += now;
            position += 1;
        }
        // The reader looks at this slot all the time: it is taken away from it once, for all of these
        // stores, and not a second time for the word.
        // SAFETY: a body has 56 bytes, 44 of them behind the head.
        self.slots.write(first, |body| unsafe { source.copy(0, write_head(body, head), lead) });
        let word = SlotHeader::pack(self.next, head.context, len, head.kind);
        self.slots.word(first).store(word, Ordering::Release);
        self.next = position;
    }

    /// Begins to fetch slots for writing, as many as the last message took: the next message will fill them, if it
    /// is as long.
    #[inline(always)]
    pub(crate) fn prefetch_write(&self, slots: u64) {
        let next = self.next + OWNED_AHEAD;
        for position in next..next + slots {
            self.slots.own(position & (self.slots.count() - 1));
        }
    }
}

/// Writes tag and sequence number into a slot; returns where its other 44 bytes are.
///
/// # Safety
/// `body` is what [`Slots::write`] gives.
#[inline(always)]
unsafe fn write_head(body: *mut u8, head: Head) -> *mut u8 {
    // SAFETY: 56 bytes, aligned to 8.
    unsafe {
        body.cast::<u64>().write(head.tag);
        body.add(8).cast::<u32>().write(head.seq);
        body.add(12)
    }
}

#[cold]
fn impossible_credit(possible: std::ops::Range<u64>, got: u64) -> Fault {
    Fault::Protocol {
        place: "inbox.consumed",
        expected: format!("{} or more, below {}", possible.start, possible.end),
        got: got.to_string(),
    }
}

/// What a message of several slots is copied from. A closure would not be inlined in two places.
trait Source {
    /// Copies `len` bytes, of which there are as many behind the first `skip`, to `to`.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes.
    unsafe fn copy(&self, skip: usize, to: *mut u8, len: usize);
}

impl Source for &[u8] {
    #[inline(always)]
    unsafe fn copy(&self, skip: usize, to: *mut u8, len: usize) {
        let part = Payload::of(&self[skip..skip + len]);
        // SAFETY: `to` has room for all of the part.
        unsafe { part.copy_to(to, len) };
    }
}

/// A sequence of parts.
struct Gather<'a>(&'a [&'a [u8]]);

impl Source for Gather<'_> {
    unsafe fn copy(&self, mut skip: usize, to: *mut u8, len: usize) {
        let mut done = 0;
        for part in self.0 {
            let before = skip.min(part.len());
            skip -= before;
            let part = &part[before..];
            let now = part.len().min(len - done);
            // SAFETY: `now` bytes are left in the part and at `to`.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to.add(done), now) };
            done += now;
        }
    }
}

/// Where an arrived payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadLocation {
    /// In this many bytes of the slots.
    Slots(usize),
    /// In the writer's outbox; not validated.
    Outbox { offset: u64, len: u32 },
}

impl std::fmt::Display for PayloadLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            PayloadLocation::Slots(len) => write!(f, "{} in slots", counted(len, "byte")),
            PayloadLocation::Outbox { offset, len } => {
                write!(f, "{} at {offset} of the outbox", counted(len, "byte"))
            }
        }
    }
}

/// The reading end.
pub(crate) struct Reader<S> {
    slots: S,
    /// The position to read next, from 1.
    next: u64,
    /// The slot of that position.
    slot: u64,
    /// The last position published to the writer as consumed.
    published: u64,
}

impl<S: Slots> Reader<S> {
    pub(crate) fn new(slots: S) -> Self {
        Reader { slots, next: 1, slot: 1, published: 0 }
    }

    /// Starts at this position, as if all before had been read.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, position: u64) {
        (self.next, self.published) = (position, position - 1);
        self.slot = position & (self.slots.count() - 1);
    }

    /// The position that the next message will have.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Whether a message is there.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.slots.word(self.slot).load(Ordering::Acquire) as u32 == self.next as u32
    }

    /// The first word of the message at the head of the ring, if one is there.
    #[inline]
    pub(crate) fn first(&self) -> Option<SlotHeader> {
        let word = self.slots.word(self.slot).load(Ordering::Acquire);
        (word as u32 == self.next as u32).then(|| SlotHeader::unpack(word))
    }

    /// Begins to fetch a slot that is read soon, if more messages like the last one come.
    #[inline]
    pub(crate) fn fetch_ahead(&self) {
        self.slots.fetch((self.slot + FETCHED_AHEAD) & (self.slots.count() - 1));
    }

    /// The head of the message with this first word.
    #[inline]
    pub(crate) fn head(&self, first: SlotHeader) -> Head {
        let (tag, seq) = self.slots.read(self.slot, |body| {
            // SAFETY: a body has 56 bytes.
            unsafe { (body.cast::<u64>().read(), body.add(8).cast::<u32>().read()) }
        });
        Head { kind: first.kind, context: first.context, seq, tag }
    }

    /// Where the payload of the message at the head lies in the outbox, if it says that it does.
    #[inline]
    pub(crate) fn pooled(&self) -> (u64, u32) {
        self.slots.read(self.slot, |body| {
            // SAFETY: a body has 56 bytes.
            unsafe {
                (body.add(12).cast::<u64>().read_unaligned(), body.add(20).cast::<u32>().read())
            }
        })
    }

    /// The message at the head of the ring, if one is there, validated but for what its
    /// [`PayloadLocation::Outbox`] says.
    #[inline]
    pub(crate) fn peek(&self) -> Result<Option<(Head, PayloadLocation)>, Fault> {
        let Some(word) = self.first() else { return Ok(None) };
        let head = self.head(word);
        let size = word.size as usize;
        if size <= INLINE {
            return Ok(Some((head, PayloadLocation::Slots(size))));
        }
        if size == INDIRECT {
            let (offset, len) = self.pooled();
            return Ok(Some((head, PayloadLocation::Outbox { offset, len })));
        }
        Err(Fault::Protocol {
            place: "slot.size",
            expected: format!("0..={INLINE} or {INDIRECT}"),
            got: size.to_string(),
        })
    }

    /// Steps over the message at the head, which took `slots` slots. The credit is published at once if `publish`
    /// is set, else when a quarter of the ring was read since the last time.
    #[inline]
    pub(crate) fn advance(&mut self, slots: u64, publish: bool, credit: &AtomicU64) {
        self.next += slots;
        self.slot = self.next & (self.slots.count() - 1);
        if publish || self.next - 1 - self.published >= self.slots.count() / 4 {
            self.published = self.next - 1;
            credit.store(self.published, Ordering::Release);
        }
    }
}

/// A ring in mapped memory.
#[derive(Clone, Copy)]
#[cfg(not(loom))]
pub(crate) struct MappedSlots {
    base: *mut u8,
    count: u64,
}

#[cfg(not(loom))]
impl MappedSlots {
    /// # Safety
    /// `base` is aligned to a slot, and `count` (a power of two, at least 16) slots from there stay
    /// mapped, readable and writable, as long as this value or a copy of it is used.
    pub(crate) unsafe fn new(base: *mut u8, count: u64) -> Self {
        debug_assert!(count.is_power_of_two() && count >= 16 && base.addr().is_multiple_of(SLOT));
        MappedSlots { base, count }
    }
}

#[cfg(not(loom))]
impl Slots for MappedSlots {
    #[inline(always)]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn word(&self, i: u64) -> &AtomicU64 {
        // SAFETY: slot `i < count` is mapped and aligned (constructor).
        unsafe { &*self.base.add(i as usize * SLOT).cast::<AtomicU64>() }
    }

    #[inline(always)]
    fn write<R>(&self, i: u64, f: impl FnOnce(*mut u8) -> R) -> R {
        // SAFETY: slot `i < count` is mapped (constructor).
        f(unsafe { self.base.add(i as usize * SLOT + 8) })
    }

    #[inline(always)]
    fn read<R>(&self, i: u64, f: impl FnOnce(*const u8) -> R) -> R {
        // SAFETY: slot `i < count` is mapped (constructor).
        f(unsafe { self.base.add(i as usize * SLOT + 8) })
    }

    #[inline(always)]
    fn own(&self, i: u64) {
        // SAFETY: slot `i < count` is mapped (constructor).
        unsafe { crate::copy::own(self.base.add(i as usize * SLOT), 1) };
    }

    #[inline(always)]
    fn fetch(&self, i: u64) {
        // SAFETY: slot `i < count` is mapped (constructor).
        unsafe { crate::copy::fetch(self.base.add(i as usize * SLOT)) };
    }
}

#[cfg(not(loom))]
impl Reader<MappedSlots> {
    /// Where the payload of the message at the head lies, the first [`LEAD`] bytes of it.
    #[inline]
    pub(crate) fn lead(&self) -> *const u8 {
        // SAFETY: the slot is mapped, and its payload starts 20 bytes in.
        unsafe { self.slots.base.add(self.slot as usize * SLOT + 20) }
    }

    /// The payload of the message at the head, `len` bytes in slots. It may run over the end of the
    /// ring to its beginning: then, and only then, it is put together in `joint`.
    #[inline]
    pub(crate) fn payload<'a>(&'a self, len: usize, joint: &'a mut [u8; INLINE]) -> Payload<'a> {
        let count = self.slots.count;
        let i = self.slot;
        let at = self.lead();
        if i + slots_for(len) <= count {
            // SAFETY: the slots of the message lie one after the other inside the ring.
            return unsafe { Payload::strided(at, len, LEAD, RUN, 8) };
        }
        let lead = (count - i) as usize * RUN - 12;
        // SAFETY: `lead` bytes lie in the slots up to the end of the ring.
        let front = unsafe { Payload::strided(at, lead, LEAD, RUN, 8) };
        front.read(&mut joint[..lead]);
        // SAFETY: the rest lies from slot 0 on, 8 bytes into each slot.
        let back = unsafe { Payload::strided(self.slots.base.add(8), len - lead, RUN, RUN, 8) };
        back.read(&mut joint[lead..len]);
        Payload::of(&joint[..len])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Memory(#[expect(dead_code, reason = "keeps the slots")] Vec<[u64; 8]>);

    impl Memory {
        fn ring(count: u64) -> (Memory, MappedSlots) {
            let mut memory = vec![[0u64; 8]; count as usize + 1];
            let base = memory.as_mut_ptr().cast::<u8>();
            let base = base.wrapping_add(base.align_offset(SLOT));
            // SAFETY: the vector has one slot more than the ring, for the alignment.
            let slots = unsafe { MappedSlots::new(base, count) };
            (Memory(memory), slots)
        }
    }

    fn pattern(len: usize, salt: u64) -> Vec<u8> {
        (0..len).map(|i| (i as u64 * 7 + salt * 13) as u8).collect()
    }

    #[test]
    fn every_size_at_every_position_of_the_ring() {
        let (_memory, slots) = Memory::ring(16);
        let (mut writer, mut reader) = (Writer::new(slots), Reader::new(slots));
        let credit = AtomicU64::new(0);
        let mut salt = 0;
        for _ in 0..17 {
            for len in 0..=INLINE {
                salt += 1;
                let bytes = pattern(len, salt);
                let head = Head { kind: 5, context: 9, seq: salt as u32, tag: salt << 40 | 3 };
                while !writer.has_room(slots_for(len)) {
                    writer.refresh(&credit).unwrap();
                }
                if len <= LEAD && salt % 2 == 0 {
                    writer.put_short(head, &bytes);
                } else if len > LEAD && salt % 2 == 0 {
                    writer.put_run(head, &bytes);
                } else {
                    let cut = len / 3;
                    writer.put_parts(head, &[&bytes[..cut], &[], &bytes[cut..]], len);
                }
                assert_eq!(reader.peek().unwrap(), Some((head, PayloadLocation::Slots(len))));
                let mut joint = [0; INLINE];
                assert_eq!(reader.payload(len, &mut joint).to_vec(), bytes);
                reader.advance(slots_for(len), false, &credit);
                assert_eq!(reader.peek().unwrap(), None);
            }
        }
    }

    #[test]
    fn stamps_wrap_around() {
        let (_memory, slots) = Memory::ring(16);
        let (mut writer, mut reader) = (Writer::new(slots), Reader::new(slots));
        let start = (1 << 32) - 1000;
        writer.start_at(start);
        reader.start_at(start);
        let credit = AtomicU64::new(start - 1);
        for salt in 0..2000u64 {
            let bytes = pattern(salt as usize % (INLINE + 1), salt);
            let head = Head { tag: salt, ..Head::default() };
            assert_eq!(reader.peek().unwrap(), None, "position {:#x}", reader.position());
            writer.refresh(&credit).unwrap();
            writer.put_parts(head, &[&bytes], bytes.len());
            // The low half is what comes by mail; a look at an old one gives nothing.
            assert_eq!(reader.peek().unwrap(), Some((head, PayloadLocation::Slots(bytes.len()))));
            let mut joint = [0; INLINE];
            assert_eq!(reader.payload(bytes.len(), &mut joint).to_vec(), bytes);
            reader.advance(slots_for(bytes.len()), true, &credit);
            writer.acknowledge((reader.position() - 1) as u32).unwrap();
            assert_eq!(writer.consumed(), reader.position() - 1);
            writer.acknowledge((reader.position() - 9) as u32).unwrap();
            assert_eq!(writer.consumed(), reader.position() - 1, "old news");
        }
        assert!(reader.position() > 1 << 32, "it went round");
    }

    #[test]
    fn a_full_ring_refuses_and_credit_reopens_it() {
        let (_memory, slots) = Memory::ring(16);
        let (mut writer, mut reader) = (Writer::new(slots), Reader::new(slots));
        let credit = AtomicU64::new(0);
        for _ in 0..16 {
            assert!(writer.has_room(1));
            writer.put_pooled(Head::default(), 64, 1000);
        }
        assert!(!writer.has_room(1));
        for read in 1..=4 {
            assert_eq!(
                reader.peek().unwrap().unwrap().1,
                PayloadLocation::Outbox { offset: 64, len: 1000 }
            );
            reader.advance(1, false, &credit);
            writer.refresh(&credit).unwrap();
            assert_eq!(writer.has_room(1), read == 4, "credit comes by quarters");
        }
        assert!(writer.has_room(4) && !writer.has_room(5));
        reader.advance(1, true, &credit);
        writer.refresh(&credit).unwrap();
        assert!(writer.has_room(5) && !writer.has_room(6));
    }

    #[test]
    fn impossible_credit_is_a_fault() {
        let (_memory, slots) = Memory::ring(16);
        let mut writer = Writer::new(slots);
        writer.put_pooled(Head::default(), 0, 0);
        for bad in [2, u64::MAX, 1 << 40] {
            assert!(matches!(
                writer.refresh(&AtomicU64::new(bad)),
                Err(Fault::Protocol { place: "inbox.consumed", .. })
            ));
        }
        assert_eq!(writer.refresh(&AtomicU64::new(1)), Ok(()));
        assert_eq!(writer.refresh(&AtomicU64::new(0)), Ok(()));
        assert_eq!(writer.consumed(), 1, "credit never shrinks");
    }

    #[test]
    fn impossible_sizes_are_faults() {
        let (_memory, slots) = Memory::ring(16);
        let reader = Reader::new(slots);
        for size in INLINE + 1..INDIRECT {
            slots.word(1).store(SlotHeader::pack(1, 0, size, 0), Ordering::Relaxed);
            assert!(matches!(reader.peek(), Err(Fault::Protocol { place: "slot.size", .. })));
        }
    }

    #[test]
    fn two_threads_stream_in_order() {
        let (_memory, slots) = Memory::ring(32);
        struct Carry(MappedSlots);
        // SAFETY: writer and reader keep to the protocol under test.
        unsafe impl Send for Carry {}
        let carry = Carry(slots);
        let credit = std::sync::Arc::new(AtomicU64::new(0));
        let theirs = credit.clone();
        const N: u64 = 200_000;
        let thread = std::thread::spawn(move || {
            let carry = carry;
            let mut writer = Writer::new(carry.0);
            for n in 0..N {
                let bytes = pattern((n % 269) as usize, n);
                let head = Head { tag: n, ..Head::default() };
                while !writer.has_room(slots_for(bytes.len())) {
                    writer.refresh(&theirs).unwrap();
                    std::hint::spin_loop();
                }
                writer.put_parts(head, &[&bytes], bytes.len());
            }
        });
        let mut reader = Reader::new(slots);
        for n in 0..N {
            let (head, place) = loop {
                if let Some(found) = reader.peek().unwrap() {
                    break found;
                }
                std::thread::yield_now();
            };
            let len = (n % 269) as usize;
            assert_eq!((head.tag, place), (n, PayloadLocation::Slots(len)));
            let mut joint = [0; INLINE];
            assert_eq!(reader.payload(len, &mut joint).to_vec(), pattern(len, n));
            reader.advance(slots_for(len), false, &credit);
        }
        thread.join().unwrap();
    }
}
