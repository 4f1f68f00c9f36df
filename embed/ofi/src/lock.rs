//! The lock of a domain.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, compiler_fence, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Guards everything that belongs to a domain.
///
/// `SOLO` where the program promised (`FI_THREAD_DOMAIN`) that one thread at a time uses the domain:
/// there is no lock then. The functions of the hot path are compiled once for each, and an endpoint
/// or queue has a table of the one or the other kind.
#[derive(Default)]
pub struct Lock {
    everybody: Mutex<()>,
    solo: Solo,
}

/// Nobody else is there.
pub const SOLO: bool = false;
/// Any thread may come.
pub const SHARED: bool = true;

/// Who is inside, until it is dropped.
pub struct Inside<'a> {
    _everybody: Option<MutexGuard<'a, ()>>,
    solo: Option<&'a Solo>,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(solo) = self.solo {
            solo.leave();
        }
    }
}

impl Lock {
    /// Takes the lock, in functions compiled for programs with several threads; in others only makes
    /// sure that nobody [stands in](Self::stand_in).
    #[inline(always)]
    pub fn hold<const SAFE: bool>(&self) -> Inside<'_> {
        let everybody = SAFE.then(|| self.everybody());
        let solo = self.solo.is_shared.load(Relaxed).then_some(&self.solo);
        if let Some(solo) = solo {
            solo.enter();
        }
        Inside { _everybody: everybody, solo }
    }

    /// Takes the lock whatever the program has promised: for calls off the hot path.
    #[inline]
    pub fn take(&self) -> MutexGuard<'_, ()> {
        let everybody = self.everybody();
        self.solo.has_called();
        everybody
    }

    #[inline]
    fn everybody(&self) -> MutexGuard<'_, ()> {
        // What it guards is not in it. A panic inside has ended the process, or was before any change.
        self.everybody.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a thread of ours may [stand in](Self::stand_in) for the program. To be called while
    /// nobody else uses the domain.
    pub fn share(&self) {
        self.solo.process.store(std::process::id(), Relaxed);
        let granted = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        self.solo.fences_itself.store(!granted, Relaxed);
        self.solo.is_shared.store(true, Release);
    }

    /// Takes the lock for a thread of ours, if no thread of the program is inside, and none has been
    /// since `seen` was filled in.
    pub fn stand_in(&self, seen: &mut u64) -> Option<StandIn<'_>> {
        let everybody = match self.everybody.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let calls = self.solo.calls.load(Relaxed);
        if std::mem::replace(seen, calls) != calls || !self.solo.keep_out() {
            return None;
        }
        Some(StandIn { solo: &self.solo, _everybody: everybody })
    }
}

/// A thread of ours is inside, until this is dropped.
pub struct StandIn<'a> {
    solo: &'a Solo,
    _everybody: MutexGuard<'a, ()>,
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        self.solo.is_kept_out.store(false, Release);
    }
}

/// The one thread that uses a domain, or that has the lock, and another that stands in for the program
/// now and then.
///
/// The one must not pay for the other: it stores that it is inside, then looks whether it is kept out;
/// the other stores that it keeps it out, then looks whether it is inside. One of the two sees the
/// other if both have a full fence between their two steps. The other has the kernel put one into the
/// first (`membarrier`); where the kernel refuses, the first has it itself.
#[derive(Default)]
struct Solo {
    /// There is such another.
    is_shared: AtomicBool,
    fences_itself: AtomicBool,
    is_kept_out: AtomicBool,
    /// Beginnings and ends of calls: odd while the thread is inside.
    calls: AtomicU64,
    /// The other is a thread of this process, and not of a forked child.
    process: AtomicU32,
}

impl Solo {
    #[inline(always)]
    fn enter(&self) {
        let calls = self.calls.load(Relaxed);
        self.calls.store(calls + 1, Relaxed);
        if self.fences_itself.load(Relaxed) {
            fence(SeqCst);
        }
        compiler_fence(SeqCst);
        if self.is_kept_out.load(Acquire) {
            self.wait(calls);
        }
    }

    #[inline(always)]
    fn leave(&self) {
        self.calls.store(self.calls.load(Relaxed) + 1, Release);
    }

    /// A call has begun that has the lock, which the other one needs as well.
    #[inline]
    fn has_called(&self) {
        self.calls.store(self.calls.load(Relaxed) + 2, Relaxed);
    }

    /// Lets the other one finish.
    #[cold]
    fn wait(&self, calls: u64) {
        while self.is_kept_out.load(Acquire) && self.process.load(Relaxed) == std::process::id() {
            self.calls.store(calls, Release);
            std::thread::yield_now();
            self.calls.store(calls + 1, Relaxed);
            fence(SeqCst);
        }
    }

    /// Whether nobody is inside; then nobody gets in.
    fn keep_out(&self) -> bool {
        self.is_kept_out.store(true, Relaxed);
        fence(SeqCst);
        if !self.fences_itself.load(Relaxed) {
            let fenced = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            assert!(fenced, "membarrier(PRIVATE_EXPEDITED) failed after it was granted");
        }
        let alone = self.calls.load(Acquire).is_multiple_of(2);
        if !alone {
            self.is_kept_out.store(false, Release);
        }
        alone
    }
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: this call takes numbers only and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    /// Two words that are to be the same whenever nobody is inside.
    struct Words(UnsafeCell<[u64; 2]>);

    // SAFETY: the lock guards them, which is what is tested.
    unsafe impl Sync for Words {}

    /// Adds one to both, with a gap between.
    fn add(words: &Words) {
        let at = words.0.get().cast::<u64>();
        // SAFETY: whoever calls this is alone inside. Volatile, so that both steps are done.
        unsafe {
            let (first, second) = (at.read_volatile(), at.add(1).read_volatile());
            assert_eq!(first, second, "two were inside at once");
            at.write_volatile(first + 1);
            std::hint::spin_loop();
            at.add(1).write_volatile(second + 1);
        }
    }

    fn both_inside<const SAFE: bool>(fences_itself: bool) {
        const CALLS: u64 = 300_000;
        let (lock, words) = (Lock::default(), Words(UnsafeCell::new([0; 2])));
        lock.share();
        if fences_itself {
            lock.solo.fences_itself.store(true, Relaxed);
        }
        let over = AtomicBool::new(false);
        let stood_in = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut times = 0;
                while !over.load(Relaxed) || times == 0 {
                    // As if nobody had called since the last look.
                    let mut seen = lock.solo.calls.load(Relaxed);
                    if let Some(_inside) = lock.stand_in(&mut seen) {
                        add(&words);
                        times += 1;
                    }
                }
                times
            });
            for _ in 0..CALLS {
                let _inside = lock.hold::<SAFE>();
                add(&words);
            }
            over.store(true, Relaxed);
            other.join().unwrap()
        });
        // SAFETY: everybody else has ended.
        assert_eq!(unsafe { *words.0.get() }, [CALLS + stood_in; 2]);
    }

    #[test]
    fn the_program_and_who_stands_in_for_it_are_never_inside_together() {
        both_inside::<SOLO>(false);
        both_inside::<SHARED>(false);
    }

    #[test]
    fn nor_where_the_kernel_has_no_fence_for_others() {
        both_inside::<SOLO>(true);
    }

    #[test]
    fn nobody_stands_in_for_who_has_just_called_or_is_inside() {
        let lock = Lock::default();
        lock.share();
        let mut seen = 0;
        assert!(lock.stand_in(&mut seen).is_some());
        drop(lock.hold::<SOLO>());
        assert!(lock.stand_in(&mut seen).is_none(), "it has just called");
        assert!(lock.stand_in(&mut seen).is_some());
        let inside = lock.hold::<SOLO>();
        assert!(lock.stand_in(&mut seen).is_none(), "it is inside");
        assert!(lock.stand_in(&mut seen).is_none(), "and stays there");
        drop(inside);
        drop(lock.stand_in(&mut seen));
        let inside = lock.hold::<SHARED>();
        assert!(lock.stand_in(&mut seen).is_none(), "one of several is inside");
        drop(inside);
        assert!(lock.stand_in(&mut seen).is_none(), "one of several has just called");
        assert!(lock.stand_in(&mut seen).is_some());
        drop(lock.take());
        assert!(lock.stand_in(&mut seen).is_none(), "it has just called, off the hot path");
        assert!(lock.stand_in(&mut seen).is_some());
    }
}
