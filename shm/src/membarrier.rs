//! A fence put into other processes from outside.
//!
//! The fence between a writer's store and its check whether the reader sleeps is executed by the reader, when it goes
//! to sleep, instead of by the writer with every message.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The kernel has the call, and lets this process use it.
static GRANTED: AtomicBool = AtomicBool::new(false);

/// Lets other processes fence this one, and this one others. Returns `false` where the kernel has no
/// such call or refuses it: this process, and all that write to it, must then fence themselves.
pub(crate) fn register() -> bool {
    let granted = command(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    GRANTED.fetch_or(granted, Relaxed);
    granted
}

/// A full fence in every running thread of every process that registered, and in this thread. In
/// this thread alone if [`register`] was refused: then the processes that write to it fence themselves.
///
/// # Panics
/// When the kernel refuses what it granted to [`register`]; going on would lose messages.
pub(crate) fn fence_all() {
    crate::sync::fence(crate::sync::Ordering::SeqCst);
    if !GRANTED.load(Relaxed) {
        return;
    }
    let result = command(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    assert_eq!(result, 0, "membarrier(GLOBAL_EXPEDITED) failed after it was granted");
}

fn command(command: libc::c_int) -> libc::c_long {
    // SAFETY: this call takes numbers only and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed, compiler_fence};
    use std::thread;

    /// Two threads store, then look at the other's variable: at least one must see the other. Only
    /// one of them fences, for both.
    #[test]
    fn one_side_may_fence_for_both() {
        assert!(super::register(), "this kernel refuses membarrier");
        const ROUNDS: u64 = 500;
        let (mine, theirs, go, done) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let seen = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    let mut spins = 0;
                    while go.load(std::sync::atomic::Ordering::Acquire) < round {
                        spins += 1;
                        if spins % 4096 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
                    }
                    theirs.store(round, Relaxed);
                    compiler_fence(std::sync::atomic::Ordering::SeqCst);
                    seen.store(mine.load(Relaxed), Relaxed);
                    done.store(round, std::sync::atomic::Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                go.store(round, std::sync::atomic::Ordering::Release);
                mine.store(round, Relaxed);
                super::fence_all();
                let i_saw = theirs.load(Relaxed) == round;
                while done.load(std::sync::atomic::Ordering::Acquire) < round {
                    thread::yield_now();
                }
                assert!(
                    i_saw || seen.load(Relaxed) == round,
                    "round {round}: neither saw the other"
                );
            }
        });
    }
}
