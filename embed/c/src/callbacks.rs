//! Functions of the program that run when an operation is over.

use crate::active::within_handler;
use crate::guard::Failure;
use crate::names::{taffrail_request_t, taffrail_status_t};
use crate::opening::taffrail_t;
use std::collections::VecDeque;
use std::ffi::c_void;
use taffrail::{Completion, Endpoint, Request};

/// What runs when an operation is over: inside taffrail_progress() or taffrail_next_ended(), on that call's
/// thread, and never inside the call that starts the operation. The request is used up; `status` says how
/// the operation has ended, errors included, and is gone when the function returns. It may use the
/// endpoint, also to start further operations, but not close it; it must not throw a C++ exception or jump
/// out of the call. Of a multi-receive it runs for each message, with TAFFRAIL_STATUS_OFFSET among the
/// fields, and for the end without. Operations that are not over when the endpoint is closed run nothing.
pub type taffrail_callback_t = Option<
    unsafe extern "C" fn(
        t: *mut taffrail_t,
        request: taffrail_request_t,
        status: *const taffrail_status_t,
        argument: *mut c_void,
    ),
>;

/// What one call runs at the most: a function may start what is over at once.
const MAX_CALLBACKS: usize = 64;

#[derive(Clone, Copy)]
struct Callback {
    /// Of which operation of its place.
    generation: u32,
    run: unsafe extern "C" fn(
        *mut taffrail_t,
        taffrail_request_t,
        *const taffrail_status_t,
        *mut c_void,
    ),
    argument: *mut c_void,
}

/// Those of an endpoint.
#[derive(Default)]
struct Callbacks {
    /// At the index of its request.
    of: Vec<Option<Callback>>,
    /// Ends for taffrail_next_ended() that taffrail_progress() has met.
    aside: VecDeque<(Request, Completion)>,
}

// SAFETY: arguments are not looked at here; the program knows which threads have its endpoint.
unsafe impl Send for Callbacks {}

impl Callbacks {
    fn of(endpoint: &mut Endpoint) -> Option<&mut Callbacks> {
        endpoint.attached().as_mut()?.downcast_mut()
    }

    /// What runs for this operation now, and not again if it `is_over`.
    fn take(&mut self, request: Request, is_over: bool) -> Option<Callback> {
        let (index, generation) = request.to_raw();
        let place = self.of.get_mut(index as usize)?;
        let callback = (*place)?;
        if is_over || callback.generation != generation {
            *place = None;
        }
        (callback.generation == generation).then_some(callback)
    }
}

/// An operation that is over.
enum Met {
    /// Its function has run.
    Ran,
    /// It has none.
    Other(Request, Completion),
}

/// From now on this runs when the operation is over.
#[expect(clippy::unreachable, reason = "only this file attaches to endpoints of C")]
pub(crate) fn attach(
    endpoint: &mut Endpoint,
    operation: Request,
    run: taffrail_callback_t,
    argument: *mut c_void,
) -> Result<(), Failure> {
    let run = run.ok_or_else(|| Failure::null("the callback"))?;
    endpoint.report(operation)?;
    let all = endpoint.attached().get_or_insert_with(|| Box::<Callbacks>::default());
    let Some(all) = all.downcast_mut::<Callbacks>() else { unreachable!("nobody else attaches") };
    let (index, generation) = operation.to_raw();
    let index = index as usize;
    if all.of.len() <= index {
        all.of.resize(index + 1, None);
    }
    all.of[index] = Some(Callback { generation, run, argument });
    Ok(())
}

/// Runs the functions of operations that are over, some at the most. How many have run.
///
/// # Errors
/// As taffrail_next_ended().
///
/// # Safety
/// The program has given functions of this type, and arguments that are good for them.
#[inline]
pub(crate) unsafe fn run(endpoint: &mut Endpoint) -> Result<usize, Failure> {
    if endpoint.attached().is_none() {
        return Ok(0);
    }
    let mut ran = 0;
    for _ in 0..MAX_CALLBACKS {
        // SAFETY: the caller's promise.
        match unsafe { meet(endpoint)? } {
            None => break,
            Some(Met::Ran) => ran += 1,
            Some(Met::Other(request, what)) => {
                if let Some(all) = Callbacks::of(endpoint) {
                    all.aside.push_back((request, what));
                }
            }
        }
    }
    Ok(ran)
}

/// The next operation that is over and has no function. Runs the functions of those before it.
///
/// # Errors
/// As taffrail_next_ended().
///
/// # Safety
/// As [`run`].
#[inline]
pub(crate) unsafe fn next_other(
    endpoint: &mut Endpoint,
) -> Result<Option<(Request, Completion)>, Failure> {
    if endpoint.attached().is_none() {
        return Ok(endpoint.next_ended()?);
    }
    if let Some(other) = Callbacks::of(endpoint).and_then(|all| all.aside.pop_front()) {
        return Ok(Some(other));
    }
    for _ in 0..MAX_CALLBACKS {
        // SAFETY: the caller's promise.
        match unsafe { meet(endpoint)? } {
            None => break,
            Some(Met::Ran) => {}
            Some(Met::Other(request, what)) => return Ok(Some((request, what))),
        }
    }
    Ok(None)
}

/// Meets an operation that is over, and runs its function, if it has one.
///
/// # Safety
/// As [`run`].
unsafe fn meet(endpoint: &mut Endpoint) -> Result<Option<Met>, Failure> {
    let Some((request, what)) = endpoint.next_ended()? else { return Ok(None) };
    let is_over = matches!(what, Completion::Ended(_));
    let callback = Callbacks::of(endpoint).and_then(|all| all.take(request, is_over));
    let Some(Callback { run, argument, .. }) = callback else {
        return Ok(Some(Met::Other(request, what)));
    };
    let status = taffrail_status_t::from(what);
    let t: *mut Endpoint = endpoint;
    // SAFETY: the caller's promise. The handle is that of the endpoint, which is not used here before the
    // function returns.
    within_handler(|| unsafe { run(t.cast(), request.into(), &status, argument) });
    Ok(Some(Met::Ran))
}
