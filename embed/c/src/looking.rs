//! Looking for messages without receiving them.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::names::{taffrail_request_t, taffrail_status_t, tell};
use crate::opening::{checked, taffrail_t};
use crate::options::{ENDS, TAFFRAIL_OPTION_CONTEXT, pattern, started, taffrail_options_t};
use crate::sending::room;
use std::ffi::c_void;
use taffrail::Claimed;
use taffrail_code_t::{TAFFRAIL_OK, TAFFRAIL_PENDING};

/// A message that was taken out of the queue by taffrail_claim().
pub struct taffrail_message_t {
    claimed: Claimed,
    /// The handle of its endpoint.
    at: *mut taffrail_t,
}

/// What a receive with these arguments would get: TAFFRAIL_OK and its status, or TAFFRAIL_PENDING when
/// there is no such message. Makes progress. `status` may be null.
///
/// # Safety
/// `t` is open; `options` is null or points to options, `status` is null or there is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_probe(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    options: *const taffrail_options_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let (from, _) = pattern(endpoint, source, tag, ignore, options, TAFFRAIL_OPTION_CONTEXT)?;
        match endpoint.probe(from) {
            Ok(None) => Ok(TAFFRAIL_PENDING),
            Ok(Some(found)) => tell(status, Ok(found)),
            Err(error) => tell(status, Err(error)),
        }
    })
}

/// Takes a message out of the queue, so that only taffrail_recv_message() gets it: TAFFRAIL_OK and its
/// status, or TAFFRAIL_PENDING, with NULL in `*message`, when there is no such message. Makes progress.
/// `status` may be null.
///
/// # Safety
/// As taffrail_probe(); `*message` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_claim(
    t: *mut taffrail_t,
    source: u32,
    tag: u64,
    ignore: u64,
    options: *const taffrail_options_t,
    message: *mut *mut taffrail_message_t,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let message = message.as_mut().ok_or_else(|| Failure::null("the place for the message"))?;
        *message = std::ptr::null_mut();
        let (from, _) = pattern(endpoint, source, tag, ignore, options, TAFFRAIL_OPTION_CONTEXT)?;
        match endpoint.claim(from) {
            Ok(None) => Ok(TAFFRAIL_PENDING),
            Ok(Some(claimed)) => {
                let found = claimed.status();
                *message = Box::into_raw(Box::new(taffrail_message_t { claimed, at: t }));
                tell(status, Ok(found))
            }
            Err(error) => tell(status, Err(error)),
        }
    })
}

/// Receives a claimed message, which is used up, also when there is an error other than
/// TAFFRAIL_ERROR_ARGUMENT. `status` may be null.
///
/// # Safety
/// `t` is open; `message` was claimed and is not used any more; `len` bytes at `into` are writable;
/// `status` is null or there is room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_recv_message(
    t: *mut taffrail_t,
    message: *mut taffrail_message_t,
    into: *mut c_void,
    len: usize,
    status: *mut taffrail_status_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let into = room(into, len)?;
        tell(status, endpoint.recv_claimed(taken(message, t)?, into))
    })
}

/// Starts to receive a claimed message, which is used up, also when there is an error other than
/// TAFFRAIL_ERROR_ARGUMENT. Of the options it knows TAFFRAIL_OPTION_REPORT and _CALLBACK.
///
/// # Safety
/// As taffrail_recv_message(); the bytes at `into` stay writable, and are used by nobody else, until
/// the receive is over; `options` is null or points to options. `*request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_irecv_message(
    t: *mut taffrail_t,
    message: *mut taffrail_message_t,
    into: *mut c_void,
    len: usize,
    options: *const taffrail_options_t,
    request: *mut taffrail_request_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        if request.is_null() {
            return Err(Failure::null("the place for the request"));
        }
        let (_, with) = pattern(endpoint, 0, 0, 0, options, ENDS)?;
        let into = room(into, len)?.as_mut_ptr();
        let receive = endpoint.irecv_claimed_raw(taken(message, t)?, into, len)?;
        started(endpoint, receive, with, options, request)
    })
}

/// Takes a message out of the program's hands.
///
/// # Safety
/// `message` is null, or was claimed and is not used any more.
unsafe fn taken(message: *mut taffrail_message_t, t: *mut taffrail_t) -> Result<Claimed, Failure> {
    // SAFETY: the caller's promise.
    match unsafe { message.as_ref() } {
        None => Err(Failure::null("the message")),
        Some(message) if message.at != t => Err(Failure::Argument(
            "the message was claimed at another endpoint; receive it there".into(),
        )),
        // SAFETY: what was claimed comes from `Box::into_raw`.
        Some(_) => Ok(unsafe { Box::from_raw(message) }.claimed),
    }
}

/// Discards a claimed message: its sender goes on as if it had been received. It may be null.
///
/// # Safety
/// `message` was claimed and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_discard(message: *mut taffrail_message_t) -> taffrail_code_t {
    guarded(|| {
        if !message.is_null() {
            // SAFETY: it comes from `Box::into_raw`, and the caller has done with it.
            drop(unsafe { Box::from_raw(message) });
        }
        Ok(TAFFRAIL_OK)
    })
}
