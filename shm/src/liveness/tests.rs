use std::time::{Duration, Instant};

use super::*;
use crate::socket::tests::{alone, link_of_child, pair};

fn polled(watch: &mut Watch) -> Vec<(u32, Event)> {
    let mut out = Vec::new();
    watch.poll_dead_or_readable(&mut out);
    out
}

#[test]
fn packets_and_hang_ups_are_told_until_they_are_dealt_with() {
    let (zero, one) = pair();
    let mut watch = Watch::new().unwrap();
    watch.add(1, &zero.link).unwrap();
    assert_eq!(polled(&mut watch), []);
    one.link.send_forget(1).unwrap();
    assert_eq!(polled(&mut watch), [(1, Event::Readable)]);
    assert_eq!(polled(&mut watch), [(1, Event::Readable)]);
    zero.link.receive().unwrap();
    assert_eq!(polled(&mut watch), []);
    drop(one);
    assert_eq!(polled(&mut watch), [(1, Event::Readable), (1, Event::HungUp)]);
    watch.remove(1, &zero.link);
    assert_eq!(polled(&mut watch), []);
}

#[test]
fn more_peers_than_one_call_tells_of_are_all_told_of() {
    let pairs: Vec<_> = (0..BATCH + 10).map(|_| pair()).collect();
    let mut watch = Watch::new().unwrap();
    for (rank, (zero, one)) in (0..).zip(&pairs) {
        watch.add(rank, &zero.link).unwrap();
        one.link.send_forget(1).unwrap();
    }
    let mut reported: Vec<_> =
        (0..2).flat_map(|_| polled(&mut watch)).map(|(rank, _)| rank).collect();
    reported.sort_unstable();
    reported.dedup();
    assert_eq!(reported.len(), pairs.len());
}

/// A peer dies while a child of its own holds the connection open.
#[test]
fn a_death_is_told_although_a_child_holds_the_socket() {
    if !alone(module_path!(), "a_death_is_told_although_a_child_holds_the_socket", "true") {
        return;
    }
    let (hold, let_go) = rustix::pipe::pipe().unwrap();
    let raw = let_go.as_raw_fd();
    let link = link_of_child(|| {
        // SAFETY: plain system calls; the grandchild lives until the test lets go of the pipe.
        unsafe {
            libc::close(raw);
            if libc::fork() == 0 {
                let _ = rustix::io::read(&hold, &mut [0u8; 1][..]);
                libc::_exit(0);
            }
        }
    });
    let mut watch = Watch::new().unwrap();
    watch.add(4, &link).unwrap();
    assert_eq!(polled(&mut watch), []);
    kill(&link);
    let start = Instant::now();
    let mut reported = polled(&mut watch);
    while reported.is_empty() && start.elapsed() < Duration::from_secs(20) {
        reported = polled(&mut watch);
    }
    assert_eq!(reported, [(4, Event::HungUp)]);
    assert!(!link.is_closed(), "the grandchild should hold the connection");
    bury(&link);
    // A process that has ended before it is added is reported, too.
    let mut late = Watch::new().unwrap();
    late.add(5, &link).unwrap();
    assert_eq!(polled(&mut late), [(5, Event::HungUp)]);
    late.remove(5, &link);
    assert_eq!(polled(&mut late), []);
    drop(let_go);
}

#[test]
fn a_killed_peer_hangs_up() {
    if !alone(module_path!(), "a_killed_peer_hangs_up", "true") {
        return;
    }
    let link = link_of_child(|| {});
    let mut watch = Watch::new().unwrap();
    watch.add(2, &link).unwrap();
    assert_eq!(polled(&mut watch), []);
    kill(&link);
    bury(&link);
    let reported = polled(&mut watch);
    assert!(reported.contains(&(2, Event::HungUp)), "{reported:?}");
    assert!(link.is_closed());
}

fn kill(link: &Link) {
    // SAFETY: ends a child of the test.
    assert_eq!(unsafe { libc::kill(link.pid(), libc::SIGKILL) }, 0);
}

fn bury(link: &Link) {
    // SAFETY: waits for a child of the test.
    assert_eq!(unsafe { libc::waitpid(link.pid(), std::ptr::null_mut(), 0) }, link.pid());
}
