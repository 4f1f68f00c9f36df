//! The word in which a process shows that it goes on, where whoever started it wants to see that
//! (`taffrail run --heartbeat`).

use super::setting::take;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use taffrail_logging::store::{Memory, Words};

/// Bytes of the memory whose first word it is.
const BYTES: usize = 4096;
/// Set while an endpoint is open: a process whose word is 0 is not watched.
const OPEN: u64 = 1 << 32;

/// The word of this process, if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heartbeat(Option<&'static AtomicU64>);

impl Heartbeat {
    /// Publishes the number of progress calls so far.
    #[inline]
    pub(crate) fn beat(self, turns: u32) {
        if let Some(word) = self.0 {
            word.store(OPEN | u64::from(turns), Ordering::Relaxed);
        }
    }

    /// An endpoint was closed.
    pub(crate) fn end(self) {
        if let Some(word) = self.0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The word in the memory that this descriptor names, for as long as the process lives.
///
/// # Errors
/// What it should have been.
pub(crate) fn open(fd: &str) -> Result<Heartbeat, String> {
    let file = take(fd.parse().map_err(|_| "a descriptor".to_owned())?)?;
    let memory = Memory::map(file.as_fd(), BYTES).map_err(|e| format!("shared memory: {e}"))?;
    let memory: &'static Memory = Box::leak(Box::new(memory));
    Ok(Heartbeat(Some(memory.word(0))))
}
