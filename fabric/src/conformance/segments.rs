//! Segments that messages leave from without being copied.

use super::Bench;
use super::mesh::{Mesh, accepted, limits, peer};
use super::pattern;
use super::seed::Seeded;
use crate::{BeforeLog, Fabric, Head, LogRange, MemoryError, SegmentId, SendMemory, Source};

/// What is in a segment can be sent as often as wanted, to anybody, whole and in parts.
pub fn sent_again_and_again<B: Bench>(bench: &B)
where
    B::Fabric: SendMemory,
{
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 3);
    let len = mesh.at(0).segment_len();
    let kept: Vec<(SegmentId, Vec<u8>)> = (0..5)
        .map(|k| {
            let bytes = pattern::bytes(random.seed() ^ k, len);
            (mesh.segment(0), bytes)
        })
        .collect();
    for (segment, bytes) in &kept {
        // Written piece by piece, as a log is.
        for (k, piece) in bytes.chunks(len / 7).enumerate() {
            mesh.at(0).write(*segment, k * (len / 7), piece);
        }
        assert!(mesh.at(0).read(*segment, 0, len) == &bytes[..]);
    }
    for round in 0..100 {
        let (segment, bytes) = &kept[random.usize(..kept.len())];
        let at = random.usize(..len);
        let part = &bytes[at..at + random.usize(0..=len - at)];
        let to = random.usize(..3);
        let head = Head { kind: 3, seq: round, ..Head::default() };
        send(&mut mesh, to, head, *segment, at, part.len());
        let (from, got, received) = mesh.receive(to);
        assert_eq!((from, got), (peer(0), head));
        pattern::assert_same(&received, part, format_args!("{} bytes from {at}", part.len()));
    }
    mesh.assert_nothing_more();
}

/// A segment that is released may be written again only when what was sent of it is read.
pub fn released_before_it_is_read<B: Bench>(bench: &B)
where
    B::Fabric: SendMemory,
{
    let random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let len = mesh.at(0).segment_len();
    let mut expected = Vec::new();
    for round in 0..20 {
        let segment = mesh.segment(0);
        let bytes = pattern::bytes(random.seed() ^ round, len);
        mesh.at(0).write(segment, 0, &bytes);
        send(&mut mesh, 1, Head { kind: 1, ..Head::default() }, segment, 0, len);
        mesh.at(0).release(segment);
        expected.push(bytes);
        // Others leave the usual way between them.
        mesh.send(0, 1, Head { kind: 2, ..Head::default() }, &expected[0][..len / 3]);
    }
    for bytes in &expected {
        pattern::assert_same(&mesh.receive(1).2, bytes, format_args!("from a segment"));
        pattern::assert_same(&mesh.receive(1).2, &expected[0][..len / 3], format_args!("between"));
    }
    mesh.assert_nothing_more();
}

/// Segments that are released and not read yet are waited for; there are none only when all are taken.
pub fn released_ones_are_waited_for<B: Bench>(bench: &B)
where
    B::Fabric: SendMemory,
{
    let random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let len = mesh.at(0).segment_len();
    if mesh.at(0).max_segments() > MANY {
        return;
    }
    let mut taken = Vec::new();
    loop {
        match mesh.at(0).take() {
            Ok(Some(segment)) => taken.push(segment),
            Ok(None) => panic!("none was released, and one is waited for"),
            Err(error) => break assert!(matches!(error, MemoryError::Short { .. }), "{error}"),
        }
    }
    assert!(taken.len() > 1, "{} of {} segments", taken.len(), mesh.at(0).max_segments());
    let bytes = pattern::bytes(random.seed(), len);
    for &segment in taken.iter().rev().take(4) {
        mesh.at(0).write(segment, 0, &bytes);
        send(&mut mesh, 1, Head::default(), segment, 0, len);
        mesh.at(0).release(segment);
    }
    for _ in taken.iter().rev().take(4) {
        mesh.segment(0);
        pattern::assert_same(&mesh.receive(1).2, &bytes, format_args!("from a segment"));
    }
    mesh.assert_nothing_more();
}

/// More segments than a test takes.
const MANY: usize = 1 << 14;

/// What is sent before it is written arrives whole and in its place, whatever becomes of the memory that it was sent from, and however
/// little the receiver takes.
pub fn sent_before_they_are_written<B: Bench>(bench: &B)
where
    B::Fabric: SendMemory,
{
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let longest = limits(mesh.at(0)).max_message;
    for round in 0..20 {
        let mut expected = Vec::new();
        // More and more, until there is no room, or all segments are written.
        for number in 0..6 {
            let bytes = pattern::bytes(random.seed() ^ round << 8 ^ number, longest);
            let around = &bytes[..random.usize(0..200)];
            expected.push(around.to_vec());
            mesh.send(0, 1, Head { kind: 2, ..Head::default() }, around);
            let ranges = places(&mut random, &mut mesh, longest);
            let len = ranges.iter().map(|range| range.len).sum();
            let mut given = bytes.clone();
            let (front, behind) = given[..len].split_at(random.usize(0..=len));
            let before = BeforeLog { parts: &[front, behind], ranges: &ranges };
            mesh.started("room for a message", |mesh| {
                let result = mesh.at(0).send(peer(1), Head::default(), Source::BeforeLog(&before));
                if result.is_ok() {
                    // One behind it, before there is anything in the log.
                    let head = Head { kind: 2, ..Head::default() };
                    expected.push(bytes[..len].to_vec());
                    if accepted(mesh.at(0), peer(1), head, Source::Bytes(around)).is_ok() {
                        expected.push(around.to_vec());
                    }
                    let mut left = &bytes[..len];
                    for range in &ranges {
                        let (here, behind) = left.split_at(range.len);
                        mesh.at(0).write(range.segment, range.at, here);
                        left = behind;
                    }
                }
                result
            })
            .unwrap_or_else(|refused| panic!("send of {len} bytes: {refused}"));
            given.fill(0);
            ranges.iter().for_each(|range| mesh.at(0).release(range.segment));
        }
        for (number, bytes) in expected.iter().enumerate() {
            let what = format_args!("message {number} of round {round}");
            pattern::assert_same(&mesh.receive(1).2, bytes, what);
        }
    }
    mesh.assert_nothing_more();
}

/// Places for a message: the end of a segment, and the beginning of the next.
fn places<F: Fabric + SendMemory>(
    random: &mut Seeded,
    mesh: &mut Mesh<F>,
    longest: usize,
) -> [LogRange; 2] {
    let len = mesh.at(0).segment_len();
    let first = random.usize(0..=len.min(longest));
    let next = random.usize(0..=len.min(longest - first));
    [(len - first, first), (0, next)].map(|(at, len)| {
        let segment = mesh.segment(0);
        LogRange { segment, at, len }
    })
}

fn send<F: Fabric>(
    mesh: &mut Mesh<F>,
    to: usize,
    head: Head,
    segment: SegmentId,
    at: usize,
    len: usize,
) {
    mesh.started("room for a message", |mesh| {
        mesh.at(0).send(peer(to), head, Source::Log(LogRange { segment, at, len }))
    })
    .unwrap_or_else(|refused| panic!("send of {len} bytes of a segment: {refused}"));
}
