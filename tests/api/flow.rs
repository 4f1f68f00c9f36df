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
    short_messages_without_end_are_the_end_of_their_sender,
    a_send_that_hears_of_the_end_of_its_receiver_fails,
);

/// More than a receiver puts up with from a peer that does not listen: 4 times this and 64 MiB.
const LIMIT: usize = 1 << 20;

fn settings() -> Settings {
    Settings { unexpected: LIMIT, ..Settings::default() }
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

/// What is never held back has a bound, and the error says which.
fn short_messages_without_end_are_the_end_of_their_sender<W: World>() {
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint_with(settings()).unwrap();
        if ep.rank() == 0 {
            // More than (4 LIMIT + 64 MiB) / 128.
            for _ in 0..700_000 {
                if ep.send((1, 1), &[]).is_err() {
                    return;
                }
            }
            // The other one leaves when it has seen enough.
            ep.recv((1, 2), &mut []).unwrap_err();
            return;
        }
        let error = ep.recv((0, 3), &mut []).unwrap_err();
        match error {
            Error::PeerFailed { rank: 0, fault: Fault::Protocol { place, expected, .. } } => {
                assert_eq!(place, "unexpected messages");
                assert!(expected.contains("TAFFRAIL_UNEXPECTED"), "{expected}");
            }
            other => panic!("{other}"),
        }
        // What had come before is there.
        ep.recv((0, 1), &mut []).unwrap();
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
