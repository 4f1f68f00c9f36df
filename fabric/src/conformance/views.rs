//! Views of a peer's memory without a copy.

use super::memory::{self, Kind, expose};
use super::mesh::{Mesh, peer};
use super::ram::Ram;
use super::{Bench, pattern};
use crate::{Fabric, Head, Keep};
use std::ptr::NonNull;

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
        if !mesh.at(1).limits(peer(0)).maps {
            assert!(view.is_err(), "the capabilities say that this fabric does not map");
            continue;
        }
        let view = view.unwrap_or_else(|denied| panic!("map of {len} bytes: {denied}"));
        let again = mesh.at(1).map(peer(0), &key, len).expect("a second view of the same");
        let (view, again) = (ram(view, len), ram(again, len));
        for seed in 1..20 {
            far.ram.fill(seed);
            mesh.send(0, 1, Head::default(), &[]);
            mesh.receive(1);
            let expected = &pattern::bytes(seed, LEN)[offset..];
            pattern::assert_same(&view.read(), expected, format_args!("a view from {offset} on"));
        }
        drop(view);
        assert!(again.read() == far.ram.read()[offset..], "the end of one view ended the other");
        assert!(mesh.at(1).map(peer(0), &key, len + 1).is_err(), "a view beyond the region");
        mesh.at(0).deregister(far.region.expect("a region")).expect("it is there");
        if mesh.at(1).limits(peer(0)).guards {
            assert!(mesh.at(1).map(peer(0), &key, len).is_err(), "a view of memory that is gone");
        }
    }
    mesh.assert_nothing_more();
}

/// A view can be read as long as it is kept: when its owner has deregistered the memory and left,
/// and when the fabric that gave it is gone.
pub fn outlives_everyone<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 3);
    let far = expose(mesh.at(0), Kind::Allocated, LEN);
    far.ram.fill(1);
    let key = memory::key(mesh.at(0), peer(1), &far, 0).expect("a region has a key");
    let key = mesh.hand_over(0, 1, key);
    let view = mesh.at(1).map(peer(0), &key, LEN);
    if !mesh.at(1).limits(peer(0)).maps {
        assert!(view.is_err(), "the capabilities say that this fabric does not map");
        return;
    }
    let view = ram(view.expect("a view"), LEN);
    let shown = |when: &str| {
        pattern::assert_same(&view.read(), &pattern::bytes(1, LEN), format_args!("{when}"));
    };
    shown("at first");
    mesh.at(0).deregister(far.region.expect("a region")).expect("it is there");
    shown("deregistered");
    drop(far);
    mesh.fabrics[0] = None;
    mesh.until("the news that 0 has left", |mesh| !mesh.seen[1].failed.is_empty());
    shown("its owner has left");
    mesh.send(2, 1, Head::default(), b"well");
    assert_eq!(mesh.receive(1).2, b"well");
    drop(mesh);
    shown("without any fabric");
}

fn ram((at, keep): (NonNull<u8>, Keep), len: usize) -> Ram {
    // SAFETY: mapped with this length, for as long as it is kept; the tests only read it.
    unsafe { Ram::kept(at, len, keep) }
}
