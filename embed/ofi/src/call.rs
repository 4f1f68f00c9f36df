//! How calls from C are answered.

use crate::abi::errno::*;
use crate::say::say;
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use taffrail::{Fault, MemoryError};

/// Why a call is refused: the number for C, and a line for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// Positive.
    pub errno: c_int,
    pub why: String,
    /// The user should know, and not only who asks for a log: something is not to be had here.
    is_said: bool,
}

impl Refusal {
    pub fn new(errno: c_int, why: impl Into<String>) -> Refusal {
        let is_said = matches!(errno, FI_EIO | FI_ENOMEM | FI_EOTHER);
        Refusal { errno, why: why.into(), is_said }
    }
}

impl From<taffrail::Error> for Refusal {
    fn from(error: taffrail::Error) -> Refusal {
        Refusal { errno: errno_of(&error), why: error.to_string(), is_said: true }
    }
}

/// Answers a call that is not on the way of messages: a refusal becomes its number and a line, which is for
/// the log only where programs ask for this and that to see what there is. A panic becomes `FI_EOTHER`.
pub fn answer(what: &str, call: impl FnOnce() -> Result<c_int, Refusal>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => value,
        Ok(Err(refusal)) => {
            tracing::warn!("{what}: {refusal}");
            if refusal.is_said {
                say(&format!("{what} is refused: {refusal}"));
            }
            -refusal.errno
        }
        Err(_) => {
            // The panic itself has said where.
            say(&format!("{what} failed by a mistake in the provider, see above"));
            -FI_EOTHER
        }
    }
}

/// Answers a call for something that is not offered: one line for each, however often it is called.
#[cold]
pub fn unsupported(what: &'static str) -> c_int {
    static SAID: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !said.contains(&what) {
        said.push(what);
        say(&format!("the libfabric provider does not offer {what} (FI_ENOSYS)"));
    }
    -FI_ENOSYS
}

/// What libfabric calls an error of the engine.
pub fn errno_of(error: &taffrail::Error) -> c_int {
    use taffrail::Error::*;
    match error {
        PeerFailed { fault: Fault::NoSuchMemory(_), .. } | Memory(MemoryError::Unknown { .. }) => {
            FI_ENOKEY
        }
        PeerFailed { fault: Fault::NoAccess(_), .. } | Memory(MemoryError::NoAccess { .. }) => {
            FI_EACCES
        }
        PeerFailed { .. } => FI_ECONNRESET,
        Truncated { .. } => FI_ETRUNC,
        Cancelled => FI_ECANCELED,
        NoSuchRank { .. } | StaleRequest(_) | Setting { .. } | Tuning { .. } => FI_EINVAL,
        UsedAfterFork => FI_EOPBADSTATE,
        Memory(_) | Denied(_) => FI_ENOMEM,
        NotLogged { .. } => FI_ENOSYS,
        _ => FI_EIO,
    }
}

/// What a number means that no failure read lately had.
pub fn meaning(errno: c_int) -> &'static CStr {
    match errno {
        0 => c"success",
        FI_ECONNRESET => c"the peer is gone, or refused",
        FI_ETRUNC => c"the message was longer than the receive",
        FI_ECANCELED => c"the operation was cancelled",
        FI_ENOMSG => c"there is no such message",
        FI_ENOKEY => c"the peer knows no such memory",
        FI_EACCES => c"the peer's memory is not registered for such access",
        FI_ENOMEM => c"no memory",
        FI_EIO => c"input or output failed",
        _ => c"not a number that this provider uses for operations",
    }
}
