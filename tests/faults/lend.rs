//! Borrowers that are killed: what they had on loan comes back to its owner, and is counted.

use super::LONG;
use super::family::{Family, orders, say};
use super::progress::{linger, pooled};
use std::time::{Duration, Instant};
use taffrail::Job;

/// A size that takes a region for each buffer.
const LEN: usize = 300_000;
const N: usize = 5;

#[test]
fn loans_come_back_from_the_killed() {
    killed("keep");
}

#[test]
fn loans_come_back_from_those_who_are_killed_after_closing() {
    killed("close");
}

fn killed(how: &str) {
    let mut family = Family::start(2, "lend", &[("FAULTS_LEND", how.to_owned())]);
    let hear = |family: &mut Family, rank| family.hear(rank, LONG).unwrap().1;
    assert_eq!(hear(&mut family, 1), "borrowed");
    family.tell(0, "count");
    assert_eq!(hear(&mut family, 0), "0", "while the borrower looks at them");
    family.kill(1);
    family.tell(0, "all");
    assert_eq!(hear(&mut family, 0), N.to_string());
    family.end(0, LONG).unwrap();
    family.look_for_remains().unwrap();
}

/// Rank 0 lends and counts, rank 1 borrows and keeps.
pub fn work() {
    let orders = orders();
    let mut job = Job::from_env().unwrap();
    let mut ep = job.endpoint().unwrap();
    if ep.rank() == 1 {
        let _views: Vec<_> = (0..N).map(|_| ep.recv_view((0, 1)).unwrap()).collect();
        if std::env::var("FAULTS_LEND").unwrap() == "close" {
            drop(ep);
        }
        say(format_args!("borrowed"));
        loop {
            std::thread::park();
        }
    }
    for _ in 0..N {
        let buffer = ep.alloc(LEN).unwrap();
        ep.loan((1, 1), buffer).unwrap();
    }
    let mut held = Vec::new();
    assert_eq!(orders.recv().unwrap(), "count");
    linger(&mut ep, Duration::from_millis(50));
    say(format_args!("{}", pooled(&mut ep, LEN, &mut held)));
    assert_eq!(orders.recv().unwrap(), "all");
    let start = Instant::now();
    let mut have = 0;
    while have != N && start.elapsed() < LONG / 2 {
        linger(&mut ep, Duration::from_millis(10));
        have = pooled(&mut ep, LEN, &mut held);
    }
    say(format_args!("{have}"));
}
