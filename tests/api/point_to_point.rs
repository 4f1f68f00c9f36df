//! Messages of every size, by every protocol, to receives that are there and that are not.

use crate::common::*;
use crate::world::*;
use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;
use taffrail::{Data, Dest, Endpoint, Error, Pattern, Settings};

in_every_world!(
    every_size_to_a_receive_that_waits,
    every_size_before_its_receive,
    every_size_to_oneself,
    a_synchronous_send_is_over_only_when_it_is_matched,
    a_truncated_message_fails_its_receive_and_nothing_else,
    long_messages_cross,
    all_to_all_at_once,
    a_peer_that_does_not_receive_loses_nothing,
    a_throttled_sender_is_let_go_again,
    gathered_and_scattered_messages_of_every_size,
    a_scattered_receive_that_is_too_short_is_filled_exactly,
    nobody_to_send_to,
);

const DATA: u64 = 1;
const MARK: u64 = 2;

/// Waits until the other of two ranks is here.
fn meet(ep: &mut Endpoint<impl Transport>) {
    let peer = 1 - ep.rank();
    let mut nothing = [0; 0];
    ep.sendrecv((peer, u64::MAX), &[], (peer, u64::MAX), &mut nothing).unwrap();
}

fn send(ep: &mut Endpoint<impl Transport>, to: u32, data: &[u8], sync: bool) {
    match sync {
        false => ep.send((to, DATA), data).unwrap(),
        true => ep.send_sync((to, DATA), data).unwrap(),
    }
}

fn every_size_to_a_receive_that_waits<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in sizes().into_iter().enumerate() {
                let (salt, sync) = (k as u64, k % 2 == 0);
                if ep.rank() == 1 {
                    meet(ep);
                    send(ep, 0, &pattern(len, salt), sync);
                    continue;
                }
                let mut into = vec![0; len + 8];
                let status = ep
                    .scope(|s| {
                        let request = s.irecv((1, DATA), &mut into)?;
                        meet(s.endpoint());
                        s.wait(request)
                    })
                    .unwrap();
                assert_eq!((status.source, status.tag, status.len), (1, DATA, len), "{name}");
                check(&into[..len], salt);
                assert_eq!(into[len..], [0; 8], "{name}: beyond {len} bytes");
            }
        });
    }
}

fn every_size_before_its_receive<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in sizes().into_iter().enumerate() {
                let salt = k as u64;
                let data = pattern(len, salt);
                if ep.rank() == 1 {
                    ep.scope(|s| {
                        let request = s.isend((0, DATA), &data)?;
                        s.endpoint().send((0, MARK), &[])?;
                        s.wait(request)
                    })
                    .unwrap();
                    meet(ep);
                    continue;
                }
                ep.recv((1, MARK), &mut []).unwrap();
                let seen = ep.probe((1, DATA)).unwrap().expect("sent before the mark");
                assert_eq!(seen.len, len, "{name}");
                let mut into = vec![0; len + 8];
                let status = ep.recv((1, DATA), &mut into).unwrap();
                assert_eq!(status, seen, "{name}");
                check(&into[..len], salt);
                assert_eq!(into[len..], [0; 8], "{name}: beyond {len} bytes");
                assert_eq!(ep.probe((1, DATA)).unwrap(), None, "{name}");
                meet(ep);
            }
        });
    }
}

fn every_size_to_oneself<W: World>() {
    for (_, settings) in variants() {
        on_ranks_with::<W, _>(1, &settings, |ep| {
            for (k, len) in sizes().into_iter().enumerate() {
                let (data, mut into) = (pattern(len, k as u64), vec![0; len]);
                ep.sendrecv((0, 1), &data, (0, 1), &mut into).unwrap();
                check(&into, k as u64);

                let mut into = vec![0; len];
                ep.scope(|s| {
                    let send = s.isend((0, 2), &data)?;
                    let recv = s.irecv(Pattern::any_source(2), &mut into)?;
                    s.wait_all(&[send, recv])
                })
                .unwrap();
                check(&into, k as u64);
            }
        });
    }
}

fn a_synchronous_send_is_over_only_when_it_is_matched<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in [0, 8, 100, 300, 5000, 70_000, 200_000].into_iter().enumerate() {
                let data = pattern(len, k as u64);
                if ep.rank() == 1 {
                    // SAFETY: `data` lives until the request is finished below.
                    let request = unsafe {
                        ep.isend_sync_raw(Dest::new(0, DATA), data.as_ptr(), len).unwrap()
                    };
                    ep.send((0, MARK), &[]).unwrap();
                    linger(ep, Duration::from_millis(5));
                    assert_eq!(ep.test(request).unwrap(), None, "{name}: {len} bytes");
                    ep.send((0, MARK), &[]).unwrap();
                    assert_eq!(ep.wait(request).unwrap().len, len, "{name}");
                    continue;
                }
                ep.recv((1, MARK), &mut []).unwrap();
                ep.recv((1, MARK), &mut []).unwrap();
                let mut into = vec![0; len];
                ep.recv((1, DATA), &mut into).unwrap();
                check(&into, k as u64);
            }
        });
    }
}

fn a_truncated_message_fails_its_receive_and_nothing_else<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in sizes().into_iter().filter(|&len| len > 0).enumerate() {
                for (round, room) in [0, len / 2, len - 1].into_iter().enumerate() {
                    let (data, salt) = (pattern(len, k as u64), 1000 + k as u64);
                    if ep.rank() == 1 {
                        // The sender does not care.
                        if round == 1 {
                            meet(ep);
                        }
                        send(ep, 0, &data, k % 3 == 0);
                        send(ep, 0, &pattern(len, salt), false);
                        continue;
                    }
                    let mut into = vec![0; len];
                    let error = ep
                        .scope(|s| {
                            let request = s.irecv((1, DATA), &mut into[..room])?;
                            if round == 1 {
                                meet(s.endpoint());
                            }
                            s.wait(request)
                        })
                        .unwrap_err();
                    let expected =
                        Error::Truncated { len, room, source_rank: 1, tag: DATA, data: Data::NONE };
                    assert_eq!(error, expected, "{name}");
                    check(&into[..room], k as u64);
                    assert!(into[room..].iter().all(|&b| b == 0), "{name}: beyond {room}");
                    assert_eq!(ep.recv((1, DATA), &mut into).unwrap().len, len, "{name}");
                    check(&into, salt);
                }
            }
        });
    }
}

fn long_messages_cross<W: World>() {
    for (_, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            let peer = 1 - ep.rank();
            for len in [1000, 60_000, 1 << 20, 5 << 20] {
                let (data, mut into) = (pattern(len, ep.rank().into()), vec![0; len]);
                ep.sendrecv((peer, 1), &data, (peer, 1), &mut into).unwrap();
                check(&into, peer.into());
            }
        });
    }
}

fn all_to_all_at_once<W: World>() {
    for (_, settings) in variants() {
        const N: u32 = 4;
        on_ranks_with::<W, _>(N, &settings, |ep| {
            let me = ep.rank();
            let lens = [10, 300, 20_000, 70_000, 300_000];
            let data: Vec<Vec<u8>> =
                lens.iter().map(|&len| pattern(len, u64::from(me) << 32 | len as u64)).collect();
            let mut into: Vec<Vec<Vec<u8>>> =
                (0..N).map(|_| lens.iter().map(|&len| vec![0; len]).collect()).collect();
            ep.scope(|s| {
                for (source, into) in (0..N).zip(&mut into) {
                    for (tag, into) in (0..).zip(into) {
                        s.irecv((source, tag), into)?;
                    }
                }
                for to in 0..N {
                    for (tag, data) in (0..).zip(&data) {
                        s.isend((to, tag), data)?;
                    }
                }
                Ok(())
            })
            .unwrap();
            for (source, into) in (0..N).zip(&into) {
                for into in into {
                    check(into, u64::from(source) << 32 | into.len() as u64);
                }
            }
        });
    }
}

/// More than the ring and the outbox hold, to a peer that does something else.
fn a_peer_that_does_not_receive_loses_nothing<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            let len = |k: usize| [0, 20, 200, 3000, 20_000][k % 5] + k;
            const MESSAGES: usize = 2000;
            if ep.rank() == 1 {
                let data: Vec<Vec<u8>> = (0..MESSAGES).map(|k| pattern(len(k), k as u64)).collect();
                ep.scope(|s| {
                    for data in &data {
                        s.isend((0, DATA), data)?;
                    }
                    Ok(())
                })
                .unwrap();
            } else {
                std::thread::sleep(Duration::from_millis(100));
                let mut into = vec![0; 30_000];
                for k in 0..MESSAGES {
                    let status = ep.recv((1, DATA), &mut into).unwrap();
                    assert_eq!(status.len, len(k), "{name}: message {k}");
                    check(&into[..status.len], k as u64);
                }
            }
        });
    }
}

/// The store of the receiver overflows again and again, and drains again.
fn a_throttled_sender_is_let_go_again<W: World>() {
    let settings = Settings { unexpected: 20_000, ..Settings::default() };
    on_ranks_with::<W, _>(2, &settings, |ep| {
        for round in 0..20u64 {
            if ep.rank() == 1 {
                let data: Vec<_> = (0..50).map(|k| pattern(2000, round * 50 + k)).collect();
                ep.scope(|s| {
                    for data in &data {
                        s.isend((0, DATA), data)?;
                    }
                    s.endpoint().send((0, MARK), &[])
                })
                .unwrap();
                continue;
            }
            ep.recv((1, MARK), &mut []).unwrap();
            for k in 0..50 {
                let mut into = [0; 2000];
                ep.recv((1, DATA), &mut into).unwrap();
                check(&into, round * 50 + k);
            }
        }
    });
}

/// Cuts `len` bytes into odd parts, some of them empty.
fn cuts(len: usize, seed: usize) -> Vec<usize> {
    let mut left = len;
    let mut parts = vec![0];
    for k in seed.. {
        if left == 0 {
            break;
        }
        let part = ([1, 0, 43, 7, 300, 4096, 20_001, 0, 100_003][k % 9]).min(left);
        parts.push(part);
        left -= part;
    }
    parts.push(0);
    parts
}

fn gathered_and_scattered_messages_of_every_size<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in sizes().into_iter().enumerate() {
                let late = k % 2 == 0;
                if ep.rank() == 1 {
                    if late {
                        meet(ep);
                    }
                    let data = pattern(len, k as u64);
                    let mut rest = &data[..];
                    let parts: Vec<&[u8]> = cuts(len, k)
                        .into_iter()
                        .map(|cut| rest.split_off(..cut).expect("cuts of `len`"))
                        .collect();
                    let slices: Vec<IoSlice> = parts.iter().map(|p| IoSlice::new(p)).collect();
                    ep.send_vectored((0, DATA), &slices).unwrap();
                    continue;
                }
                let mut into = vec![0; len + 5];
                let mut rest = &mut into[..];
                let mut parts: Vec<IoSliceMut> = cuts(len + 5, k + 3)
                    .into_iter()
                    .map(|cut| IoSliceMut::new(rest.split_off_mut(..cut).expect("cuts")))
                    .collect();
                let status = if late {
                    // SAFETY: `into` lives until the request is finished.
                    let request =
                        unsafe { ep.irecv_vectored_raw(Pattern::new(1, DATA), &mut parts) };
                    meet(ep);
                    ep.wait(request.unwrap()).unwrap()
                } else {
                    ep.recv_vectored((1, DATA), &mut parts).unwrap()
                };
                assert_eq!(status.len, len, "{name}");
                check(&into[..len], k as u64);
                assert_eq!(into[len..], [0; 5], "{name}");
            }
        });
    }
}

fn a_scattered_receive_that_is_too_short_is_filled_exactly<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        for (k, len) in sizes().into_iter().filter(|&len| len > 3).enumerate() {
            if ep.rank() == 1 {
                ep.send((0, DATA), &pattern(len, k as u64)).unwrap();
                continue;
            }
            let mut into = vec![0; len];
            let (front, back) = into.split_at_mut(len / 2);
            let back = &mut back[..len - len / 2 - 1];
            let mut parts = [IoSliceMut::new(front), IoSliceMut::new(back)];
            let error = ep.recv_vectored((1, DATA), &mut parts).unwrap_err();
            assert!(matches!(error, Error::Truncated { room, .. } if room == len - 1), "{error}");
            check(&into[..len - 1], k as u64);
            assert_eq!(into[len - 1], 0);
        }
    });
}

fn nobody_to_send_to<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let error = Error::NoSuchRank { rank: 2, size: 2 };
        assert_eq!(ep.send((2, 0), b"x").unwrap_err(), error);
        assert_eq!(ep.send_sync((2, 0), b"x").unwrap_err(), error);
        assert_eq!(ep.recv((2, 0), &mut []).unwrap_err(), error);
        assert_eq!(ep.probe((2, 0)).unwrap_err(), error);
        assert_eq!(ep.send_am(2, 0, 0, &[]).unwrap_err(), error);
        assert_eq!(ep.recv_view((2, 0)).unwrap_err(), error);
        let into = &mut [0; 4];
        assert_eq!(ep.sendrecv((2, 0), b"x", (0, 9), into).unwrap_err(), error);
        // The receive of the failed call is not there any more.
        let me = ep.rank();
        ep.send((me, 9), b"left").unwrap();
        assert_eq!(ep.recv((me, 9), into).unwrap().len, 4);
    });
}
