//! Sleeping until a peer writes.

use crate::membarrier;
use crate::sync::{AtomicU32, Ordering};
use rustix::thread::futex;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Value of the `armed` word of an owner asleep on that very word.
pub(crate) const ON_FUTEX: u32 = 1;
/// Value of the `armed` word of an owner that waits for its eventfd.
pub(crate) const ON_FD: u32 = 2;

/// Wakes the owner asleep on `armed`.
pub(crate) fn wake(armed: &AtomicU32) {
    // An owner that is not asleep yet sees the changed word; no other error is possible.
    let _ = futex::wake(armed, futex::Flags::empty(), 1);
}

/// Sleeps while `armed` is [`ON_FUTEX`], for `limit` at most.
pub(crate) fn sleep(armed: &AtomicU32, limit: Duration) {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Woken, changed, interrupted or timed out: in each case the caller looks again.
    let _ = futex::wait(armed, futex::Flags::empty(), ON_FUTEX, Some(&limit));
}

/// Sleeps until `doorbell` is readable, for `limit` at most.
pub(crate) fn sleep_on(doorbell: BorrowedFd<'_>, limit: Duration) {
    let limit = rustix::event::Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut one = [rustix::event::PollFd::from_borrowed_fd(doorbell, rustix::event::PollFlags::IN)];
    // Readable, interrupted or timed out: in each case the caller looks again.
    let _ = rustix::event::poll(&mut one, Some(&limit));
}

/// Puts a full fence between what every writer stored before and what it loads after, and one here.
///
/// Writers that the kernel cannot fence for us fence themselves (`fenced` in HELLO).
pub(crate) fn fence_writers() {
    crate::sync::fence(Ordering::SeqCst);
    membarrier::fence_all();
}
