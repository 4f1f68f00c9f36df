//! Active messages.

use crate::common::*;
use crate::world::*;
use std::sync::{Arc, Mutex};
use taffrail::Error;

in_every_world!(
    they_arrive_in_order_and_whole,
    a_handler_answers,
    a_handler_may_do_anything,
    a_handler_replaces_itself,
    what_is_too_long_or_unknown_harms_nothing,
    a_panicking_handler_does_not_end_the_others,
);

fn they_arrive_in_order_and_whole<W: World>() {
    on_ranks::<W, _>(3, |ep| {
        const N: u64 = 500;
        let got = Arc::new(Mutex::new(Vec::new()));
        let list = got.clone();
        ep.on_am(7, move |_, message| {
            check(message.payload, message.header);
            list.lock().unwrap().push((message.source, message.header, message.payload.len()));
        });
        let len = |k: u64| [0, 8, 44, 45, 300, 5000, 60_000, 65_536][k as usize % 8];
        if ep.rank() != 0 {
            for k in 0..N {
                ep.send_am(0, 7, k, &pattern(len(k), k)).unwrap();
            }
            return;
        }
        until(ep, |_| got.lock().unwrap().len() == 2 * N as usize);
        for source in [1, 2] {
            let of: Vec<_> =
                got.lock().unwrap().iter().filter(|m| m.0 == source).copied().collect();
            assert!(of.iter().map(|m| m.1).eq(0..N), "from {source}");
            assert!(of.iter().all(|m| m.2 == len(m.1)));
        }
    });
}

fn a_handler_answers<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const N: u64 = 2000;
        let peer = 1 - ep.rank();
        let answers = Arc::new(Mutex::new(0));
        let count = answers.clone();
        ep.on_am(1, |ep, message| {
            ep.send_am(message.source, 2, message.header + 1, message.payload).unwrap();
        });
        ep.on_am(2, move |_, message| {
            let mut count = count.lock().unwrap();
            *count += 1;
            assert_eq!(message.header, *count);
            check(message.payload, 5);
        });
        // Both ask at once, more than the rings hold.
        for k in 0..N {
            ep.send_am(peer, 1, k, &pattern(100, 5)).unwrap();
        }
        until(ep, |_| *answers.lock().unwrap() == N);
    });
}

fn a_handler_may_do_anything<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let done = Arc::new(Mutex::new(Vec::new()));
        let list = done.clone();
        ep.on_am(1, move |ep, message| {
            // Other active messages wait meanwhile, messages do not.
            let mut into = vec![0; 50_000];
            let status = ep.recv((message.source, message.header), &mut into).unwrap();
            check(&into[..status.len], message.header);
            list.lock().unwrap().push(message.header);
        });
        if ep.rank() == 1 {
            for k in 0..20 {
                ep.send_am(0, 1, k, &[]).unwrap();
            }
            for k in (0..20).rev() {
                ep.send((0, k), &pattern(50_000, k)).unwrap();
            }
        } else {
            until(ep, |_| done.lock().unwrap().len() == 20);
            assert!(done.lock().unwrap().iter().copied().eq(0..20));
        }
    });
}

fn a_handler_replaces_itself<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let log = Arc::new(Mutex::new(String::new()));
        let (first, second) = (log.clone(), log.clone());
        ep.on_am(1, move |ep, _| {
            first.lock().unwrap().push('1');
            let second = second.clone();
            ep.on_am(1, move |_, _| second.lock().unwrap().push('2'));
        });
        for _ in 0..3 {
            ep.send_am(0, 1, 0, &[]).unwrap();
        }
        until(ep, |_| log.lock().unwrap().len() == 3);
        assert_eq!(*log.lock().unwrap(), "122");
    });
}

fn what_is_too_long_or_unknown_harms_nothing<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let got = Arc::new(Mutex::new(0));
        let count = got.clone();
        ep.on_am(3, move |_, _| *count.lock().unwrap() += 1);
        let error = ep.send_am(peer, 3, 0, &[0; 65_537]).unwrap_err();
        assert_eq!(error, Error::TooLong { got: 65_537, limit: 65_536 });
        ep.send_am(peer, 4, 0, b"nobody knows this number").unwrap();
        ep.send_am(peer, 3, 0, &[]).unwrap();
        until(ep, |_| *got.lock().unwrap() == 1);
    });
}

fn a_panicking_handler_does_not_end_the_others<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let got = Arc::new(Mutex::new(0));
        let count = got.clone();
        ep.on_am(1, |_, _| panic!("on purpose"));
        ep.on_am(2, move |_, _| *count.lock().unwrap() += 1);
        ep.send_am(0, 1, 0, &[]).unwrap();
        ep.send_am(0, 2, 0, &[]).unwrap();
        let turn = std::panic::AssertUnwindSafe(|| until(ep, |_| false));
        assert!(std::panic::catch_unwind(turn).is_err());
        until(ep, |_| *got.lock().unwrap() == 1);
    });
}
