//! What forked children have of our listeners: nothing. A child that lives on when its parent was killed would
//! keep the name of the listener, which the successor of the parent needs.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// More listeners than a process has. What does not fit in is left to children.
const MAX: usize = 64;

const NONE: RawFd = -1;

/// The listeners of this process.
static LISTENERS: [AtomicI32; MAX] = [const { AtomicI32::new(NONE) }; MAX];

/// From now on children do not get this listener.
pub(super) fn keep_from(listener: RawFd) {
    static ONCE: Once = Once::new();
    // SAFETY: a function without state of its own that makes system calls only.
    ONCE.call_once(|| unsafe {
        // Without memory for it children get listeners as before.
        libc::pthread_atfork(None, None, Some(in_child));
    });
    let is_free =
        |place: &&AtomicI32| place.compare_exchange(NONE, listener, Relaxed, Relaxed).is_ok();
    let _ = LISTENERS.iter().find(is_free);
}

/// This listener is about to be closed.
pub(super) fn forget(listener: RawFd) {
    for place in &LISTENERS {
        if place.compare_exchange(listener, NONE, Relaxed, Relaxed).is_ok() {
            return;
        }
    }
}

/// Called in a forked child before anything else runs in it. The descriptor numbers stay open, since the
/// owner of a listener in the child closes it later.
unsafe extern "C" fn in_child() {
    if LISTENERS.iter().all(|place| place.load(Relaxed) == NONE) {
        return;
    }
    // SAFETY: system calls with numbers that are open, and which nobody uses in a child.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        for place in &LISTENERS {
            let listener = place.swap(NONE, Relaxed);
            if listener != NONE && nothing >= 0 {
                libc::dup3(nothing, listener, libc::O_CLOEXEC);
            } else if listener != NONE {
                // Without descriptors, without files, or without /dev.
                libc::close(listener);
            }
        }
        if nothing >= 0 {
            libc::close(nothing);
        }
    }
}
