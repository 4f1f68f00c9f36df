//! Which receive gets which message.

use crate::common::*;
use crate::world::*;
use taffrail::{Dest, Error, Pattern};

in_every_world!(
    messages_of_one_sender_overtake_each_other_only_by_tag,
    a_receive_that_waits_takes_the_first_that_fits,
    receives_are_served_in_the_order_posted,
    contexts_never_meet,
);

fn messages_of_one_sender_overtake_each_other_only_by_tag<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            // Long and short in turn: the protocols must not reorder them.
            let len = |k: u64| [3, 90_000, 40, 5000, 300][k as usize % 5];
            if ep.rank() == 1 {
                let data: Vec<_> = (0..60).map(|k| pattern(len(k), k)).collect();
                ep.scope(|s| {
                    for (k, data) in (0..).zip(&data) {
                        s.isend((0, k % 2), data)?;
                    }
                    Ok(())
                })
                .unwrap();
                return;
            }
            for tag in [1, 0] {
                for k in (0..60).filter(|k| k % 2 == tag) {
                    let mut into = vec![0; 100_000];
                    let pattern = Pattern::any_source(tag);
                    let status = ep.recv(pattern, &mut into).unwrap();
                    assert_eq!(status.len, len(k), "{name}: message {k}");
                    check(&into[..status.len], k);
                }
            }
        });
    }
}

/// What comes while a receive waits is held against it without being matched: it must not take what comes
/// behind a message that would be its own.
fn a_receive_that_waits_takes_the_first_that_fits<W: World>() {
    for (name, settings) in variants() {
        on_ranks_with::<W, _>(2, &settings, |ep| {
            for round in 0..100 {
                let (long, short, other) =
                    (pattern(90_000, round), pattern(8, round + 1), pattern(3, round + 2));
                if ep.rank() == 1 {
                    ep.recv((0, 1), &mut []).unwrap();
                    ep.scope(|s| {
                        s.isend((0, 5), &other)?;
                        s.isend((0, 7), &long)?;
                        s.isend((0, 7), &short)?;
                        s.isend((0, 7), &long)?;
                        Ok(())
                    })
                    .unwrap();
                    continue;
                }
                ep.send((1, 1), &[]).unwrap();
                let mut into = vec![0; 100_000];
                for (from, expected) in [
                    (Pattern::new(1, 7), &long[..]),
                    (Pattern::any_source(7), &short),
                    (Pattern::new(1, 0).ignore(!0), &other),
                ] {
                    let status = ep.recv(from, &mut into).unwrap();
                    let got = &into[..status.len];
                    assert!(got == expected, "{name}, round {round}: {from:?} got {status:?}");
                }
                let error = ep.recv((1, 7), &mut into[..10]).unwrap_err();
                assert!(matches!(error, Error::Truncated { .. }), "{name}: {error:?}");
            }
        });
    }
}

fn receives_are_served_in_the_order_posted<W: World>() {
    on_ranks::<W, _>(3, |ep| {
        let mut into = [[0u8; 8]; 6];
        if ep.rank() != 0 {
            ep.recv((0, 99), &mut []).unwrap();
            for k in 0..3u64 {
                ep.send((0, k), &(u64::from(ep.rank()) * 10 + k).to_le_bytes()).unwrap();
            }
            return;
        }
        let [a, b, c, d, e, f] = &mut into;
        let statuses = ep
            .scope(|s| {
                let requests = [
                    s.irecv(Pattern::any_source(0).ignore(!0), a)?,
                    s.irecv((1, 0), b)?,
                    s.irecv(Pattern::new(1, 0).ignore(3), c)?,
                    s.irecv(Pattern::any_source(2), d)?,
                    s.irecv((2, 1), e)?,
                    s.irecv(Pattern::any_source(0).ignore(!0), f)?,
                ];
                s.endpoint().send((1, 99), &[])?;
                let first = requests[0];
                let mut statuses = vec![s.wait(first)?];
                statuses.push(s.wait(requests[2])?);
                statuses.push(s.wait(requests[3])?);
                s.endpoint().send((2, 99), &[])?;
                statuses.push(s.wait(requests[4])?);
                statuses.push(s.wait(requests[5])?);
                // Two messages of rank 2 and three of rank 1 are used up; this one is not fitted.
                assert!(s.cancel(requests[1])?);
                assert_eq!(s.wait(requests[1]).unwrap_err(), Error::Cancelled);
                Ok(statuses)
            })
            .unwrap();
        let got: Vec<_> = statuses.iter().map(|s| (s.source, s.tag)).collect();
        assert_eq!(got, [(1, 0), (1, 1), (1, 2), (2, 1), (2, 0)]);
        let value = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
        assert_eq!(into.map(value), [10, 0, 11, 12, 21, 20]);
        let mut last = [0; 8];
        assert_eq!(ep.recv(Pattern::any_source(2), &mut last).unwrap().source, 2);
        assert_eq!(value(last), 22);
    });
}

fn contexts_never_meet<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let contexts: Vec<u16> = (0..taffrail::CONTEXTS).step_by(997).chain([1, 2, 3]).collect();
        if ep.rank() == 1 {
            for &context in &contexts {
                for k in 0..3u8 {
                    let to = Dest::new(0, 7).context(context);
                    ep.send(to, &[k, context as u8, (context >> 8) as u8]).unwrap();
                }
            }
            return;
        }
        for k in 0..3u8 {
            for &context in contexts.iter().rev() {
                let mut into = [0; 3];
                let from = Pattern::any_source(0).ignore(!0).context(context);
                ep.recv(from, &mut into).unwrap();
                assert_eq!(into, [k, context as u8, (context >> 8) as u8]);
            }
        }
        let nothing = Pattern::any_source(0).ignore(!0);
        assert_eq!(ep.probe(nothing).unwrap(), None);
    });
}
