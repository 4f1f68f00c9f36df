//! Senders that are far ahead of their receivers: they are held back, and nobody takes them for
//! hostile.

use crate::common::*;
use crate::world::*;
use std::io::IoSlice;
use std::time::Duration;
use taffrail::{Dest, Error, Fault, Settings};

in_every_world!(
    a_long_queue_of_sends_is_held_back,
    a_stream_of_sends_is_held_back,
    short_messages_that_nobody_receives_are_stopped,
    two_ranks_that_flood_each_other_both_get_on,
    answers_pass_what_is_stopped,
    a_send_that_hears_of_the_end_of_its_receiver_fails,
);

/// Less than what is sent in these tests before anything is received.
const LIMIT: usize = 1 << 20;

fn settings() -> Settings {
    Settings { unexpected: LIMIT / 4, unexpected_max: Some(LIMIT), ..Settings::default() }
}

/// Sends that wait for room have chosen to leave without asking; then the receiver wants to be asked.
fn a_long_queue_of_sends_is_held_back<W: World>() {
    const COUNT: usize = 3000;
    let data = pattern(60_000, 1);
    on_ranks_with::<W, _>(2, &settings(), |ep| {
        if ep.rank() == 0 {
            let start = |_| {
                // SAFETY: the data outlives the requests.
                unsafe { ep.isend_raw(Dest::new(1, 1), data.as_ptr(), data.len()) }.unwrap()
            };
            let requests: Vec<_> = (0..COUNT).map(start).collect();
            return ep.wait_all(&requests).unwrap();
        }
        linger(ep, Duration::from_millis(300));
        let mut into = vec![0; data.len()];
        for _ in 0..COUNT {
            ep.recv((0, 1), &mut into).unwrap();
        }
        assert!(into == data);
    });
}

/// Messages short enough to leave at once leave room for news all the same.
fn a_stream_of_sends_is_held_back<W: World>() {
    const COUNT: usize = 12_000;
    let data = pattern(16_000, 1);
    on_ranks_with::<W, _>(2, &settings(), |ep| {
        let mut into = vec![0; data.len()];
        for k in 0..COUNT {
            if ep.rank() == 0 {
                ep.send((1, 1), &data).unwrap();
            } else {
                if k == 0 {
                    linger(ep, Duration::from_millis(300));
                }
                ep.recv((0, 1), &mut into).unwrap();
            }
        }
        assert!(ep.rank() == 0 || into == data);
    });
}

/// Each of them costs more memory than it has bytes.
fn short_messages_that_nobody_receives_are_stopped<W: World>() {
    const COUNT: u64 = 30_000;
    on_ranks_with::<W, _>(2, &settings(), |ep| {
        if ep.rank() == 0 {
            // Of these none waits for a receive.
            for k in 0..COUNT {
                ep.send((1, k), &k.to_le_bytes()).unwrap();
            }
            return;
        }
        linger(ep, Duration::from_millis(100));
        for k in 0..COUNT {
            let mut into = [0; 8];
            ep.recv((0, k), &mut into).unwrap();
            assert_eq!(u64::from_le_bytes(into), k);
        }
    });
}

/// Both send first, without waiting, and more than either takes.
fn two_ranks_that_flood_each_other_both_get_on<W: World>() {
    const COUNT: usize = 20_000;
    let data = pattern(8, 1);
    on_ranks_with::<W, _>(2, &settings(), |ep| {
        let peer = 1 - ep.rank();
        let start = |_| {
            // SAFETY: the data outlives the requests.
            unsafe { ep.isend_raw(Dest::new(peer, 1), data.as_ptr(), data.len()) }.unwrap()
        };
        let requests: Vec<_> = (0..COUNT).map(start).collect();
        linger(ep, Duration::from_millis(50));
        for _ in 0..COUNT {
            let mut into = [0; 8];
            ep.recv((peer, 1), &mut into).unwrap();
            assert_eq!(into[..], data[..]);
        }
        ep.wait_all(&requests).unwrap();
    });
}

/// Rank 0 has sent what rank 1 does not receive before it has an answer, which comes behind all that.
fn answers_pass_what_is_stopped<W: World>() {
    const COUNT: usize = 20_000;
    let data = pattern(300_000, 1);
    on_ranks_with::<W, _>(2, &settings(), |ep| {
        let mut into = vec![0; data.len()];
        if ep.rank() == 0 {
            let start = |k: u64| {
                let len = if k == 0 { data.len() } else { 8 };
                // SAFETY: the data outlives the requests.
                unsafe { ep.isend_raw(Dest::new(1, k.min(1)), data.as_ptr(), len) }.unwrap()
            };
            let requests: Vec<_> = (0..COUNT as u64).map(start).collect();
            ep.recv((1, 2), &mut into).unwrap();
            assert!(into == data);
            return ep.wait_all(&requests).unwrap();
        }
        linger(ep, Duration::from_millis(50));
        ep.send_sync((0, 2), &data).unwrap();
        ep.recv((0, 0), &mut into).unwrap();
        assert!(into == data);
        for _ in 1..COUNT {
            ep.recv((0, 1), &mut into).unwrap();
        }
    });
}

/// A long send looks at what has come before it leaves. That the receiver is gone may be what it
/// sees, and then there is nobody to end the send.
fn a_send_that_hears_of_the_end_of_its_receiver_fails<W: World>() {
    let data = pattern(2 << 20, 1);
    for vectored in [false, true] {
        on_jobs::<W, _>(2, |mut job| {
            let mut ep = job.endpoint_with(settings()).unwrap();
            if ep.rank() == 1 {
                drop(ep);
                return job.barrier().unwrap();
            }
            job.barrier().unwrap();
            let to = Dest::new(1, 1);
            // SAFETY: the data outlives the endpoint.
            let started = unsafe {
                match vectored {
                    true => ep.isend_vectored_raw(to, &[IoSlice::new(&data)]),
                    false => ep.isend_raw(to, data.as_ptr(), data.len()),
                }
            };
            let gone = Error::PeerFailed { rank: 1, fault: Fault::Closed };
            assert_eq!(started, Err(gone), "vectored: {vectored}");
        });
    }
}
