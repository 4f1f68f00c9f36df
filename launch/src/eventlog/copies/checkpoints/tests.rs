//! Of checkpoints that come over a connection the last whole one is handed out.

use super::*;
use crate::eventlog::channel::Channel;
use crate::eventlog::stream;
use std::io::{BufReader, IoSlice, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::Duration;
use taffrail_logging::store::{Left, Location};

const OWNER: Owner = Owner { rank: 1, job: 9 };
const SEGMENT: u32 = 4096;

fn shared() -> Arc<Shared> {
    let (held, connections) = (Mutex::default(), AtomicUsize::new(0));
    let (channel, _) = Channel::pair(false).unwrap();
    let me = stream::identity(OWNER.job, [7; 32], 0);
    Arc::new(Shared { channel, me, job: OWNER.job, held, connections })
}

/// A connection by an order of node 3, and its other end.
fn connect(shared: &Arc<Shared>, epoch: u64) -> (TcpStream, JoinHandle<Error>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    there.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (here, _) = listener.accept().unwrap();
    let shared = shared.clone();
    let work = move || {
        let mut reader = BufReader::new(here.try_clone().unwrap());
        shared.take_checkpoints((3, epoch), &mut reader, here).unwrap_err()
    };
    (there, std::thread::spawn(work))
}

/// The bytes of checkpoint `number` of a rank.
fn checkpoint(number: u64, owner: Owner) -> Vec<u8> {
    let file = File::from(empty_memory("test").unwrap());
    let mut files = CheckpointFiles::open(file, owner).unwrap();
    for now in 1..=number {
        let state = format!("state {now}").into_bytes();
        files.commit(4, &(10 * now).to_le_bytes(), &[IoSlice::new(&state)]).unwrap();
    }
    let extent = files.extent().unwrap().unwrap();
    let mut bytes = vec![0; extent.len as usize];
    files.read(&mut bytes, extent.at).unwrap();
    bytes
}

fn frames(number: u64, bytes: &[u8], segments: &[u64], runs: &[(u64, u64)]) -> Vec<CopyFrame> {
    let rank = OWNER.rank;
    let about = CheckpointAbout { len: bytes.len() as u64, incarnation: 4, segment: SEGMENT };
    let (first, rest) = bytes.split_at(20);
    let mut all = vec![
        CopyFrame::Checkpoint { rank, number, about },
        CopyFrame::Part { rank, at: 0, bytes: first.to_vec() },
        CopyFrame::Part { rank, at: 20, bytes: rest.to_vec() },
    ];
    all.extend(segments.iter().map(|&segment| {
        let bytes = vec![segment as u8; SEGMENT as usize];
        CopyFrame::Log { rank, place: segment * u64::from(SEGMENT), bytes }
    }));
    all.push(CopyFrame::Segments { rank, runs: runs.to_vec() });
    all.push(CopyFrame::Whole { rank, number });
    all
}

/// Sends them. Whether the last one was taken.
fn send(stream: &mut TcpStream, frames: &[CopyFrame]) -> bool {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    let _ = stream.write_all(&bytes);
    matches!(frames.last(), Some(CopyFrame::Whole { .. })) && CopyFrame::read(stream).is_ok()
}

type HandedOut = (u64, Vec<u8>, Vec<(u64, u8)>);

/// The number of what is handed out, its state, and which segments there are, by their first bytes.
fn handed_out(shared: &Shared, epoch: u64) -> Option<HandedOut> {
    let whole = shared.held().checkpoints.of(OWNER.rank, epoch)?;
    let [file, places, log] = whole.files().unwrap();
    let last = CheckpointFiles::open(file, OWNER).unwrap().last().unwrap().unwrap();
    assert_eq!((last.number, last.incarnation), (whole.number, whole.incarnation));
    let left = Left::read(&places).unwrap();
    let segments = left.numbers().into_iter().map(|number| {
        assert_eq!(left.place(number), Some(Location::File));
        let mut bytes = vec![0; SEGMENT as usize];
        log.read_exact_at(&mut bytes, number * left.size()).unwrap();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{number}");
        (number, bytes[0])
    });
    Some((last.number, last.state, segments.collect()))
}

/// Segments that are there do not come again, and those that nobody needs any more are gone.
#[test]
fn the_last_whole_one_is_handed_out_with_its_log() {
    let shared = shared();
    let (mut stream, _) = connect(&shared, 5);
    assert!(handed_out(&shared, 5).is_none());
    let first = checkpoint(1, OWNER);
    assert!(send(&mut stream, &frames(1, &first, &[1, 2, 3], &[(1, 3)])));
    let segments = vec![(1, 1), (2, 2), (3, 3)];
    assert_eq!(handed_out(&shared, 5), Some((1, b"state 1".to_vec(), segments.clone())));
    assert!(handed_out(&shared, 6).is_none(), "by another order");
    // Torn at every frame: the one before stays.
    let second = frames(2, &checkpoint(2, OWNER), &[7], &[(2, 2), (7, 1)]);
    for torn in 1..second.len() {
        assert!(!send(&mut stream, &second[..torn]));
        assert_eq!(handed_out(&shared, 5), Some((1, b"state 1".to_vec(), segments.clone())));
    }
    assert!(send(&mut stream, &second));
    let segments = vec![(2, 2), (3, 3), (7, 7)];
    assert_eq!(handed_out(&shared, 5), Some((2, b"state 2".to_vec(), segments)));
    let log = shared.held().checkpoints.of(OWNER.rank, 5).unwrap().log;
    let mut first = [1];
    log.read_exact_at(&mut first, SEGMENT.into()).unwrap();
    assert_eq!(first, [0], "its room was given back");
}

#[test]
fn what_is_not_as_it_was_written_is_refused() {
    let other = checkpoint(1, Owner { rank: 2, ..OWNER });
    let mut flipped = checkpoint(1, OWNER);
    *flipped.last_mut().unwrap() ^= 1;
    let good = checkpoint(1, OWNER);
    let mut short = frames(1, &good, &[], &[(0, 1)]);
    short.remove(2);
    let unknown = vec![CopyFrame::Whole { rank: 1, number: 1 }];
    for (frames, field) in [
        (frames(1, &other, &[], &[(0, 1)]), "version and rank"),
        (frames(1, &flipped, &[], &[(0, 1)]), "sum of the body"),
        (frames(1, &good, &[], &[(4, 1), (3, 1)]), "segments"),
        (frames(1, &good, &[], &[(SEGMENTS_MAX, 1)]), "segments"),
        (short, "checkpoint"),
        (unknown, "one whose checkpoint has begun"),
        (vec![CopyFrame::Taken { number: 1 }, CopyFrame::Whole { rank: 1, number: 1 }], "frame"),
    ] {
        let shared = shared();
        let (mut stream, ended) = connect(&shared, 5);
        assert!(!send(&mut stream, &frames), "{field}");
        let why = ended.join().unwrap().to_string();
        assert!(why.contains(field), "{field}: {why}");
        assert!(handed_out(&shared, 5).is_none());
    }
}

/// Orders that count no more bring nothing.
#[test]
fn former_connections_and_orders_are_refused() {
    let shared = shared();
    let (mut former, ended) = connect(&shared, 5);
    let bytes = checkpoint(1, OWNER);
    let all = frames(1, &bytes, &[0], &[(0, 1)]);
    assert!(send(&mut former, &all));
    let (mut stream, _) = connect(&shared, 6);
    assert!(send(&mut stream, &all));
    assert!(handed_out(&shared, 5).is_none() && handed_out(&shared, 6).is_some());
    drop(ended.join().unwrap());
    assert!(!send(&mut former, &all));
    let (mut late, ended) = connect(&shared, 5);
    assert!(!send(&mut late, &all));
    assert!(ended.join().unwrap().to_string().contains("order"));
    // It was handed out: nothing more is taken of it, whatever comes first.
    shared.held().closed.insert(6);
    assert!(!send(&mut stream, &frames(2, &checkpoint(2, OWNER), &[0], &[(0, 1)])));
    assert_eq!(handed_out(&shared, 6).unwrap().0, 1);
}

/// The log of a rank is brought to another copy store, all of it or nothing.
#[test]
fn one_that_is_whole_is_brought_to_another_copy_store() {
    let (first, second) = (shared(), shared());
    let (mut stream, _) = connect(&first, 5);
    assert!(send(&mut stream, &frames(2, &checkpoint(2, OWNER), &[2, 7], &[(2, 1), (7, 1)])));
    let whole = first.held().checkpoints.of(OWNER.rank, 5).unwrap();
    let records = CopyFrame::Records { rank: 1, clock: 1, bytes: vec![0; 64] };
    let cut = |clocks| CopyFrame::Cut { number: 0, clocks };
    let (good, early) = (cut(vec![(1, 2)]), cut(vec![(1, 1)]));
    let other = cut(vec![(2, 2)]);
    for end in [None, Some(early), Some(other), Some(good.clone())] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut here, _) = listener.accept().unwrap();
        let shared = second.clone();
        let taker = std::thread::spawn(move || {
            let mut reader = BufReader::new(here.try_clone().unwrap());
            shared.take_brought((OWNER.rank, 9), &mut reader, &mut here)
        });
        whole.send(&mut there, OWNER.rank).unwrap();
        let is_good = end.as_ref() == Some(&good);
        send(&mut there, &[vec![records.clone()], end.into_iter().collect()].concat());
        there.shutdown(Shutdown::Write).unwrap();
        assert_eq!(taker.join().unwrap().is_ok(), is_good);
        assert_eq!(
            second.held().close(OWNER.rank, 9).map(|(_, clock)| clock),
            is_good.then_some(2)
        );
    }
    assert!(second.held().checkpoint(OWNER.rank, 8).is_none(), "by another order");
    let brought = second.held().checkpoint(OWNER.rank, 9).unwrap();
    second.held().checkpoints.whole.insert((0, OWNER.rank), (9, brought));
    let segments = vec![(2, 2), (7, 7)];
    assert_eq!(handed_out(&second, 9), Some((2, b"state 2".to_vec(), segments)));
}
