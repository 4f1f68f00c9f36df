//! The lock of a domain.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Guards everything that belongs to a domain.
///
/// `SOLO` where the program promised (`FI_THREAD_DOMAIN`) that one thread at a time uses the domain:
/// there is no lock then. The functions of the hot path are compiled once for each, and an endpoint
/// or queue has a table of the one or the other kind.
#[derive(Default)]
pub struct Lock(Mutex<()>);

/// Nobody else is there.
pub const SOLO: bool = false;
/// Any thread may come.
pub const SHARED: bool = true;

impl Lock {
    /// Takes the lock, in functions compiled for programs with several threads.
    #[inline(always)]
    pub fn hold<const SAFE: bool>(&self) -> Option<MutexGuard<'_, ()>> {
        SAFE.then(|| self.take())
    }

    /// Takes the lock whatever the program has promised: for calls off the hot path.
    #[inline]
    pub fn take(&self) -> MutexGuard<'_, ()> {
        // What it guards is not in it. A panic inside has ended the process, or was before any change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
