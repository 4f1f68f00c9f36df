//! Sending.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::names::taffrail_request_t;
use crate::opening::{checked, endpoint, taffrail_t};
use crate::options::{
    ENDS, TAFFRAIL_OPTION_CONTEXT, TAFFRAIL_OPTION_DATA, TAFFRAIL_OPTION_SYNC, dest, started,
    taffrail_options_t,
};
use libc::iovec;
use std::ffi::c_void;
use std::io::IoSlice;
use taffrail_code_t::TAFFRAIL_OK;

/// Sends a message, and returns when `data` may be used again. That a long message has been sent means
/// that its receive has been posted; of a short one it means nothing, except with
/// TAFFRAIL_OPTION_SYNC.
///
/// # Safety
/// `t` is open (not checked), `len` bytes at `data` are readable, `options` is null or points to
/// options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_send(
    t: *mut taffrail_t,
    rank: u32,
    tag: u64,
    data: *const c_void,
    len: usize,
    options: *const taffrail_options_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (endpoint, data) = unsafe { (endpoint(t), bytes(data, len)?) };
        // SAFETY: the caller's promise.
        match unsafe { dest(endpoint, rank, tag, options, SENDS | TAFFRAIL_OPTION_SYNC)? } {
            (dest, with) if with & TAFFRAIL_OPTION_SYNC != 0 => endpoint.send_sync(dest, data)?,
            (dest, _) => endpoint.send(dest, data)?,
        }
        Ok(TAFFRAIL_OK)
    })
}

/// Sends a message whose memory may be used again at once: what has no room now is copied.
///
/// # Safety
/// As taffrail_send().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_inject(
    t: *mut taffrail_t,
    rank: u32,
    tag: u64,
    data: *const c_void,
    len: usize,
    options: *const taffrail_options_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            let endpoint = endpoint(t);
            let (dest, _) = dest(endpoint, rank, tag, options, SENDS)?;
            let data = bytes(data, len)?;
            endpoint.inject(&dest, data.as_ptr(), data.len())?;
        }
        Ok(TAFFRAIL_OK)
    })
}

/// Starts a send. The call does not wait; the send is over when taffrail_test() or a like call says so.
///
/// # Safety
/// `t` is open, and `*request` writable (both not checked); `len` bytes at `data` stay readable and
/// unchanged until the send is over; `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_isend(
    t: *mut taffrail_t,
    rank: u32,
    tag: u64,
    data: *const c_void,
    len: usize,
    options: *const taffrail_options_t,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promises.
        unsafe {
            let (endpoint, data) = (endpoint(t), somewhere(data.cast_mut()));
            let usable = SENDS | TAFFRAIL_OPTION_SYNC | ENDS;
            let (dest, with) = dest(endpoint, rank, tag, options, usable)?;
            let send = match with & TAFFRAIL_OPTION_SYNC {
                0 => endpoint.isend_raw(dest, data, len)?,
                _ => endpoint.isend_sync_raw(dest, data, len)?,
            };
            started(endpoint, send, with, options, request)
        }
    })
}

/// Starts a send of a message that is gathered from `parts` places. The list may be given up at once.
///
/// # Safety
/// `t` is open; `parts` elements at `list` say what is readable and unchanged until the send is over;
/// `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_isendv(
    t: *mut taffrail_t,
    rank: u32,
    tag: u64,
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
            let (dest, with) = dest(endpoint, rank, tag, options, SENDS | ENDS)?;
            let parts = list_of(list, parts)?;
            let parts =
                parts.iter().map(|part| bytes(part.iov_base, part.iov_len).map(IoSlice::new));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            let send = endpoint.isend_vectored_raw(dest, &parts)?;
            started(endpoint, send, with, options, request)
        }
    })
}

/// What all sends can use.
const SENDS: u32 = TAFFRAIL_OPTION_CONTEXT | TAFFRAIL_OPTION_DATA;

/// Memory as a slice. Of no bytes it may lie anywhere, also at null.
///
/// # Safety
/// `len` bytes at `data` are readable as long as the slice is used.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len as isize > 0 {
        // SAFETY: the caller's promise, and the length is one that a slice can have.
        return Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) });
    }
    if len == 0 { Ok(&[]) } else { Err(too_many(len)) }
}

/// As `bytes`, to be written to.
///
/// # Safety
/// `len` bytes at `into` are writable, and nobody else's, as long as the slice is used.
#[inline]
pub(crate) unsafe fn room<'a>(into: *mut c_void, len: usize) -> Result<&'a mut [u8], Failure> {
    if len as isize > 0 {
        // SAFETY: the caller's promise, and the length is one that a slice can have.
        return Ok(unsafe { std::slice::from_raw_parts_mut(into.cast(), len) });
    }
    if len == 0 { Ok(&mut []) } else { Err(too_many(len)) }
}

/// A list of places.
///
/// # Safety
/// `parts` elements at `list` are readable as long as the slice is used.
pub(crate) unsafe fn list_of<'a>(list: *const iovec, parts: usize) -> Result<&'a [iovec], Failure> {
    match parts {
        0 => Ok(&[]),
        _ if list.is_null() => Err(Failure::null("the list of places")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(list, parts) }),
    }
}

/// Memory of no bytes may lie at null here, and at null nowhere else.
#[inline]
pub(crate) fn somewhere(at: *mut c_void) -> *mut u8 {
    if at.is_null() { std::ptr::dangling_mut() } else { at.cast() }
}

#[cold]
fn too_many(len: usize) -> Failure {
    Failure::Argument(format!("a length of {len} bytes is more than there can be; is it negative?"))
}
