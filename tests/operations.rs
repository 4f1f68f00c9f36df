//! Non-blocking operations: scopes, requests, cancelling, and receives of many messages.

mod common;

use common::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use taffrail::{Dest, Endpoint, Error, Landed, Pattern, Request};

fn stale(result: Result<impl std::fmt::Debug, Error>) -> bool {
    matches!(result.unwrap_err(), Error::StaleRequest(_))
}

#[test]
fn what_a_scope_leaves_is_waited_for() {
    on_ranks(2, |ep| {
        let peer = 1 - ep.rank();
        let mut into = vec![vec![0; 50_000]; 20];
        let data: Vec<_> = (0..20).map(|k| pattern(50_000, k)).collect();
        ep.scope(|s| {
            for (k, (into, data)) in (0..).zip(into.iter_mut().zip(&data)) {
                s.irecv((peer, k), into)?;
                s.isend((peer, k), data)?;
            }
            Ok(())
        })
        .unwrap();
        for (k, into) in (0..).zip(&into) {
            check(into, k);
        }
    });
}

#[test]
fn the_first_error_of_a_scope_is_told() {
    on_ranks(1, |ep| {
        let mut into = [0; 4];
        let error = ep
            .scope(|s| {
                s.irecv((0, 1), &mut into)?;
                s.isend((0, 1), b"too long")?;
                Ok(())
            })
            .unwrap_err();
        assert!(matches!(error, Error::Truncated { len: 8, room: 4, .. }), "{error}");
    });
}

#[test]
fn a_failed_scope_takes_its_receives_away() {
    on_ranks(2, |ep| {
        let peer = 1 - ep.rank();
        let mut into = [[0u8; 4]; 3];
        let [a, b, c] = &mut into;
        let error = ep
            .scope(|s| -> Result<(), Error> {
                s.irecv((peer, 1), a)?;
                s.irecv(Pattern::any_source(1), b)?;
                let waited = s.irecv((peer, 1), c)?;
                s.cancel(waited)?;
                s.wait(waited).map(drop)
            })
            .unwrap_err();
        assert_eq!(error, Error::Cancelled);
        ep.send((peer, 1), b"next").unwrap();
        let mut next = [0; 4];
        ep.recv((peer, 1), &mut next).unwrap();
        assert_eq!((&next, into), (b"next", [[0; 4]; 3]));
    });
}

#[test]
fn a_panic_in_a_scope_leaves_nothing_behind() {
    on_ranks(2, |ep| {
        let peer = 1 - ep.rank();
        let mut into = [0u8; 8];
        let panic = catch_unwind(AssertUnwindSafe(|| {
            ep.scope(|s| -> Result<(), Error> {
                s.irecv((peer, 1), &mut into)?;
                panic!("on purpose");
            })
        }));
        assert!(panic.is_err());
        ep.send((peer, 1), b"next").unwrap();
        let mut next = [0; 4];
        ep.recv((peer, 1), &mut next).unwrap();
        assert_eq!((&next, into), (b"next", [0; 8]));
    });
}

#[test]
fn a_request_is_used_up_by_its_result() {
    on_ranks(1, |ep| {
        let mut into = [0; 3];
        ep.scope(|s| {
            let recv = s.irecv((0, 1), &mut into)?;
            assert_eq!(s.test(recv)?, None);
            let send = s.isend((0, 1), b"abc")?;
            assert_eq!(s.wait(send)?.len, 3);
            assert!(stale(s.wait(send)) && stale(s.test(send)) && stale(s.cancel(send)));
            let mut status = None;
            while status.is_none() {
                status = s.test(recv)?;
            }
            assert_eq!(status.unwrap().len, 3);
            assert!(stale(s.wait_any(&[recv])));
            assert!(stale(s.wait_all(&[recv, send])));
            // Their slots are used again, and the old handles stay old.
            let again = s.isend((0, 2), b"x")?;
            assert!(stale(s.test(recv)) && stale(s.test(send)));
            s.wait(again).map(drop)
        })
        .unwrap();
        assert_eq!(ep.recv((0, 2), &mut into).unwrap().len, 1);
    });
}

#[test]
fn wait_any_takes_whichever_is_over() {
    on_ranks(2, |ep| {
        const N: u64 = 10;
        if ep.rank() == 1 {
            for k in 0..N {
                let tag = k * 7 % N;
                ep.send((0, tag), &pattern(1000 * tag as usize, tag)).unwrap();
                ep.recv((0, 99), &mut []).unwrap();
            }
            return;
        }
        let mut into: Vec<_> = (0..N).map(|k| vec![0; 1000 * k as usize]).collect();
        ep.scope(|s| {
            let mut open = Vec::new();
            for (tag, into) in (0..).zip(&mut into) {
                open.push((tag, s.irecv((1, tag), into)?));
            }
            for k in 0..N {
                let requests: Vec<Request> = open.iter().map(|&(_, request)| request).collect();
                let (at, status) = s.wait_any(&requests)?;
                assert_eq!((open.remove(at).0, status.tag), (k * 7 % N, k * 7 % N));
                s.endpoint().send((1, 99), &[])?;
            }
            Ok(())
        })
        .unwrap();
        for (tag, into) in (0..).zip(&into) {
            check(into, tag);
        }
    });
}

#[test]
fn wait_all_ends_all_and_tells_the_first_error() {
    on_ranks(1, |ep| {
        let (mut a, mut b, mut c) = ([0; 4], [0; 1], [0; 2]);
        ep.scope(|s| {
            let requests =
                [s.irecv((0, 1), &mut a)?, s.irecv((0, 2), &mut b)?, s.irecv((0, 3), &mut c)?];
            for tag in [3, 2, 1] {
                s.isend((0, tag), b"four")?;
            }
            let error = s.wait_all(&requests).unwrap_err();
            assert!(matches!(error, Error::Truncated { tag: 2, .. }), "{error}");
            assert!(requests.into_iter().all(|request| stale(s.test(request))));
            Ok(())
        })
        .unwrap();
        assert_eq!((&a, &b, &c), (b"four", b"f", b"fo"));
    });
}

#[test]
fn a_matched_receive_is_not_cancelled() {
    for (name, settings) in variants() {
        on_ranks_with(2, &settings, |ep| {
            for len in [5, 5000, 100_000, 2 << 20] {
                if ep.rank() == 1 {
                    ep.recv((0, 9), &mut []).unwrap();
                    ep.send((0, 1), &pattern(len, 1)).unwrap();
                    continue;
                }
                let mut into = vec![0; len];
                ep.scope(|s| {
                    let request = s.irecv((1, 1), &mut into)?;
                    s.endpoint().send((1, 9), &[])?;
                    // Until it is too late.
                    let mut status = None;
                    while status.is_none() {
                        let seen = s.endpoint().probe((1, 1))?;
                        assert_eq!(seen, None, "{name}: it is matched when it comes");
                        status = s.test(request)?;
                        if status.is_none() && len > 5000 {
                            std::thread::yield_now();
                        }
                    }
                    assert_eq!(status.unwrap().len, len);
                    Ok(())
                })
                .unwrap();
                check(&into, 1);
            }
        });
    }
}

/// Cancels at every moment of a message's arrival: it is there whole, or not begun.
#[test]
fn cancelling_races_with_arrival() {
    for (name, settings) in variants() {
        on_ranks_with(2, &settings, |ep| {
            let mut cancelled = 0;
            const ROUNDS: u64 = 100;
            for round in 0..ROUNDS {
                let len = [0, 100, 40_000, 70_000][round as usize % 4];
                let data = pattern(len, round);
                if ep.rank() == 1 {
                    ep.recv((0, 9), &mut []).unwrap();
                    ep.send((0, 1), &data).unwrap();
                    continue;
                }
                let mut into = vec![0; len];
                // SAFETY: `into` lives until the request is finished.
                let request =
                    unsafe { ep.irecv_raw(Pattern::new(1, 1), into.as_mut_ptr(), len).unwrap() };
                ep.send((1, 9), &[]).unwrap();
                for _ in 0..round * 3 {
                    ep.progress();
                }
                let in_time = ep.cancel(request).unwrap();
                let result = ep.wait(request);
                if in_time {
                    cancelled += 1;
                    assert_eq!(result.unwrap_err(), Error::Cancelled, "{name}");
                    assert!(into.iter().all(|&b| b == 0), "{name}: written after all");
                    ep.recv((1, 1), &mut into).unwrap();
                } else {
                    assert_eq!(result.unwrap().len, len, "{name}");
                }
                check(&into, round);
            }
            assert!(ep.rank() == 1 || cancelled > 0, "{name}: never in time");
        });
    }
}

#[test]
fn sends_are_not_cancelled() {
    on_ranks(2, |ep| {
        let data = pattern(300_000, 4);
        if ep.rank() == 1 {
            ep.scope(|s| {
                let request = s.isend((0, 1), &data)?;
                assert!(!s.cancel(request)?);
                s.endpoint().send((0, 2), &[])?;
                s.wait(request).map(drop)
            })
            .unwrap();
        } else {
            ep.recv((1, 2), &mut []).unwrap();
            let mut into = vec![0; data.len()];
            ep.recv((1, 1), &mut into).unwrap();
            check(&into, 4);
        }
    });
}

/// Starts a multi-receive of everything rank 1 sends with tag 1.
fn multi(ep: &mut Endpoint, into: &mut [u8], least: usize) -> Request {
    // SAFETY: the callers keep `into` until the request is finished.
    unsafe { ep.irecv_multi_raw(Pattern::new(1, 1), into.as_mut_ptr(), into.len(), least).unwrap() }
}

/// The next message of a multi-receive, waited for.
fn next(ep: &mut Endpoint, request: Request) -> Result<Landed, Error> {
    let mut landed = Ok(None);
    until(ep, |ep| {
        landed = ep.landed(request);
        !matches!(landed, Ok(None))
    });
    landed.map(|landed| landed.expect("just seen"))
}

#[test]
fn a_multi_receive_is_filled_message_by_message() {
    for (name, settings) in variants() {
        on_ranks_with(2, &settings, |ep| {
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

#[test]
fn the_last_message_of_a_multi_receive_may_be_cut() {
    for (name, settings) in variants() {
        on_ranks_with(2, &settings, |ep| {
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
                let expected = Error::Truncated { len, room, source_rank: 1, tag: 1 };
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

#[test]
fn a_cancelled_multi_receive_keeps_what_it_has() {
    for (name, settings) in variants() {
        on_ranks_with(2, &settings, |ep| {
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
#[test]
fn test_ends_a_multi_receive_only_when_all_is_told() {
    on_ranks(2, |ep| {
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

#[test]
fn loans_fill_a_multi_receive_in_order() {
    on_ranks(2, |ep| {
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

#[test]
fn a_multi_receive_from_a_rank_that_leaves_is_over() {
    for late in [false, true] {
        on_jobs(2, |mut job| {
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

#[test]
fn raw_operations_on_one_endpoint_are_many() {
    on_ranks(2, |ep| {
        const N: usize = 3000;
        let peer = 1 - ep.rank();
        let data: Vec<u64> = (0..N as u64).collect();
        let mut into = vec![u64::MAX; N];
        let mut requests = Vec::new();
        for k in (0..N).rev() {
            // SAFETY: both vectors live until the requests are finished.
            unsafe {
                let at = into.as_mut_ptr().add(k).cast();
                requests.push(ep.irecv_raw(Pattern::new(peer, k as u64), at, 8).unwrap());
            }
        }
        for k in 0..N {
            // SAFETY: as above.
            unsafe {
                let at = data.as_ptr().add(k).cast();
                requests.push(ep.isend_raw(Dest::new(peer, k as u64), at, 8).unwrap());
            }
        }
        ep.wait_all(&requests).unwrap();
        assert_eq!(into, data);
    });
}
