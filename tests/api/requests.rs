//! Non-blocking operations: scopes, and the life of a request.

use crate::common::*;
use crate::world::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail::{Data, Dest, Error, Pattern, Request};

in_every_world!(
    what_a_scope_leaves_is_waited_for,
    the_first_error_of_a_scope_is_told,
    a_failed_scope_takes_its_receives_away,
    a_panic_in_a_scope_leaves_nothing_behind,
    a_request_is_used_up_by_its_result,
    wait_any_takes_whichever_is_over,
    wait_any_tells_which_has_failed_and_the_others_stay,
    wait_any_tells_whose_peer_is_gone,
    test_any_and_wait_each_tell_of_each,
    wait_all_ends_all_and_tells_the_first_error,
    raw_operations_on_one_endpoint_are_many,
);

fn what_a_scope_leaves_is_waited_for<W: World>() {
    on_ranks::<W, _>(2, |ep| {
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

fn the_first_error_of_a_scope_is_told<W: World>() {
    on_ranks::<W, _>(1, |ep| {
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

fn a_failed_scope_takes_its_receives_away<W: World>() {
    on_ranks::<W, _>(2, |ep| {
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

fn a_panic_in_a_scope_leaves_nothing_behind<W: World>() {
    on_ranks::<W, _>(2, |ep| {
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

fn a_request_is_used_up_by_its_result<W: World>() {
    on_ranks::<W, _>(1, |ep| {
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

fn wait_any_takes_whichever_is_over<W: World>() {
    on_ranks::<W, _>(2, |ep| {
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
                assert_eq!((open.remove(at).0, status?.tag), (k * 7 % N, k * 7 % N));
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

fn wait_any_tells_which_has_failed_and_the_others_stay<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let (mut a, mut b, mut c) = ([0; 4], [0; 1], [0; 4]);
        ep.scope(|s| {
            let [a, b, c] =
                [s.irecv((0, 1), &mut a)?, s.irecv((0, 2), &mut b)?, s.irecv((0, 3), &mut c)?];
            s.isend((0, 2), b"long")?;
            let (which, result) = s.wait_any(&[a, b, c])?;
            assert_eq!(which, 1);
            let expected =
                Error::Truncated { len: 4, room: 1, source_rank: 0, tag: 2, data: Data::NONE };
            assert_eq!(result.unwrap_err(), expected);
            // A mistake in the list takes no result away.
            s.isend((0, 1), b"four")?;
            assert!(stale(s.wait_any(&[a, b, c])) && stale(s.test_any(&[c, a, b])));
            assert!(s.cancel(c)?);
            let (which, result) = s.wait_any(&[c, a])?;
            assert_eq!((which, result.unwrap_err()), (0, Error::Cancelled));
            let (which, result) = s.wait_any(&[a])?;
            assert_eq!((which, result?.len), (0, 4));
            Ok(())
        })
        .unwrap();
        assert_eq!((&a, &b, &c), (b"four", b"l", &[0; 4]));
    });
}

fn wait_any_tells_whose_peer_is_gone<W: World>() {
    on_jobs::<W, _>(3, |mut job| {
        let mut ep = job.endpoint().unwrap();
        match ep.rank() {
            1 => return,
            2 => {
                ep.recv((0, 9), &mut []).unwrap();
                ep.send((0, 1), b"alive").unwrap();
                ep.recv((0, 9), &mut []).unwrap();
                return;
            }
            _ => {}
        }
        let (mut one, mut two) = ([0; 5], [0; 5]);
        ep.scope(|s| {
            let requests = [s.irecv((2, 1), &mut two)?, s.irecv((1, 1), &mut one)?];
            let (which, result) = s.wait_any(&requests)?;
            assert_eq!(which, 1);
            assert!(matches!(result.unwrap_err(), Error::PeerFailed { rank: 1, .. }));
            assert_eq!(s.test_any(&requests[..1])?, None);
            s.endpoint().send((2, 9), &[])?;
            let (which, result) = s.wait_any(&requests[..1])?;
            assert_eq!((which, result?.source), (0, 2));
            s.endpoint().send((2, 9), &[])
        })
        .unwrap();
        assert_eq!(&two, b"alive");
    });
}

fn test_any_and_wait_each_tell_of_each<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let (mut a, mut b, mut c) = ([0; 4], [0; 1], [0; 4]);
        ep.scope(|s| {
            let all =
                [s.irecv((0, 1), &mut a)?, s.irecv((0, 2), &mut b)?, s.irecv((0, 3), &mut c)?];
            assert_eq!(s.test_any(&all)?, None);
            assert_eq!(s.test_any(&[])?, None);
            for tag in 1..=3 {
                s.isend((0, tag), b"four")?;
            }
            let mut ended = None;
            while ended.is_none() {
                ended = s.test_any(&all[1..])?;
            }
            let (which, result) = ended.expect("just seen");
            assert_eq!(which, 0, "it came first");
            assert!(matches!(result.unwrap_err(), Error::Truncated { tag: 2, .. }));
            let [first, second, third] = s.wait_each(&all).try_into().expect("three");
            assert!(first?.tag == 1 && stale(second) && third?.tag == 3);
            Ok(())
        })
        .unwrap();
        assert_eq!((&a, &b, &c), (b"four", b"f", b"four"));
    });
}

fn wait_all_ends_all_and_tells_the_first_error<W: World>() {
    on_ranks::<W, _>(1, |ep| {
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

fn raw_operations_on_one_endpoint_are_many<W: World>() {
    on_ranks::<W, _>(2, |ep| {
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
