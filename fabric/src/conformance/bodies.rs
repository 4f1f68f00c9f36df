//! Streamed and leased bodies.

use super::mesh::{Deadline, Mesh, accepted, limits, peer};
use super::ram::Ram;
use super::seed::Seeded;
use super::{Bench, pattern};
use crate::{Fabric, Fault, Head, Incarnation, Refused, Source, UserBytes};

/// More bytes than a connection has on their way while nobody reads them.
const KEPT: usize = 8 << 20;

/// A sink that wants a part of some messages, and keeps the buffers of others for a while, gets the beginning of each
/// message, and no more than it has room for.
pub fn in_part<B: Bench>(bench: &B) {
    const MESSAGES: u64 = 1500;
    let mut random = Seeded::new();
    let mut mesh = Mesh::new(bench, 3);
    mesh.seen[0].is_picky = true;
    let longest = limits(mesh.at(0)).max_message;
    let one = |random: &mut Seeded| {
        let shift = random.u32(3..14);
        random.usize(0..=longest >> shift)
    };
    let lens: Vec<usize> = (0..MESSAGES).map(|_| one(&mut random)).collect();
    let (mut sent, mut got, mut dropped) = ([0, 0], [Vec::new(), Vec::new()], 0);
    let mut deadline = Deadline::after(bench.patience());
    while got.iter().any(|got: &Vec<u64>| (got.len() as u64) < MESSAGES) {
        for from in [1, 2] {
            let number: &mut u64 = &mut sent[from - 1];
            while *number < MESSAGES && random.u8(..8) > 0 {
                let bytes = pattern::bytes(*number, lens[*number as usize]);
                match mesh.at(from).send(peer(0), numbered(*number), Source::Bytes(&bytes)) {
                    Ok(_) => *number += 1,
                    Err(Refused::Busy) => break,
                    Err(refused) => panic!("message {number}: {refused}"),
                }
            }
        }
        match mesh.step() {
            0 => deadline.check(format_args!("{sent:?} messages were sent")),
            _ => deadline = Deadline::after(bench.patience()),
        }
        for (from, head, bytes) in std::mem::take(&mut mesh.seen[0].messages) {
            let (got, number) = (&mut got[from.index() - 1], head.tag);
            assert_eq!(head, numbered(number));
            assert!(!got.contains(&number), "message {number} of {from} twice");
            if B::Fabric::ORDERED {
                assert_eq!(number, got.len() as u64, "of {from}");
            }
            got.push(number);
            let expected = &pattern::bytes(number, lens[number as usize])[..bytes.len()];
            dropped += lens[number as usize] - bytes.len();
            pattern::assert_same(&bytes, expected, format_args!("message {number} of {from}"));
        }
    }
    assert_eq!(dropped, mesh.seen[0].unwanted, "bytes that the sink did not want");
    mesh.assert_nothing_more();
}

/// A leased buffer keeps its bytes until it is returned, while other messages arrive and after its sender has left.
pub fn kept<B: Bench>(bench: &B) {
    if !bench.leases() {
        return;
    }
    let mut mesh = Mesh::new(bench, 3);
    mesh.seen[0].returns = false;
    let mut number = 0;
    for _ in 0..20 {
        // Messages arrive while the sink holds all the buffers it may hold.
        for _ in 0..200 {
            mesh.send(1 + number as usize % 2, 0, numbered(number), &pattern::bytes(number, 700));
            let (_, head, bytes) = mesh.receive(0);
            assert_eq!(head, numbered(number));
            let what = format_args!("message {number}");
            pattern::assert_same(&bytes, &pattern::bytes(number, 700), what);
            number += 1;
        }
        assert!(!mesh.seen[0].kept.is_empty(), "no buffer that can be kept in 200 messages");
        return_all(&mut mesh);
    }
    let left = |mesh: &mut Mesh<B::Fabric>| {
        while mesh.seen[0].kept.is_empty() {
            mesh.send(2, 0, numbered(0), &[3; 100]);
            mesh.receive(0);
        }
    };
    left(&mut mesh);
    mesh.fabrics[2] = None;
    mesh.until("the end of the link", |mesh| !mesh.seen[0].failed.is_empty());
    return_all(&mut mesh);
    mesh.assert_nothing_more();
}

fn return_all<F: Fabric>(mesh: &mut Mesh<F>) {
    let (fabrics, seen) = (&mut mesh.fabrics, &mut mesh.seen);
    seen[0].return_leases(fabrics[0].as_mut().expect("rank 0 stays"), true);
}

/// A peer is disconnected while the rest of its message comes: the rest ends once, and nothing is written later.
pub fn disconnected<B: Bench>(bench: &B) {
    if !bench.streams() {
        return;
    }
    let mut random = Seeded::new();
    let mut cut = 0;
    for round in 0..24 {
        let mut mesh = Mesh::new(bench, 3);
        let len = limits(mesh.at(0)).max_message;
        // The first one makes the link. In every other round the rest waits in the sender's memory, more than any connection keeps:
        // fabrics that copy it may have all of a message on its way.
        let count = (KEPT / len).clamp(4, 40) as u64;
        let is_user = round % 2 == 0;
        for number in 0..if is_user { 1 } else { 4 } {
            mesh.send(1, 0, numbered(number), &pattern::bytes(number, len));
        }
        let rams: Vec<Ram> = (1..count).map(|number| filled(number, len)).collect();
        for (number, ram) in (1..).zip(&rams).filter(|_| is_user) {
            let token = mesh.token();
            // SAFETY: the memory stays until the sender is gone.
            let source = Source::User(unsafe { UserBytes::new(ram.at(), ram.len()) }, token);
            if accepted(mesh.at(1), peer(0), numbered(number), source).is_err() {
                break;
            }
        }
        let polls = random.u64(..if is_user { count } else { 8 });
        for _ in 0..polls {
            if mesh.seen[0].rests.is_empty() {
                mesh.poll(0);
            }
        }
        cut += usize::from(!mesh.seen[0].rests.is_empty());
        mesh.at(0).disconnect(peer(1), Fault::NoAccess("a test"));
        // The sink checks that the rest ends before the link does.
        mesh.until("the end of the link", |mesh| !mesh.seen[0].failed.is_empty());
        assert!(mesh.seen[0].rests.is_empty(), "round {round}: a rest has no end");
        for (_, head, bytes) in std::mem::take(&mut mesh.seen[0].messages) {
            let expected = pattern::bytes(head.tag, len);
            pattern::assert_same(&bytes, &expected, format_args!("message {}", head.tag));
        }
        mesh.fabrics[1] = None;
        mesh.seen[1].sent.clear();
        mesh.until("that 1 reaches nothing any more", |mesh| {
            mesh.at(0).drained(peer(1), Incarnation::default())
        });
        mesh.assert_nothing_more();
    }
    assert!(cut > 0, "no message of the greatest length was handed over in steps");
}

/// Memory with the bytes of a message.
fn filled(number: u64, len: usize) -> Ram {
    let ram = Ram::new(len);
    ram.write(0, &pattern::bytes(number, len));
    ram
}

fn numbered(number: u64) -> Head {
    Head { kind: 7, context: 5, seq: number as u32, tag: number }
}
