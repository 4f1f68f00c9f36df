//! Loom models of the ring, the mailbox and of being seen (`docs/wire.md`, section 2). They run the
//! code that runs over mapped memory, over memory of which loom observes each access.

use crate::mailbox::Half;
use crate::ring::{PayloadLocation, Reader, SlotHeader, Slots, Writer};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use taffrail_fabric::Head;

/// Slots with bodies that detect a read during a write.
struct Watched {
    words: Vec<AtomicU64>,
    bodies: Vec<UnsafeCell<[u8; 56]>>,
}

impl Watched {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Watched {
            words: (0..count).map(|_| AtomicU64::new(0)).collect(),
            bodies: (0..count).map(|_| UnsafeCell::new([0; 56])).collect(),
        })
    }
}

impl Slots for Arc<Watched> {
    fn count(&self) -> u64 {
        self.words.len() as u64
    }

    fn word(&self, i: u64) -> &AtomicU64 {
        &self.words[i as usize]
    }

    fn write<R>(&self, i: u64, f: impl FnOnce(*mut u8) -> R) -> R {
        self.bodies[i as usize].with_mut(|body| f(body.cast()))
    }

    fn read<R>(&self, i: u64, f: impl FnOnce(*const u8) -> R) -> R {
        self.bodies[i as usize].with(|body| f(body.cast()))
    }
}

fn numbered(n: u64) -> Head {
    Head { kind: 1, context: 2, seq: n as u32, tag: n << 8 }
}

/// Every message arrives whole and in order, and no slot is filled before it was read.
#[test]
fn loom_ring_keeps_order_and_credit() {
    loom::model(|| {
        let slots = Watched::new(2);
        let credit = Arc::new(AtomicU64::new(0));
        let (theirs, read) = (slots.clone(), credit.clone());
        let writer = thread::spawn(move || {
            let mut writer = Writer::new(theirs);
            for n in 1..=3 {
                while !writer.has_room(1) {
                    writer.refresh(&read).unwrap();
                    thread::yield_now();
                }
                writer.put_short(numbered(n), &n.to_ne_bytes());
            }
        });
        let mut reader = Reader::new(slots);
        for n in 1..=3 {
            let found = loop {
                if let Some(found) = reader.peek().unwrap() {
                    break found;
                }
                thread::yield_now();
            };
            assert_eq!(found, (numbered(n), PayloadLocation::Slots(8)));
            reader.advance(1, false, &credit);
        }
        writer.join().unwrap();
    });
}

/// A message that takes two slots is seen with both or not at all.
#[test]
fn loom_ring_shows_messages_of_two_slots_whole() {
    loom::model(|| {
        let slots = Watched::new(4);
        let theirs = slots.clone();
        let writer = thread::spawn(move || {
            Writer::new(theirs).put_parts(numbered(1), &[&[7; 60]], 60);
        });
        let reader = Reader::new(slots.clone());
        if let Some((head, place)) = reader.peek().unwrap() {
            assert_eq!((head, place), (numbered(1), PayloadLocation::Slots(60)));
            assert_eq!(slots.word(2).load(Ordering::Relaxed), 2);
            // SAFETY: a body has 56 bytes.
            let second = slots.read(2, |body| unsafe { *body });
            assert_eq!(second, 7);
        }
        writer.join().unwrap();
    });
}

/// The half of one side is overwritten only after the other has consumed what it held.
#[test]
fn loom_mailbox_is_answered_and_used_again() {
    loom::model(|| {
        let line = Arc::new((Half::default(), Half::default()));
        let other = line.clone();
        let echo = thread::spawn(move || {
            for position in 1..=2u32 {
                let mail = loop {
                    if let Some(mail) = other.0.look(position) {
                        break mail;
                    }
                    thread::yield_now();
                };
                assert_eq!((mail.tag, mail.seq), ((position as u64) << 8, position));
                let word = SlotHeader::pack(position as u64, 2, 8, 1);
                other.1.post(word, numbered(position as u64), position, &mail.payload);
            }
        });
        for position in 1..=2u32 {
            let word = SlotHeader::pack(position as u64, 2, 8, 1);
            let payload = (position as u64 * 3).to_ne_bytes();
            line.0.post(word, numbered(position as u64), position - 1, &payload);
            let answer = loop {
                if let Some(answer) = line.1.look(position) {
                    break answer;
                }
                thread::yield_now();
            };
            assert_eq!((answer.payload, answer.ack), (payload, position));
        }
        echo.join().unwrap();
    });
}

/// An owner that stops to poll a ring, or goes to sleep, does not miss a message: it finds it when it
/// polls once more, or the writer sets its bit (rings its bell). The fences are executed in the writers by
/// `membarrier`, or by the writers themselves.
#[test]
fn loom_nothing_is_missed_by_who_stops_looking() {
    loom::model(|| {
        let slots = Watched::new(2);
        let watched = Arc::new(AtomicU32::new(1));
        let dirty = Arc::new(AtomicU64::new(0));
        let (theirs, looks, bits) = (slots.clone(), watched.clone(), dirty.clone());
        let writer = thread::spawn(move || {
            Writer::new(theirs).put_short(numbered(1), &[]);
            fence(Ordering::SeqCst);
            if looks.load(Ordering::Relaxed) == 0 {
                bits.fetch_or(1, Ordering::SeqCst);
            }
        });
        watched.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let seen = Reader::new(slots).is_ready();
        writer.join().unwrap();
        assert!(seen || dirty.load(Ordering::SeqCst) == 1, "missed");
    });
}
