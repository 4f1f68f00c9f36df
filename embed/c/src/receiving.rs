//! Receiving.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::names::{taffrail_request_t, taffrail_status_t, tell};
use crate::opening::{checked, endpoint, taffrail_t};
use crate::options::{pattern, taffrail_options_t};
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
            let from = pattern(source, tag, ignore, options)?;
            tell(status, endpoint(t).recv(from, room(into, len)?))
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
            let from = pattern(source, tag, ignore, options)?;
            let started = endpoint(t).irecv_raw(from, somewhere(into), len)?;
            request.write(started.into());
        }
        Ok(TAFFRAIL_OK)
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
            let from = pattern(source, tag, ignore, options)?;
            let parts = list_of(list, parts)?;
            let parts =
                parts.iter().map(|part| room(part.iov_base, part.iov_len).map(IoSliceMut::new));
            let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
            request.write(endpoint.irecv_vectored_raw(from, &mut parts)?.into());
        }
        Ok(TAFFRAIL_OK)
    })
}

/// Starts a receive of many messages into one buffer, one behind the other, until fewer than `least`
/// bytes are free. taffrail_landed() tells of each. The receive is over when the buffer is used up and
/// everything in it has landed.
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
            let from = pattern(source, tag, ignore, options)?;
            let started = endpoint.irecv_multi_raw(from, into.cast(), len, least)?;
            request.write(started.into());
        }
        Ok(TAFFRAIL_OK)
    })
}

/// The next message that a multi-receive has got: where in the buffer it begins is stored in
/// `*offset`, what it says of itself in `*status`. Makes progress when there is none, which is
/// TAFFRAIL_PENDING. Call it until it says so, also after the multi-receive is over: only then all
/// messages were told, and the request is used up.
///
/// # Safety
/// `t` is open; `status` is null or there is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_landed(
    t: *mut taffrail_t,
    request: taffrail_request_t,
    offset: *mut usize,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = checked(t)?;
            let offset =
                offset.as_mut().ok_or_else(|| Failure::null("the place for the offset"))?;
            match endpoint.landed(request.into()) {
                Ok(None) => Ok(TAFFRAIL_PENDING),
                Ok(Some(landed)) => {
                    *offset = landed.offset;
                    tell(status, Ok(landed.status))
                }
                Err(error) => tell(status, Err(error)),
            }
        }
    })
}
