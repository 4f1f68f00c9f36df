use super::{empty, ring};
use crate::{Config, Setup, ShmFabric};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::Duration;
use taffrail_fabric::{Arming, Wait};

/// Panics unless `f` returns; what blocks for ever ends with the process.
fn returns<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(f()));
    result.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{what} blocks"))
}

/// A doorbell, and the descriptor that a peer has of it; the peer has made both block.
fn made_to_block() -> (OwnedFd, OwnedFd) {
    let ours = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let theirs = ours.try_clone().unwrap();
    fcntl_setfl(&theirs, OFlags::empty()).unwrap();
    (ours, theirs)
}

#[test]
fn an_empty_doorbell_that_blocks_is_emptied_at_once() {
    let (ours, theirs) = made_to_block();
    let ours = returns("emptying", move || {
        empty(ours.as_fd());
        ours
    });
    ring(theirs.as_fd());
    ring(theirs.as_fd());
    returns("emptying", move || empty(ours.as_fd()));
    fcntl_setfl(&theirs, OFlags::NONBLOCK).unwrap();
    let left = rustix::io::read(&theirs, &mut [0u8; 8]);
    assert_eq!(left, Err(rustix::io::Errno::AGAIN), "both rings were taken away");
}

#[test]
fn a_full_doorbell_that_blocks_is_rung_at_once() {
    let (ours, theirs) = made_to_block();
    rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    returns("ringing", move || ring(theirs.as_fd()));
    empty(ours.as_fd());
    ring(ours.as_fd());
    let mut count = [0; 8];
    rustix::io::read(&ours, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
}

/// Rank 1 makes the doorbell of rank 0 block; rank 0 waits by its descriptor all the same.
#[test]
fn a_peer_cannot_make_a_wait_block() {
    let setup = |rank| {
        Setup::new(Config {
            job: [4, std::process::id().into()],
            outbox_max: 1 << 20,
            ..Config::new(rank, 2)
        })
        .unwrap()
    };
    let (zero, one) = (setup(0), setup(1));
    let addresses = [zero.address().to_owned(), one.address().to_owned()];
    let theirs = addresses.clone();
    let one = std::thread::spawn(move || one.connect(&theirs).unwrap());
    let mut zero = zero.connect(&addresses).unwrap();
    let one = one.join().unwrap();
    let bell = &one.pairs[0].cold.mapped.as_ref().unwrap().doorbell;
    fcntl_setfl(bell, OFlags::empty()).unwrap();
    let zero: ShmFabric = returns("a wait", move || {
        let _ = zero.fd();
        assert_eq!(zero.arm(), Arming::Armed);
        zero.sleep(Duration::from_millis(1));
        assert_eq!(zero.arm(), Arming::Armed);
        zero.disarm();
        zero
    });
    drop((zero, one));
}
