//! What has become of operations that were started.

use crate::callbacks::{self, taffrail_callback_t};
use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::names::{taffrail_request_t, taffrail_status_t, tell};
use crate::opening::{checked, endpoint, taffrail_t};
use std::ffi::c_void;
use taffrail::{Ended, Request};
use taffrail_code_t::{TAFFRAIL_OK, TAFFRAIL_PENDING};

/// Whether an operation is over: TAFFRAIL_PENDING while it is not, else how it has ended, and the
/// request is used up. Makes progress. `status` may be null.
///
/// # Safety
/// `t` is open (not checked); `status` is null or there is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_test(
    t: *mut taffrail_t,
    request: taffrail_request_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            match endpoint(t).test(request.into()) {
                Ok(None) => Ok(TAFFRAIL_PENDING),
                Ok(Some(ended)) => tell(status, Ok(ended)),
                Err(error) => tell(status, Err(error)),
            }
        }
    })
}

/// Waits until an operation is over. The request is used up. `status` may be null.
///
/// # Safety
/// `t` is open (not checked); `status` is null or there is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_wait(
    t: *mut taffrail_t,
    request: taffrail_request_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe { tell(status, endpoint(t).wait(request.into())) })
}

/// Waits until one of several operations is over. Its place in the list is stored in `*index`, and how
/// it has ended is returned; its request is used up, the others go on. Where nothing was waited for,
/// because a request is used up already, `*index` is `count`.
///
/// # Safety
/// `t` is open; `requests` has `count` elements; `status` is null or there is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_wait_any(
    t: *mut taffrail_t,
    requests: *const taffrail_request_t,
    count: usize,
    index: *mut usize,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (endpoint, index) = (checked(t)?, place(index, count)?);
        let requests = list(requests, count)?;
        if requests.is_empty() {
            return Err(Failure::Argument(
                "a wait for the first of no operations never ends".into(),
            ));
        }
        one(Some(endpoint.wait_any(&requests)?), index, status)
    })
}

/// As taffrail_wait_any(), without waiting: TAFFRAIL_PENDING while none is over. Makes progress.
///
/// # Safety
/// As taffrail_wait_any().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_test_any(
    t: *mut taffrail_t,
    requests: *const taffrail_request_t,
    count: usize,
    index: *mut usize,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let (endpoint, index) = (checked(t)?, place(index, count)?);
        let requests = list(requests, count)?;
        one(endpoint.test_any(&requests)?, index, status)
    })
}

/// Waits until all of several operations are over. Returns the first error in the order of the list.
/// Where `statuses` is not null it has `count` elements, and tells how each has ended.
///
/// # Safety
/// `t` is open; `requests` has `count` elements, and so has `statuses`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_wait_all(
    t: *mut taffrail_t,
    requests: *const taffrail_request_t,
    count: usize,
    statuses: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let mut all = Ok(TAFFRAIL_OK);
        for (at, request) in list(requests, count)?.into_iter().enumerate() {
            let status = if statuses.is_null() { statuses } else { statuses.add(at) };
            let ended = tell(status, endpoint.wait(request));
            all = all.and(ended);
        }
        all
    })
}

/// Cancels a receive, if no message has matched it: then it is over with TAFFRAIL_ERROR_CANCELLED,
/// which is still to be taken by taffrail_test() or a like call. TAFFRAIL_PENDING when nothing was
/// done. Sends are not cancelled.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_cancel(
    t: *mut taffrail_t,
    request: taffrail_request_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        let cancelled = checked(t)?.cancel(request.into())?;
        Ok(if cancelled { TAFFRAIL_OK } else { TAFFRAIL_PENDING })
    })
}

/// Lets the end of an operation be told by taffrail_next_ended(), as TAFFRAIL_OPTION_REPORT does from
/// the start. Do not ask for it by taffrail_test() and the like then.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_report(
    t: *mut taffrail_t,
    request: taffrail_request_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        checked(t)?.report(request.into())?;
        Ok(TAFFRAIL_OK)
    })
}

/// Lets `run` run when an operation is over, as TAFFRAIL_OPTION_CALLBACK does from the start. `argument` is
/// passed to it as it is. Neither taffrail_next_ended() nor taffrail_test() and the like tell of it then.
///
/// # Safety
/// `t` is open. `run` and `argument` are good until it has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_on_ended(
    t: *mut taffrail_t,
    request: taffrail_request_t,
    run: taffrail_callback_t,
    argument: *mut c_void,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        callbacks::attach(checked(t)?, request.into(), run, argument)?;
        Ok(TAFFRAIL_OK)
    })
}

/// The next of the reported operations that is over, in the order in which they ended: its request is
/// stored in `*request`, and how it has ended in `*status`, errors included. TAFFRAIL_PENDING when none
/// is over; makes progress then. Of a multi-receive it tells each message, with TAFFRAIL_STATUS_OFFSET
/// among the fields, and the end without. Functions of operations that are over meanwhile
/// (TAFFRAIL_OPTION_CALLBACK) run inside. An error is one of the call.
///
/// # Safety
/// `t` is open, `*request` and `*status` are writable; they are not checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_next_ended(
    t: *mut taffrail_t,
    request: *mut taffrail_request_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let Some((ended, what)) = callbacks::next_other(endpoint(t))? else {
            return Ok(TAFFRAIL_PENDING);
        };
        request.write(ended.into());
        status.write(what.into());
        Ok(TAFFRAIL_OK)
    })
}

/// Tells of one of several operations.
///
/// # Safety
/// As [`tell`].
unsafe fn one(
    ended: Option<Ended>,
    index: &mut usize,
    status: *mut taffrail_status_t,
) -> Result<taffrail_code_t, Failure> {
    let Some((at, result)) = ended else { return Ok(TAFFRAIL_PENDING) };
    *index = at;
    // SAFETY: the caller's promise.
    unsafe { tell(status, result) }
}

/// The place for an index, with the index of none of `count` in it.
///
/// # Safety
/// `index` is null or writable.
unsafe fn place<'a>(index: *mut usize, count: usize) -> Result<&'a mut usize, Failure> {
    // SAFETY: the caller's promise.
    let index =
        unsafe { index.as_mut() }.ok_or_else(|| Failure::null("the place for the index"))?;
    *index = count;
    Ok(index)
}

/// # Safety
/// `count` requests at `requests` are readable.
unsafe fn list(requests: *const taffrail_request_t, count: usize) -> Result<Vec<Request>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if requests.is_null() {
        return Err(Failure::null("the list of requests"));
    }
    // SAFETY: the caller's promise.
    let requests = unsafe { std::slice::from_raw_parts(requests, count) };
    Ok(requests.iter().map(|&request| request.into()).collect())
}
