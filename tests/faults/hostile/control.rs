//! Every control message of the engine (`docs/wire.md`, section 5).

use super::attacker::{
    ACK, ACTIVE, ATOMIC, CTS, EAGER_FIRST, EAGER_FRAG, EAGER_SYNC, GET_REQ, Hostile, LOAN,
    LOAN_RETURN, NAK_KEY, PUT_REQ, RNDV_DATA, RTS, THROTTLE, key, words,
};
use super::case::{Case, Table};
use super::{L_TAG, R_TAG};
use taffrail_fabric::Head;

/// A counted message of this length, all ones.
fn counted(kind: u8, tag: u64, len: usize) -> impl Fn(&mut Hostile) {
    move |h| {
        h.counted(kind, tag, &vec![1; len]);
    }
}

/// A control message of this length, all ones.
fn bare(kind: u8, len: usize) -> impl Fn(&mut Hostile) {
    move |h| h.say(kind, u64::MAX, &vec![1; len])
}

/// An announcement for the long receive.
fn announce(len: u64, key: &[u8]) -> impl Fn(&mut Hostile) + use<> {
    let body = [&words(&[len, 0x7777])[..], key].concat();
    move |h| {
        h.counted(RTS, L_TAG, &body);
    }
}

/// An announcement without a key; then the victim asks for pieces of this receive.
fn cleared(h: &mut Hostile) -> u64 {
    announce(200_000, &[])(h);
    let (_, body) = h.await_message("CTS", |head| head.kind == CTS);
    u64::from_le_bytes(body[8..16].try_into().unwrap())
}

pub fn cases() -> Vec<Case> {
    let mut table = Table::default();
    for kind in [0, 16, 63] {
        table.cut(format!("kind {kind}"), "kind", bare(kind, 0));
        table.cut(format!("kind {kind}, long"), "kind", bare(kind, 60_000));
    }
    lengths(&mut table);
    eager(&mut table);
    announced(&mut table);
    one_sided(&mut table);
    table.fine("active: nobody's handler", "R=open", |h| {
        h.send(Head { kind: ACTIVE, context: 0xffff, ..Head::default() }, &[1; 5000]);
    });
    for seq in [0, 1, 2] {
        table.fine(format!("throttle: {seq}"), "R=open", move |h| {
            h.send(Head { kind: THROTTLE, seq, ..Head::default() }, &[]);
        });
    }
    for seq in [3, u32::MAX] {
        table.cut(format!("throttle: {seq}"), "throttle", move |h| {
            h.send(Head { kind: THROTTLE, seq, ..Head::default() }, &[]);
        });
    }
    loans(&mut table);
    table.0
}

/// Bodies that are too short or too long.
fn lengths(table: &mut Table) {
    for (name, kind, lens) in [
        ("eager, synchronous", EAGER_SYNC, &[0, 1, 7][..]),
        ("first", EAGER_FIRST, &[0, 7, 8]),
        ("announce", RTS, &[0, 8, 15, 81, 5000]),
        ("loan", LOAN, &[0, 15, 16, 81, 5000]),
    ] {
        for &len in lens {
            table.cut(format!("{name}: {len} bytes"), "length", counted(kind, R_TAG, len));
        }
    }
    for (name, kind, lens) in [
        ("clear", CTS, &[0, 8, 15, 17, 5000][..]),
        ("piece", RNDV_DATA, &[0]),
        ("finished", ACK, &[1, 8, 5000]),
        ("returned", LOAN_RETURN, &[1, 8]),
        ("ask", GET_REQ, &[0, 23, 25]),
        ("tell", PUT_REQ, &[0, 23, 24]),
        ("atomic", ATOMIC, &[0, 23]),
        ("no memory", NAK_KEY, &[1]),
        ("throttle", THROTTLE, &[1, 300]),
    ] {
        for &len in lens {
            table.cut(format!("{name}: {len} bytes"), "length", bare(kind, len));
        }
    }
}

/// What is sent without asking.
fn eager(table: &mut Table) {
    for kind in [EAGER_SYNC, EAGER_FIRST, RTS, LOAN] {
        for ahead in [1, u32::MAX, 1 << 31] {
            table.cut(format!("kind {kind}: seq {ahead} ahead"), "seq", move |h| {
                h.seq = h.seq.wrapping_add(ahead);
                let body: &[u64] = match kind {
                    EAGER_FIRST => &[100, 1],
                    EAGER_SYNC => &[1, 1],
                    _ => &[8, 1, 1, 1, 1],
                };
                h.counted(kind, R_TAG, &words(body));
            });
        }
    }
    table.fine("eager, synchronous: a name of nobody", "R=10", |h| {
        h.counted(EAGER_SYNC, R_TAG, &[0xff; 18]);
    });
    let first = |len: u64, here: usize| {
        move |h: &mut Hostile| {
            let body = [&len.to_le_bytes()[..], &vec![5; here]].concat();
            h.counted(EAGER_FIRST, R_TAG, &body);
        }
    };
    for (len, here) in [(0, 0), (10, 10), (10, 11), ((1 << 20) + 1, 100), (u64::MAX, 100)] {
        table.cut(format!("first: {here} of {len} bytes"), "length", first(len, here));
    }
    table.cut("first: twice", "kind", move |h| {
        first(1000, 500)(h);
        first(1000, 500)(h);
    });
    table.cut("more: without first", "kind", bare(EAGER_FRAG, 100));
    table.cut("more: of none", "length", move |h| {
        first(1000, 500)(h);
        h.fragment(500, &[]);
    });
    table.cut("more: too much", "length", move |h| {
        first(1000, 500)(h);
        h.fragment(500, &[1; 501]);
    });
    table.cut("more: after the end", "kind", move |h| {
        first(1000, 500)(h);
        h.fragment(500, &[1; 500]);
        h.fragment(1000, &[1; 1]);
    });
    for offset in [0, 499, 501, u64::MAX] {
        table.cut(format!("more: from {offset} on instead of 500"), "fragment", move |h| {
            first(1000, 500)(h);
            h.fragment(offset, &[1; 500]);
        });
    }
    table.cut("more: of another message", "fragment", move |h| {
        first(1000, 500)(h);
        h.seq = h.seq.wrapping_add(1);
        h.fragment(500, &[1; 500]);
    });
    table.fine("first: more than the receive has", "R=truncated", move |h| {
        first(40_000, 20_000)(h);
        h.fragment(20_000, &[1; 20_000]);
    });
    table.fine("first: never ended", "R=open", first(1000, 500));
}

/// What is announced, either way.
fn announced(table: &mut Table) {
    let nowhere = [
        ("address 0", key(0, 0, 0)),
        ("the last address", key(u64::MAX, 0, 0)),
        ("the kernel's", key(0xffff_8000_0000_0000, 0, 0)),
        ("no such region", key(0, 4711, 0)),
        ("no such offset", key(0, 4711, u64::MAX)),
    ];
    for (name, key) in nowhere {
        table.fine(format!("announce: {name}"), "L=open", announce(300_000, key.as_bytes()));
    }
    for len in [u64::MAX, 1 << 62, 300_001] {
        // The bytes never come; the receive waits for what there is room for.
        let act = announce(len, key(0, 0, 0).as_bytes());
        table.fine(format!("announce: {len} bytes"), "L=open", act);
    }
    table.fine("announce: nothing", "L=0", announce(0, key(0, 0, 0).as_bytes()));
    table.fine("announce: u64::MAX bytes for a short receive", "R=open", |h| {
        h.counted(RTS, R_TAG, &words(&[u64::MAX, 1]));
    });

    table.cut("piece: of none", "length", |h| {
        let name = cleared(h);
        h.say(RNDV_DATA, name, &[]);
    });
    table.cut("piece: too much", "RNDV_DATA", |h| {
        let name = cleared(h);
        for k in 0..4 {
            h.rndv_data(name, k * 60_000, &[1; 60_000]);
        }
    });
    for offset in [150_001, 200_000, 1 << 32, (1 << 48) - 1] {
        table.cut(format!("piece: from {offset} on, behind the end"), "RNDV_DATA", move |h| {
            let name = cleared(h);
            h.rndv_data(name, offset, &[1; 50_000]);
        });
    }
    table.cut("piece: more than is missing", "RNDV_DATA", |h| {
        let name = cleared(h);
        h.rndv_data(name, 0, &[1; 50_000]);
        h.rndv_data(name, 0, &[1; 50_000]);
        h.rndv_data(name, 0, &[1; 50_000]);
        h.rndv_data(name, 0, &[1; 49_999]);
        h.rndv_data(name, 0, &[1; 2]);
    });
    table.fine("piece: the last first", "L=200000", |h| {
        let name = cleared(h);
        for k in (0..4).rev() {
            h.rndv_data(name, k * 50_000, &[1; 50_000]);
        }
    });
    table.fine("piece: after the end", "L=200000", |h| {
        let name = cleared(h);
        for k in 0..4 {
            h.rndv_data(name, k * 50_000, &[1; 50_000]);
        }
        h.say(RNDV_DATA, name, &[1; 50_000]);
    });
    table.fine("piece: of a request that never was", "R=open", |h| {
        for name in [u64::MAX, 1 << 20, 7 << 32] {
            h.say(RNDV_DATA, name, &[1; 100]);
        }
    });
    table.cut("piece: of a receive that has not asked", "RNDV_DATA", |h| {
        for name in 0..32 {
            h.say(RNDV_DATA, name, &[1; 100]);
        }
    });
    table.cut("piece: of the victim's own send", "RNDV_DATA", |h| {
        let name = h.announced();
        h.say(RNDV_DATA, name, &[1; 100]);
    });

    table.fine("clear: a request that never was", "R=open S=open", |h| {
        h.say(CTS, u64::MAX, &words(&[100, 1]));
    });
    for want in [200_001, u64::MAX] {
        table.cut(format!("clear: {want} bytes"), "CTS", move |h| {
            let name = h.announced();
            h.say(CTS, name, &words(&[want, 1]));
        });
    }
    table.fine("clear: nothing", "S=200000", |h| {
        let name = h.announced();
        h.say(CTS, name, &words(&[0, 1]));
    });
    // More than the line holds for a peer that reads nothing: it is never over.
    const ENDLESS: usize = 64 << 20;
    table.cut("clear: twice", "CTS", |h| {
        let name = h.announced();
        h.say(CTS, name, &words(&[ENDLESS as u64, 1]));
        h.say(CTS, name, &words(&[ENDLESS as u64, 1]));
    });
    table.last().long = ENDLESS;
    table.fine("finished: never begun", "S=200000 Y=30", |h| {
        for name in [h.announced(), h.synchronous()] {
            h.say(ACK, name, &[]);
            h.say(ACK, name, &[]);
        }
    });
    table.fine("finished: whatever there is", "R=open L=open", |h| {
        for name in 0..100u64 {
            let name = (name % 25) | ((name / 25) << 32);
            h.say(ACK, name, &[]);
            h.say(NAK_KEY, name, &[]);
        }
    });
    table.fine("no memory: of a message", "S=open Y=open", |h| {
        for name in [h.announced(), h.synchronous()] {
            h.say(NAK_KEY, name, &[]);
        }
    });
}

/// Gets and puts on the victim's memory, and answers to the victim's own.
fn one_sided(table: &mut Table) {
    let refused = |kind, region: Option<u64>, offset: u64, len: u64| {
        move |h: &mut Hostile| {
            let region = region.unwrap_or_else(|| h.region().0);
            let mut body = words(&[region, offset, len]);
            if kind == PUT_REQ {
                body.extend_from_slice(&vec![9; len.min(5000) as usize]);
            }
            h.say(kind, 0x1234, &body);
            h.await_message("a refusal", |head| head.kind == NAK_KEY && head.tag == 0x1234);
        }
    };
    for (what, kind) in [("ask", GET_REQ), ("tell", PUT_REQ)] {
        for region in [0, 4711, u64::MAX, 1 << 32 | 1] {
            let act = refused(kind, Some(region), 0, 100);
            table.fine(format!("{what}: region {region}"), "R=open", act);
        }
        for (offset, len) in [(4000, 97), (4097, 1), (u64::MAX, 1), (u64::MAX - 10, 11)] {
            let act = refused(kind, None, offset, len);
            table.fine(format!("{what}: {len} bytes at {offset}"), "R=open", act);
        }
    }
    for len in [0, 4097, 1 << 40, u64::MAX] {
        table.fine(format!("ask: {len} bytes"), "R=open", refused(GET_REQ, None, 0, len));
    }
    // An operation on memory that there is not is refused; one that there is not is a breach.
    let atomic = |what: u64, operands: usize| {
        move |h: &mut Hostile| {
            let body = [words(&[4711, 0, what]), vec![1; operands]].concat();
            h.say(ATOMIC, 0x1234, &body);
        }
    };
    const SUM_OF_U64: u64 = 1 << 32 | 7 << 8 | 2;
    table.fine("atomic: no memory", "R=open", move |h: &mut Hostile| {
        atomic(SUM_OF_U64, 8)(h);
        h.await_message("a refusal", |head| head.kind == NAK_KEY && head.tag == 0x1234);
    });
    for (name, what, operands) in [
        ("no operand", SUM_OF_U64, 0),
        ("half an operand", SUM_OF_U64, 4),
        ("two operands", SUM_OF_U64, 16),
        ("no element", SUM_OF_U64 - (1 << 32), 0),
        ("too many elements", SUM_OF_U64 - (1 << 32) + (513 << 32), 513 * 8),
        ("no such operation", 1 << 32 | 7 << 8 | 19, 8),
        ("no such type", 1 << 32 | 12 << 8 | 2, 16),
        ("bits of a real number", 1 << 32 | 9 << 8 | 6, 8),
        ("another bit", SUM_OF_U64 | 1 << 17, 8),
        ("all ones", u64::MAX, 8),
    ] {
        table.cut(format!("atomic: {name}"), "atomic operation", atomic(what, operands));
    }
    // What the victim has asked for, where the kernel does not do it.
    let mut asked = |name: &str, seen, act: fn(&mut Hostile)| {
        table.add(name, seen, act);
        table.last().kernel = Some(false);
    };
    use super::case::Seen::{Cut, Fine};
    asked("get: no memory", Fine("G=no-memory"), |h| {
        let name = h.asked(GET_REQ);
        h.say(NAK_KEY, name, &[]);
        h.say(NAK_KEY, name, &[]);
    });
    asked("get: finished instead of answered", Fine("G=open"), |h| {
        let name = h.asked(GET_REQ);
        h.say(ACK, name, &[]);
    });
    asked("get: too much", Cut("RNDV_DATA"), |h| {
        let name = h.asked(GET_REQ);
        h.say(RNDV_DATA, name, &[1; 5001]);
    });
    asked("get: answered twice", Fine("G=5000"), |h| {
        let name = h.asked(GET_REQ);
        h.say(RNDV_DATA, name, &[1; 5000]);
        h.say(RNDV_DATA, name, &[1; 5000]);
    });
    asked("put: no memory", Fine("P=no-memory"), |h| {
        let name = h.asked(PUT_REQ);
        h.say(NAK_KEY, name, &[]);
    });
    asked("put: a piece", Cut("RNDV_DATA"), |h| {
        let name = h.asked(PUT_REQ);
        h.say(RNDV_DATA, name, &[1; 1]);
    });
    asked("put: finished twice", Fine("P=30"), |h| {
        let name = h.asked(PUT_REQ);
        h.say(ACK, name, &[]);
        h.say(ACK, name, &[]);
    });
}

fn loans(table: &mut Table) {
    let loan = |len: u64, key: taffrail_fabric::RemoteKey| {
        move |h: &mut Hostile| {
            let body = [&words(&[len, 55])[..], key.as_bytes()].concat();
            h.counted(LOAN, R_TAG, &body);
        }
    };
    for (name, len, key) in [
        ("loan: no region", 100, key(4096, 0, 0)),
        ("loan: no such region", 100, key(0, 4711, 0)),
        ("loan: no such offset", 100, key(0, 4711, u64::MAX)),
        ("loan: u64::MAX bytes", u64::MAX, key(0, 4711, 8)),
    ] {
        table.fine(name, "R=no-memory", loan(len, key));
    }
    table.fine("returned: a loan that never was", "R=open", |h| {
        for loan in [0, 2, u64::MAX] {
            h.say(LOAN_RETURN, loan, &[]);
        }
    });
    table.fine("returned: twice", "R=open", |h| {
        let loan = h.lent();
        h.say(LOAN_RETURN, loan, &[]);
        h.say(LOAN_RETURN, loan, &[]);
    });
}
