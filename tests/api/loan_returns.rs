//! Loans to ranks that are gone come back when nobody looks at them any more: counted.

use crate::common::*;
use crate::world::*;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;
use taffrail::{Buffer, Endpoint, View};

where_loans_are_mapped!(
    loans_come_back_when_the_last_view_of_a_closed_endpoint_is_dropped,
    loans_that_were_on_their_way_to_an_endpoint_that_closes_come_back,
    views_that_are_dropped_before_closing_come_back_one_by_one,
);

/// A size that takes a region for each buffer.
const LEN: usize = 300_000;
/// How many are lent.
const N: usize = 8;

fn lend(ep: &mut Endpoint<impl Transport>) {
    for salt in 0..N as u64 {
        let mut buffer = ep.alloc(LEN).unwrap();
        buffer.copy_from_slice(&pattern(LEN, salt));
        ep.loan((0, 1), buffer).unwrap();
    }
}

/// Until the pool has `wanted` buffers.
fn come_back(ep: &mut Endpoint<impl Transport>, held: &mut Vec<Buffer>, wanted: usize) {
    let mut have = 0;
    for _ in 0..500 {
        have = pooled(ep, LEN, held);
        if have == wanted {
            return;
        }
        linger(ep, Duration::from_millis(10));
    }
    panic!("{have} of {wanted} buffers came back");
}

/// Until rank 0 is gone.
fn outlive(ep: &mut Endpoint<impl Transport>) {
    ep.recv((0, 9), &mut []).unwrap_err();
}

fn loans_come_back_when_the_last_view_of_a_closed_endpoint_is_dropped<W: World>() {
    let (give, take) = channel::<Vec<View>>();
    let (give, take) = (Mutex::new(give), Mutex::new(take));
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        if ep.rank() == 0 {
            let views = (0..N).map(|_| ep.recv_view((1, 1)).unwrap()).collect();
            drop(ep);
            give.lock().unwrap().send(views).unwrap();
            return;
        }
        let mut held = Vec::new();
        lend(&mut ep);
        outlive(&mut ep);
        let mut views = take.lock().unwrap().recv().unwrap();
        linger(&mut ep, Duration::from_millis(50));
        assert_eq!(pooled(&mut ep, LEN, &mut held), 0, "all of them are looked at");
        views.truncate(1);
        linger(&mut ep, Duration::from_millis(50));
        assert_eq!(pooled(&mut ep, LEN, &mut held), 0, "one still is, and nobody says which");
        check(&views[0], 0);
        drop(views);
        come_back(&mut ep, &mut held, N);
    });
}

fn loans_that_were_on_their_way_to_an_endpoint_that_closes_come_back<W: World>() {
    let (closed, wait) = channel::<()>();
    let (lent, go) = channel::<()>();
    let (closed, wait, lent, go) =
        (Mutex::new(closed), Mutex::new(wait), Mutex::new(lent), Mutex::new(go));
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        if ep.rank() == 0 {
            // Never looks at its ring.
            go.lock().unwrap().recv().unwrap();
            drop(ep);
            closed.lock().unwrap().send(()).unwrap();
            return;
        }
        lend(&mut ep);
        lent.lock().unwrap().send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        outlive(&mut ep);
        come_back(&mut ep, &mut Vec::new(), N);
    });
}

fn views_that_are_dropped_before_closing_come_back_one_by_one<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        if ep.rank() == 0 {
            let mut views: Vec<_> = (0..N).map(|_| ep.recv_view((1, 1)).unwrap()).collect();
            while views.pop().is_some() {
                linger(ep, Duration::from_millis(1));
                ep.send((1, 2), &[]).unwrap();
                ep.recv((1, 3), &mut []).unwrap();
            }
            return;
        }
        lend(ep);
        let mut held = Vec::new();
        for count in 1..=N {
            ep.recv((0, 2), &mut []).unwrap();
            assert_eq!(pooled(ep, LEN, &mut held), count);
            ep.send((0, 3), &[]).unwrap();
        }
    });
}
