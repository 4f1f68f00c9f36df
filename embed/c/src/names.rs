//! The small values that calls take and give: requests, statuses.

use crate::code::{self, taffrail_code_t};
use crate::guard::Failure;
use taffrail::{Error, Request, Status};

/// As the source of a receive: a message of any rank.
pub const TAFFRAIL_ANY_SOURCE: u32 = u32::MAX;

/// An operation that was started. A plain value, to be copied as one likes: it is good until a call
/// has returned the operation's result, and TAFFRAIL_ERROR_STALE_REQUEST afterwards.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct taffrail_request_t {
    /// Its place in a table: small, and used again by later operations.
    pub index: u32,
    /// Which operation of this place it is.
    pub generation: u32,
}

impl From<Request> for taffrail_request_t {
    fn from(request: Request) -> Self {
        let (index, generation) = request.to_raw();
        taffrail_request_t { index, generation }
    }
}

impl From<taffrail_request_t> for Request {
    fn from(request: taffrail_request_t) -> Self {
        Request::from_raw(request.index, request.generation)
    }
}

/// What is known of an operation that is over, or of a message that was found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct taffrail_status_t {
    /// The sending rank; where an operation has failed, the rank that it has failed for, or
    /// TAFFRAIL_ANY_SOURCE.
    pub source: u32,
    /// How the operation has ended.
    pub code: taffrail_code_t,
    /// The tag that the message was sent with.
    pub tag: u64,
    /// The length of the message in bytes: of a send what was sent, of a truncated message all of it.
    pub len: usize,
    /// Which of the members that come later, instead of those reserved, are set: none so far.
    pub fields: u32,
    /// Zeros.
    pub reserved: [u32; 5],
}

impl taffrail_status_t {
    fn new(code: taffrail_code_t, source: u32, tag: u64, len: usize) -> Self {
        taffrail_status_t { source, code, tag, len, fields: 0, reserved: [0; 5] }
    }

    fn of_error(error: &Error) -> Self {
        let code = code::of(error);
        match *error {
            Error::PeerFailed { rank, .. } | Error::NoSuchRank { rank, .. } => {
                Self::new(code, rank, 0, 0)
            }
            Error::Truncated { len, source_rank, tag, .. } => {
                Self::new(code, source_rank, tag, len)
            }
            _ => Self::new(code, TAFFRAIL_ANY_SOURCE, 0, 0),
        }
    }
}

impl From<Status> for taffrail_status_t {
    fn from(status: Status) -> Self {
        Self::new(taffrail_code_t::TAFFRAIL_OK, status.source, status.tag, status.len)
    }
}

/// Tells how an operation has ended.
///
/// # Safety
/// `into` is null, or there is room for a status.
#[inline]
pub(crate) unsafe fn tell(
    into: *mut taffrail_status_t,
    result: Result<Status, Error>,
) -> Result<taffrail_code_t, Failure> {
    if !into.is_null() {
        let status = match &result {
            Ok(status) => taffrail_status_t::from(*status),
            Err(error) => taffrail_status_t::of_error(error),
        };
        // SAFETY: the caller's promise.
        unsafe { into.write(status) };
    }
    result?;
    Ok(taffrail_code_t::TAFFRAIL_OK)
}
