//! Cancelling: a message is there whole, or not begun.

use crate::common::*;
use crate::world::*;
use taffrail::{Error, Pattern};

in_every_world!(
    a_matched_receive_is_not_cancelled,
    cancelling_races_with_arrival,
    sends_are_not_cancelled,
);

fn a_matched_receive_is_not_cancelled<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
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
fn cancelling_races_with_arrival<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
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

fn sends_are_not_cancelled<W: World>() {
    on_ranks::<W, _>(2, |ep| {
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
