//! The small values that calls take and give: requests, statuses.

use crate::code::{self, taffrail_code_t};
use crate::guard::Failure;
use taffrail::{Completion, Error, Landed, Request, Status};

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

/// The member `data` is set.
pub const TAFFRAIL_STATUS_DATA: u32 = 1;
/// The member `offset` is set: this is a message of a multi-receive, which goes on.
pub const TAFFRAIL_STATUS_OFFSET: u32 = 2;

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
    /// The sum of the TAFFRAIL_STATUS_* whose members are set; the others are zeros.
    pub fields: u32,
    /// The number that the sender has put beside the payload.
    pub data: u32,
    /// Where in the buffer of a multi-receive the message begins.
    pub offset: usize,
    /// Zeros; room for members of later versions.
    pub reserved: [u64; 2],
}

impl taffrail_status_t {
    fn new(code: taffrail_code_t, source: u32, tag: u64, len: usize) -> Self {
        let (fields, data, offset, reserved) = (0, 0, 0, [0; 2]);
        taffrail_status_t { source, code, tag, len, fields, data, offset, reserved }
    }

    pub(crate) fn landed(landed: Landed) -> Self {
        let status = Self::from(landed.status);
        let fields = status.fields | TAFFRAIL_STATUS_OFFSET;
        taffrail_status_t { fields, offset: landed.offset, ..status }
    }

    /// Of an error whose call does not fail for it: taffrail_last_error() has its text.
    #[cold]
    pub(crate) fn noted(error: Error, fields: u32) -> Self {
        let status = Self::of_error(&error);
        Failure::from(error).note();
        taffrail_status_t { fields, ..status }
    }

    fn of_error(error: &Error) -> Self {
        let code = code::of(error);
        match *error {
            Error::PeerFailed { rank, .. } | Error::NoSuchRank { rank, .. } => {
                Self::new(code, rank, 0, 0)
            }
            Error::Uneven { source_rank, got, .. } => Self::new(code, source_rank, 0, got),
            Error::Truncated { len, source_rank, tag, .. } => {
                Self::new(code, source_rank, tag, len)
            }
            _ => Self::new(code, TAFFRAIL_ANY_SOURCE, 0, 0),
        }
    }
}

impl From<Completion> for taffrail_status_t {
    fn from(what: Completion) -> Self {
        match what {
            Completion::Ended(Ok(ended)) => ended.into(),
            Completion::Landed(Ok(landed)) => Self::landed(landed),
            Completion::Ended(Err(error)) => Self::noted(error, 0),
            Completion::Landed(Err(error)) => Self::noted(error, TAFFRAIL_STATUS_OFFSET),
        }
    }
}

impl From<Status> for taffrail_status_t {
    fn from(status: Status) -> Self {
        let Status { source, tag, len, data } = status;
        let all = Self::new(taffrail_code_t::TAFFRAIL_OK, source, tag, len);
        match data.get() {
            None => all,
            Some(data) => taffrail_status_t { fields: TAFFRAIL_STATUS_DATA, data, ..all },
        }
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
