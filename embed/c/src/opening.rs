//! Opening and closing endpoints.

use crate::active;
use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::version;
use std::time::Duration;
use taffrail::{Endpoint, Error, Job, Settings};
use taffrail_code_t::TAFFRAIL_OK;

/// An endpoint: one rank's end of the transport. It belongs to one thread at a time. Progress is made
/// inside calls only.
pub struct taffrail_t {
    _private: [u8; 0],
}

/// The endpoint behind a handle.
///
/// # Safety
/// `t` is a handle that is not closed, and no other call uses it at the same time.
#[inline]
pub(crate) unsafe fn endpoint<'a>(t: *mut taffrail_t) -> &'a mut Endpoint {
    // SAFETY: every handle points to an endpoint, which begins an `Opened` or is lent to a handler; the
    // caller vouches that it is open and that nobody else has it.
    unsafe { &mut *t.cast::<Endpoint>() }
}

/// As `endpoint`, for calls that can afford to look.
///
/// # Safety
/// As [`endpoint`]; but `t` may be null.
pub(crate) unsafe fn checked<'a>(t: *mut taffrail_t) -> Result<&'a mut Endpoint, Failure> {
    if t.is_null() {
        return Err(Failure::null("the endpoint"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { endpoint(t) })
}

/// What a handle owns. The endpoint comes first: the handle points to it, and it is closed before the
/// job is left.
#[repr(C)]
struct Opened {
    endpoint: Endpoint,
    _job: Job,
}

/// The member `eager_max` is set.
pub const TAFFRAIL_PARAM_EAGER_MAX: u64 = 1;
/// The member `outbox` is set.
pub const TAFFRAIL_PARAM_OUTBOX: u64 = 2;
/// The member `unexpected` is set.
pub const TAFFRAIL_PARAM_UNEXPECTED: u64 = 4;
/// The member `spin` is set.
pub const TAFFRAIL_PARAM_SPIN: u64 = 8;
/// The member `patience` is set.
pub const TAFFRAIL_PARAM_PATIENCE: u64 = 16;

/// Settings of an endpoint. Set `fields` to the sum of the TAFFRAIL_PARAM_* that are wanted; members of
/// others are not looked at, so that later versions can have more of them. What is not set here comes
/// from the environment (TAFFRAIL_EAGER_MAX and so on), or is the default.
#[repr(C)]
pub struct taffrail_params_t {
    /// The sum of the TAFFRAIL_PARAM_* that are wanted.
    pub fields: u64,
    /// Messages of up to this many bytes are sent without asking the receiver.
    pub eager_max: usize,
    /// The memory that messages leave from grows up to this many bytes.
    pub outbox: usize,
    /// When more bytes of one sender wait for receives, it is asked to announce its messages instead
    /// of sending them.
    pub unexpected: usize,
    /// Idle turns before a rank that waits gives its processor away.
    pub spin: u32,
    /// Seconds to wait for the other ranks at the start.
    pub patience: u32,
}

/// The settings of the environment, with what the program wants instead.
///
/// # Safety
/// `params` is null, or points to parameters.
unsafe fn settings(params: *const taffrail_params_t) -> Result<Settings, Failure> {
    let mut settings = Settings::from_env()?;
    // SAFETY: the caller's promise.
    let Some(params) = (unsafe { params.as_ref() }) else { return Ok(settings) };
    let has = |field| params.fields & field != 0;
    let unknown = params.fields & !(2 * TAFFRAIL_PARAM_PATIENCE - 1);
    if unknown != 0 {
        return Err(Failure::Argument(format!(
            "params.fields has {unknown:#x}, which this library does not know; leave it out, or use \
             a library that knows it"
        )));
    }
    if has(TAFFRAIL_PARAM_EAGER_MAX) {
        settings.eager_max = params.eager_max;
    }
    if has(TAFFRAIL_PARAM_OUTBOX) {
        settings.outbox = params.outbox;
    }
    if has(TAFFRAIL_PARAM_UNEXPECTED) {
        settings.unexpected = params.unexpected;
    }
    if has(TAFFRAIL_PARAM_SPIN) {
        settings.spin = Some(params.spin);
    }
    if has(TAFFRAIL_PARAM_PATIENCE) {
        settings.patience = Duration::from_secs(params.patience.into());
    }
    Ok(settings)
}

/// Joins the job that the launcher has described in the environment (`taffrail run`, or an MPI's
/// launcher that speaks PMI-1), and opens an endpoint; without a launcher, in a job of one rank. Works
/// once in a process. All ranks of the job do it, and it returns when they have.
///
/// `version` is TAFFRAIL_VERSION: a library that does not fit the header refuses it, with
/// TAFFRAIL_ERROR_VERSION. `params` may be null. The endpoint is stored in `*t`, or NULL when there is
/// an error.
///
/// # Safety
/// `t` points to room for a pointer; `params` is null, or points to parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_join(
    version: u32,
    params: *const taffrail_params_t,
    t: *mut *mut taffrail_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    unsafe { open(version, params, t, Job::from_env) }
}

/// Opens an endpoint in a job of its own that others may join, for runtimes whose processes tell each
/// other their addresses: see taffrail_address() and taffrail_connect(). Ranks are this endpoint's own
/// numbers for the others, below `seats`. It does not wait for others. There are three contexts.
///
/// Below `taffrail run --logging` it is the rank of the launcher's job instead, so that its messages are
/// logged; the calls are the same, and `seats` is not looked at.
///
/// `version`, `params` and `t` are as for taffrail_join().
///
/// # Safety
/// As taffrail_join().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_open(
    version: u32,
    seats: u32,
    params: *const taffrail_params_t,
    t: *mut *mut taffrail_t,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    unsafe { open(version, params, t, || Job::embedded(seats)) }
}

/// Opens an endpoint in a job.
///
/// # Safety
/// `t` is null or writable; `params` is null, or points to parameters.
unsafe fn open(
    version: u32,
    params: *const taffrail_params_t,
    t: *mut *mut taffrail_t,
    job: impl FnOnce() -> Result<Job, Error>,
) -> taffrail_code_t {
    guarded(|| {
        // SAFETY: the caller's promise.
        let t = unsafe { t.as_mut() }.ok_or_else(|| Failure::null("the place for the endpoint"))?;
        *t = std::ptr::null_mut();
        version::check(version)?;
        // SAFETY: the caller's promise.
        let settings = unsafe { settings(params)? };
        let mut job = job()?;
        let endpoint = job.endpoint_with(settings)?;
        *t = Box::into_raw(Box::new(Opened { endpoint, _job: job })).cast();
        Ok(TAFFRAIL_OK)
    })
}

/// Closes an endpoint. What still waits for room is sent before, for some seconds at most. Memory of
/// operations that are not over stays theirs for ever: what was sent of it may still be read. `t` may
/// be null.
///
/// # Safety
/// `t` is not used any more. Views of messages may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_close(t: *mut taffrail_t) -> taffrail_code_t {
    guarded(|| {
        if active::in_handler() {
            return Err(Failure::Argument(
                "taffrail_close was called by a handler or callback, whose endpoint is in use; close it \
                 after the call that runs it has returned"
                    .into(),
            ));
        }
        if !t.is_null() {
            // SAFETY: handles outside of handlers come from `Box::into_raw` of an `Opened`; the caller
            // vouches that this one is not used any more.
            drop(unsafe { Box::from_raw(t.cast::<Opened>()) });
        }
        Ok(TAFFRAIL_OK)
    })
}

/// This rank; of an endpoint that was opened, its own number for itself.
///
/// # Safety
/// `t` is open; it is not checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_rank(t: *mut taffrail_t) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { endpoint(t) }.rank()
}

/// How many ranks the job has; of an endpoint that was opened, the seats.
///
/// # Safety
/// `t` is open; it is not checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_size(t: *mut taffrail_t) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { endpoint(t) }.size()
}
