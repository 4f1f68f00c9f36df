//! The word in which a process shows that it goes on, where whoever started it wants to see that
//! (`taffrail run --heartbeat`).

use super::log::setting::take;
use crate::{Error, environment};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use taffrail_logging::store::{Memory, Words};

const NAME: &str = "TAFFRAIL_HEARTBEAT";
/// Bytes of the memory whose first word it is.
const BYTES: usize = 4096;
/// Set while an endpoint is open: a process whose word is 0 is not watched.
const OPEN: u64 = 1 << 32;
/// Changed by a rank that waits without making progress.
const WAITS: u64 = 1 << 33;

/// The word of this process, if it has one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Heartbeat(Option<&'static AtomicU64>);

impl Heartbeat {
    /// What the launcher has given this process; all its endpoints have the same.
    ///
    /// # Errors
    /// [`Error::Setting`] when it is not what it should be.
    pub(crate) fn from_env() -> Result<Heartbeat, Error> {
        static OF_THIS_PROCESS: OnceLock<Result<Heartbeat, String>> = OnceLock::new();
        let Some(got) = environment::value(NAME) else { return Ok(Heartbeat(None)) };
        let found = OF_THIS_PROCESS.get_or_init(|| open(&got));
        found.clone().map_err(|expected| Error::Setting { name: NAME, expected, got })
    }

    /// Publishes the number of progress calls so far.
    #[inline]
    pub(crate) fn beat(self, turns: u32) {
        if let Some(word) = self.0 {
            word.store(OPEN | u64::from(turns), Ordering::Relaxed);
        }
    }

    /// This process waits for something that will come without it.
    pub(crate) fn waits(self) {
        if let Some(word) = self.0 {
            word.store(word.load(Ordering::Relaxed) ^ WAITS, Ordering::Relaxed);
        }
    }

    /// An endpoint was closed.
    pub(crate) fn end(self) {
        if let Some(word) = self.0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}

fn open(fd: &str) -> Result<Heartbeat, String> {
    let file = take(fd.parse().map_err(|_| "a descriptor".to_owned())?)?;
    let memory = Memory::map(file.as_fd(), BYTES).map_err(|e| format!("shared memory: {e}"))?;
    // For as long as the process lives.
    let memory: &'static Memory = Box::leak(Box::new(memory));
    Ok(Heartbeat(Some(memory.word(0))))
}
