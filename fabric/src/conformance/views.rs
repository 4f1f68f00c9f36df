//! Views of a peer's memory without a copy.

use super::memory::{self, Kind, expose};
use super::mesh::{Mesh, peer};
use super::ram::Ram;
use super::{Bench, pattern};
use crate::{Fabric, Head};

const LEN: usize = 3 * 4096 + 100;

/// A view shows what the owner wrote, before it was made and afterwards. A fabric that says it
/// cannot map refuses to.
pub fn shows_the_bytes<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    for offset in [0, 4096, 4096 + 64, 5000] {
        let far = expose(mesh.at(0), Kind::Allocated, LEN);
        far.ram.fill(1);
        let key = memory::key(mesh.at(0), peer(1), &far, offset).expect("a region has a key");
        let key = mesh.hand_over(0, 1, key);
        let len = LEN - offset;
        let view = mesh.at(1).map(peer(0), &key, len);
        if !mesh.at(1).caps().maps {
            assert!(view.is_err(), "the capabilities say that this fabric does not map");
            continue;
        }
        let at = view.unwrap_or_else(|denied| panic!("map of {len} bytes: {denied}"));
        let again = mesh.at(1).map(peer(0), &key, len).expect("a second use of the same view");
        // SAFETY: mapped with this length until the last unmap, below.
        let view = unsafe { Ram::borrowed(at, len) };
        for seed in 1..20 {
            far.ram.fill(seed);
            mesh.send(0, 1, Head::default(), &[]);
            mesh.receive(1);
            let expected = &pattern::bytes(seed, LEN)[offset..];
            pattern::assert_same(&view.read(), expected, format_args!("a view from {offset} on"));
        }
        // SAFETY: as above.
        let again = unsafe { Ram::borrowed(again, len) };
        mesh.at(1).unmap(peer(0), &key);
        assert!(again.read() == far.ram.read()[offset..], "unmap of one use ended the other");
        mesh.at(1).unmap(peer(0), &key);
        assert!(mesh.at(1).map(peer(0), &key, len + 1).is_err(), "a view beyond the region");
        mesh.at(0).deregister(far.region.expect("a region")).expect("it is there");
        assert!(mesh.at(1).map(peer(0), &key, len).is_err(), "a view of memory that is gone");
    }
    mesh.assert_nothing_more();
}

/// A view can be read until it is unmapped, even if its owner has deregistered the memory and left.
pub fn outlives_the_owner<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 3);
    let far = expose(mesh.at(0), Kind::Allocated, LEN);
    far.ram.fill(1);
    let key = memory::key(mesh.at(0), peer(1), &far, 0).expect("a region has a key");
    let key = mesh.hand_over(0, 1, key);
    if !mesh.at(1).caps().maps {
        assert!(mesh.at(1).map(peer(0), &key, LEN).is_err());
        return;
    }
    let at = mesh.at(1).map(peer(0), &key, LEN).expect("a view");
    // SAFETY: mapped with this length until unmap, below.
    let view = unsafe { Ram::borrowed(at, LEN) };
    assert!(view.read() == pattern::bytes(1, LEN));
    mesh.at(0).deregister(far.region.expect("a region")).expect("it is there");
    assert_eq!(view.read().len(), LEN);
    mesh.fabrics[0] = None;
    mesh.until("the news that 0 has left", |mesh| !mesh.seen[1].failed.is_empty());
    // What it shows is nobody's business by now; that it can be read is.
    assert_eq!(view.read().len(), LEN);
    mesh.at(1).unmap(peer(0), &key);
    mesh.send(2, 1, Head::default(), b"well");
    assert_eq!(mesh.receive(1).2, b"well");
}
