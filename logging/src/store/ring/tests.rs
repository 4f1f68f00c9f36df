use super::*;
use crate::store::{Memory, create_memory};
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

fn clocks(bytes: &[u8]) -> Vec<u64> {
    let records = bytes.as_chunks::<RECORD>().0.iter();
    records.map(|record| Event::decode(SHAPE.rank, record).unwrap().0).collect()
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
    let mut kept = Vec::new();
    assert_eq!((reader.read(0, 4, &mut kept), reader.written()), (Ok(()), Ok(4)));
    assert_eq!(writer.push(&event(5)), Err(Full), "read is not kept yet");
    reader.keep(3);
    assert_eq!((writer.push(&event(5)), writer.stable()), (Ok(5), Ok(3)));
    assert_eq!(reader.read(4, 5, &mut kept), Ok(()));
    assert_eq!(clocks(&kept), [1, 2, 3, 4, 5]);
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
    writer.tell(&sent);
    assert_eq!(told(&reading), sent);
    assert_eq!((left(&reading), writer.written()), (Some(7), 1));
    RingWriter::attach(second, SHAPE).unwrap();
    assert_eq!(left(&reading), None);
}

#[test]
fn whoever_comes_next_goes_on() {
    let [first, reading, second] = ring(SHAPE);
    let mut writer = RingWriter::attach(first, SHAPE).unwrap();
    writer.push(&event(1)).unwrap();
    drop(writer);
    let mut writer = RingWriter::attach(second, SHAPE).unwrap();
    assert_eq!(writer.push(&event(2)), Ok(2));
    let reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    let mut kept = Vec::new();
    assert_eq!((reader.read(0, 2, &mut kept), clocks(&kept)), (Ok(()), vec![1, 2]));
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

/// Each bit of a record in the ring, and each word of the header and of the other side.
#[test]
fn damage_is_found_and_named() {
    let [writing, reading, memory] = ring(SHAPE);
    let mut writer = RingWriter::attach(writing, SHAPE).unwrap();
    writer.push(&event(1)).unwrap();
    writer.push(&event(2)).unwrap();
    let reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    for bit in 0..RECORD * 8 {
        let word = memory.word(SHAPE.place(2) + bit / 64);
        let good = word.fetch_xor(1 << (bit % 64), Ordering::Relaxed);
        let mut kept = Vec::new();
        let error = reader.read(0, 2, &mut kept).unwrap_err();
        assert!(matches!(error, RingError::Record { rank: 2, clock: 2, .. }), "{error}");
        assert_eq!(clocks(&kept), [1], "what is before it is good");
        word.store(good, Ordering::Relaxed);
    }
    assert_eq!(reader.read(0, 2, &mut Vec::new()), Ok(()));
    memory.word(WRITTEN).store(5, Ordering::Relaxed);
    let error = reader.written().unwrap_err();
    assert_eq!(error, RingError::Position { rank: 2, word: "written", least: 0, most: 4, got: 5 });
    memory.word(STABLE).store(3, Ordering::Relaxed);
    assert!(matches!(writer.stable(), Err(RingError::Position { word: "stable", got: 3, .. })));
}

#[test]
fn a_record_of_the_round_before_is_not_taken_for_this_one() {
    let [writing, reading, memory] = ring(SHAPE);
    let mut writer = RingWriter::attach(writing, SHAPE).unwrap();
    let mut reader = RingReader::attach(reading, SHAPE, 0).unwrap();
    for clock in 1..=4 {
        writer.push(&event(clock)).unwrap();
    }
    reader.read(0, 4, &mut Vec::new()).unwrap();
    reader.keep(4);
    memory.word(WRITTEN).store(5, Ordering::Relaxed);
    let error = reader.read(4, 5, &mut Vec::new()).unwrap_err();
    assert_eq!(error, RingError::Misplaced { rank: 2, clock: 5, got: 1 });
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
    assert_eq!(again.taken(), 3, "each goes on where it was");
    // A word that cannot be right.
    again.own(STABLE).store(9, Ordering::Relaxed);
    slow = RingReader::attach(again.memory, shape, 1).unwrap();
    slow.own(STABLE).store(8, Ordering::Relaxed);
    assert_eq!(writer.stable(), Ok(3));
    slow.memory.word(STABLE).store(7, Ordering::Relaxed);
    assert!(matches!(writer.stable(), Err(RingError::Position { word: "stable", got: 7, .. })));
}
