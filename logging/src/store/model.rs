//! Loom models of the event ring. They run the code that runs over mapped memory, over words that
//! loom watches.

use super::batch::Batch;
use super::ring::{Durability, RingReader, RingShape, RingWriter, Words};
use super::snapshot::{Snapshot, moment};
use super::sync::{AtomicU64, Ordering, fence};
use crate::Event;
use loom::sync::Arc;
use loom::thread;

const SHAPE: RingShape = RingShape { rank: 3, job: 5, capacity: 1, durability: Durability::Disk };

/// The words that a ring uses; the rest of its lines are not there.
struct Watched {
    words: Vec<AtomicU64>,
    shape: RingShape,
}

impl Watched {
    fn ring() -> Arc<Self> {
        Watched::new(SHAPE)
    }

    fn new(shape: RingShape) -> Arc<Self> {
        let words = (0..shape.bytes() / 8).filter_map(|at| place(&shape, at));
        let words = words.map(|_| AtomicU64::new(0)).collect();
        let ring = Arc::new(Watched { words, shape });
        shape.lay_out(&ring);
        ring
    }
}

/// Header, counters and records, packed: loom keeps apart few objects.
fn place(shape: &RingShape, at: usize) -> Option<usize> {
    let copies = shape.durability.copies() as usize;
    match (at / 16, at % 16) {
        (0, word @ 0..5) => Some(word),
        (1, word @ 0..2) => Some(5 + word),
        (line, word @ 0..3) if (2..2 + copies).contains(&line) => Some(7 + 3 * (line - 2) + word),
        (line, _) if line >= 2 + copies => Some(7 + 3 * copies + at - 16 * (2 + copies)),
        _ => None,
    }
}

impl Words for Arc<Watched> {
    fn count(&self) -> usize {
        self.shape.bytes() / 8
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[place(&self.shape, at).expect("a word that rings use")]
    }

    fn four(&self, at: usize) -> [&AtomicU64; 4] {
        [0, 1, 2, 3].map(|n| self.word(at + n))
    }
}

fn event(n: u32) -> Event {
    Event::Found { polls: n, index: n }
}

/// Attached before it runs: loom only remembers who has touched a word last, and takes a thread that
/// reads a word before it writes it for nobody's rival.
fn attach(ring: &Arc<Watched>) -> RingWriter<Arc<Watched>> {
    RingWriter::attach(ring.clone(), ring.shape).unwrap()
}

/// It gets ready for each event, and is right but for those that nobody expects.
fn writer(ring: &Arc<Watched>, events: u32) -> thread::JoinHandle<()> {
    let mut writer = attach(ring);
    thread::spawn(move || {
        for n in 1..=events {
            writer.prepare(n, 0);
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

fn check(batch: &Batch, first: u64) {
    for (clock, got) in (first..).zip(batch.events()) {
        assert_eq!(got, event(clock as u32));
    }
}

/// Every record arrives whole and in order, and none is written over before it was read.
#[test]
fn loom_event_ring_keeps_records_whole() {
    explore(|| {
        let ring = Watched::ring();
        let writer = writer(&ring, 2);
        keep([RingReader::attach(ring, SHAPE, 0).unwrap()], 2);
        writer.join().unwrap();
    });
}

/// The same where the second event of each group has no record.
#[test]
fn loom_event_ring_keeps_codes_whole() {
    let shape = RingShape { capacity: 4, ..SHAPE };
    explore(move || {
        let ring = Watched::new(shape);
        let writer = writer(&ring, 2);
        keep([RingReader::attach(ring, shape, 0).unwrap()], 2);
        writer.join().unwrap();
    });
}

/// A logger that goes to sleep when there is nothing new is woken for an event that a rank waits for (*asleep-is-awoken*): else
/// it would sleep for ever here.
#[test]
fn loom_a_logger_does_not_sleep_through_an_event_that_a_rank_waits_for() {
    explore(|| {
        let ring = Watched::ring();
        let mut writer = attach(&ring);
        let rank = thread::spawn(move || {
            writer.push(&event(1)).unwrap();
            if writer.stable().unwrap() < writer.written() {
                writer.wake_loggers();
            }
        });
        let mut logger = RingReader::attach(ring, SHAPE, 0).unwrap();
        while logger.taken() < 1 {
            logger.lie_down();
            fence(Ordering::SeqCst);
            // Once: who sleeps does not look.
            let sleeps = !logger.has_new();
            while sleeps && logger.asleep().load(Ordering::Relaxed) == 1 {
                thread::yield_now();
            }
            logger.get_up();
            let written = logger.written().unwrap();
            logger.keep(written);
        }
        rank.join().unwrap();
    });
}

/// A logger that ends after it has read, before it said so, is followed by one that reads the same.
#[test]
fn loom_event_ring_is_read_again_by_the_next_logger() {
    explore(|| {
        let ring = Watched::ring();
        let writer = writer(&ring, 2);
        let first = RingReader::attach(ring.clone(), SHAPE, 0).unwrap();
        let (mut lost, mut kept) = (Batch::default(), Batch::default());
        let read = first.written().unwrap();
        first.read(0, read, &mut lost).unwrap();
        drop(first);
        let mut second = RingReader::attach(ring, SHAPE, 0).unwrap();
        let again = second.written().unwrap();
        second.read(0, again, &mut kept).unwrap();
        let all: Vec<Event> = kept.events().collect();
        assert!(again >= read && all.starts_with(&lost.events().collect::<Vec<Event>>()));
        check(&kept, 1);
        second.keep(again);
        while second.taken() < 2 {
            thread::yield_now();
            kept.clear();
            let from = second.taken();
            let clock = second.written().unwrap();
            second.read(from, clock, &mut kept).unwrap();
            check(&kept, from + 1);
            second.keep(clock);
        }
        writer.join().unwrap();
    });
}

/// An event of one rank depends on one of another, by a message between them: no cut has it alone,
/// in whatever order the logger looks at the rings.
#[test]
fn loom_event_cut_has_all_that_its_events_depend_on() {
    for order in [[0, 1], [1, 0]] {
        explore(move || {
            let rings = [Watched::ring(), Watched::ring()];
            let message = Arc::new(AtomicU64::new(0));
            let [mut sends, mut receives] = [0, 1].map(|ring| attach(&rings[ring]));
            let [sent, received] = [message.clone(), message];
            let sender = thread::spawn(move || {
                sends.push(&event(1)).unwrap();
                sent.store(1, Ordering::Release);
            });
            let receiver = thread::spawn(move || {
                if received.load(Ordering::Acquire) == 1 {
                    receives.push(&event(1)).unwrap();
                }
            });
            let readers = rings.map(|ring| RingReader::attach(ring, SHAPE, 0).unwrap());
            let looked = order.map(|ring| &readers[ring]);
            if let Snapshot::Still(clocks) = moment(looked.into_iter(), [0, 0].into_iter()).unwrap()
            {
                let [of_sender, of_receiver] = order.map(|ring| clocks[ring]);
                assert!(of_sender >= of_receiver, "{clocks:?}");
            }
            sender.join().unwrap();
            receiver.join().unwrap();
        });
    }
}

/// Two loggers, each with a copy: no record is written over before both have it, and none is stable
/// before. They look one after the other, else there is no end of the ways to run it.
#[test]
fn loom_event_ring_waits_for_every_copy() {
    let shape = RingShape { durability: Durability::Node { copies: 2 }, ..SHAPE };
    explore(move || {
        let ring = Watched::new(shape);
        let writer = writer(&ring, 2);
        let readers = [0, 1].map(|copy| RingReader::attach(ring.clone(), shape, copy).unwrap());
        keep(readers, 2);
        writer.join().unwrap();
    });
}

/// Keeps this many records in each copy, in their order.
fn keep<const COPIES: usize>(mut readers: [RingReader<Arc<Watched>>; COPIES], records: u64) {
    let mut kept = [(); COPIES].map(|()| Batch::default());
    while readers.iter().any(|reader| reader.taken() < records) {
        let mut idle = true;
        for (reader, kept) in readers.iter_mut().zip(&mut kept) {
            let clock = reader.written().unwrap();
            if clock > reader.taken() {
                reader.read(reader.taken(), clock, kept).unwrap();
                reader.keep(clock);
                idle = false;
            }
        }
        if idle {
            thread::yield_now();
        }
    }
    for kept in &kept {
        check(kept, 1);
        assert_eq!(kept.len() as u64, records);
    }
}
