//! A receiver that does not poll: senders notice, and nothing is lost.

use super::mesh::{Deadline, Mesh, accepted, limits, peer};
use super::{Bench, pattern};
use crate::{Fabric, Head, Refused, Source};

/// A fabric that takes more than this for a receiver that never polls has no bound.
const BOUND: usize = 32 << 20;
/// Of a message without payload. Where it takes less, there are the buffers of a stream in the kernel.
const OVERHEAD: usize = 64;

/// Sends end in `Busy`; what was accepted arrives, and there is room again.
pub fn ends_in_busy<B: Bench>(bench: &B) {
    let caps = limits(&bench.mesh(1)[0]).clone();
    for len in [0, 8, caps.inline + 1, caps.fragment, caps.max_message] {
        let mut mesh = Mesh::new(bench, 2);
        fill_and_drain(&mut mesh, bench, 0, 1, len.min(caps.max_message));
    }
}

/// As towards another, so towards itself: a rank that does not poll cannot send to itself for ever.
pub fn busy_with_itself<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    let longest = limits(mesh.at(0)).max_message;
    for len in [0, 8, longest] {
        fill_and_drain(&mut mesh, bench, 0, 0, len);
    }
}

/// Two that have filled all room towards each other, before either polls, both get on.
pub fn busy_both_ways<B: Bench>(bench: &B) {
    let longest = limits(&bench.mesh(1)[0]).max_message;
    for len in [8, 1000, longest].map(|len| len.min(longest)) {
        let mut mesh = Mesh::new(bench, 2);
        for _ in 0..2 {
            let sent = [until_busy(&mut mesh, 0, 1, len, 0), until_busy(&mut mesh, 1, 0, len, 0)];
            for (from, to) in [(0, 1), (1, 0)] {
                mesh.until("all messages", |mesh| mesh.seen[to].messages.len() == sent[from]);
                let came = std::mem::take(&mut mesh.seen[to].messages);
                for (number, (source, head, bytes)) in came.into_iter().enumerate() {
                    assert_eq!((source, head), (peer(from), numbered(number)));
                    assert_eq!(bytes.len(), len);
                }
            }
        }
        for (from, to) in [(0, 1), (1, 0)] {
            mesh.send(from, to, numbered(0), &[]);
            mesh.receive(to);
        }
        mesh.assert_nothing_more();
    }
}

fn fill_and_drain<B: Bench>(
    mesh: &mut Mesh<B::Fabric>,
    bench: &B,
    from: usize,
    to: usize,
    len: usize,
) {
    for round in 0..3 {
        let mut accepted = until_busy(mesh, from, to, len, 0);
        assert!(accepted > 0, "round {round}: no room for even one message of {len} bytes");
        if from != to {
            // Polling makes room only where the receiver has polled.
            let deadline = Deadline::after(bench.patience());
            for _ in 0..100 {
                mesh.poll(from);
            }
            deadline.check("the sender polled");
            accepted += until_busy(mesh, from, to, len, accepted);
        }
        for number in 0..accepted {
            let (source, head, bytes) = mesh.receive(to);
            assert_eq!(source, peer(from));
            assert_eq!(head, numbered(number), "of {accepted} accepted messages of {len} bytes");
            pattern::assert_same(
                &bytes,
                &pattern::bytes(number as u64, len),
                format_args!("message {number} of {accepted}"),
            );
        }
        mesh.assert_nothing_more();
    }
}

/// Sends numbered messages until there is no room. How many were accepted.
fn until_busy<F: Fabric>(
    mesh: &mut Mesh<F>,
    from: usize,
    to: usize,
    len: usize,
    first: usize,
) -> usize {
    let mut number = first;
    loop {
        let payload = pattern::bytes(number as u64, len);
        match accepted(mesh.at(from), peer(to), numbered(number), Source::Bytes(&payload)) {
            Ok(_) => number += 1,
            Err(Refused::Busy) => return number - first,
            Err(refused) => panic!("message {number} of {len} bytes: {refused}"),
        }
        assert!(
            number * (len + OVERHEAD) < BOUND,
            "{number} messages of {len} bytes accepted, and the receiver never polled"
        );
    }
}

/// While there is no room towards one peer, everybody else's messages move.
pub fn busy_is_between_two<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 4);
    let stuck = until_busy(&mut mesh, 0, 1, 64, 0);
    for number in 0..5000 {
        for (from, to) in [(0, 2), (2, 0), (2, 3), (3, 2), (0, 0)] {
            let deadline = Deadline::after(bench.patience());
            while mesh.at(from).send(peer(to), numbered(number), Source::Bytes(b"moves"))
                == Err(Refused::Busy)
            {
                deadline.check(format_args!("{from} to {to}, because 1 does not poll"));
                for rank in [0, 2, 3] {
                    mesh.poll(rank);
                }
            }
            while mesh.seen[to].messages.is_empty() {
                deadline.check(format_args!("{to} gets from {from}, because 1 does not poll"));
                for rank in [0, 2, 3] {
                    mesh.poll(rank);
                }
            }
            let (source, head, _) = mesh.seen[to].messages.remove(0);
            assert_eq!((source, head), (peer(from), numbered(number)));
        }
    }
    // The stuck rank can still send, and gets what was accepted for it.
    accepted(mesh.at(1), peer(0), numbered(7), Source::Bytes(b"here")).expect("room from 1 to 0");
    for number in 0..stuck {
        assert_eq!(mesh.receive(1).1, numbered(number));
    }
    assert_eq!(mesh.receive(0).1, numbered(7));
    mesh.assert_nothing_more();
}

fn numbered(number: usize) -> Head {
    Head { kind: 5, context: 1, seq: number as u32, tag: number as u64 }
}
