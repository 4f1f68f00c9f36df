//! Arm, sleep and the descriptor: no wake-up is lost, and a sleeper sleeps.

use super::Bench;
use super::mesh::{Deadline, Mesh, Seen, accepted, limits, peer, poll};
use super::seed::Seeded;
use crate::{Arming, Fabric, Head, Refused, Source, Wait};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::time::{Duration, Instant};

/// With nothing to come, `sleep` takes about its limit, and next to no processor time.
pub fn idle_sleeps<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    let limit = Duration::from_millis(10);
    let (start, busy) = (Instant::now(), cpu_time());
    for _ in 0..20 {
        armed(&mut mesh, 1, bench);
        mesh.at(1).sleep(limit);
        mesh.at(1).disarm();
    }
    let (took, busy) = (start.elapsed(), cpu_time().saturating_sub(busy));
    assert!(took >= limit * 10, "20 sleeps of {limit:?} with nothing to come took {took:?}");
    assert!(took < limit * 20 + bench.patience(), "20 sleeps of {limit:?} took {took:?}");
    assert!(busy < took / 2, "{busy:?} of processor time in {took:?} of sleep");
}

/// A message sent before arming, or between arming and sleeping, ends the sleep at once.
pub fn wakes<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 3);
    let long = limits(mesh.at(0)).max_message;
    for round in 0..50 {
        for to in [1, 0] {
            for len in [0, 8, long] {
                let head = Head { seq: round, ..Head::default() };
                let before = round % 2 == 0;
                if before {
                    accepted(mesh.at(0), peer(to), head, Source::Bytes(&vec![1; len]))
                        .expect("room");
                }
                if !before {
                    armed(&mut mesh, to, bench);
                    accepted(mesh.at(0), peer(to), head, Source::Bytes(&vec![1; len]))
                        .expect("room");
                    sleep(mesh.at(to), bench.patience());
                    mesh.at(to).disarm();
                } else if mesh.at(to).arm() == Arming::Armed {
                    // Not there yet: then its arrival ends the sleep.
                    sleep(mesh.at(to), bench.patience());
                    mesh.at(to).disarm();
                }
                let (_, got, bytes) = mesh.receive(to);
                assert_eq!((got, bytes.len()), (head, len));
            }
        }
    }
    mesh.assert_nothing_more();
}

/// The descriptor is readable if, and only if, something has come since arming, from another rank or the own one.
pub fn descriptor<B: Bench>(bench: &B) {
    let mut mesh = Mesh::new(bench, 2);
    for round in 0..50 {
        armed(&mut mesh, 1, bench);
        assert!(!readable(mesh.at(1), Duration::ZERO), "round {round}: armed, nothing has come");
        let from = round % 2;
        accepted(mesh.at(from), peer(1), Head::default(), Source::Bytes(b"wake up")).expect("room");
        assert!(readable(mesh.at(1), bench.patience()), "round {round}: a message has come");
        // Polling does not need it, and neither does the next wait.
        if round % 4 < 2 {
            mesh.at(1).disarm();
        }
        mesh.receive(1);
        // Polling without arming leaves nothing behind for the next wait.
        mesh.send(0, 1, Head::default(), b"no need to");
        mesh.receive(1);
    }
    mesh.assert_nothing_more();
}

/// Two threads wake each other thousands of times, at random distances from arm and sleep.
pub fn no_lost_wake_up<B: Bench>(bench: &B) {
    const ROUNDS: u32 = 10_000;
    let random = Seeded::new();
    let (seed, patience) = (random.seed(), bench.patience());
    std::thread::scope(|scope| {
        for fabric in bench.mesh(2) {
            scope.spawn(move || volley(fabric, seed, ROUNDS, patience));
        }
    });
}

fn volley<F: Fabric + Wait>(mut fabric: F, seed: u64, rounds: u32, patience: Duration) {
    let (me, other) = (fabric.me(), peer(1 - fabric.me().index()));
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(me.0));
    let mut seen = Seen::default();
    for round in 0..rounds {
        let mut wait = round > 0 || me.0 == 1;
        while wait {
            if fabric.arm() == Arming::Armed {
                spin(&mut random);
                sleep(&mut fabric, patience);
                fabric.disarm();
            }
            poll(&mut fabric, &mut seen);
            wait = seen.messages.is_empty();
        }
        if let Some((from, head, _)) = seen.messages.pop() {
            let expected = if me.0 == 1 { round } else { round - 1 };
            assert_eq!((from, head.seq), (other, expected));
            assert!(seen.messages.is_empty());
        }
        spin(&mut random);
        let head = Head { seq: round, ..Head::default() };
        accepted(&mut fabric, other, head, Source::Bytes(&[]))
            .expect("room for the only message under way");
    }
    // The last word is the second thread's: the first must not leave before it has come.
    let deadline = Deadline::after(patience);
    while me.0 == 0 && seen.messages.is_empty() {
        deadline.check("the last message");
        poll(&mut fabric, &mut seen);
    }
    while !fabric.flushed(other) {
        deadline.check("the last message to be out of its sender's hands");
        poll(&mut fabric, &mut seen);
    }
}

/// Three threads wake one; it must never sleep while a message waits.
pub fn many_wakers<B: Bench>(bench: &B) {
    const EACH: u32 = 3000;
    let random = Seeded::new();
    let (seed, patience) = (random.seed(), bench.patience());
    let mut fabrics = bench.mesh(4).into_iter();
    let mut sleeper = fabrics.next().expect("four");
    std::thread::scope(|scope| {
        let wakers: Vec<_> = fabrics
            .map(|fabric| scope.spawn(move || knock(fabric, seed, EACH, patience)))
            .collect();
        let mut seen = Seen::default();
        let mut count = 0;
        while count < 3 * EACH {
            if sleeper.arm() == Arming::Armed {
                sleep(&mut sleeper, patience);
                sleeper.disarm();
            }
            poll(&mut sleeper, &mut seen);
            for (from, head, _) in seen.messages.drain(..) {
                count += 1;
                // The waker continues after the answer; so all messages wait for a sleeper that woke.
                accepted(&mut sleeper, from, head, Source::Bytes(&[]))
                    .expect("room for one answer");
            }
        }
        // They leave once they have the answers.
        for waker in wakers {
            waker.join().expect("a waker panicked");
        }
    });
}

fn knock<F: Fabric + Wait>(mut fabric: F, seed: u64, rounds: u32, patience: Duration) {
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(fabric.me().0));
    let mut seen = Seen::default();
    for round in 0..rounds {
        let head = Head { seq: round, ..Head::default() };
        let deadline = Deadline::after(patience);
        while fabric.send(peer(0), head, Source::Bytes(&[])) == Err(Refused::Busy) {
            deadline.check("room for a knock");
            poll(&mut fabric, &mut seen);
        }
        while seen.messages.is_empty() {
            deadline.check(format_args!("the answer to knock {round}: did the sleeper wake?"));
            poll(&mut fabric, &mut seen);
            std::thread::yield_now();
        }
        let (_, got, _) = seen.messages.remove(0);
        assert_eq!(got, head);
        spin(&mut random);
    }
}

/// Arms a rank that has nothing left to poll.
fn armed<B: Bench>(mesh: &mut Mesh<B::Fabric>, rank: usize, bench: &B) {
    let deadline = Deadline::after(bench.patience());
    while mesh.at(rank).arm() == Arming::Ready {
        deadline.check("arm says that something is there, and poll finds nothing");
        mesh.step();
    }
}

/// Sleeps, and panics if only the limit ended it.
fn sleep<F: Fabric + Wait>(fabric: &mut F, limit: Duration) {
    let start = Instant::now();
    fabric.sleep(limit);
    assert!(start.elapsed() < limit, "a message came, and the sleep went on for {limit:?}");
}

fn readable<F: Fabric + Wait>(fabric: &F, limit: Duration) -> bool {
    let fd = fabric.fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let limit = Timespec::try_from(limit).expect("a short time");
    rustix::event::poll(&mut fds, Some(&limit)).expect("poll works on the descriptor");
    fds[0].revents().contains(PollFlags::IN)
}

fn spin(random: &mut fastrand::Rng) {
    for _ in 0..random.u32(..300) {
        std::hint::spin_loop();
    }
}

/// Processor time of this thread so far.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
