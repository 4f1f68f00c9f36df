//! A peer that leaves in good order, or is cut off.

use super::mesh::{Deadline, Mesh, Seen, accepted, peer, poll};
use super::{Bench, pattern};
use crate::{Fabric, Fault, Head, Refused, Source};

/// The others get everything it had sent, then the news, once; what they send to it fails.
pub fn after_all_messages<B: Bench>(bench: &B) {
    for count in [0, 1, 2, 10, 1000] {
        for len in [0, 8, 3000] {
            let mut mesh = Mesh::new(bench, 3);
            let mut sent = 0;
            while sent < count {
                match accepted(
                    mesh.at(2),
                    peer(0),
                    numbered(sent),
                    Source::Bytes(&pattern::bytes(sent, len)),
                ) {
                    Ok(_) => sent += 1,
                    // No room for more: it leaves with as many.
                    Err(Refused::Busy) => break,
                    Err(refused) => panic!("message {sent}: {refused}"),
                }
            }
            mesh.leave(2);
            let left = (peer(2), Fault::Closed);
            mesh.until("the news that 2 has left", |mesh| {
                !mesh.seen[0].failed.is_empty() && !mesh.seen[1].failed.is_empty()
            });
            mesh.settle();
            for rank in [0, 1] {
                assert_eq!(mesh.seen[rank].failed, std::slice::from_ref(&left), "seen by {rank}");
            }
            let messages = std::mem::take(&mut mesh.seen[0].messages);
            assert_eq!(messages.len() as u64, sent, "messages sent before leaving");
            for (number, (from, head, bytes)) in messages.into_iter().enumerate() {
                assert_eq!((from, head), (peer(2), numbered(number as u64)));
                let expected = pattern::bytes(number as u64, len);
                pattern::assert_same(&bytes, &expected, format_args!("message {number}"));
            }
            for rank in [0, 1] {
                let refused =
                    accepted(mesh.at(rank), peer(2), Head::default(), Source::Bytes(b"too late"));
                assert_eq!(refused, Err(Refused::Failed(Fault::Closed)), "from {rank}");
            }
            mesh.assert_nothing_more();
        }
    }
}

/// The traffic of those that stay continues, also while nobody polls what the leaver had sent.
pub fn others_go_on<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 4);
    for rank in [1, 2] {
        while accepted(mesh.at(0), peer(rank), numbered(0), Source::Bytes(&[1; 64])).is_ok() {}
    }
    mesh.leave(0);
    for number in 0..2000 {
        for (from, to) in [(1, 2), (2, 3), (3, 1), (3, 3)] {
            mesh.send(from, to, numbered(number), b"on");
            mesh.until("a message among those that stayed", |mesh| {
                mesh.seen[to].messages.retain(|&(source, ..)| source != peer(0));
                !mesh.seen[to].messages.is_empty()
            });
            let (source, head, _) = mesh.seen[to].messages.remove(0);
            assert_eq!((source, head), (peer(from), numbered(number)));
        }
    }
    mesh.until("the news that 0 has left", |mesh| {
        (1..4).all(|rank| mesh.seen[rank].failed == [(peer(0), Fault::Closed)])
    });
}

/// The end of the link with a peer that is disconnected is reported once, with the fault given; nothing comes
/// from the peer after that, and what is sent to it fails. Others are not concerned.
pub fn disconnected<B: Bench>(bench: &B) {
    let fault = |got: &str| Fault::Protocol {
        place: "a header",
        expected: "sense".into(),
        got: got.to_owned(),
    };
    for waiting in [0, 1, 20] {
        let mut mesh = Mesh::new(bench, 3);
        for number in 0..waiting {
            accepted(mesh.at(1), peer(0), numbered(number), Source::Bytes(b"unread"))
                .expect("room");
        }
        mesh.at(0).disconnect(peer(1), fault("nonsense"));
        mesh.at(0).disconnect(peer(1), fault("nonsense again"));
        let late = accepted(mesh.at(0), peer(1), Head::default(), Source::Bytes(&[]));
        assert_eq!(late, Err(Refused::Failed(fault("nonsense"))));
        mesh.until("the news of its end", |mesh| !mesh.seen[0].failed.is_empty());
        // Whether messages from before come first is not laid down; `Seen` checks that none comes
        // after the news.
        mesh.seen[0].messages.clear();
        for number in 0..500 {
            // The rank that was cut off may continue as if nothing had happened.
            let _ = mesh.at(1).send(peer(0), numbered(number), Source::Bytes(b"nonsense"));
            for (from, to) in [(0, 2), (2, 0), (1, 2), (2, 1)] {
                mesh.send(from, to, numbered(number), b"sense");
                let (source, head, _) = mesh.receive(to);
                assert_eq!((source, head), (peer(from), numbered(number)));
            }
        }
        mesh.fabrics[1] = None;
        mesh.until("the news at 2", |mesh| !mesh.seen[2].failed.is_empty());
        mesh.assert_nothing_more();
        assert_eq!(mesh.seen[0].failed, [(peer(1), fault("nonsense"))]);
        // It had left already: nothing is said twice.
        mesh.at(2).disconnect(peer(1), fault("nonsense"));
        mesh.settle();
        assert_eq!(mesh.seen[2].failed, [(peer(1), Fault::Closed)]);
    }
}

/// Each of four threads leaves when it likes, while the others send to it.
pub fn in_threads<B: Bench>(bench: &B) {
    let patience = bench.patience();
    for _ in 0..30 {
        std::thread::scope(|scope| {
            for mut fabric in bench.mesh(4) {
                scope.spawn(move || {
                    let me = fabric.me();
                    let mut seen = Seen::default();
                    let deadline = Deadline::after(patience);
                    // Rank 3 leaves soonest; rank 0 sees them all go.
                    let quota = if me == peer(0) { u64::MAX } else { 200 * (4 - u64::from(me.0)) };
                    let mut number = 0;
                    while number < quota && seen.failed.len() < 3 {
                        for to in (0..4).map(peer).filter(|&to| to != me) {
                            match fabric.send(
                                to,
                                numbered(number),
                                Source::Bytes(&number.to_le_bytes()),
                            ) {
                                Ok(_) | Err(Refused::Busy) => {}
                                Err(Refused::Failed(fault)) => assert_eq!(fault, Fault::Closed),
                                Err(refused) => panic!("{me} to {to}: {refused}"),
                            }
                        }
                        number += 1;
                        poll(&mut fabric, &mut seen);
                        for (from, head, bytes) in seen.messages.drain(..) {
                            assert_eq!(bytes, head.tag.to_le_bytes(), "from {from}");
                        }
                        deadline.check(format_args!("{me} has seen {:?} leave", seen.failed));
                    }
                    while !(0..4).all(|to| fabric.flushed(peer(to))) {
                        poll(&mut fabric, &mut seen);
                        deadline.check(format_args!("{me} is to leave"));
                    }
                    for (gone, fault) in &seen.failed {
                        assert_eq!(*fault, Fault::Closed, "{gone}");
                    }
                });
            }
        });
    }
}

fn numbered(number: u64) -> Head {
    Head { kind: 6, context: 2, seq: number as u32, tag: number }
}
