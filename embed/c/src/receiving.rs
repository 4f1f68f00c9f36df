//! Receiving.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::names::{taffrail_request_t, taffrail_status_t, tell};
use crate::opening::{checked, endpoint, taffrail_t};
use crate::options::{ENDS, TAFFRAIL_OPTION_CONTEXT, pattern, started, taffrail_options_t};
use crate::sending::{list_of, room, somewhere};
use libc::iovec;
use std::ffi::c_void;
use std::io::IoSliceMut;
use taffrail_code_t::{TAFFRAIL_OK, TAFFRAIL_PENDING};

/// Receives a message of rank `source` (or TAFFRAIL_ANY_SOURCE) whose tag is `tag`, except for the bits
/// set in `ignore`. What it says of itself is stored in `*status`, which may be null. A message that is
/// longer than `len` is TAFFRAIL_ERROR_TRUNCATED; its first `len` bytes are there.
///
/// # Safety
/// `t` is open (not checked); `len` bytes at `into` are writable; `options` is null or points to
/// options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_recv(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    into: *mut c_void,
    len: usize,
    options: *const taffrail_options_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = endpoint(t);
            let usable = TAFFRAIL_OPTION_CONTEXT;
            let (from, _) = pattern(endpoint, source, tag, ignore, options, usable)?;
            tell(status, endpoint.recv(from, room(into, len)?))
        }
    })
}

/// Starts a receive. The call does not wait; the receive is over when taffrail_test() or a like call
/// says so.
///
/// # Safety
/// `t` is open, and `*request` writable (both not checked); `len` bytes at `into` stay writable, and
/// are used by nobody else, until the receive is over; `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_irecv(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    into: *mut c_void,
    len: usize,
    options: *const taffrail_options_t,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = endpoint(t);
            let (from, with) = pattern(endpoint, source, tag, ignore, options, STARTS)?;
            let receive = endpoint.irecv_raw(from, somewhere(into), len)?;
            started(endpoint, receive, with, options, request)
        }
    })
}

/// Starts a receive into `parts` places. The list may be given up at once.
///
/// # Safety
/// `t` is open; `parts` elements at `list` say what stays writable, and is used by nobody else, until
/// the receive is over; `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_irecvv(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    list: *const iovec,
    parts: usize,
    options: *const taffrail_options_t,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    guarded(|| {
        if request.is_null() {
            return Err(Failure::null("the place for the request"));
        }
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = checked(t)?;
            let (from, with) = pattern(endpoint, source, tag, ignore, options, STARTS)?;
            let parts = list_of(list, parts)?;
            let parts =
                parts.iter().map(|part| room(part.iov_base, part.iov_len).map(IoSliceMut::new));
            let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
            let receive = endpoint.irecv_vectored_raw(from, &mut parts)?;
            started(endpoint, receive, with, options, request)
        }
    })
}

/// Starts a receive of many messages into one buffer, one behind the other, until fewer than `least`
/// bytes are free. Each begins at a multiple of 8 bytes from the beginning of the buffer.
/// taffrail_landed() tells of each. The receive is over when the buffer is used up and everything in it
/// has landed.
///
/// # Safety
/// As taffrail_irecv(), but `t` and `request` are checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_irecv_multi(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    into: *mut c_void,
    len: usize,
    least: usize,
    options: *const taffrail_options_t,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    guarded(|| {
        if request.is_null() || into.is_null() {
            return Err(Failure::null("the buffer, or the place for the request,"));
        }
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = checked(t)?;
            let (from, with) = pattern(endpoint, source, tag, ignore, options, STARTS)?;
            let receive = endpoint.irecv_multi_raw(from, into.cast(), len, least)?;
            started(endpoint, receive, with, options, request)
        }
    })
}

/// The next message that a multi-receive has got: what it says of itself, and where in the buffer it
/// begins, is stored in `*status`. Makes progress when there is none, which is
/// TAFFRAIL_PENDING. Call it until it says so, also after the multi-receive is over: only then all
/// messages were told, and the request is used up.
///
/// # Safety
/// `t` is open; `*status` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_landed(
    t: *mut taffrail_t,
    request: taffrail_request_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = checked(t)?;
            if status.is_null() {
                return Err(Failure::null("the place for the status"));
            }
            match endpoint.landed(request.into()) {
                Ok(None) => Ok(TAFFRAIL_PENDING),
                Ok(Some(landed)) => {
                    status.write(taffrail_status_t::landed(landed));
                    Ok(TAFFRAIL_OK)
                }
                Err(error) => tell(status, Err(error)),
            }
        }
    })
}

/// What receives that are started can use.
const STARTS: u32 = TAFFRAIL_OPTION_CONTEXT | ENDS;
