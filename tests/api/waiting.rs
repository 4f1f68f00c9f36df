//! Waiting by descriptor, and endings.

use crate::common::*;
use crate::world::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};
use taffrail::{Endpoint, Error, Fault, Pattern, Settings};

in_every_world!(
    no_wake_up_is_lost,
    many_senders_wake_one,
    an_answered_bell_is_silent,
    who_leaves_is_heard_out,
    a_full_ring_ends_in_good_order_as_well,
    operations_on_a_rank_that_leaves_fail_and_others_do_not,
    endpoints_of_one_process_do_not_mix,
    two_jobs_in_one_thread,
    the_explanation_names_every_peer,
);

/// Waits for the endpoint's descriptor. Whether it became readable in time.
fn sleep(ep: &Endpoint<impl Transport>, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut one = [PollFd::from_borrowed_fd(ep.fd(), PollFlags::IN)];
    poll(&mut one, Some(&limit)).unwrap() > 0
}

/// Receives an empty message, asleep whenever there is nothing to do. A wake-up that is lost is
/// found out by its being late.
fn receive_asleep(ep: &mut Endpoint<impl Transport>, tag: u64) -> bool {
    let mut slept = false;
    while ep.probe(Pattern::any_source(tag)).unwrap().is_none() {
        if ep.arm() {
            slept = true;
            assert!(sleep(ep, Duration::from_secs(20)), "nobody rang");
        }
        ep.progress();
    }
    ep.recv(Pattern::any_source(tag), &mut [0; 100_000]).unwrap();
    slept
}

fn no_wake_up_is_lost<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const ROUNDS: u64 = 3000;
        let peer = 1 - ep.rank();
        let mut slept = 0;
        for round in 0..ROUNDS {
            let len = [0, 40, 200, 3000][round as usize % 4];
            if round % 2 == u64::from(ep.rank()) {
                ep.send((peer, round), &pattern(len, round)).unwrap();
            } else {
                slept += receive_asleep(ep, round) as u64;
            }
        }
        assert!(slept > 0, "never asleep");
    });
}

fn many_senders_wake_one<W: World>() {
    on_ranks::<W, _>(5, |ep| {
        const EACH: u64 = 200;
        if ep.rank() == 0 {
            for _ in 0..4 * EACH {
                receive_asleep(ep, 1);
            }
            return;
        }
        for k in 0..EACH {
            ep.send((0, 1), &[]).unwrap();
            if k % 16 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// A descriptor that stays readable would keep a program busy that waits for it.
fn an_answered_bell_is_silent<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        if ep.rank() == 1 {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(2));
                ep.send((peer, 1), &[]).unwrap();
                ep.recv((peer, 2), &mut []).unwrap();
            }
            return;
        }
        for _ in 0..10 {
            receive_asleep(ep, 1);
            // Nothing comes before the answer.
            let mut woken = 0;
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(20) {
                ep.progress();
                if ep.arm() && sleep(ep, Duration::from_millis(5)) {
                    woken += 1;
                }
            }
            assert!(woken < 5, "{woken} wake-ups in 20 ms of silence");
            ep.send((peer, 2), &[]).unwrap();
        }
    });
}

fn who_leaves_is_heard_out<W: World>() {
    for (name, settings) in variants() {
        on_jobs::<W, _>(2, |mut job| {
            let mut ep = job.endpoint_with(settings.clone()).unwrap();
            let len = |k: u64| [0, 200, 3000][k as usize % 3];
            const N: u64 = 600;
            if ep.rank() == 1 {
                // What is not announced is on its way when the send is over.
                for k in 0..N {
                    ep.send((0, 1), &pattern(len(k), k)).unwrap();
                }
                return;
            }
            let mut into = [0; 3000];
            for k in 0..N {
                let status = ep.recv((1, 1), &mut into).unwrap();
                assert_eq!(status.len, len(k), "{name}: message {k}");
                check(&into[..status.len], k);
            }
            let closed = Error::PeerFailed { rank: 1, fault: Fault::Closed };
            assert_eq!(ep.recv((1, 1), &mut into).unwrap_err(), closed, "{name}");
            assert_eq!(ep.send((1, 1), b"anybody?").unwrap_err(), closed, "{name}");
            assert_eq!(ep.recv(Pattern::any_source(1), &mut into).unwrap_err(), closed, "{name}");
            assert_eq!(ep.send_am(1, 1, 0, &[]).unwrap_err(), closed, "{name}");
            // To itself it can talk all the same.
            assert_eq!(ep.sendrecv((0, 5), b"alone", (0, 5), &mut into).unwrap().len, 5);
        });
    }
}

/// The ring is full to the last slot when its writer leaves.
fn a_full_ring_ends_in_good_order_as_well<W: World>() {
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        if ep.rank() == 1 {
            ep.scope(|s| {
                for _ in 0..500 {
                    s.isend((0, 1), b"a slot each")?;
                }
                Ok(())
            })
            .unwrap();
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..500 {
            ep.recv((1, 1), &mut [0; 11]).unwrap();
        }
        let closed = Error::PeerFailed { rank: 1, fault: Fault::Closed };
        assert_eq!(ep.recv((1, 1), &mut []).unwrap_err(), closed);
    });
}

fn operations_on_a_rank_that_leaves_fail_and_others_do_not<W: World>() {
    on_jobs::<W, _>(3, |mut job| {
        let mut ep = job.endpoint().unwrap();
        let long = pattern(3 << 20, 1);
        match ep.rank() {
            2 => ep.recv((0, 9), &mut []).map(drop).unwrap(),
            1 => {
                ep.recv((0, 9), &mut []).unwrap();
                ep.send((0, 1), &long).unwrap();
            }
            _ => {
                let (mut a, mut b) = (vec![0; 100], vec![0; long.len()]);
                let gone = |result: Result<_, Error>| match result.unwrap_err() {
                    Error::PeerFailed { rank, fault } => (rank, fault),
                    other => panic!("{other}"),
                };
                ep.scope(|s| {
                    let named = s.irecv((2, 1), &mut a)?;
                    let any = s.irecv(Pattern::any_source(1), &mut b)?;
                    let sent = s.isend((2, 1), &long)?;
                    s.endpoint().send((2, 9), &[])?;
                    for request in [named, sent] {
                        assert_eq!(gone(s.wait(request)), (2, Fault::Closed));
                    }
                    s.endpoint().send((1, 9), &[])?;
                    assert_eq!(s.wait(any)?.source, 1);
                    Ok(())
                })
                .unwrap();
                check(&b, 1);
            }
        }
    });
}

fn endpoints_of_one_process_do_not_mix<W: World>() {
    on_jobs::<W, _>(2, |mut job| {
        let mut first = job.endpoint().unwrap();
        let small = Settings { eager_max: 100, ..Settings::default() };
        let mut second = job.endpoint_with(small).unwrap();
        let peer = 1 - job.rank();
        let mut into = vec![0; 200_000];
        for (k, len) in [10, 5000, 200_000].into_iter().enumerate() {
            let (a, b) = (pattern(len, k as u64), pattern(len, 10 + k as u64));
            second.sendrecv((peer, 1), &b, (peer, 1), &mut into).unwrap();
            check(&into[..len], 10 + k as u64);
            first.sendrecv((peer, 1), &a, (peer, 1), &mut into).unwrap();
            check(&into[..len], k as u64);
        }
        drop(first);
        second.sendrecv((peer, 2), b"still", (peer, 2), &mut into).unwrap();
    });
}

fn two_jobs_in_one_thread<W: World>() {
    let _watchdog = watchdog();
    let mut endpoints: Vec<End<W>> = (0..2).map(|_| alone::<W>()).collect();
    for (k, ep) in (0u8..).zip(&mut endpoints) {
        ep.send((0, 1), &[k]).unwrap();
    }
    for (k, ep) in (0u8..).zip(&mut endpoints) {
        let mut into = [9];
        ep.recv((0, 1), &mut into).unwrap();
        assert_eq!(into, [k]);
    }
}

fn the_explanation_names_every_peer<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(4, &settings, |ep| {
            let text = ep.explain();
            for rank in 0..4 {
                assert!(text.contains(&format!("to rank {rank}")), "{name}: {text}");
            }
            assert!(text.contains(&format!("rank {} of 4", ep.rank())), "{name}: {text}");
        });
    }
}
