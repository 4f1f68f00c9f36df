//! Sleeping until a peer writes.

use crate::membarrier;
use crate::sync::{AtomicU32, Ordering};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::thread::futex;
use std::io::IoSliceMut;
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
    let limit = Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Readable, interrupted or timed out: in each case the caller looks again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(doorbell, PollFlags::IN)], Some(&limit));
}

/// Empties our doorbell. That it is empty already is no error.
///
/// Never blocks, whatever the flags of the file say: they are shared with every peer that has the
/// descriptor, and any of them can change them.
pub(crate) fn empty(doorbell: BorrowedFd<'_>) {
    let mut count = [0; 8];
    let here = u64::MAX;
    let read = || {
        let mut into = [IoSliceMut::new(&mut count)];
        rustix::io::preadv2(doorbell, &mut into, here, ReadWriteFlags::NOWAIT)
    };
    // Kernels before 5.8 know this of files only.
    if let Err(Errno::OPNOTSUPP | Errno::NOSYS) = rustix::io::retry_on_intr(read)
        && is(doorbell, PollFlags::IN)
    {
        let _ = rustix::io::read(doorbell, &mut count);
    }
}

/// Rings the doorbell of a peer, unless its count is full: then it is readable all the same.
pub(crate) fn ring(doorbell: BorrowedFd<'_>) {
    // Only an armed owner is rung, once, so that a count that is full was filled on purpose, and a
    // write might wait.
    if is(doorbell, PollFlags::OUT) {
        let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
    }
}

fn is(doorbell: BorrowedFd<'_>, ready: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(doorbell, ready)], Some(&now)) == Ok(1)
}

/// Puts a full fence between what every writer stored before and what it loads after, and one here.
///
/// Writers that the kernel cannot fence for us fence themselves (`fenced` in HELLO).
pub(crate) fn fence_writers() {
    crate::sync::fence(Ordering::SeqCst);
    membarrier::fence_all();
}

#[cfg(test)]
mod tests;
