//! A rank dies, as its link says: what it had sent is received whole or not at all, what waits for it ends in an
//! error that names it, and nobody else is the worse for it. Over shared memory, whose ranks die with their process
//! only, `tests/faults` has the same.

use crate::common::*;
use crate::world::*;
use taffrail::{Access, Dest, Endpoint, Error, Fault, Pattern, RemoteMemory};

in_every_mortal_world!(
    what_a_dead_rank_had_sent_is_received_and_nothing_more,
    what_waits_for_a_dead_rank_fails_and_others_go_on,
    a_message_is_whole_or_fails_whenever_its_sender_dies,
    a_send_ends_whenever_its_receiver_dies,
    accesses_end_whenever_their_target_dies,
    buffers_lent_to_a_dead_rank_come_back,
);

const DIED: Error = Error::PeerFailed { rank: 1, fault: Fault::Died };
const LENS: [usize; 5] = [0, 40, 3000, 50_000, 400_000];

/// Turns after which a rank dies, so many that all of a message's protocol is met.
fn moments() -> impl Iterator<Item = usize> {
    (0..12).chain((12..60).step_by(8))
}

/// Runs `f` on three ranks: rank 1 dies when it returns, the others exchange a word afterwards and leave.
fn with_victim<W: Mortal>(f: impl Fn(&mut End<W>) + Sync) {
    on_jobs::<W, _>(3, |mut job| {
        let mut ep = job.endpoint().unwrap();
        f(&mut ep);
        if ep.rank() == 1 {
            return job.die(ep);
        }
        let peer = 2 - ep.rank();
        let mut word = [0; 4];
        ep.sendrecv((peer, 99), b"well", (peer, 99), &mut word).unwrap();
        assert_eq!(&word, b"well");
    });
}

/// Makes so many turns.
fn turns(ep: &mut Endpoint<impl Transport>, count: usize) {
    for _ in 0..count {
        ep.progress();
    }
}

fn what_a_dead_rank_had_sent_is_received_and_nothing_more<W: Mortal>() {
    with_victim::<W>(|ep| {
        const N: u64 = 60;
        let len = |k: u64| [0, 40, 3000][k as usize % 3];
        if ep.rank() == 1 {
            for k in 0..N {
                ep.send((0, 1), &pattern(len(k), k)).unwrap();
            }
            // Until nothing waits for room any more.
            until(ep, |ep| ep.waiting(0) == 0);
        } else if ep.rank() == 0 {
            let mut into = [0; 3000];
            for k in 0..N {
                let status = ep.recv((1, 1), &mut into).unwrap();
                assert_eq!(status.len, len(k), "message {k}");
                check(&into[..status.len], k);
            }
            assert_eq!(ep.recv((1, 1), &mut into).unwrap_err(), DIED);
            assert_eq!(ep.probe((1, 1)).unwrap_err(), DIED);
            for len in LENS {
                assert_eq!(ep.send((1, 1), &pattern(len, 1)).unwrap_err(), DIED, "{len} bytes");
            }
            assert_eq!(ep.send_am(1, 1, 0, &[]).unwrap_err(), DIED);
        }
    });
}

fn what_waits_for_a_dead_rank_fails_and_others_go_on<W: Mortal>() {
    with_victim::<W>(|ep| {
        match ep.rank() {
            1 => ep.recv((0, 9), &mut []).map(drop).unwrap(),
            2 => {
                ep.recv((0, 9), &mut []).unwrap();
                ep.send((0, 1), &pattern(400_000, 2)).unwrap();
            }
            _ => {
                let long = pattern(400_000, 1);
                let (mut named, mut any, mut multi) = ([0; 8], vec![0; long.len()], [0; 64]);
                // SAFETY: all memory outlives the requests.
                let (waiting, other) = unsafe {
                    let (to, at) = (Dest::new(1, 1), long.as_ptr());
                    let from = Pattern::new(1, 1);
                    let waiting = [
                        ep.irecv_raw(from, named.as_mut_ptr(), 8).unwrap(),
                        ep.irecv_multi_raw(from, multi.as_mut_ptr(), 64, 1).unwrap(),
                        ep.isend_raw(to, at, long.len()).unwrap(),
                        ep.isend_sync_raw(to, at, 8).unwrap(),
                    ];
                    let from = Pattern::any_source(1);
                    (waiting, ep.irecv_raw(from, any.as_mut_ptr(), any.len()).unwrap())
                };
                ep.send((1, 9), &[]).unwrap();
                for (k, request) in waiting.into_iter().enumerate() {
                    assert_eq!(ep.wait(request).unwrap_err(), DIED, "request {k}");
                }
                assert_eq!(ep.test(other).unwrap(), None);
                ep.send((2, 9), &[]).unwrap();
                assert_eq!(ep.wait(other).unwrap().source, 2);
                check(&any, 2);
            }
        }
    });
}

fn a_message_is_whole_or_fails_whenever_its_sender_dies<W: Mortal>() {
    for moment in moments() {
        for late in [false, true] {
            let data = LENS.map(|len| pattern(len, moment as u64));
            with_victim::<W>(|ep| {
                if ep.rank() == 1 {
                    for (tag, data) in (0..).zip(&data) {
                        // SAFETY: the vectors outlive the endpoint, which nobody uses any more when it has died.
                        unsafe {
                            ep.isend_raw(Dest::new(0, tag), data.as_ptr(), data.len()).unwrap()
                        };
                    }
                    turns(ep, moment);
                } else if ep.rank() == 0 {
                    if late {
                        assert_eq!(ep.recv((1, 77), &mut []).unwrap_err(), DIED);
                    }
                    for (tag, len) in (0..).zip(LENS) {
                        let mut into = vec![0; len];
                        match ep.recv((1, tag), &mut into) {
                            Ok(status) => {
                                assert_eq!(status.len, len);
                                check(&into, moment as u64);
                            }
                            Err(error) => assert_eq!(error, DIED),
                        }
                    }
                }
            });
        }
    }
}

fn a_send_ends_whenever_its_receiver_dies<W: Mortal>() {
    for moment in moments() {
        with_victim::<W>(|ep| {
            let mut into = LENS.map(|len| vec![0; len]);
            if ep.rank() == 1 {
                for (tag, into) in (0..).zip(&mut into) {
                    let from = Pattern::new(0, tag);
                    // SAFETY: nobody writes to them after these turns: the rank dies.
                    unsafe { ep.irecv_raw(from, into.as_mut_ptr(), into.len()).unwrap() };
                }
                turns(ep, moment);
            } else if ep.rank() == 0 {
                for (tag, len) in (0..).zip(LENS) {
                    let ended = ep.send_sync((1, tag), &pattern(len, 3));
                    assert!(ended == Ok(()) || ended == Err(DIED), "{len} bytes: {ended:?}");
                }
                assert_eq!(ep.recv((1, 77), &mut []).unwrap_err(), DIED);
            }
        });
    }
}

fn accesses_end_whenever_their_target_dies<W: Mortal>() {
    const LEN: usize = 300_000;
    for moment in moments() {
        with_victim::<W>(|ep| {
            let mut memory = pattern(LEN, 7);
            if ep.rank() == 1 {
                // SAFETY: the memory is not freed.
                unsafe {
                    let region = ep.register(memory.as_mut_ptr(), LEN).unwrap();
                    ep.expose(5, memory.as_mut_ptr(), LEN, 0, Access::Both).unwrap();
                    let key = ep.remote_memory(0, region).unwrap();
                    ep.send((0, 1), &key.to_bytes()).unwrap();
                }
                turns(ep, moment);
                std::mem::forget(memory);
            } else if ep.rank() == 0 {
                let mut key = [0; RemoteMemory::ENCODED];
                if let Err(error) = ep.recv((1, 1), &mut key) {
                    return assert_eq!(error, DIED);
                }
                let key = RemoteMemory::from_bytes(&key);
                let (mut got, mut named) = (vec![0; LEN], vec![0; LEN]);
                // SAFETY: the memory outlives the requests.
                let started = unsafe {
                    [
                        ep.iget_raw(1, &key, 0, got.as_mut_ptr(), LEN),
                        ep.iput_raw(1, &key, 0, memory.as_ptr(), LEN),
                        ep.iget_named_raw(1, 5, 0, named.as_mut_ptr(), LEN),
                        ep.iput_named_raw(1, 5, 0, memory.as_ptr(), LEN),
                    ]
                };
                let ended = started.map(|started| started.and_then(|request| ep.wait(request)));
                for (k, ended) in ended.iter().enumerate() {
                    assert!(matches!(ended, Ok(_) | Err(DIED)), "access {k}: {ended:?}");
                }
                for (ended, bytes) in [(&ended[0], &got), (&ended[2], &named)] {
                    if ended.is_ok() {
                        check(bytes, 7);
                    }
                }
                assert_eq!(ep.recv((1, 77), &mut []).unwrap_err(), DIED);
                assert!(ep.get(1, &key, 0, &mut got).is_err());
            }
        });
    }
}

fn buffers_lent_to_a_dead_rank_come_back<W: Mortal>() {
    const LEN: usize = 300_000;
    const N: usize = 8;
    for taken in [0, N / 2, N] {
        with_victim::<W>(|ep| {
            if ep.rank() == 1 {
                let views: Vec<_> = (0..taken).map(|_| ep.recv_view((0, 1)).unwrap()).collect();
                std::mem::forget(views);
            } else if ep.rank() == 0 {
                for salt in 0..N as u64 {
                    let mut buffer = ep.alloc(LEN).unwrap();
                    buffer.copy_from_slice(&pattern(LEN, salt));
                    ep.loan((1, 1), buffer).unwrap_or_else(|error| assert_eq!(error, DIED));
                }
                assert_eq!(ep.recv((1, 77), &mut []).unwrap_err(), DIED);
                let mut held = Vec::new();
                until(ep, |ep| pooled(ep, LEN, &mut held) >= N);
            }
        });
    }
}
