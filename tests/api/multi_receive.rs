//! Receives of many messages into one buffer.

use crate::common::*;
use crate::world::*;
use std::time::Duration;
use taffrail::{Data, Endpoint, Error, Landed, Pattern, Request};

in_every_world!(
    a_multi_receive_is_filled_message_by_message,
    the_last_message_of_a_multi_receive_may_be_cut,
    a_cancelled_multi_receive_keeps_what_it_has,
    test_ends_a_multi_receive_only_when_all_is_told,
    loans_fill_a_multi_receive_in_order,
    a_multi_receive_from_a_rank_that_leaves_is_over,
    no_wait_loses_a_message,
    a_wait_for_a_cancelled_multi_receive_loses_no_message,
);

/// Starts a multi-receive of everything rank 1 sends with tag 1.
fn multi(ep: &mut Endpoint<impl Transport>, into: &mut [u8], least: usize) -> Request {
    // SAFETY: the callers keep `into` until the request is finished.
    unsafe { ep.irecv_multi_raw(Pattern::new(1, 1), into.as_mut_ptr(), into.len(), least).unwrap() }
}

/// The next message of a multi-receive, waited for.
fn next(ep: &mut Endpoint<impl Transport>, request: Request) -> Result<Landed, Error> {
    let mut landed = Ok(None);
    until(ep, |ep| {
        landed = ep.landed(request);
        !matches!(landed, Ok(None))
    });
    landed.map(|landed| landed.expect("just seen"))
}

fn a_multi_receive_is_filled_message_by_message<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            let lens = [3, 0, 44, 300, 5000, 20_000, 70_000, 1, 200_000, 8];
            let data: Vec<_> = (0..).zip(lens).map(|(k, len)| pattern(len, k)).collect();
            for early in [true, false] {
                if ep.rank() == 1 {
                    if !early {
                        ep.recv((0, 9), &mut []).unwrap();
                    }
                    ep.scope(|s| {
                        for data in &data {
                            s.isend((0, 1), data)?;
                        }
                        s.endpoint().send((0, 2), &[])
                    })
                    .unwrap();
                    continue;
                }
                if early {
                    ep.recv((1, 2), &mut []).unwrap();
                }
                let rounded: usize = lens.iter().map(|len| len.next_multiple_of(8)).sum();
                let mut into = vec![0; rounded + 100];
                let request = multi(ep, &mut into, 104);
                if !early {
                    ep.send((1, 9), &[]).unwrap();
                }
                let mut got = Vec::new();
                for _ in lens {
                    got.push(next(ep, request).unwrap());
                }
                // Messages of different lengths overtake each other on the way, not in the buffer.
                got.sort_by_key(|landed| (landed.offset, landed.status.len));
                let mut at = 0;
                for (k, len) in lens.into_iter().enumerate() {
                    let landed = got
                        .iter()
                        .find(|l| l.offset == at && l.status.len == len)
                        .unwrap_or_else(|| panic!("{name}: no message {k} at {at}: {got:?}"));
                    check(&into[landed.offset..][..len], k as u64);
                    at += len.next_multiple_of(8);
                }
                // 100 bytes are left, fewer than 104: it is over.
                assert_eq!(ep.landed(request).unwrap(), None);
                ep.wait(request).unwrap();
                assert!(stale(ep.landed(request)), "{name}");
                if !early {
                    ep.recv((1, 2), &mut []).unwrap();
                }
            }
        });
    }
}

fn the_last_message_of_a_multi_receive_may_be_cut<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in [30usize, 300, 30_000, 300_000].into_iter().enumerate() {
                let data = pattern(len, k as u64);
                if ep.rank() == 1 {
                    ep.scope(|s| {
                        for _ in 0..3 {
                            s.isend((0, 1), &data)?;
                        }
                        Ok(())
                    })
                    .unwrap();
                    continue;
                }
                let whole = len.next_multiple_of(8);
                let mut into = vec![0; whole + len / 2];
                let request = multi(ep, &mut into, 1);
                let mut landed = [next(ep, request), next(ep, request)];
                landed.sort_by_key(Result::is_err);
                assert_eq!(landed[0].as_ref().unwrap().status.len, len, "{name}");
                let room = len / 2;
                let expected =
                    Error::Truncated { len, room, source_rank: 1, tag: 1, data: Data::NONE };
                assert_eq!(landed[1].as_ref().unwrap_err(), &expected, "{name}");
                ep.wait(request).unwrap();
                check(&into[..len], k as u64);
                check(&into[whole..], k as u64);
                // The third is nobody's yet.
                let mut third = vec![0; len];
                ep.recv((1, 1), &mut third).unwrap();
                check(&third, k as u64);
            }
        });
    }
}

fn a_cancelled_multi_receive_keeps_what_it_has<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for len in [10, 1000, 50_000, 500_000] {
                let data = pattern(len, 3);
                if ep.rank() == 1 {
                    ep.recv((0, 9), &mut []).unwrap();
                    ep.scope(|s| {
                        s.isend((0, 1), &data)?;
                        s.endpoint().send((0, 2), &[])?;
                        s.endpoint().recv((0, 9), &mut [])?;
                        s.isend((0, 1), &data)?;
                        Ok(())
                    })
                    .unwrap();
                    continue;
                }
                let mut into = vec![0; 3 * len];
                let request = multi(ep, &mut into, 1);
                ep.send((1, 9), &[]).unwrap();
                // The first is matched, and perhaps not yet there.
                ep.recv((1, 2), &mut []).unwrap();
                assert!(ep.cancel(request).unwrap(), "{name}");
                assert!(!ep.cancel(request).unwrap(), "{name}: once is enough");
                let landed = next(ep, request).unwrap();
                assert_eq!((landed.offset, landed.status.len), (0, len), "{name}");
                assert_eq!(ep.wait(request).unwrap_err(), Error::Cancelled, "{name}");
                check(&into[..len], 3);
                ep.send((1, 9), &[]).unwrap();
                let mut second = vec![0; len];
                ep.recv((1, 1), &mut second).unwrap();
                check(&second, 3);
                assert!(into[len.next_multiple_of(8)..].iter().all(|&b| b == 0), "{name}");
            }
        });
    }
}

/// A message may land between the last look and the test: it is not lost.
fn test_ends_a_multi_receive_only_when_all_is_told<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const ROUNDS: usize = 300;
        if ep.rank() == 1 {
            for _ in 0..ROUNDS * 4 {
                ep.send((0, 1), b"8 bytes.").unwrap();
            }
            return;
        }
        for _ in 0..ROUNDS {
            let mut into = [0; 32];
            let request = multi(ep, &mut into, 1);
            let mut told = 0;
            while ep.test(request).unwrap().is_none() {
                told += ep.landed(request).unwrap().is_some() as usize;
            }
            assert_eq!(told, 4);
        }
    });
}

fn loans_fill_a_multi_receive_in_order<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let lens = [100, 5000, 8, 70_000];
        if ep.rank() == 1 {
            ep.recv((0, 9), &mut []).unwrap();
            for (k, len) in (0..).zip(lens) {
                let mut buffer = ep.alloc(len).unwrap();
                buffer.copy_from_slice(&pattern(len, k));
                ep.loan((0, 1), buffer).unwrap();
                ep.send((0, 1), &pattern(24, 100 + k)).unwrap();
            }
            return;
        }
        let mut into = vec![0; lens.iter().map(|l| l.next_multiple_of(8) + 24).sum()];
        let request = multi(ep, &mut into, 1);
        ep.send((1, 9), &[]).unwrap();
        // All of it in one turn.
        std::thread::sleep(Duration::from_millis(20));
        for _ in 0..2 * lens.len() {
            next(ep, request).unwrap();
        }
        ep.wait(request).unwrap();
        let mut at = 0;
        for (k, len) in (0..).zip(lens) {
            check(&into[at..][..len], k);
            at += len.next_multiple_of(8);
            check(&into[at..][..24], 100 + k);
            at += 24;
        }
    });
}

fn a_multi_receive_from_a_rank_that_leaves_is_over<W: World>() {
    for late in [false, true] {
        on_jobs::<W, _>(2, |mut job| {
            let mut ep = job.endpoint().unwrap();
            if ep.rank() == 1 {
                ep.send((0, 1), b"last").unwrap();
                return;
            }
            let mut into = [0; 100];
            if late {
                let error = ep.recv((1, 77), &mut []).unwrap_err();
                assert!(matches!(error, Error::PeerFailed { rank: 1, .. }), "{error}");
            }
            let request = multi(&mut ep, &mut into, 1);
            assert_eq!(next(&mut ep, request).unwrap().status.len, 4);
            let error = ep.wait(request).unwrap_err();
            assert!(matches!(error, Error::PeerFailed { rank: 1, .. }), "{error}");
            assert_eq!(&into[..4], b"last");
        });
    }
}

/// Waits in each way for a multi-receive of which nothing was told: everything is told afterwards.
fn no_wait_loses_a_message<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            const LENS: [usize; 4] = [8, 1000, 40_000, 200_000];
            for way in 0..3 {
                if ep.rank() == 1 {
                    for (k, len) in (0..).zip(LENS) {
                        ep.send((0, 1), &pattern(len, k)).unwrap();
                    }
                    continue;
                }
                let mut into = vec![0; LENS.iter().sum()];
                let request = multi(ep, &mut into, 1);
                let result = match way {
                    0 => ep.wait(request),
                    1 => ep.wait_any(&[request]).unwrap().1,
                    _ => ep.wait_each(&[request]).remove(0),
                };
                result.unwrap();
                assert!(stale(ep.wait(request)) && stale(ep.test(request)), "{name}");
                assert!(stale(ep.cancel(request)) && stale(ep.wait_any(&[request])), "{name}");
                // Another operation does not get in between.
                ep.sendrecv((0, 7), b"x", (0, 7), &mut [0]).unwrap();
                let mut told = Vec::new();
                while let Some(landed) = ep.landed(request).unwrap() {
                    told.push((landed.offset, landed.status.len));
                }
                told.sort();
                let mut at = 0;
                for (k, len) in (0..).zip(LENS) {
                    assert_eq!(told[k as usize], (at, len), "{name}, way {way}: {told:?}");
                    check(&into[at..][..len], k);
                    at += len;
                }
                assert_eq!(told.len(), LENS.len(), "{name}");
                assert!(stale(ep.landed(request)), "{name}: all was told");
            }
        });
    }
}

fn a_wait_for_a_cancelled_multi_receive_loses_no_message<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let mut into = [0; 100];
        let pattern = Pattern::new(0, 1);
        // SAFETY: `into` lives until the request is finished.
        let request = unsafe { ep.irecv_multi_raw(pattern, into.as_mut_ptr(), 100, 1).unwrap() };
        ep.send((0, 1), b"one").unwrap();
        ep.send((0, 1), b"two").unwrap();
        linger(ep, Duration::from_millis(1));
        assert!(ep.cancel(request).unwrap());
        assert_eq!(ep.test_any(&[request]).unwrap(), None, "there is something to tell");
        assert_eq!(ep.wait(request).unwrap_err(), Error::Cancelled);
        for text in [b"one", b"two"] {
            let landed = ep.landed(request).unwrap().expect("two have landed");
            assert_eq!(&into[landed.offset..][..3], text);
        }
        assert_eq!(ep.landed(request).unwrap(), None);
        assert!(stale(ep.landed(request)));
    });
}
