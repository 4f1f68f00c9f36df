//! Loom models of the event ring. They run the code that runs over mapped memory, over words that
//! loom watches.

use super::ring::{Durability, RingReader, RingShape, RingWriter, Words};
use super::sync::AtomicU64;
use crate::Event;
use loom::sync::Arc;
use loom::thread;

const SHAPE: RingShape = RingShape { rank: 3, job: 5, capacity: 1, durability: Durability::Disk };

/// The words that the ring uses; the rest of its lines are not there.
struct Watched {
    words: Vec<AtomicU64>,
    count: usize,
}

impl Watched {
    fn ring() -> Arc<Self> {
        let count = SHAPE.bytes() / 8;
        // Header, three words, and the records, packed: loom tells apart few objects.
        let words = (0..8 + 4 * SHAPE.capacity).map(|_| AtomicU64::new(0)).collect();
        let ring = Arc::new(Watched { words, count });
        SHAPE.lay_out(&ring);
        ring
    }
}

impl Words for Arc<Watched> {
    fn count(&self) -> usize {
        self.count
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        match at {
            0..5 => &self.words[at],
            16 | 32 | 48 => &self.words[4 + at / 16],
            _ => &self.words[at - 64 + 8],
        }
    }

    fn four(&self, at: usize) -> [&AtomicU64; 4] {
        [0, 1, 2, 3].map(|n| self.word(at + n))
    }
}

fn event(n: u32) -> Event {
    Event::Found { polls: n, index: n }
}

fn writer(ring: &Arc<Watched>, events: u32) -> thread::JoinHandle<()> {
    let ring = ring.clone();
    thread::spawn(move || {
        let mut writer = RingWriter::attach(ring, SHAPE).unwrap();
        for n in 1..=events {
            while writer.push(&event(n)).is_err() {
                thread::yield_now();
            }
        }
        assert!(writer.stable().unwrap() <= writer.written());
    })
}

/// Every way to run it in which threads are interrupted three times at most: all of them are too many.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn check(bytes: &[u8], first: u64) {
    for (clock, record) in (first..).zip(bytes.as_chunks::<32>().0) {
        assert_eq!(Event::decode(3, record), Ok((clock, event(clock as u32))));
    }
}

/// Every record arrives whole and in order, and none is written over before it was read.
#[test]
fn loom_event_ring_keeps_records_whole() {
    explore(|| {
        let ring = Watched::ring();
        let writer = writer(&ring, 2);
        let mut reader = RingReader::attach(ring, SHAPE).unwrap();
        let mut kept = Vec::new();
        while reader.taken() < 2 {
            let clock = reader.read(reader.taken(), &mut kept).unwrap();
            if clock == reader.taken() {
                thread::yield_now();
            } else {
                reader.keep(clock);
            }
        }
        check(&kept, 1);
        assert_eq!(kept.len(), 2 * 32);
        writer.join().unwrap();
    });
}

/// A logger that ends after it has read, before it said so, is followed by one that reads the same.
#[test]
fn loom_event_ring_is_read_again_by_the_next_logger() {
    explore(|| {
        let ring = Watched::ring();
        let writer = writer(&ring, 2);
        let first = RingReader::attach(ring.clone(), SHAPE).unwrap();
        let (mut lost, mut kept) = (Vec::new(), Vec::new());
        let read = first.read(0, &mut lost).unwrap();
        drop(first);
        let mut second = RingReader::attach(ring, SHAPE).unwrap();
        let again = second.read(0, &mut kept).unwrap();
        assert!(again >= read && kept.starts_with(&lost));
        check(&kept, 1);
        second.keep(again);
        while second.taken() < 2 {
            thread::yield_now();
            kept.clear();
            let from = second.taken();
            let clock = second.read(from, &mut kept).unwrap();
            check(&kept, from + 1);
            second.keep(clock);
        }
        writer.join().unwrap();
    });
}
