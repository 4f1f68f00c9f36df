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
