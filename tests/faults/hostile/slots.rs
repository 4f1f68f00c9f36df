//! Every field of a slot of the ring.

use super::attacker::{Hostile, words};
use super::case::{Case, Table};
use super::raw::{ASSIST, GOODBYE, Slot};

/// Writes a slot, changed, at the next position.
fn slot(change: impl Fn(&mut Slot)) -> impl Fn(&mut Hostile) {
    move |h| {
        let mut slot = h.slot();
        change(&mut slot);
        h.put(&slot);
    }
}

/// The same, a message that the victim takes.
fn taken(slots: u64, change: impl Fn(&mut Slot)) -> impl Fn(&mut Hostile) {
    let put = slot(change);
    move |h| {
        put(h);
        h.taken_by_hand(slots, true);
    }
}

/// An `assist` of these words.
fn assist(addr: u64, into: u64, len: u64, serial: u32) -> impl Fn(&mut Slot) {
    move |slot| {
        slot.kind = ASSIST;
        slot.size = 28;
        slot.body[..24].copy_from_slice(&words(&[addr, into, len]));
        slot.body[24..28].copy_from_slice(&serial.to_le_bytes());
    }
}

pub fn cases() -> Vec<Case> {
    let mut table = Table::default();
    // Without this, the others would show nothing.
    table.fine("as it should be", "R=5", taken(1, |_| {}));

    for (name, ahead) in
        [("next", 1), ("last", u32::MAX), ("a lap later", 64), ("half way round", 1 << 31)]
    {
        let act = slot(move |s| s.stamp = s.stamp.wrapping_add(ahead));
        table.fine(format!("stamp: {name}"), "R=open", act);
    }
    table.fine("stamp: 0", "R=open", slot(|s| s.stamp = 0));

    for kind in [0, 16, 17, 40, 63] {
        table.cut(format!("kind: {kind}"), "kind", slot(move |s| s.kind = kind));
    }
    for kind in [66, 67, 100, 127] {
        table.cut(format!("kind: {kind}"), "slot.kind", slot(move |s| s.kind = kind));
    }
    table.cut("kind: goodbye", "closed", slot(|s| (s.kind, s.size) = (GOODBYE, 0)));
    table.cut("kind: goodbye with a body", "slot.kind", slot(|s| s.kind = GOODBYE));
    table.cut("kind: pooled goodbye", "slot.kind", |h| {
        slot(|s| {
            s.kind = GOODBYE;
            s.pooled(0, 0);
        })(h);
    });
    table.cut("kind: pooled assist", "slot.kind", |h| {
        slot(|s| {
            s.kind = ASSIST;
            s.pooled(0, 28);
        })(h);
    });
    for size in [0, 27, 29, 44, 100] {
        let act = slot(move |s| (s.kind, s.size) = (ASSIST, size));
        table.cut(format!("assist: size {size}"), "assist", act);
    }
    table.cut("assist: no length", "assist", slot(assist(4096, 4096, 0, 1)));
    table.cut("assist: no serial", "assist", slot(assist(4096, 4096, 100, 0)));
    table.cut("assist: overflow from", "assist", slot(assist(u64::MAX - 5, 4096, 100, 1)));
    table.cut("assist: overflow to", "assist", slot(assist(4096, u64::MAX - 5, 100, 1)));
    let wild = |addr, into, len| {
        let put = slot(assist(addr, into, len, 5));
        move |h: &mut Hostile| {
            let [taken, ..] = h.mine.cell(h.victim);
            taken.store(5 << 32, std::sync::atomic::Ordering::Release);
            put(h);
            h.taken_by_hand(1, false);
        }
    };
    table.fine("assist: from nowhere", "R=open", wild(4096, 8192, 1 << 20));
    table.fine("assist: far too much", "R=open", wild(4096, 8192, 1 << 63));

    for size in [269, 270, 300, 400, 510] {
        table.cut(format!("size: {size}"), "slot.size", slot(move |s| s.size = size));
    }
    table.fine("size: slots that were never written", "R=268", taken(5, |s| s.size = 268));
    table.fine("size: 0", "R=0", taken(1, |s| s.size = 0));

    table.fine("tag: of nobody", "R=open", taken(1, |s| s.tag = u64::MAX));
    table.cut("context: another", "seq", slot(|s| s.context = 77));
    table.fine("context: another's beginning", "R=open", |h| {
        slot(|s| (s.context, s.seq) = (0xffff, 0))(h);
        h.taken_by_hand(1, false);
    });
    for (name, ahead) in [("next", 1), ("last", u32::MAX), ("half way round", 1 << 31)] {
        let act = slot(move |s| s.seq = s.seq.wrapping_add(ahead));
        table.cut(format!("seq: {name}"), "seq", act);
    }

    let pooled = "slot.offset, slot.len";
    for (name, offset, len) in [
        ("offset: far away", 1 << 40, 100),
        ("offset: at the end of all numbers", u64::MAX, 100),
        ("offset: which overflows", u64::MAX - 50, 51),
        ("offset: half way round", 1 << 63, 1),
        ("length: more than a segment", 0, 65_537),
        ("length: all of it", 0, u32::MAX),
        ("offset and length: beyond the end", (16 << 20) - 100, 200),
    ] {
        table.cut(name, pooled, slot(move |s| s.pooled(offset, len)));
    }
    table.fine("offset: anywhere inside", "R=1000", taken(1, |s| s.pooled(12_345, 1000)));
    table.fine("length: 0 at the beginning", "R=0", taken(1, |s| s.pooled(0, 0)));
    // Truncation is an error of that receive alone.
    table.fine("length: more than the receive has", "R=truncated", taken(1, |s| s.pooled(0, 1001)));
    table.cut(
        "pooled: kind",
        "kind",
        slot(|s| {
            s.kind = 33;
            s.pooled(0, 100);
        }),
    );
    table.0
}
