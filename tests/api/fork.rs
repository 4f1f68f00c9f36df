//! What a forked child may do with its parent's endpoint: nothing.

use crate::common::*;
use taffrail::{Dest, Endpoint, Error, Job, Pattern, Request};

/// The calls that the child must be refused, by number.
fn refused(ep: &mut Endpoint, open: Request) -> Vec<bool> {
    let refused = |error: Error| error == Error::UsedAfterFork;
    let mut into = [0; 4];
    vec![
        ep.send((0, 1), b"no").is_err_and(refused),
        ep.send_sync((0, 1), b"no").is_err_and(refused),
        ep.recv((0, 2), &mut into).is_err_and(refused),
        ep.recv_view((0, 2)).is_err_and(refused),
        ep.probe((0, 2)).is_err_and(refused),
        ep.claim((0, 2)).is_err_and(refused),
        ep.send_am(0, 1, 0, &[]).is_err_and(refused),
        ep.test(open).is_err_and(refused),
        ep.wait(open).is_err_and(refused),
        ep.wait_any(&[open]).is_err_and(refused),
        ep.wait_all(&[open]).is_err_and(refused),
        ep.alloc(10).is_err_and(refused),
        ep.scope(|s| s.isend((0, 1), b"no")).is_err_and(refused),
        ep.progress() == 0,
        !ep.arm(),
    ]
}

#[test]
fn a_child_is_refused_and_the_parent_is_not_disturbed() {
    let _watchdog = watchdog();
    let mut ep = Job::local(1).remove(0).endpoint().unwrap();
    let (mut into, data) = ([0; 8], *b"parent's");
    // SAFETY: both live until the requests are finished.
    let (open, send) = unsafe {
        (
            ep.irecv_raw(Pattern::new(0, 2), into.as_mut_ptr(), 8).unwrap(),
            ep.isend_raw(Dest::new(0, 2), data.as_ptr(), 8).unwrap(),
        )
    };
    // SAFETY: the child allocates little, which the C library allows, and leaves at once.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let missed = refused(&mut ep, open).iter().position(|refused| !refused);
        drop(ep);
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(missed.map_or(100, |call| call as i32)) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "status {status}");
    assert_eq!(libc::WEXITSTATUS(status), 100, "the number of a call that was not refused");
    ep.wait_all(&[send, open]).unwrap();
    assert_eq!(into, data);
}
