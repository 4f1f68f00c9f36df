//! Whoever sleeps on the endpoint's descriptor learns of a death there.

use super::LONG;
use super::family::{Family, orders, say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;
use taffrail::{Error, Fault, Job};

/// Within this time a death is to be seen on the descriptor, on a machine that does much else.
const NEWS: Duration = Duration::from_secs(5);

#[test]
fn a_killed_peer_makes_the_descriptor_readable() {
    let mut family = Family::start(3, "asleep", &[]);
    for rank in 0..3 {
        assert_eq!(family.hear(rank, LONG).unwrap().1, "up");
    }
    family.tell(0, "sleep");
    assert_eq!(family.hear(0, LONG).unwrap().1, "asleep");
    // Long enough that it sleeps indeed.
    std::thread::sleep(Duration::from_millis(100));
    let killed = family.kill(1);
    let (woken, said) = family.hear(0, LONG).unwrap();
    assert_eq!(said, "woken: rank 1 failed: its process ended");
    assert!(woken - killed < NEWS, "{:?}", woken - killed);
    // A death that was told is not told again: it sleeps until something happens.
    assert_eq!(family.hear(0, LONG).unwrap().1, "asleep again");
    family.tell(2, "send");
    assert_eq!(family.hear(0, LONG).unwrap().1, "received");
    for rank in [0, 2] {
        family.end(rank, LONG).unwrap();
    }
    family.look_for_remains().unwrap();
}

pub fn work() {
    let orders = orders();
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    taffrail::collectives::barrier(&mut endpoint).unwrap();
    say(format_args!("up"));
    let order = orders.recv().unwrap();
    if order == "send" {
        return endpoint.send((0, 1), &[]).unwrap();
    }
    let mut sleep = |is_over: &mut dyn FnMut(&mut taffrail::Endpoint) -> bool| {
        let mut turns = 0;
        while !is_over(&mut endpoint) {
            turns += 1;
            assert!(turns < 100, "it does not sleep");
            if !endpoint.arm() {
                endpoint.progress();
                continue;
            }
            let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
            let mut one = [PollFd::from_borrowed_fd(endpoint.fd(), PollFlags::IN)];
            assert_eq!(poll(&mut one, Some(&limit)), Ok(1), "nothing is said");
            endpoint.progress();
        }
    };
    say(format_args!("asleep"));
    let mut lost = None;
    sleep(&mut |endpoint| {
        lost = endpoint.probe((1, 1)).err();
        lost.is_some()
    });
    let lost = lost.expect("just seen");
    assert_eq!(lost, Error::PeerFailed { rank: 1, fault: Fault::Died });
    say(format_args!("woken: {lost}"));
    say(format_args!("asleep again"));
    sleep(&mut |endpoint| endpoint.probe((2, 1)).unwrap().is_some());
    say(format_args!("received"));
}
