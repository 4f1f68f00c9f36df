//! Segments that were given up, and that a peer has not read yet: it is slow, or its link is cut.

use super::*;
use crate::log::tests::Kinds;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use taffrail_fabric::{Fabric, Head, Incarnation, PeerId, Sent, Source};
use taffrail_tcp::{Config, Connection, TcpFabric};

const SEGMENTS: usize = 6;

/// Two ends of a link; each has a few segments.
fn pair() -> [TcpFabric; 2] {
    let (here, there) = UnixStream::pair().unwrap();
    let end = |me: u32, socket: UnixStream| {
        let peer = PeerId(1 - me);
        let link = Connection { peer, incarnation: Incarnation(0), socket: OwnedFd::from(socket) };
        let config = Config { max_segments: SEGMENTS, ..Config::default() };
        TcpFabric::new(PeerId(me), 2, vec![link], config).unwrap()
    };
    [end(0, here), end(1, there)]
}

/// Sends a message from the log.
fn send(memory: &mut TcpFabric, payload_log: &PayloadLog<SpillMap>, kept: &LogEntry) {
    let (mut at, end) = (kept.at, kept.at + kept.bytes() as u64);
    while at < end {
        let range = payload_log.range(at, (end - at) as usize, PIECE);
        let sent = memory.send(PeerId(1), Head::default(), Source::Log(range));
        assert_eq!(sent, Ok(Sent::Now));
        at += range.len as u64;
    }
}

/// The end of everything that is on the way.
fn read_all(fabrics: [&mut TcpFabric; 2]) {
    let mut quiet = 0;
    let [memory, peer] = fabrics;
    while quiet < 100 {
        let some = memory.poll(&mut Kinds::default()) + peer.poll(&mut Kinds::default());
        quiet = if some == 0 { quiet + 1 } else { 0 };
    }
}

/// Fills all memory there can be with messages that are sent and given up, none of which the peer has read.
fn fill(memory: &mut TcpFabric, payload_log: &mut PayloadLog<SpillMap>) -> usize {
    for number in 0..100 * SEGMENTS {
        match payload_log.prepare(memory, PIECE, PIECE) {
            Ok(()) => {}
            Err(NotNow::Waits) => return number,
            Err(NotNow::Failed(error)) => panic!("message {number}: {error}"),
        }
        let kept = keep(payload_log, memory, &bytes(number, PIECE));
        send(memory, payload_log, &kept);
        payload_log.release_bytes(memory, kept.at, kept.bytes());
        payload_log.release_empty(memory);
    }
    panic!("{SEGMENTS} segments are more than {} messages", 100 * SEGMENTS)
}

#[test]
fn what_is_to_be_written_waits_for_the_peer() {
    let [mut memory, mut peer] = pair();
    let mut payload_log = PayloadLog::new(SIZE, 4 * SIZE, SpillMap::default());
    for round in 0..3 {
        let number = fill(&mut memory, &mut payload_log);
        assert!(payload_log.waits(), "round {round}, after {number} messages");
        read_all([&mut memory, &mut peer]);
        assert_eq!(payload_log.prepare(&mut memory, PIECE, PIECE), Ok(()), "round {round}");
    }
}

#[test]
fn what_is_to_be_brought_back_waits_for_the_peer() {
    let [mut memory, mut peer] = pair();
    let mut payload_log = PayloadLog::new(SIZE, 4 * SIZE, SpillMap::default());
    // More than its memory: the first is in the file.
    let all: Vec<LogEntry> =
        (0..30).map(|k| keep(&mut payload_log, &mut memory, &bytes(k, 15_000))).collect();
    end_writes(&mut payload_log, &mut memory);
    fill(&mut memory, &mut payload_log);
    for _ in 0..50 {
        assert_eq!(payload_log.bring_back(&mut memory, all[0].at), Err(NotNow::Waits));
    }
    assert_eq!(payload_log.spilled.reads(SIZE), 1, "it is read once");
    read_all([&mut memory, &mut peer]);
    for (k, kept) in all.iter().enumerate() {
        assert!(read(&mut payload_log, &mut memory, kept) == bytes(k, 15_000), "message {k}");
    }
}
