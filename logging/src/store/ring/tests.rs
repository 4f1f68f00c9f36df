use super::code::{BITS, begin, code};
use super::reader::of;
use super::*;
use crate::event::RECORD;
use crate::store::batch::{Batch, RECORDED};
use crate::store::{Memory, create_memory};
use crate::{Event, MsgId};
use proptest::prelude::*;
use std::os::fd::AsFd;

const SHAPE: RingShape = RingShape { rank: 2, job: 9, capacity: 4, durability: Durability::Disk };

fn ring(shape: RingShape) -> [Memory; 3] {
    let file = create_memory("ring", shape.bytes()).unwrap();
    let map = || Memory::map(file.as_fd(), shape.bytes()).unwrap();
    shape.lay_out(&map());
    [map(), map(), map()]
}

fn event(n: u64) -> Event {
    Event::Cancelled { polls: 1, post: n as u32 }
}

/// Which of these events were read.
fn numbers(batch: &Batch) -> Vec<u64> {
    let number = |got| (1..=64).find(|&n| event(n) == got).expect("one that was written");
    batch.events().map(number).collect()
}

#[test]
fn a_full_ring_says_so_and_goes_on_when_there_is_room() {
    let [writing, reading, _] = ring(SHAPE);
    let mut writer = RingWriter::attach(writing, SHAPE).unwrap();
    let mut reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    for clock in 1..=4 {
        assert_eq!(writer.push(&event(clock)), Ok(clock));
    }
    assert_eq!(writer.push(&event(5)), Err(Full));
    assert_eq!((writer.written(), writer.stable()), (4, Ok(0)));
    let mut kept = Batch::default();
    assert_eq!((reader.read(0, 4, &mut kept), reader.written()), (Ok(()), Ok(4)));
    assert_eq!(writer.push(&event(5)), Err(Full), "read is not kept yet");
    reader.keep(3);
    assert_eq!((writer.push(&event(5)), writer.stable()), (Ok(5), Ok(3)));
    assert_eq!(reader.read(4, 5, &mut kept), Ok(()));
    assert_eq!(numbers(&kept), [1, 2, 3, 4, 5]);
}

#[test]
fn who_has_left_says_so_until_it_is_started_again() {
    let [first, reading, second] = ring(SHAPE);
    let mut writer = RingWriter::attach(first, SHAPE).unwrap();
    assert_eq!(left(&reading), None);
    writer.push(&event(1)).unwrap();
    writer.leave(0);
    assert_eq!(left(&reading), Some(0));
    writer.leave(7);
    let sent = Counters { messages: 5, created: 3, piggybacked: 8 };
    writer.publish(&sent);
    assert_eq!(counters(&reading), sent);
    assert_eq!((left(&reading), writer.written()), (Some(7), 1));
    RingWriter::attach(second, SHAPE).unwrap();
    assert_eq!(left(&reading), None);
}

#[test]
fn the_next_incarnation_resumes() {
    let [first, reading, second] = ring(SHAPE);
    let mut writer = RingWriter::attach(first, SHAPE).unwrap();
    writer.push(&event(1)).unwrap();
    drop(writer);
    let mut writer = RingWriter::attach(second, SHAPE).unwrap();
    assert_eq!(writer.push(&event(2)), Ok(2));
    let reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    let mut kept = Batch::default();
    assert_eq!((reader.read(0, 2, &mut kept), numbers(&kept)), (Ok(()), vec![1, 2]));
    assert_eq!((reader.written(), reader.is_new()), (Ok(2), Ok(false)));
}

#[test]
fn a_new_ring_begins_where_the_store_ends() {
    let [writing, reading, _] = ring(SHAPE);
    let mut reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    assert_eq!(reader.is_new(), Ok(true));
    reader.keep(70);
    assert_eq!((reader.written(), reader.is_new()), (Ok(70), Ok(false)));
    let mut writer = RingWriter::attach(writing, SHAPE).unwrap();
    assert_eq!(writer.push(&event(71)), Ok(71));
}

#[test]
fn in_the_memory_of_processes_an_event_is_stable_at_once() {
    let shape = RingShape { durability: Durability::Process, ..SHAPE };
    let mut writer = RingWriter::attach(ring(shape).into_iter().next().unwrap(), shape).unwrap();
    writer.push(&event(1)).unwrap();
    assert_eq!(writer.stable(), Ok(1));
}

/// Each bit of a code and of a record in the ring, and each word of the header and of the other side.
#[test]
fn damage_is_found_and_named() {
    let [writing, reading, memory] = ring(SHAPE);
    let mut writer = RingWriter::attach(writing, SHAPE).unwrap();
    (1..=4).for_each(|n| _ = writer.push(&event(n)).unwrap());
    let reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    let layout = SHAPE.layout();
    let of_record = (0..RECORD * 8).map(|bit| (layout.record(3) + bit / 64, bit % 64, 3));
    let of_codes = (0..64).map(|bit| (layout.code(1), bit, 1 + bit as u64 / BITS));
    for (word, bit, clock) in of_record.chain(of_codes) {
        let word = memory.word(word);
        let good = word.fetch_xor(1 << bit, Ordering::Relaxed);
        let mut kept = Batch::default();
        let error = reader.read(0, 4, &mut kept).unwrap_err();
        let (got, is_code) = match error {
            RingError::Record { rank: 2, clock, .. } => (clock, false),
            RingError::Code { rank: 2, clock, .. } => (clock, true),
            other => panic!("{other}"),
        };
        assert_eq!((got, is_code), (clock, std::ptr::eq(word, memory.word(layout.code(1)))));
        assert_eq!(numbers(&kept), (1..clock).collect::<Vec<u64>>(), "what is before it is good");
        word.store(good, Ordering::Relaxed);
    }
    assert_eq!(reader.read(0, 4, &mut Batch::default()), Ok(()));
    memory.word(WRITTEN).store(5, Ordering::Relaxed);
    let error = reader.written().unwrap_err();
    assert_eq!(error, RingError::Position { rank: 2, word: "written", least: 0, most: 4, got: 5 });
    memory.word(STABLE).store(5, Ordering::Relaxed);
    assert!(matches!(writer.stable(), Err(RingError::Position { word: "stable", got: 5, .. })));
}

/// Neither by its code nor, where that is the same, by its record.
#[test]
fn an_event_of_the_round_before_is_not_taken_for_this_one() {
    let [writing, reading, memory] = ring(SHAPE);
    let mut writer = RingWriter::attach(writing, SHAPE).unwrap();
    let mut reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    (1..=4).for_each(|n| _ = writer.push(&event(n)).unwrap());
    reader.read(0, 4, &mut Batch::default()).unwrap();
    reader.keep(4);
    memory.word(WRITTEN).store(5, Ordering::Relaxed);
    let error = reader.read(4, 5, &mut Batch::default()).unwrap_err();
    assert!(matches!(error, RingError::Code { rank: 2, clock: 5, .. }), "{error}");
    let codes = code(begin(2, &SHAPE.layout(), 5), RECORDED);
    memory.word(SHAPE.layout().code(5)).store(codes, Ordering::Relaxed);
    let error = reader.read(4, 5, &mut Batch::default()).unwrap_err();
    assert_eq!(error, RingError::Misplaced { rank: 2, clock: 5, got: 1 });
}

/// A rank that was killed may have stored the code of an event that it has not written.
#[test]
fn a_code_that_was_not_written_is_written_over() {
    for written in 1..=7 {
        let shape = RingShape { capacity: 8, ..SHAPE };
        let [first, second, reading] = ring(shape);
        let mut writer = RingWriter::attach(first, shape).unwrap();
        (1..=written + 1).for_each(|n| _ = writer.push(&event(n)).unwrap());
        writer.prepare(1, 0);
        second.word(WRITTEN).store(written, Ordering::Relaxed);
        let mut next = RingWriter::attach(second, shape).unwrap();
        assert_eq!(next.push(&event(20)), Ok(written + 1));
        let (reader, mut kept) = (RingReader::attach(reading, shape, 0).unwrap(), Batch::default());
        assert_eq!(reader.read(0, written + 1, &mut kept), Ok(()));
        assert_eq!(numbers(&kept), (1..=written).chain([20]).collect::<Vec<u64>>());
    }
}

/// Whatever the rank got ready for: what happens is written, and nothing else.
#[test]
fn what_was_prepared_is_written_only_if_it_happens() {
    let shape = RingShape { capacity: 64, ..SHAPE };
    let others = [
        Event::Cancelled { polls: 1, post: 2 },
        Event::Cancelled { polls: 2, post: 2 },
        Event::Cancelled { polls: 1, post: 2 | 1 << 30 },
        Event::Cancelled { polls: 1, post: 3 },
        Event::Found { polls: 1, index: 2 },
    ];
    for other in others {
        let [writing, reading, memory] = ring(shape);
        let mut writer = RingWriter::attach(writing, shape).unwrap();
        let reader = RingReader::attach(reading, shape, 0).unwrap();
        writer.prepare(1, 0);
        assert_eq!(
            (writer.push(&event(1)), writer.written()),
            (Ok(1), 1),
            "after none, none is expected"
        );
        writer.prepare(1, 0);
        assert_eq!((writer.written(), reader.written()), (1, Ok(1)));
        let codes = memory.word(shape.layout().code(2)).load(Ordering::Relaxed);
        assert_eq!(of(2, codes), code(begin(2, &shape.layout(), 2), 1 << 2) as u16);
        let mut all = vec![event(1), other, event(20), event(21), event(22)];
        assert_eq!(writer.push(&other), Ok(2));
        assert_eq!(writer.push(&event(20)), Ok(3));
        writer.prepare(7, 3);
        writer.prepare(1, 0);
        assert_eq!(writer.push(&event(21)), Ok(4));
        assert_eq!(writer.push(&event(22)), Ok(5));
        writer.prepare(1, 0);
        writer.prepare(1, 0);
        assert_eq!(writer.push(&event(23)), Ok(6));
        // The same again is not what is expected after it.
        assert_eq!(writer.push(&event(23)), Ok(7));
        all.extend([event(23), event(23)]);
        let mut batch = Batch::default();
        assert_eq!(reader.read(0, 7, &mut batch), Ok(()));
        assert_eq!(batch.events().collect::<Vec<Event>>(), all);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes a number of events: each the next of a kind, or another one.
    Write(usize),
    /// Reads a number of events, and keeps what was read up to there.
    Read(usize, bool),
    /// Another logger takes over.
    Logger,
    /// The rank is started again.
    Rank,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..200usize).prop_map(Step::Write),
        4 => (1..200usize, any::<bool>()).prop_map(|(events, keeps)| Step::Read(events, keeps)),
        1 => Just(Step::Logger),
        1 => Just(Step::Rank),
    ]
}

/// Events that are mostly, sometimes or never as expected.
fn written(seed: u64) -> impl FnMut() -> Event {
    let mut random = fastrand::Rng::with_seed(seed);
    let (often, mut number) = ([1, 4, 50][random.usize(..3)], 0_u32);
    move || {
        number = number.wrapping_add(if random.u32(..often) == 0 { random.u32(..4) } else { 1 });
        let message = MsgId { source: 0, context: 1, seq: number };
        let polls = if random.u32(..often) == 0 { random.u32(..70) } else { 0 };
        match random.u32(..often * 4) {
            0 => Event::Probed { polls, message },
            1 => Event::Found { polls, index: number | 1 << 31 },
            _ => Event::Matched { polls, post: number, message },
        }
    }
}

proptest! {
    /// For every successor, and any number that is read and kept at a time.
    #[test]
    fn what_is_written_is_read(
        bits in 0..10u32, seed: u64, begin in prop_oneof![Just(0), 1..500u64], steps in prop::collection::vec(step(), 1..60),
    ) {
        let shape = RingShape { capacity: 1 << bits, ..SHAPE };
        let file = create_memory("ring", shape.bytes()).unwrap();
        let map = || Memory::map(file.as_fd(), shape.bytes()).unwrap();
        shape.lay_out(&map());
        let mut reader = RingReader::attach(map(), shape, 0).unwrap();
        reader.keep(begin);
        let mut writer = RingWriter::attach(map(), shape).unwrap();
        let (mut next, mut all, mut batch) = (written(seed), Vec::new(), Batch::default());
        for step in steps {
            match step {
                Step::Write(events) => for k in 0..events {
                    let event = next();
                    // Rightly or wrongly, or not at all.
                    match (seed as usize).wrapping_add(k * k) % 7 {
                        0 | 1 => writer.prepare(0, if matches!(event, Event::Found { .. }) { 2 } else { 0 }),
                        2 => writer.prepare(k as u32 % 70, k as u8),
                        _ => {}
                    }
                    match writer.push(&event) {
                        Ok(clock) => {
                            all.push(event);
                            prop_assert_eq!(clock, begin + all.len() as u64);
                        }
                        Err(Full) => {
                            let free = begin + all.len() as u64 - reader.taken();
                            prop_assert!(free > shape.capacity / 2, "of {} there are {free}", shape.capacity);
                            break;
                        }
                    }
                },
                Step::Read(events, keeps) => {
                    let seen = reader.taken() + batch.len() as u64;
                    let last = reader.written().unwrap().min(seen + events as u64);
                    prop_assert_eq!(reader.read(seen, last, &mut batch), Ok(()));
                    let from = (reader.taken() - begin) as usize;
                    prop_assert_eq!(batch.events().collect::<Vec<Event>>(), &all[from..from + batch.len()]);
                    if keeps {
                        reader.keep(last);
                        batch.clear();
                    }
                }
                Step::Logger => {
                    reader = RingReader::attach(map(), shape, 0).unwrap();
                    batch.clear();
                }
                Step::Rank => writer = RingWriter::attach(map(), shape).unwrap(),
            }
        }
    }
}

#[test]
fn another_ring_is_refused() {
    let others = [
        ("version and rank", RingShape { rank: 3, ..SHAPE }),
        ("job", RingShape { job: 8, ..SHAPE }),
        ("durability and copies", RingShape { durability: Durability::Process, ..SHAPE }),
        (
            "durability and copies",
            RingShape { durability: Durability::Node { copies: 1 }, ..SHAPE },
        ),
        ("capacity", RingShape { capacity: 2, ..SHAPE }),
        ("length in bytes", RingShape { capacity: 1024, ..SHAPE }),
    ];
    for (wrong, other) in others {
        let [writing, reading, _] = ring(SHAPE);
        let of = |error| match error {
            RingError::Header { field, .. } => field,
            other => panic!("{other}"),
        };
        assert_eq!(of(RingWriter::attach(writing, other).unwrap_err()), wrong);
        assert_eq!(of(RingReader::attach(reading, other, 0).unwrap_err()), wrong);
    }
}

/// The rank waits for the slowest copy, and believes what all say.
#[test]
fn of_several_copies_the_least_counts() {
    let shape = RingShape { durability: Durability::Node { copies: 3 }, ..SHAPE };
    let [writing, first, second] = ring(shape);
    let file = create_memory("ring", shape.bytes()).unwrap();
    assert!(RingShape::found(&Memory::map(file.as_fd(), shape.bytes()).unwrap(), 2).is_err());
    assert_eq!(RingShape::found(&first, 2), Ok(shape));
    let view = |memory| RingView::attach(memory, shape).unwrap();
    let mut writer = RingWriter::attach(writing, shape).unwrap();
    let mut readers = [(first, 0), (second, 2)]
        .map(|(ring, copy)| RingReader::attach(ring, shape, copy).unwrap());
    (1..=4).for_each(|clock| assert_eq!(writer.push(&event(clock)), Ok(clock)));
    readers.iter_mut().for_each(|reader| reader.keep(3));
    assert_eq!((writer.stable(), writer.push(&event(5))), (Ok(0), Err(Full)));
    // The copy in the middle is the slowest.
    let [a, b] = readers.map(|reader| reader.memory);
    let mut slow = RingReader::attach(a, shape, 1).unwrap();
    assert_eq!((slow.taken(), slow.promised(), slow.written()), (0, 0, Ok(4)));
    slow.keep(2);
    assert_eq!((writer.stable(), view(b).stable()), (Ok(2), 2));
    assert_eq!((writer.push(&event(5)), writer.push(&event(6))), (Ok(5), Ok(6)));
    assert_eq!(writer.push(&event(7)), Err(Full));
    let again = RingReader::attach(slow.memory, shape, 2).unwrap();
    assert_eq!(again.taken(), 3, "each resumes where it was");
    // A word that cannot be right.
    again.own(STABLE).store(9, Ordering::Relaxed);
    slow = RingReader::attach(again.memory, shape, 1).unwrap();
    slow.own(STABLE).store(8, Ordering::Relaxed);
    assert_eq!(writer.stable(), Ok(3));
    slow.memory.word(STABLE).store(7, Ordering::Relaxed);
    assert!(matches!(writer.stable(), Err(RingError::Position { word: "stable", got: 7, .. })));
}
