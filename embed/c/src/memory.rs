//! Memory without copies: buffers, loans and views.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::names::{taffrail_status_t, tell};
use crate::opening::{checked, taffrail_t};
use crate::options::{
    TAFFRAIL_OPTION_CONTEXT, TAFFRAIL_OPTION_DATA, dest, pattern, taffrail_options_t,
};
use std::ffi::c_void;
use taffrail::words::counted;
use taffrail::{Buffer, View};
use taffrail_code_t::TAFFRAIL_OK;

/// Memory of an endpoint that peers reach without a copy: for loans, for one-sided access, and for
/// long messages.
pub struct taffrail_buffer_t {
    pub(crate) buffer: Buffer,
}

/// A received message in place: of a loan the sender's own memory, of any other a private copy.
pub struct taffrail_view_t {
    view: View,
}

/// Takes memory of `len` bytes from the endpoint's pool. Its contents are whatever the last user has
/// left. `*buffer` is NULL when there is an error.
///
/// # Safety
/// `t` is open; `*buffer` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_alloc(
    t: *mut taffrail_t,
    len: usize,
    buffer: *mut *mut taffrail_buffer_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let place = buffer.as_mut().ok_or_else(|| Failure::null("the place for the buffer"))?;
        *place = std::ptr::null_mut();
        let buffer = endpoint.alloc(len)?;
        *place = Box::into_raw(Box::new(taffrail_buffer_t { buffer }));
        Ok(TAFFRAIL_OK)
    })
}

/// The memory of a buffer; its length is stored in `*len`, which may be null. NULL for a null pointer.
///
/// # Safety
/// `buffer` is null, or was allocated, and not freed or lent since; `len` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_buffer_bytes(
    buffer: *mut taffrail_buffer_t,
    len: *mut usize,
) -> *mut c_void {
    // SAFETY: the caller's promises.
    let (at, bytes) = match unsafe { buffer.as_mut() } {
        None => (std::ptr::null_mut(), 0),
        Some(buffer) => (buffer.buffer.as_mut_ptr().cast(), buffer.buffer.len()),
    };
    if !len.is_null() {
        // SAFETY: the caller's promise.
        unsafe { len.write(bytes) };
    }
    at
}

/// Uses only the first `len` bytes of a buffer from now on.
///
/// # Safety
/// `buffer` is null, or was allocated, and not freed or lent since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_buffer_truncate(
    buffer: *mut taffrail_buffer_t,
    len: usize,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promise.
        let buffer = unsafe { buffer.as_mut() }.ok_or_else(|| Failure::null("the buffer"))?;
        let has = buffer.buffer.len();
        if len > has {
            return Err(Failure::Argument(format!(
                "a buffer of {} cannot be truncated to {len}; allocate a longer one",
                counted(has, "byte")
            )));
        }
        buffer.buffer.truncate(len);
        Ok(TAFFRAIL_OK)
    })
}

/// Gives a buffer back to its endpoint's pool, also after the endpoint is closed. It may be null.
///
/// # Safety
/// `buffer` was allocated, and not freed or lent since; it and its memory are not used any more, by
/// this rank or others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_buffer_free(buffer: *mut taffrail_buffer_t) -> taffrail_code_t {
    guarded(|| {
        if !buffer.is_null() {
            // SAFETY: it comes from `Box::into_raw`, and the caller has done with it.
            drop(unsafe { Box::from_raw(buffer) });
        }
        Ok(TAFFRAIL_OK)
    })
}

/// Sends a buffer away without copying it: taffrail_recv_view() gets it in place, any other receive a
/// copy. The buffer is used up, also when there is an error other than TAFFRAIL_ERROR_ARGUMENT. It
/// returns to the pool when the receiver has done with it.
///
/// # Safety
/// `t` is open; `buffer` was allocated, and not freed or lent since; it and its memory are not used any
/// more; `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_loan(
    t: *mut taffrail_t,
    rank: u32,
    tag: u64,
    buffer: *mut taffrail_buffer_t,
    options: *const taffrail_options_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises; a buffer comes from `Box::into_raw`.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let (dest, _) =
            dest(endpoint, rank, tag, options, TAFFRAIL_OPTION_CONTEXT | TAFFRAIL_OPTION_DATA)?;
        if buffer.is_null() {
            return Err(Failure::null("the buffer"));
        }
        endpoint.loan(dest, Box::from_raw(buffer).buffer)?;
        Ok(TAFFRAIL_OK)
    })
}

/// Receives a message of any length in place. `*view` is NULL when there is an error. `status` may be
/// null.
///
/// # Safety
/// `t` is open; `*view` is writable; `options` is null or points to options, `status` is null or there
/// is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_recv_view(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    options: *const taffrail_options_t,
    view: *mut *mut taffrail_view_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let place = view.as_mut().ok_or_else(|| Failure::null("the place for the view"))?;
        *place = std::ptr::null_mut();
        let (from, _) = pattern(endpoint, source, tag, ignore, options, TAFFRAIL_OPTION_CONTEXT)?;
        match endpoint.recv_view(from) {
            Ok(view) => {
                let received = view.status();
                *place = Box::into_raw(Box::new(taffrail_view_t { view }));
                tell(status, Ok(received))
            }
            Err(error) => tell(status, Err(error)),
        }
    })
}

/// The bytes of a view; their number is stored in `*len`, which may be null. NULL for a null pointer.
/// They stay until taffrail_view_free(), also after the endpoint is closed. A sender that breaks the
/// rules can write to memory that it has lent.
///
/// # Safety
/// `view` is null, or was received and not freed since; `len` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_view_bytes(
    view: *const taffrail_view_t,
    len: *mut usize,
) -> *const c_void {
    // SAFETY: the caller's promises.
    let (at, bytes) = match unsafe { view.as_ref() } {
        None => (std::ptr::null(), 0),
        Some(view) => (view.view.as_ptr().cast(), view.view.len()),
    };
    if !len.is_null() {
        // SAFETY: the caller's promise.
        unsafe { len.write(bytes) };
    }
    at
}

/// 1 when the bytes are the sender's memory, 0 when they are a copy.
///
/// # Safety
/// `view` is null, or was received and not freed since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_view_is_loan(view: *const taffrail_view_t) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { view.as_ref() }.is_some_and(|view| view.view.is_loan()).into()
}

/// Has done with a view: a loan goes back to its sender when the endpoint makes progress. It may be
/// null.
///
/// # Safety
/// `view` was received; it and its bytes are not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_view_free(view: *mut taffrail_view_t) -> taffrail_code_t {
    guarded(|| {
        if !view.is_null() {
            // SAFETY: it comes from `Box::into_raw`, and the caller has done with it.
            drop(unsafe { Box::from_raw(view) });
        }
        Ok(TAFFRAIL_OK)
    })
}
