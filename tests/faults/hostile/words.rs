//! Mailboxes, credit, and the words of the inbox.

use super::attacker::{Hostile, MEMORY};
use super::case::{Case, Table};
use super::raw::Slot;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::time::{Duration, Instant};

/// Writes a message of the mailbox, changed.
fn mail(change: impl Fn(&mut Slot)) -> impl Fn(&mut Hostile) {
    move |h| {
        let mut slot = h.slot();
        change(&mut slot);
        h.mail(&slot, 0);
    }
}

/// Lets time pass, without reading anything.
fn linger(_: &mut Hostile) {
    std::thread::sleep(Duration::from_millis(30));
}

pub fn cases() -> Vec<Case> {
    let mut table = Table::default();
    table.fine("mail: as it should be", "R=5", |h| {
        mail(|_| {})(h);
        h.taken_by_hand(1, true);
    });
    for size in [9, 44, 268, 511] {
        table.cut(format!("mail: size {size}"), "mailbox", mail(move |s| s.size = size));
    }
    for kind in [64, 65, 127] {
        table.cut(format!("mail: kind {kind}"), "mailbox", mail(move |s| s.kind = kind));
    }
    for kind in [0, 16, 63] {
        table.cut(format!("mail: kind {kind}"), "kind", mail(move |s| s.kind = kind));
    }
    table.cut("mail: seq", "seq", mail(|s| s.seq += 1));
    table.cut("mail: context", "seq", mail(|s| s.context = 9));
    for ahead in [1, 1 << 31] {
        let act = mail(move |s| s.stamp = s.stamp.wrapping_add(ahead));
        table.fine(format!("mail: stamp {ahead} ahead"), "R=open", act);
    }
    for ack in [5000, 1 << 30] {
        table.cut(format!("mail: ack {ack}"), "inbox.consumed", move |h| {
            let slot = h.slot();
            h.mail(&slot, ack);
        });
    }
    for ack in [0, u32::MAX, 1 << 31] {
        table.fine(format!("mail: old ack {ack}"), "R=5", move |h| {
            let slot = h.slot();
            h.mail(&slot, ack);
            h.taken_by_hand(1, true);
        });
    }

    // Credit that was never given is seen when the ring is full.
    for credit in [100_000, 1 << 32, u64::MAX] {
        table.cut(format!("credit: {credit}"), "inbox.consumed", move |h| {
            h.mine.consumed(h.victim).store(credit, Release);
            linger(h);
        });
        table.last().chatter = 600;
    }
    table.fine("credit: taken back", "R=open", |h| {
        h.mine.consumed(h.victim).store(0, Release);
        linger(h);
    });
    table.last().chatter = 100;

    for watched in [0, 2, u32::MAX] {
        table.fine(format!("watched: {watched}"), "R=open", move |h| {
            h.mine.watched(h.victim).store(watched, Release);
            linger(h);
        });
        table.last().chatter = 600;
    }
    for armed in [1, 2, 3, u32::MAX] {
        table.fine(format!("armed: {armed}"), "R=open", move |h| {
            h.mine.armed().store(armed, SeqCst);
            linger(h);
        });
        table.last().chatter = 600;
        table.fine(format!("the victim's armed: {armed}"), "R=open", move |h| {
            h.theirs.armed().store(armed, SeqCst);
            linger(h);
        });
    }
    table.fine("dirty", "R=open", |h| {
        for _ in 0..100 {
            h.theirs.dirty().store(u64::MAX, SeqCst);
            std::thread::yield_now();
        }
    });
    table.fine("the victim's watched", "R=open", |h| {
        h.theirs.watched(h.me).store(77, SeqCst);
        linger(h);
    });
    table.fine("the victim's header", "R=open", |h| {
        for word in 0..4 {
            h.theirs.word(8 * word).store(u64::MAX, SeqCst);
        }
        linger(h);
    });
    table.fine("the victim's ring to itself", "R=open", |h| {
        let slot = Slot { stamp: 1, kind: 63, ..h.slot() };
        h.theirs.put(h.victim, 1, &slot);
        h.theirs.dirty().fetch_or(1 << h.victim, SeqCst);
        linger(h);
    });

    cells(&mut table);
    table.0
}

/// The cell of a get that both sides move, where this side is the owner of the memory.
fn cells(table: &mut Table) {
    fn begun(h: &mut Hostile) -> u64 {
        let [taken, ..] = h.theirs.cell(h.me);
        let start = Instant::now();
        loop {
            let word = taken.load(Acquire);
            if word >> 32 != 0 {
                // Takes the last piece, and does not move it: the get cannot end.
                let mine = word + (1 << 16);
                if taken.compare_exchange(word, mine, SeqCst, SeqCst).is_ok() {
                    seen(taken, mine);
                    return word >> 32;
                }
            }
            assert!(start.elapsed() < Duration::from_secs(20), "no get was begun");
        }
    }
    /// Waits until the victim has taken the next piece, and so has seen ours.
    fn seen(taken: &AtomicU64, mine: u64) {
        let start = Instant::now();
        while taken.load(Acquire) & 0xffff <= (mine & 0xffff) + 1 {
            assert!(start.elapsed() < Duration::from_secs(20), "the get does not go on");
        }
    }
    let taken = |table: &mut Table, name: &str, change: fn(u64) -> u64| {
        table.cut(format!("cell: taken, {name}"), "assist, taken", move |h| {
            begun(h);
            let [taken, ..] = h.theirs.cell(h.me);
            let _ = taken.fetch_update(SeqCst, SeqCst, |word| Some(change(word)));
        });
        long(table);
    };
    taken(table, "another serial", |word| word + (1 << 32));
    taken(table, "no serial", |word| word & 0xffff_ffff);
    taken(table, "front ahead", |word| word + 1);
    taken(table, "all of back", |word| word | 0xffff << 16);
    taken(table, "back behind", |word| word & !(0xffff << 16));
    taken(table, "everything", |_| u64::MAX);
    for pieces in [60_000, 0xffff_ffff] {
        table.cut(format!("cell: finished, {pieces}"), "assist, finished", move |h| {
            let serial = begun(h);
            let [_, finished, _] = h.theirs.cell(h.me);
            finished.store(serial << 32 | pieces, SeqCst);
        });
        long(table);
    }
    table.fine("cell: finished, of another get", "R=open", |h| {
        let serial = begun(h);
        let [_, finished, refused] = h.theirs.cell(h.me);
        finished.store(((serial + 1) << 32) | 1, SeqCst);
        refused.store(serial, SeqCst);
    });
    long(table);
    table.cut("cell: an owner that breaks the protocol while it owes a piece", "kind", |h| {
        begun(h);
        h.say(63, 0, &[]);
    });
    long(table);
}

/// The victim's get takes long enough to be meddled with.
fn long(table: &mut Table) {
    (table.last().get, table.last().kernel) = (MEMORY, Some(true));
}
