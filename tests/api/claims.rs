//! Messages that are claimed: received later, or discarded.

use crate::common::*;
use crate::world::*;
use std::io::IoSliceMut;
use std::time::Duration;
use taffrail::{Claimed, Endpoint, Error, Settings};

in_every_world!(
    a_claimed_message_is_the_claimers_alone,
    a_claimed_message_can_be_too_long,
    a_claimed_message_fills_several_places,
    a_dropped_claim_discards_its_message,
    a_claim_is_dropped_before_all_of_its_message_is_there,
    a_dropped_claim_makes_room_for_unexpected_messages,
    a_lender_gets_back_what_is_discarded,
    a_claim_may_outlive_its_sender_and_its_endpoint,
    #[should_panic(expected = "claimed at another endpoint")]
    a_claim_is_received_where_it_was_made,
);

/// Claims the next message of rank 1 with tag 1.
fn claim(ep: &mut Endpoint<impl Transport>) -> Claimed {
    let mut claimed = None;
    until(ep, |ep| {
        claimed = ep.claim((1, 1)).unwrap();
        claimed.is_some()
    });
    claimed.expect("just seen")
}

fn a_claimed_message_is_the_claimers_alone<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in [0, 50, 3000, 50_000, 300_000].into_iter().enumerate() {
                let salts = [k as u64, 100 + k as u64];
                if ep.rank() == 1 {
                    let data = salts.map(|salt| pattern(len, salt));
                    ep.scope(|s| {
                        s.isend((0, 1), &data[0])?;
                        s.isend((0, 1), &data[1])?;
                        s.endpoint().send((0, 2), &[])
                    })
                    .unwrap();
                    ep.recv((0, 3), &mut []).unwrap();
                    continue;
                }
                ep.recv((1, 2), &mut []).unwrap();
                let claimed = ep.claim((1, 1)).unwrap().expect("it is there");
                assert_eq!(claimed.status().len, len, "{name}");
                let (mut first, mut second) = (vec![0; len], vec![0; len]);
                ep.recv((1, 1), &mut second).unwrap();
                assert!(ep.claim((1, 1)).unwrap().is_none(), "{name}: both are taken");
                ep.recv_claimed(claimed, &mut first).unwrap();
                check(&first, salts[0]);
                check(&second, salts[1]);
                ep.send((1, 3), &[]).unwrap();
            }
        });
    }
}

fn a_claimed_message_can_be_too_long<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        for len in [100, 10_000, 100_000] {
            if ep.rank() == 1 {
                ep.send((0, 1), &pattern(len, 5)).unwrap();
                continue;
            }
            let mut claimed = None;
            until(ep, |ep| {
                claimed = ep.claim((1, 1)).unwrap();
                claimed.is_some()
            });
            let mut into = vec![0; len - 1];
            let error = ep.recv_claimed(claimed.unwrap(), &mut into).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{error}");
            check(&into, 5);
        }
    });
}

fn a_claimed_message_fills_several_places<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for len in [0, 9, 300, 5000, 300_000] {
                if ep.rank() == 1 {
                    ep.send((0, 1), &pattern(len, 5)).unwrap();
                    continue;
                }
                let claimed = claim(ep);
                // One byte less than there is, if there is any.
                let cut = [len / 3, len / 3, 0, (len - 2 * (len / 3)).saturating_sub(1)];
                let mut parts = cut.map(|len| vec![0; len]);
                let mut places = parts.each_mut().map(|part| IoSliceMut::new(part));
                // SAFETY: the places outlive the request.
                let request =
                    unsafe { ep.irecv_claimed_vectored_raw(claimed, &mut places) }.unwrap();
                let result = ep.wait(request);
                match len {
                    0 => assert_eq!(result.unwrap().len, 0, "{name}"),
                    _ => assert!(matches!(result, Err(Error::Truncated { .. })), "{name}"),
                }
                check(&parts.concat(), 5);
            }
        });
    }
}

/// Its sender goes on as if it had been received, and the next message is the next one.
fn a_dropped_claim_discards_its_message<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for (k, len) in sizes().into_iter().enumerate() {
                let (data, next) = (pattern(len, 1), pattern(len, 2 + k as u64));
                if ep.rank() == 1 {
                    match k % 3 {
                        0 => ep.send((0, 1), &data).unwrap(),
                        1 => ep.send_sync((0, 1), &data).unwrap(),
                        _ => {
                            let mut buffer = ep.alloc(len).unwrap();
                            buffer.copy_from_slice(&data);
                            ep.loan((0, 1), buffer).unwrap();
                        }
                    }
                    ep.send((0, 1), &next).unwrap();
                    continue;
                }
                let claimed = claim(ep);
                assert_eq!(claimed.status().len, len, "{name}");
                drop(claimed);
                let mut into = vec![0; len];
                assert_eq!(ep.recv((1, 1), &mut into).unwrap().len, len, "{name}");
                check(&into, 2 + k as u64);
            }
        });
    }
}

/// Claims of which the rest still arrives, one after the other: none of them is mixed up.
fn a_claim_is_dropped_before_all_of_its_message_is_there<W: World>() {
    const LEN: usize = 900_000;
    let settings = Settings {
        eager_max: 1 << 20,
        piece: Some(1000),
        outbox: 0,
        unexpected: 4 * LEN,
        ..Settings::default()
    };
    on_ranks_with::<W, _>(2, &settings, |ep| {
        const N: u64 = 40;
        if ep.rank() == 1 {
            for k in 0..N {
                ep.send((0, 1), &pattern(LEN, k)).unwrap();
            }
            return;
        }
        for k in 0..N {
            let claimed = claim(ep);
            if k % 4 != 3 {
                drop(claimed);
                continue;
            }
            let mut into = vec![0; LEN];
            ep.recv_claimed(claimed, &mut into).unwrap();
            check(&into, k);
        }
    });
}

/// What is discarded does not count as waiting: its sender is not told for ever to announce.
fn a_dropped_claim_makes_room_for_unexpected_messages<W: World>() {
    const LEN: usize = 1000;
    let settings = Settings { unexpected: 10 * LEN, ..Settings::default() };
    on_ranks_with::<W, _>(2, &settings, |ep| {
        // A short message leaves before its receive is posted, unless its sender has to announce it.
        for _ in 0..50 {
            if ep.rank() == 1 {
                for _ in 0..8 {
                    ep.send((0, 1), &[0; LEN]).unwrap();
                }
                ep.send((0, 2), &[]).unwrap();
                ep.recv((0, 3), &mut []).unwrap();
            } else {
                // Sent while nobody receives: they all have left when this is here.
                ep.recv((1, 2), &mut []).unwrap();
                let claims: Vec<_> = (0..8).map(|_| claim(ep)).collect();
                drop(claims);
                linger(ep, Duration::from_millis(1));
                ep.send((1, 3), &[]).unwrap();
            }
        }
    });
}

fn a_lender_gets_back_what_is_discarded<W: World>() {
    const LEN: usize = 300_000;
    on_ranks::<W, _>(2, |ep| {
        let before = ep.footprint();
        for round in 0..200 {
            if ep.rank() == 1 {
                let buffer = ep.alloc(LEN).unwrap();
                ep.loan((0, 1), buffer).unwrap();
                ep.recv((0, 2), &mut []).unwrap();
                assert!(ep.footprint() <= before + 4 * LEN, "round {round}");
            } else {
                drop(claim(ep));
                linger(ep, Duration::from_micros(100));
                ep.send((1, 2), &[]).unwrap();
            }
        }
    });
}

fn a_claim_may_outlive_its_sender_and_its_endpoint<W: World>() {
    on_jobs::<W, _>(2, |mut job| {
        let mut ep = job.endpoint().unwrap();
        if ep.rank() == 1 {
            for len in [10, 10_000, 30_000] {
                ep.send((0, 1), &pattern(len, 1)).unwrap();
            }
            let mut buffer = ep.alloc(100).unwrap();
            buffer.copy_from_slice(&pattern(100, 1));
            ep.loan((0, 1), buffer).unwrap();
            return;
        }
        let mut claims: Vec<_> = (0..4).map(|_| claim(&mut ep)).collect();
        let error = ep.recv((1, 1), &mut []).unwrap_err();
        assert!(matches!(error, Error::PeerFailed { rank: 1, .. }), "{error}");
        drop(claims.remove(0));
        let mut into = vec![0; 10_000];
        ep.recv_claimed(claims.remove(0), &mut into).unwrap();
        check(&into, 1);
        drop(ep);
        drop(claims);
    });
}

fn a_claim_is_received_where_it_was_made<W: World>() {
    let endpoint = || {
        let mut ep = alone::<W>();
        ep.send((0, 1), &[]).unwrap();
        ep
    };
    let (mut one, mut other) = (endpoint(), endpoint());
    let claimed = one.claim((0, 1)).unwrap().expect("it is there");
    let _ = other.recv_claimed(claimed, &mut []);
}
