//! A peer that does not stop when it is told to, or does not read what it asks for: what it takes
//! of its victim's memory is bounded.

use super::attacker::{GET_REQ, Hostile, PUT_REQ, RTS, words};
use super::case::{Case, Table};
use taffrail_fabric::Head;

/// Sends until the victim has had enough, or that is surely not the case.
fn flood(most: usize, send: impl Fn(&mut Hostile) -> bool) -> impl Fn(&mut Hostile) {
    move |h| {
        for _ in 0..most {
            if !send(h) {
                return;
            }
        }
        panic!("{most} messages, and no end");
    }
}

pub fn cases() -> Vec<Case> {
    let mut table = Table::default();
    let place = "unexpected messages";
    table.cut("pieces that nobody receives", place, {
        flood(20_000, |h| h.eager(999, &[5; 60_000]))
    });
    table.cut(
        "empty messages that nobody receives",
        place,
        flood(5_000_000, |h| h.eager(999, &[])),
    );
    table.cut("announcements that nobody receives", place, {
        flood(5_000_000, |h| h.counted(RTS, 999, &words(&[1 << 30, 1])))
    });
    // Answers to these pile up.
    let place = "answers not taken";
    table.cut("gets whose answers nobody takes", place, {
        flood(5_000_000, |h| {
            let (region, _) = h.region();
            blind(h, GET_REQ, &words(&[region, 0, 1]))
        })
    });
    table.cut("puts to nowhere", place, {
        flood(5_000_000, |h| blind(h, PUT_REQ, &words(&[4711, 0, 0, 1])))
    });
    table.0
}

/// Sends without ever reading.
fn blind(h: &mut Hostile, kind: u8, body: &[u8]) -> bool {
    h.send_blindly(Head { kind, tag: 5, ..Head::default() }, body)
}
