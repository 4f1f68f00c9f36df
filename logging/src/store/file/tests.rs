use super::*;
use crate::{Event, MsgId};
use std::io::{Read, Seek};

const OWNER: Owner = Owner { rank: 5, job: 0x1234 };

fn event(clock: u64) -> Event {
    let message = MsgId { source: clock as u32, context: 1, seq: 2 };
    Event::Matched { polls: 4, post: 3, message }
}

fn bytes(clocks: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = file_header(OWNER).to_vec();
    for clock in clocks {
        bytes.extend(event(clock).encode(OWNER.rank, clock));
    }
    bytes
}

/// Opens a file of these bytes: how many records it has, how many bytes were cut off, and its bytes.
fn open(bytes: &[u8]) -> Result<(u64, u64, Vec<u8>), FileError> {
    open_to(End::Torn, bytes)
}

fn open_to(end: End, bytes: &[u8]) -> Result<(u64, u64, Vec<u8>), FileError> {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    let mut again = file.try_clone().unwrap();
    let opened = EventFile::open(file, "f".into(), OWNER, end);
    let mut left = Vec::new();
    again.rewind().unwrap();
    again.read_to_end(&mut left).unwrap();
    match opened {
        Ok((opened, cut)) => Ok((opened.records(), cut, left)),
        Err(error) => {
            assert_eq!(left, bytes, "a damaged file is left as it is");
            Err(error)
        }
    }
}

fn check(events: &[LoggedEvent]) {
    for (place, got) in (1..).zip(events) {
        assert_eq!(*got, LoggedEvent { clock: place, event: event(place) });
    }
}

#[test]
fn what_was_written_is_read() {
    let bytes = bytes(1..=3);
    let events = read_events(OWNER, "f", &bytes).unwrap();
    assert_eq!(events.len(), 3);
    check(&events);
    let (records, cut, left) = open(&bytes).unwrap();
    assert_eq!((records, cut, left), (3, 0, bytes));
}

#[test]
fn a_file_cut_off_anywhere_has_what_is_whole_of_it() {
    let whole = bytes(1..=4);
    for len in 0..whole.len() {
        let short = &whole[..len];
        if len < FILE_HEADER {
            assert!(matches!(open(short), Err(FileError::Header { .. })), "{len}");
            continue;
        }
        let (records, cut, left) = open(short).unwrap();
        assert_eq!(records as usize, (len - FILE_HEADER) / RECORD);
        assert_eq!((len - cut as usize, left.len()), (left.len(), offset(records) as usize));
        check(&read_events(OWNER, "f", &left).unwrap());
        assert_eq!(read_events(OWNER, "f", short).is_err(), cut != 0, "a download has no torn end");
    }
}

/// Every single bit: an error that names the place, or, in the last record, a torn end.
#[test]
fn no_flipped_bit_changes_an_event() {
    let whole = bytes(1..=4);
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let place = (bit / 8).checked_sub(FILE_HEADER).map(|at| (at / RECORD) as u64 + 1);
        let strict = read_events(OWNER, "f", &damaged);
        match (place, open(&damaged)) {
            (None, Err(FileError::Header { .. })) => {
                assert!(matches!(strict, Err(FileError::Header { .. })), "bit {bit}");
            }
            (Some(4), Ok((3, 32, left))) => {
                check(&read_events(OWNER, "f", &left).unwrap());
                assert!(matches!(strict, Err(FileError::Record { clock: 4, .. })), "bit {bit}");
            }
            (Some(place @ 1..=3), Err(FileError::Record { clock, behind, .. })) => {
                assert_eq!(clock, place, "bit {bit}");
                let at = offset(place);
                assert_eq!(behind, Behind::Record { clock: place + 1, at }, "bit {bit}");
                assert!(strict.is_err());
            }
            (_, other) => panic!("bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn missing_and_swapped_and_foreign_bytes_are_errors() {
    let mut missing = bytes(1..=4);
    missing.remove(FILE_HEADER + RECORD + 7);
    let error = open(&missing).unwrap_err();
    assert!(
        matches!(
            error,
            FileError::Record { clock: 2, behind: Behind::Record { clock: 3, .. }, .. }
        ),
        "{error}"
    );
    let error = open(&bytes([1, 3])).unwrap_err();
    assert_eq!(error.to_string(), "event file f, record 2: found record 3 in its place");
    let mut foreign = bytes([1]);
    foreign.extend(event(2).encode(OWNER.rank + 1, 2));
    assert_eq!(open(&foreign).unwrap().0, 1, "not a record of this rank: a torn end");
    foreign.extend(event(3).encode(OWNER.rank, 3));
    assert!(open(&foreign).is_err());
}

#[test]
fn a_hole_of_any_length_at_the_end_is_cut_off() {
    let mut hole = bytes(1..=2);
    hole.resize(hole.len() + 2 * PIECE + 11, 0);
    let (records, cut, _) = open(&hole).unwrap();
    assert_eq!((records, cut), (2, 2 * PIECE as u64 + 11));
    hole.extend(event(9).encode(OWNER.rank, 9));
    let error = open(&hole).unwrap_err();
    assert!(
        matches!(error, FileError::Record { clock: 3, what: RecordError::Empty, .. }),
        "{error}"
    );
}

#[test]
fn files_of_several_pieces_are_read_whole() {
    let records = 3 * PIECE / RECORD + 5;
    let long = bytes(1..=records as u64);
    assert_eq!(open(&long).unwrap().0, records as u64);
    let events = read_events(OWNER, "f", &long).unwrap();
    assert_eq!(events.len(), records);
    check(&events);
}

#[test]
fn each_rank_has_a_file_and_another_jobs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = EventFile::open_in(folder.path(), OWNER, End::Torn).unwrap();
    file.file().write_all_at(&event(1).encode(OWNER.rank, 1), file.end()).unwrap();
    let (file, _) = EventFile::open_in(folder.path(), OWNER, End::Torn).unwrap();
    assert_eq!(file.records(), 1);
    let other = Owner { job: 7, ..OWNER };
    let error = EventFile::open_in(folder.path(), other, End::Torn).unwrap_err();
    assert!(matches!(error, FileError::Header { field: "job", got: 0x1234, .. }), "{error}");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// Of any file, whatever is behind the cut: the records of the cut, or an error that names the first
/// that is not there.
#[test]
fn a_cut_has_all_of_its_records_and_nothing_behind_counts() {
    let whole = bytes(1..=4);
    let end = |clock| End::Cut { clock, number: 7 };
    for clock in 0..=6 {
        let opened = open_to(end(clock), &whole);
        if clock <= 4 {
            let (records, cut, left) = opened.unwrap();
            assert_eq!((records, cut), (clock, 32 * (4 - clock)));
            check(&read_events(OWNER, "f", &left).unwrap());
        } else {
            let text = opened.unwrap_err().to_string();
            assert!(text.contains("record 5") && text.contains("cut 7 of its set"), "{text}");
        }
    }
    for bit in FILE_HEADER * 8..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let place = ((bit / 8 - FILE_HEADER) / RECORD) as u64 + 1;
        match open_to(end(2), &damaged) {
            Ok((2, 64, _)) => assert!(place > 2, "bit {bit}"),
            Err(FileError::Record { clock, behind: Behind::Cut { number: 7 }, .. }) => {
                assert_eq!(clock, place, "bit {bit}");
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    let torn = &whole[..whole.len() - 1];
    assert_eq!(open_to(end(3), torn).unwrap().0, 3);
    let error = open_to(end(4), torn).unwrap_err();
    assert!(
        matches!(error, FileError::Record { what: RecordError::Short { clock: 4, got: 31 }, .. }),
        "{error}"
    );
}
