//! Progress, waiting with other descriptors, and what an endpoint tells of itself.

use crate::callbacks;
use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::opening::{checked, endpoint, taffrail_t};
use std::ffi::{CString, c_char};
use std::os::fd::AsRawFd;
use taffrail_code_t::{TAFFRAIL_OK, TAFFRAIL_READY};

/// Makes progress without waiting, and runs the functions of operations that are over
/// (TAFFRAIL_OPTION_CALLBACK), 64 at the most. Returns how many things happened; an error is below zero.
///
/// # Safety
/// `t` is open; it is not checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_progress(t: *mut taffrail_t) -> i32 {
    let mut happened = 0;
    let code = guarded(|| {
        // SAFETY: the caller's promises, those for functions that it has given included.
        unsafe {
            happened = endpoint(t).progress();
            happened += callbacks::run(endpoint(t))?;
        }
        Ok(TAFFRAIL_OK)
    });
    match code {
        TAFFRAIL_OK => i32::try_from(happened).unwrap_or(i32::MAX),
        error => error as i32,
    }
}

/// Waits until every rank of the job has come here. An endpoint that was opened has no such job, except
/// below `taffrail run --logging`.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_barrier(t: *mut taffrail_t) -> taffrail_code_t {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        taffrail::collectives::barrier(checked(t)?)?;
        Ok(TAFFRAIL_OK)
    })
}

/// A descriptor for poll() and the like: after taffrail_arm() has returned TAFFRAIL_OK it is readable
/// when there is something to make progress with, the end of a peer included. It is the endpoint's:
/// do not read it, and do not close it. An error is below zero.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_fd(t: *mut taffrail_t) -> i32 {
    let mut fd = -1;
    let code = guarded(|| {
        // SAFETY: the caller's promise.
        fd = unsafe { checked(t)? }.fd().as_raw_fd();
        Ok(TAFFRAIL_OK)
    });
    if code == TAFFRAIL_OK { fd } else { code as i32 }
}

/// Prepares a wait on taffrail_fd(). TAFFRAIL_READY when something is there already: make progress
/// instead. While messages of this rank wait for room, look again after a short time.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_arm(t: *mut taffrail_t) -> taffrail_code_t {
    // SAFETY: the caller's promise.
    guarded(|| Ok(if unsafe { checked(t)? }.arm() { TAFFRAIL_OK } else { TAFFRAIL_READY }))
}

/// Which protocol is used for each peer and size, and why each other is not: a text of several lines,
/// to be freed with taffrail_free_text(). NULL when there is an error.
///
/// # Safety
/// `t` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_explain(t: *mut taffrail_t) -> *mut c_char {
    let mut text = std::ptr::null_mut();
    guarded(|| {
        // SAFETY: the caller's promise.
        let told = unsafe { checked(t)? }.explain().replace('\0', "\\0");
        text = CString::new(told).map_or(text, CString::into_raw);
        Ok(TAFFRAIL_OK)
    });
    text
}

/// Frees a text. It may be null.
///
/// # Safety
/// The text was returned by taffrail_explain(), and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it comes from `CString::into_raw`, and the caller has done with it.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// What causal logging has sent with this rank's messages.
#[repr(C)]
pub struct taffrail_counters_t {
    /// Messages sent to other ranks.
    pub messages: u64,
    /// Determinants of this rank's own events.
    pub created: u64,
    /// Determinants sent in front of messages, those of other ranks included, each time one is sent.
    pub piggybacked: u64,
    /// Zeros.
    pub reserved: [u64; 5],
}

/// What causal logging has sent since this rank was started. All zeros where messages are not logged,
/// or not in the causal way.
///
/// # Safety
/// `t` is open; `*counters` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_counters(
    t: *mut taffrail_t,
    counters: *mut taffrail_counters_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        if counters.is_null() {
            return Err(Failure::null("the place for the counters"));
        }
        let counted = endpoint.determinants().unwrap_or_default();
        counters.write(taffrail_counters_t {
            messages: counted.messages,
            created: counted.created,
            piggybacked: counted.piggybacked,
            reserved: [0; 5],
        });
        Ok(TAFFRAIL_OK)
    })
}
