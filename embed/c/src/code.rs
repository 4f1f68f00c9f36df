//! What calls return.

use std::ffi::{CStr, c_char};
use taffrail::Error;

/// How a call, or an operation, has ended: zero and above is no error, below is one.
/// taffrail_last_error() says more.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum taffrail_code_t {
    /// Done.
    TAFFRAIL_OK = 0,
    /// Not yet: the operation is not over, or there is no such message.
    TAFFRAIL_PENDING = 1,
    /// There is something to be done already: make progress instead of waiting.
    TAFFRAIL_READY = 2,
    /// An argument makes no sense, such as a null pointer.
    TAFFRAIL_ERROR_ARGUMENT = -1,
    /// Header and library do not fit.
    TAFFRAIL_ERROR_VERSION = -2,
    /// The rank on the other side is gone.
    TAFFRAIL_ERROR_PEER = -3,
    /// The message was longer than the receive, which has got its beginning.
    TAFFRAIL_ERROR_TRUNCATED = -4,
    /// The operation was cancelled.
    TAFFRAIL_ERROR_CANCELLED = -5,
    /// There is no such rank.
    TAFFRAIL_ERROR_NO_SUCH_RANK = -6,
    /// The request is used up: its result was taken before.
    TAFFRAIL_ERROR_STALE_REQUEST = -7,
    /// The endpoint belongs to the parent of this forked process.
    TAFFRAIL_ERROR_FORKED = -8,
    /// The payload of an active message is longer than such may be.
    TAFFRAIL_ERROR_TOO_LONG = -9,
    /// Memory could not be allocated, registered or found.
    TAFFRAIL_ERROR_MEMORY = -10,
    /// The system denies a way of moving bytes.
    TAFFRAIL_ERROR_DENIED = -11,
    /// The job's messages are logged, and this cannot be.
    TAFFRAIL_ERROR_NOT_LOGGED = -12,
    /// The program was started again, and does something else than before.
    TAFFRAIL_ERROR_DIVERGED = -13,
    /// A setting, or the tuning file of the host, makes no sense.
    TAFFRAIL_ERROR_SETTING = -14,
    /// The job could not be joined, or the transport could not be set up.
    TAFFRAIL_ERROR_START = -15,
    /// There is no way to the endpoint with this address.
    TAFFRAIL_ERROR_UNREACHABLE = -16,
    /// An error that this version of the library has no code for.
    TAFFRAIL_ERROR_OTHER = -17,
    /// A mistake in the library. The call was given up; close the endpoint.
    TAFFRAIL_ERROR_INTERNAL = -18,
}

use taffrail_code_t::*;

/// The code of an error.
pub(crate) fn of(error: &Error) -> taffrail_code_t {
    match error {
        Error::PeerFailed { .. } => TAFFRAIL_ERROR_PEER,
        Error::Truncated { .. } => TAFFRAIL_ERROR_TRUNCATED,
        Error::Cancelled => TAFFRAIL_ERROR_CANCELLED,
        Error::NoSuchRank { .. } => TAFFRAIL_ERROR_NO_SUCH_RANK,
        Error::StaleRequest(_) => TAFFRAIL_ERROR_STALE_REQUEST,
        Error::UsedAfterFork => TAFFRAIL_ERROR_FORKED,
        Error::TooLong { .. } => TAFFRAIL_ERROR_TOO_LONG,
        Error::Memory(_) => TAFFRAIL_ERROR_MEMORY,
        Error::Denied(_) => TAFFRAIL_ERROR_DENIED,
        Error::NotLogged { .. } => TAFFRAIL_ERROR_NOT_LOGGED,
        Error::Diverged { .. } => TAFFRAIL_ERROR_DIVERGED,
        Error::Setting { .. } | Error::Tuning { .. } => TAFFRAIL_ERROR_SETTING,
        Error::Unreachable { .. } => TAFFRAIL_ERROR_UNREACHABLE,
        Error::Bootstrap(_) | Error::Setup(_) => TAFFRAIL_ERROR_START,
        _ => TAFFRAIL_ERROR_OTHER,
    }
}

/// What a code means, in a few words. The text is the library's.
#[unsafe(no_mangle)]
pub extern "C" fn taffrail_strerror(code: i32) -> *const c_char {
    words(code).as_ptr()
}

fn words(code: i32) -> &'static CStr {
    const WORDS: [&CStr; 21] = [
        c"mistake in the library",
        c"unknown error",
        c"no way to this address",
        c"the job could not be joined, or the transport not set up",
        c"setting that makes no sense",
        c"the replayed program does something else than before",
        c"cannot be logged and replayed",
        c"denied by the system",
        c"memory could not be had or found",
        c"payload too long",
        c"endpoint of the parent process",
        c"request is finished already",
        c"no such rank",
        c"cancelled",
        c"message truncated",
        c"peer is gone",
        c"header and library do not fit",
        c"argument that makes no sense",
        c"success",
        c"not yet",
        c"something is there already",
    ];
    let at = i64::from(code) - TAFFRAIL_ERROR_INTERNAL as i64;
    let known = usize::try_from(at).ok().and_then(|at| WORDS.get(at));
    known.copied().unwrap_or(c"no code of this library")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_words() {
        for (code, expected) in [
            (TAFFRAIL_READY, c"something is there already"),
            (TAFFRAIL_OK, c"success"),
            (TAFFRAIL_ERROR_ARGUMENT, c"argument that makes no sense"),
            (TAFFRAIL_ERROR_PEER, c"peer is gone"),
            (TAFFRAIL_ERROR_CANCELLED, c"cancelled"),
            (TAFFRAIL_ERROR_MEMORY, c"memory could not be had or found"),
            (TAFFRAIL_ERROR_SETTING, c"setting that makes no sense"),
            (TAFFRAIL_ERROR_INTERNAL, c"mistake in the library"),
        ] {
            assert_eq!(words(code as i32), expected, "{code:?}");
        }
        for unknown in [TAFFRAIL_READY as i32 + 1, -19, i32::MIN, i32::MAX] {
            assert_eq!(words(unknown), c"no code of this library");
        }
    }
}
