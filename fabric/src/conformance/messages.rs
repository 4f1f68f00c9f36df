//! One message at a time: every head, every length, every way to gather it.

use super::mesh::{Mesh, accepted, limits, peer};
use super::seed::Seeded;
use super::{Bench, pattern};
use crate::{Fabric, Head, Refused, Source};

/// Ranks, sizes and capabilities say the same on every side.
pub fn identity<B: Bench>(bench: &B) {
    for n in [1, 2, 5] {
        let mut mesh = Mesh::new(bench, n);
        let caps = limits(mesh.at(0)).clone();
        assert!(!caps.fabric.is_empty());
        assert!(caps.inline <= caps.max_message, "{caps:?}");
        assert!((1..=caps.max_message).contains(&caps.fragment), "{caps:?}");
        for rank in 0..n {
            assert_eq!(mesh.at(rank).me(), peer(rank));
            assert_eq!(*limits(mesh.at(rank)), caps);
            for to in 0..n {
                let cost = mesh.at(rank).send_cost(peer(to));
                assert!(cost.of(1) > 0.0 && cost.of(1 << 30) > cost.of(1), "{cost:?}");
            }
        }
    }
}

/// A head travels unread: every kind, and every bit of the other fields, alone and with others.
pub fn heads<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let mut heads: Vec<Head> =
        (0..Head::KINDS).map(|kind| Head { kind, ..Head::default() }).collect();
    for bit in 0..64 {
        // Lengths beyond 4 GiB, which the engine keeps in `tag`, are among these.
        let tag = 1u64 << bit;
        heads.extend([tag, !tag, tag - 1].map(|tag| Head { tag, ..Head::default() }));
        let seq = 1u32 << (bit % 32);
        heads.extend([seq, !seq].map(|seq| Head { seq, ..Head::default() }));
        let context = 1u16 << (bit % 16);
        heads.extend([context, !context].map(|context| Head { context, ..Head::default() }));
    }
    heads.push(Head { kind: Head::KINDS - 1, context: !0, seq: !0, tag: !0 });
    heads.extend((0..1000).map(|_| Head {
        kind: random.u8(..Head::KINDS),
        context: random.u16(..),
        seq: random.u32(..),
        tag: random.u64(..),
    }));
    let longer = limits(mesh.at(0)).inline + 1;
    for head in heads {
        for payload in [&[][..], b"12345678", &vec![7; longer.min(4096)]] {
            mesh.send(0, 1, head, payload);
            let got = mesh.receive(1);
            assert_eq!((got.0, got.1), (peer(0), head), "with {} bytes", payload.len());
            assert!(got.2 == payload, "payload beside {head:?}");
        }
    }
    mesh.assert_nothing_more();
}

/// Every length up to a few cache lines, and those around every boundary up to the longest.
pub fn sizes<B: Bench>(bench: &B) {
    let random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    for len in lengths(mesh.at(0)) {
        let payload = pattern::bytes(random.seed() ^ len as u64, len);
        let head = Head { kind: 1, context: 2, seq: len as u32, tag: !(len as u64) };
        for (from, to) in [(0, 1), (1, 0)] {
            mesh.send(from, to, head, &payload);
            let (source, got, bytes) = mesh.receive(to);
            assert_eq!((source, got), (peer(from), head));
            pattern::assert_same(&bytes, &payload, format_args!("message of {len} bytes"));
        }
    }
    mesh.assert_nothing_more();
}

/// What does not fit is refused, with the limit; it leaves no trace.
pub fn too_long<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    for to in [peer(0), peer(1)] {
        let limit = mesh.at(0).limits(to).max_message;
        let bytes = pattern::bytes(1, limit + 1);
        let refused = Err(Refused::TooLong { got: limit + 1, limit });
        assert_eq!(accepted(mesh.at(0), to, Head::default(), Source::Bytes(&bytes)), refused);
        let parts = [&bytes[..1], &bytes[1..limit], &bytes[limit..]];
        assert_eq!(accepted(mesh.at(0), to, Head::default(), Source::Parts(&parts)), refused);
        let many = vec![&bytes[..]; 8];
        let got = 8 * (limit + 1);
        let refused = Err(Refused::TooLong { got, limit });
        assert_eq!(accepted(mesh.at(0), to, Head::default(), Source::Parts(&many)), refused);
    }
    mesh.assert_nothing_more();
    let bytes = pattern::bytes(1, mesh.at(0).limits(peer(1)).max_message);
    mesh.send(0, 1, Head::default(), &bytes);
    assert!(mesh.receive(1).2 == bytes);
}

/// Every way to cut a short message into parts, with and without empty parts between.
pub fn gather_every_split<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    for len in 0..=9usize {
        let bytes = pattern::bytes(len as u64, len);
        for cuts in 0..1u32 << len.saturating_sub(1) {
            for empties in [false, true] {
                let mut parts = split(&bytes, |at| cuts >> (at - 1) & 1 == 1);
                if empties {
                    parts = parts.iter().flat_map(|&part| [&[][..], part, &[]]).collect();
                }
                gathered(&mut mesh, &parts, &bytes);
            }
        }
    }
    gathered(&mut mesh, &[], &[]);
    mesh.assert_nothing_more();
}

/// Longer messages: two parts cut everywhere around the first boundaries, and random parts.
pub fn gather_long<B: Bench>(bench: &B) {
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 2);
    let limit = limits(mesh.at(0)).max_message;
    for len in [limits(mesh.at(0)).inline + 1, 65, 130, 300].map(|len| len.min(limit)) {
        let bytes = pattern::bytes(random.u64(..), len);
        for cut in 0..=len {
            gathered(&mut mesh, &[&bytes[..cut], &bytes[cut..]], &bytes);
        }
    }
    for len in lengths(mesh.at(0)).into_iter().filter(|&len| len > 8) {
        let bytes = pattern::bytes(random.u64(..), len);
        let chance = random.usize(1..=len);
        // The splitter asks for each position in turn; a few parts up to one for each byte.
        let parts = split(&bytes, |_| random.usize(..len) < chance.min(40));
        gathered(&mut mesh, &parts, &bytes);
    }
    mesh.assert_nothing_more();
}

/// A rank is a peer of its own.
pub fn to_itself<B: Bench>(bench: &B) {
    for n in [1, 3] {
        let mut mesh = Mesh::new(bench, n);
        for rank in 0..n {
            let lengths = lengths(mesh.at(rank));
            for (number, &len) in lengths.iter().enumerate() {
                let head = Head { seq: number as u32, ..Head::default() };
                mesh.send(rank, rank, head, &pattern::bytes(len as u64, len));
            }
            for (number, &len) in lengths.iter().enumerate() {
                let (from, head, bytes) = mesh.receive(rank);
                assert_eq!((from, head.seq), (peer(rank), number as u32));
                let expected = pattern::bytes(len as u64, len);
                pattern::assert_same(&bytes, &expected, format_args!("{len} bytes to itself"));
            }
        }
        mesh.assert_nothing_more();
    }
}

/// Lengths that are worth a try with this fabric, ascending.
fn lengths(fabric: &impl Fabric) -> Vec<usize> {
    let caps = limits(fabric);
    let powers = (0..usize::BITS).map(|bit| 1usize << bit);
    let edges = [caps.inline, caps.fragment, caps.max_message].into_iter().chain(powers);
    let around = edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge.saturating_add(1)]);
    let mut all: Vec<usize> =
        (0..=300).chain(around).filter(|&len| len <= caps.max_message).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Cuts `bytes` before each position for which `cut` says so.
fn split(bytes: &[u8], mut cut: impl FnMut(usize) -> bool) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        if cut(at) {
            parts.push(&bytes[start..at]);
            start = at;
        }
    }
    parts.push(&bytes[start..]);
    parts
}

fn gathered<F: Fabric>(mesh: &mut Mesh<F>, parts: &[&[u8]], expected: &[u8]) {
    let head = Head { kind: 3, context: 9, seq: parts.len() as u32, tag: expected.len() as u64 };
    mesh.started("room for a message", |mesh| mesh.at(0).send(peer(1), head, Source::Parts(parts)))
        .unwrap_or_else(|refused| panic!("{} bytes in parts: {refused}", expected.len()));
    let (from, got, bytes) = mesh.receive(1);
    assert_eq!((from, got), (peer(0), head));
    let lens: Vec<usize> = parts.iter().take(20).map(|part| part.len()).collect();
    pattern::assert_same(&bytes, expected, format_args!("parts of {lens:?} bytes"));
}
