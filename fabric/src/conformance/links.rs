//! What a fabric says of its links.

use super::Bench;
use super::mesh::{Mesh, peer};
use crate::{Fabric, Fault, Head, Incarnation};

/// Memory is drained of a peer after the end of its link, when the peer has gone; not before.
pub fn drained<B: Bench>(bench: &B) {
    const FIRST: Incarnation = Incarnation(0);
    for disconnects in [false, true] {
        let mut mesh = Mesh::new(bench, 3);
        for _ in 0..20 {
            mesh.send(1, 0, Head::default(), &[1; 3000]);
            mesh.send(0, 1, Head::default(), &[1; 3000]);
            mesh.step();
            for (rank, other) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
                assert_eq!(mesh.at(rank).incarnation(peer(other)), FIRST);
                let drained = mesh.at(rank).drained(peer(other), FIRST);
                assert!(!drained, "{rank} says that {other} reaches nothing, and their link is up");
            }
        }
        mesh.settle();
        if disconnects {
            mesh.at(0).disconnect(peer(1), Fault::NoAccess("a test"));
        }
        mesh.fabrics[1] = None;
        mesh.until("the end of the link", |mesh| {
            (mesh.seen[0].failed.len(), mesh.seen[2].failed.len()) == (1, 1)
        });
        for rank in [0, 2] {
            mesh.until("that 1 reaches nothing any more", |mesh| {
                mesh.at(rank).drained(peer(1), FIRST)
            });
            assert_eq!(mesh.at(rank).incarnation(peer(1)), FIRST, "that of the last link");
        }
        assert!(!mesh.at(0).drained(peer(2), FIRST), "0 says that 2 reaches nothing");
        mesh.seen.iter_mut().for_each(|seen| seen.messages.clear());
        mesh.assert_nothing_more();
    }
}

/// What was accepted is flushed some time, and arrives when its sender leaves then.
pub fn flushed<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    for _ in 0..10 {
        mesh.send(1, 0, Head::default(), &[7; 5000]);
    }
    mesh.until("the end of sending", |mesh| mesh.at(1).flushed(peer(0)));
    mesh.fabrics[1] = None;
    mesh.until("the end of the link", |mesh| !mesh.seen[0].failed.is_empty());
    assert_eq!(mesh.seen[0].messages.len(), 10, "messages before the end");
}

/// A forked child that abandons the fabric disturbs nobody (*abandon-in-child*): not what is under way, and not when it
/// ends.
pub fn abandoned_in_a_child<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    let sent = |mesh: &mut Mesh<B::Fabric>, tag: u64| {
        for (from, to) in [(0, 1), (1, 0)] {
            for len in [8, 5000] {
                mesh.send(from, to, Head { tag, ..Head::default() }, &vec![tag as u8; len]);
            }
        }
    };
    // One message of each is under way when the child is made, and what follows comes behind it.
    sent(&mut mesh, 1);
    // SAFETY: the child allocates little, which the C library allows, and leaves at once.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a child process");
    if child == 0 {
        for fabric in mesh.fabrics.iter_mut().flatten() {
            fabric.abandon_in_child();
        }
        mesh.fabrics.clear();
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
    sent(&mut mesh, 2);
    mesh.until("all messages", |mesh| mesh.seen.iter().all(|seen| seen.messages.len() == 4));
    for (rank, seen) in mesh.seen.iter_mut().enumerate() {
        if !B::Fabric::ORDERED {
            seen.messages.sort_by_key(|(_, head, bytes)| (head.tag, bytes.len()));
        }
        for (nth, (_, head, bytes)) in seen.messages.drain(..).enumerate() {
            let (tag, len) = (1 + nth as u64 / 2, [8, 5000][nth % 2]);
            assert_eq!(
                (head.tag, bytes),
                (tag, vec![tag as u8; len]),
                "rank {rank}, message {nth}"
            );
        }
    }
    mesh.assert_nothing_more();
}
