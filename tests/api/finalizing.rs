//! An endpoint goes when what it has sent has arrived, also if nobody waits for it any more.

use crate::common::*;
use crate::world::*;
use std::time::{Duration, Instant};
use taffrail::{Access, Dest, Endpoint, Error, Pattern, Request};

in_every_world!(
    what_nobody_waits_for_arrives_after_its_sender_has_finalised,
    many_that_wait_for_room_arrive,
    two_that_finalise_do_not_wait_for_each_other,
    whoever_waits_for_a_peer_that_finalises_without_receiving_is_told,
    receives_that_were_matched_end_before_their_rank_goes,
    puts_and_gets_that_the_target_does_end_before_either_goes,
    a_loan_arrives_after_its_owner_has_finalised,
);

/// Far below the time for which a peer of the same process is waited for.
const SOON: Duration = Duration::from_secs(3);
const LATE: Duration = Duration::from_millis(300);

fn start(ep: &mut Endpoint<impl Transport>, tag: u64, data: &[u8], sync: bool) -> Request {
    let to = Dest::new(1 - ep.rank(), tag);
    // SAFETY: the callers keep the bytes until the endpoint is gone.
    let started = unsafe {
        match sync {
            true => ep.isend_sync_raw(to, data.as_ptr(), data.len()),
            false => ep.isend_raw(to, data.as_ptr(), data.len()),
        }
    };
    started.unwrap()
}

/// Runs `f` on both of two ranks; each drops its endpoint as soon as it returns.
fn on_two<W: World>(f: impl Fn(&mut End<W>) + Sync) {
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        f(&mut ep);
    });
}

fn what_nobody_waits_for_arrives_after_its_sender_has_finalised<W: World>() {
    let lens = [0, 1, 5000, 64 << 10, 65537, 300_000, 3 << 20, 20 << 20];
    let data = lens.map(|len| pattern(len, 3));
    for sync in [false, true] {
        on_two::<W>(|ep| {
            if ep.rank() == 0 {
                for (data, tag) in data.iter().zip(0..) {
                    let _freed = start(ep, tag, data, sync);
                }
                return;
            }
            std::thread::sleep(LATE);
            for (tag, &len) in lens.iter().enumerate().rev() {
                let mut into = vec![0; len];
                let status = ep.recv(Pattern::any_source(tag as u64), &mut into).unwrap();
                assert_eq!(status.len, len);
                check(&into, 3);
            }
        });
    }
}

fn many_that_wait_for_room_arrive<W: World>() {
    let data = pattern(3000, 4);
    on_two::<W>(|ep| {
        if ep.rank() == 0 {
            for tag in 0..20_000 {
                let _freed = start(ep, tag, &data, false);
            }
            return;
        }
        std::thread::sleep(LATE);
        let mut into = vec![0; data.len()];
        for tag in 0..20_000 {
            ep.recv((0, tag), &mut into).unwrap();
        }
        check(&into, 4);
    });
}

fn two_that_finalise_do_not_wait_for_each_other<W: World>() {
    let data = pattern(1 << 20, 5);
    let since = Instant::now();
    on_two::<W>(|ep| {
        for tag in 0..10 {
            let _long = start(ep, tag, &data, false);
            let _sync = start(ep, tag, &data[..9], true);
        }
    });
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

fn whoever_waits_for_a_peer_that_finalises_without_receiving_is_told<W: World>() {
    let data = pattern(1 << 20, 6);
    on_two::<W>(|ep| {
        if ep.rank() == 1 {
            std::thread::sleep(LATE);
            return;
        }
        for request in [false, true].map(|sync| start(ep, 1, &data, sync)) {
            let ended = ep.wait(request);
            assert!(matches!(ended, Err(Error::PeerFailed { rank: 1, .. })), "{ended:?}");
        }
    });
}

fn receives_that_were_matched_end_before_their_rank_goes<W: World>() {
    let data = pattern(8 << 20, 7);
    let mut into = vec![0; data.len()];
    let at = into.as_mut_ptr().expose_provenance();
    on_two::<W>(|ep| {
        if ep.rank() == 0 {
            let long = start(ep, 1, &data, false);
            ep.send((1, 2), &[]).unwrap();
            assert!(ep.wait(long).is_ok());
            return;
        }
        let into = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: the bytes are there until both ranks are gone.
        let _freed = unsafe { ep.irecv_raw(Pattern::new(0, 1), into, data.len()) }.unwrap();
        // What was sent before it is matched by then.
        ep.recv((0, 2), &mut []).unwrap();
    });
    check(&into, 7);
}

fn puts_and_gets_that_the_target_does_end_before_either_goes<W: World>() {
    let len = 4 << 20;
    let [from, to] = [8, 9].map(|salt| pattern(len, salt));
    let mut target = [from.clone(), vec![0; len]];
    let mut got = vec![0; len];
    let places = [target[0].as_mut_ptr(), target[1].as_mut_ptr(), got.as_mut_ptr()];
    let [read, written, into] = places.map(|at| at.expose_provenance());
    on_two::<W>(|ep| {
        // SAFETY: all memory is there until both ranks are gone, and read after that.
        unsafe {
            let place = |at| std::ptr::with_exposed_provenance_mut::<u8>(at);
            if ep.rank() == 1 {
                ep.expose(1, place(read), len, 0, Access::Read).unwrap();
                ep.expose(2, place(written), len, 0, Access::Write).unwrap();
                ep.send((0, 1), &[]).unwrap();
                ep.recv((0, 2), &mut []).unwrap();
                return;
            }
            ep.recv((1, 1), &mut []).unwrap();
            let _get = ep.iget_named_raw(1, 1, 0, place(into), len).unwrap();
            let _put = ep.iput_named_raw(1, 2, 0, to.as_ptr(), len).unwrap();
            ep.send((1, 2), &[]).unwrap();
        }
    });
    check(&got, 8);
    check(&target[1], 9);
}

fn a_loan_arrives_after_its_owner_has_finalised<W: World>() {
    on_two::<W>(|ep| {
        if ep.rank() == 0 {
            for salt in 0..3 {
                let mut buffer = ep.alloc(100_000).unwrap();
                buffer.copy_from_slice(&pattern(100_000, salt));
                ep.loan((1, 1), buffer).unwrap();
            }
            return;
        }
        std::thread::sleep(LATE);
        for salt in 0..3 {
            check(&ep.recv_view((0, 1)).unwrap(), salt);
        }
    });
}

/// Only shared memory knows that a peer is in this process.
/// What a socket has no room for is on its way all the same, although no send waits for it.
#[test]
fn what_a_socket_has_accepted_arrives_after_its_sender_has_finalised() {
    for len in [1, 100, 3000] {
        let data = pattern(len, 8);
        on_two::<Sockets>(|ep| {
            if ep.rank() == 0 {
                for tag in 0..2000 {
                    ep.send((1, tag), &data).unwrap();
                }
                return;
            }
            std::thread::sleep(LATE);
            let mut into = vec![0; len];
            for tag in 0..2000 {
                ep.recv((0, tag), &mut into).unwrap();
                check(&into, 8);
            }
        });
    }
}

#[test]
fn a_peer_of_the_same_thread_is_not_waited_for_long() {
    let mut jobs = Shm::job(2);
    let mut ends: Vec<End<Shm>> = std::thread::scope(|scope| {
        let all: Vec<_> =
            jobs.iter_mut().map(|job| scope.spawn(|| job.endpoint().unwrap())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let _watchdog = watchdog();
    let data = pattern(1 << 20, 1);
    let mut first = ends.remove(0);
    let _freed = start(&mut first, 1, &data, false);
    drop(first);
    let got = ends[0].recv(Pattern::new(0, 1), &mut vec![0; data.len()]);
    assert!(matches!(got, Err(Error::PeerFailed { .. })), "{got:?}");
}
