//! Buffers of the endpoint, loans, and views.

use crate::common::*;
use crate::world::*;
use std::time::Duration;
use taffrail::{Buffer, Endpoint, Error, MemoryError, Pattern, Settings, View};

in_every_world!(
    a_loan_goes_to_any_kind_of_receive,
    a_view_of_a_message_that_is_no_loan_is_a_copy,
    messages_out_of_endpoint_memory_are_like_others,
    a_returned_buffer_is_used_again,
    a_dropped_buffer_is_used_again,
    a_view_is_dropped_in_another_thread,
    loans_to_oneself,
    a_loan_to_nobody_leaves_the_buffer_in_the_pool,
    a_sender_of_loans_is_not_held_up_by_a_receiver_that_waits,
    loans_of_more_regions_than_fit_at_once_arrive_all_the_same,
    a_buffer_of_another_endpoint_is_refused,
);

mod in_place {
    use super::*;

    where_loans_are_mapped!(
        a_loan_of_every_size_is_seen_in_place,
        many_loans_out_at_once_come_back_in_any_order,
        a_view_outlives_both_endpoints,
        a_kept_view_does_not_change_when_its_holder_has_closed,
    );
}

/// Between nodes.
#[test]
fn a_loan_to_another_node_is_copied_and_its_buffer_is_used_again() {
    on_ranks::<Apart, _>(2, |ep| {
        for salt in 0..20 {
            if ep.rank() == 1 {
                let buffer = filled(ep, 300_000, salt);
                ep.loan((0, 1), buffer).unwrap();
                ep.recv((0, 2), &mut []).unwrap();
                continue;
            }
            let view = ep.recv_view((1, 1)).unwrap();
            assert!(!view.is_loan());
            check(&view, salt);
            ep.send((1, 2), &[]).unwrap();
        }
        assert!(ep.footprint() < 64 << 20, "{} bytes", ep.footprint());
    });
}

fn filled(ep: &mut Endpoint<impl Transport>, len: usize, salt: u64) -> Buffer {
    let mut buffer = ep.alloc(len).unwrap();
    buffer.copy_from_slice(&pattern(len, salt));
    buffer
}

fn a_loan_of_every_size_is_seen_in_place<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        for (k, len) in sizes().into_iter().enumerate() {
            let salt = k as u64;
            if ep.rank() == 1 {
                let buffer = filled(ep, len, salt);
                ep.loan((0, 1), buffer).unwrap();
                continue;
            }
            let view = ep.recv_view(Pattern::any_source(1)).unwrap();
            let status = view.status();
            assert_eq!((status.source, status.tag, status.len, view.len()), (1, 1, len, len));
            assert!(view.is_loan(), "{len} bytes");
            check(&view, salt);
        }
    });
}

fn a_loan_goes_to_any_kind_of_receive<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        for (k, len) in [0, 9, 5000, 300_000].into_iter().enumerate() {
            let salt = k as u64;
            for late in [true, false] {
                if ep.rank() == 1 {
                    if late {
                        ep.recv((0, 9), &mut []).unwrap();
                    }
                    for _ in 0..3 {
                        let buffer = filled(ep, len, salt);
                        ep.loan((0, 1), buffer).unwrap();
                    }
                    ep.send((0, 2), &[]).unwrap();
                    continue;
                }
                let mut plain = vec![0; len + 1];
                let mut parts = vec![0; len];
                let (front, back) = parts.split_at_mut(len / 3);
                ep.scope(|s| {
                    if !late {
                        s.endpoint().recv((1, 2), &mut [])?;
                    }
                    let first = s.irecv((1, 1), &mut plain)?;
                    if late {
                        s.endpoint().send((1, 9), &[])?;
                    }
                    assert_eq!(s.wait(first)?.len, len);
                    let mut parts =
                        [std::io::IoSliceMut::new(front), std::io::IoSliceMut::new(back)];
                    assert_eq!(s.endpoint().recv_vectored((1, 1), &mut parts)?.len, len);
                    Ok(())
                })
                .unwrap();
                check(&plain[..len], salt);
                check(&parts, salt);
                let mut short = vec![0; len / 2];
                match ep.recv((1, 1), &mut short) {
                    Ok(status) => assert_eq!(status.len, 0),
                    Err(error) => {
                        assert!(matches!(error, Error::Truncated { .. }), "{error}");
                        check(&short, salt);
                    }
                }
                if late {
                    ep.recv((1, 2), &mut []).unwrap();
                }
            }
        }
    });
}

fn a_view_of_a_message_that_is_no_loan_is_a_copy<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in sizes().into_iter().enumerate() {
                if ep.rank() == 1 {
                    if k % 2 == 0 {
                        ep.recv((0, 9), &mut []).unwrap();
                    }
                    ep.send((0, 1), &pattern(len, k as u64)).unwrap();
                    continue;
                }
                if k % 2 == 0 {
                    ep.send((1, 9), &[]).unwrap();
                }
                let view = ep.recv_view((1, 1)).unwrap();
                assert_eq!((view.len(), view.status().len, view.is_loan()), (len, len, false));
                check(&view, k as u64);
                assert!(format!("{view:?}").contains("loan: false"), "{name}");
            }
        });
    }
}

fn messages_out_of_endpoint_memory_are_like_others<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        for (k, len) in sizes().into_iter().enumerate() {
            if ep.rank() == 1 {
                let buffer = filled(ep, len, k as u64);
                ep.send((0, 1), &buffer).unwrap();
            } else {
                let mut into = ep.alloc(len).unwrap();
                ep.recv((1, 1), &mut into).unwrap();
                check(&into, k as u64);
            }
        }
    });
}

/// Were buffers not used again, this would take gigabytes.
fn a_returned_buffer_is_used_again<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const LEN: usize = 1 << 20;
        let before = ep.footprint();
        for round in 0..2000 {
            if ep.rank() == 1 {
                let buffer = ep.alloc(LEN).unwrap();
                ep.loan((0, 1), buffer).unwrap();
                ep.recv((0, 2), &mut []).unwrap();
                assert!(ep.footprint() <= before + 4 * LEN, "round {round}");
            } else {
                drop(ep.recv_view((1, 1)).unwrap());
                ep.send((1, 2), &[]).unwrap();
            }
        }
    });
}

fn a_dropped_buffer_is_used_again<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        drop(ep.alloc(100_000).unwrap());
        let before = ep.footprint();
        for round in 0..1000 {
            let mut buffer = ep.alloc(100_000 - round).unwrap();
            buffer.truncate(17);
            assert_eq!(buffer.len(), 17);
        }
        assert_eq!(ep.footprint(), before);
        let huge = ep.alloc(usize::MAX / 2).unwrap_err();
        assert!(matches!(huge, Error::Memory(_)), "{huge}");
    });
}

fn many_loans_out_at_once_come_back_in_any_order<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const N: usize = 400;
        let len = |k: usize| [64, 1000, 70_000, 300_000][k % 4];
        if ep.rank() == 1 {
            for k in 0..N {
                let buffer = filled(ep, len(k), k as u64);
                ep.loan((0, 1), buffer).unwrap();
            }
            ep.recv((0, 2), &mut []).unwrap();
            return;
        }
        let mut views: Vec<_> = (0..N).map(|_| Some(ep.recv_view((1, 1)).unwrap())).collect();
        for k in (0..N).map(|k| k * 7 % N) {
            let view = views[k].take().expect("each once");
            assert!(view.is_loan(), "loan {k}");
            assert_eq!(view.len(), len(k));
            check(&view, k as u64);
        }
        ep.send((1, 2), &[]).unwrap();
    });
}

fn a_view_is_dropped_in_another_thread<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        for k in 0..20 {
            if ep.rank() == 1 {
                let buffer = filled(ep, 300_000, k);
                let at = buffer.as_ptr().addr();
                ep.loan((0, 1), buffer).unwrap();
                ep.recv((0, 2), &mut []).unwrap();
                // It is back, since its return was on the way before the message.
                let again = ep.alloc(300_000).unwrap();
                assert_eq!(again.as_ptr().addr(), at, "round {k}");
            } else {
                let view = ep.recv_view((1, 1)).unwrap();
                std::thread::spawn(move || check(&view, k)).join().unwrap();
                linger(ep, Duration::from_millis(1));
                ep.send((1, 2), &[]).unwrap();
            }
        }
    });
}

fn loans_to_oneself<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        for (k, len) in [0, 100, 300_000].into_iter().enumerate() {
            let buffer = filled(ep, len, k as u64);
            let at = buffer.as_ptr();
            ep.loan((0, 1), buffer).unwrap();
            let view = ep.recv_view((0, 1)).unwrap();
            assert!(view.is_loan());
            assert_eq!(view.as_ptr(), at);
            check(&view, k as u64);
        }
    });
}

fn a_loan_to_nobody_leaves_the_buffer_in_the_pool<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let before = ep.alloc(1 << 20).map(drop).map(|()| ep.footprint()).unwrap();
        for _ in 0..20 {
            let buffer = ep.alloc(1 << 20).unwrap();
            let error = ep.loan((1, 0), buffer).unwrap_err();
            assert_eq!(error, Error::NoSuchRank { rank: 1, size: 1 });
        }
        assert_eq!(ep.footprint(), before);
    });
}

fn a_view_outlives_both_endpoints<W: World>() {
    let views: Vec<Option<(View, Buffer)>> = on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        if ep.rank() == 1 {
            for len in [100, 1 << 20] {
                let buffer = filled(&mut ep, len, 7);
                ep.loan((0, 1), buffer).unwrap();
            }
            return None;
        }
        let first = ep.recv_view((1, 1)).unwrap();
        let second = ep.recv_view((1, 1)).unwrap();
        // Its owner is gone, perhaps since before it was received.
        let error = ep.recv((1, 1), &mut []).unwrap_err();
        assert!(matches!(error, Error::PeerFailed { rank: 1, .. }), "{error}");
        check(&first, 7);
        drop(first);
        let buffer = filled(&mut ep, 5000, 8);
        Some((second, buffer))
    });
    let (view, mut buffer) = views.into_iter().flatten().next().expect("rank 0 has them");
    assert!(view.is_loan());
    check(&view, 7);
    check(&buffer, 8);
    buffer.fill(0);
    let view = std::thread::spawn(move || view).join().unwrap();
    check(&view, 7);
}

/// The borrower closes its endpoint and keeps its view: what it sees must not change.
fn a_kept_view_does_not_change_when_its_holder_has_closed<W: World>() {
    let (send, receive) = std::sync::mpsc::channel::<View>();
    let receive = std::sync::Mutex::new(receive);
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        const LEN: usize = 300_000;
        if ep.rank() == 0 {
            // Looked at and given back.
            drop(ep.recv_view((1, 1)).unwrap());
            let view = ep.recv_view((1, 1)).unwrap();
            // The third is never received, but it is here.
            while ep.probe((1, 1)).unwrap().is_none() {}
            send.clone().send(view).unwrap();
            return;
        }
        for salt in 1..=3 {
            let buffer = filled(&mut ep, LEN, salt);
            ep.loan((0, 1), buffer).unwrap();
        }
        let before = ep.footprint();
        let view = receive.lock().unwrap().recv().unwrap();
        let error = ep.recv((0, 1), &mut []).unwrap_err();
        assert!(matches!(error, Error::PeerFailed { rank: 0, .. }), "{error}");
        let buffers: Vec<_> = (10..12).map(|salt| filled(&mut ep, LEN, salt)).collect();
        assert_eq!(ep.footprint(), before, "the others came back");
        let more = filled(&mut ep, LEN, 12);
        check(&view, 2);
        drop((buffers, more));
    });
}

fn a_sender_of_loans_is_not_held_up_by_a_receiver_that_waits<W: World>() {
    let settings = Settings { unexpected: 0, outbox: 0, ..Settings::default() };
    on_ranks_with::<W, _>(2, &settings, |ep| {
        if ep.rank() == 1 {
            for k in 0..1000 {
                let buffer = filled(ep, 1000, k);
                ep.loan((0, 1), buffer).unwrap();
            }
        } else {
            std::thread::sleep(Duration::from_millis(50));
            for k in 0..1000 {
                let mut into = [0; 1000];
                ep.recv((1, 1), &mut into).unwrap();
                check(&into, k);
            }
        }
    });
}

/// More regions than the way to a peer that does not look takes descriptors of.
fn loans_of_more_regions_than_fit_at_once_arrive_all_the_same<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const N: u64 = 500;
        const LEN: usize = 300_000;
        if ep.rank() == 1 {
            for k in 0..N {
                let mut buffer = ep.alloc(LEN).unwrap();
                buffer[..8].copy_from_slice(&k.to_le_bytes());
                ep.loan((0, 1), buffer).unwrap();
            }
            ep.recv((0, 2), &mut []).unwrap();
            return;
        }
        std::thread::sleep(Duration::from_millis(300));
        for k in 0..N {
            let view = ep.recv_view((1, 1)).unwrap();
            assert_eq!((view.len(), &view[..8]), (LEN, &k.to_le_bytes()[..]));
        }
        ep.send((1, 2), &[]).unwrap();
    });
}

/// Regions are numbered by their endpoint: those of another mean something else here.
fn a_buffer_of_another_endpoint_is_refused<W: World>() {
    let _watchdog = watchdog();
    let (mut one, mut other) = (alone::<W>(), alone::<W>());
    let buffer = one.alloc(100).unwrap();
    let _mine = other.alloc(100).unwrap();
    let refused = |error| matches!(error, Error::Memory(MemoryError::Unknown { .. }));
    // SAFETY: nobody gets the key.
    assert!(unsafe { other.remote_buffer(0, &buffer) }.is_err_and(refused));
    assert!(other.loan((0, 1), buffer).is_err_and(refused));
}
