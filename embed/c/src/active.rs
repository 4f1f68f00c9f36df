//! Active messages.

use crate::code::taffrail_code_t;
use crate::guard::{Failure, guarded};
use crate::opening::{checked, taffrail_t};
use crate::sending::bytes;
use std::cell::Cell;
use std::ffi::c_void;
use taffrail::{AmMessage, Endpoint};
use taffrail_code_t::TAFFRAIL_OK;

/// An active message that has arrived.
#[repr(C)]
pub struct taffrail_am_t {
    /// The sender.
    pub source: u32,
    /// The handler's number.
    pub handler: u16,
    /// The eight bytes sent with it.
    pub header: u64,
    /// The payload: private, and gone when the handler returns.
    pub payload: *const c_void,
    /// Its length in bytes.
    pub len: usize,
}

/// What runs when an active message arrives: inside a call that makes progress, on that call's thread.
/// It may use the endpoint, by the handle that it is given, but not close it; it must not throw a C++
/// exception or jump out of the call.
pub type taffrail_handler_t = Option<
    unsafe extern "C" fn(t: *mut taffrail_t, message: *const taffrail_am_t, argument: *mut c_void),
>;

thread_local! {
    /// Functions of the program that are running on this thread.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// Whether a function of the program calls us that one of our calls runs.
pub(crate) fn in_handler() -> bool {
    RUNNING.try_with(Cell::get).is_ok_and(|running| running > 0)
}

/// Runs a function of the program.
pub(crate) fn within_handler(run: impl FnOnce()) {
    RUNNING.set(RUNNING.get() + 1);
    run();
    RUNNING.set(RUNNING.get() - 1);
}

/// The program's pointer, handed back to it.
struct Argument(*mut c_void);

// SAFETY: it is not looked at here; the program knows which threads have its endpoint.
unsafe impl Send for Argument {}

/// Sends an active message: the handler with this number runs at the target when it makes progress.
/// Active messages of one sender arrive in the order sent.
///
/// # Safety
/// `t` is open; `len` bytes at `payload` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_send_am(
    t: *mut taffrail_t,
    rank: u32,
    handler: u16,
    header: u64,
    payload: *const c_void,
    len: usize,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        checked(t)?.send_am(rank, handler, header, bytes(payload, len)?)?;
        Ok(TAFFRAIL_OK)
    })
}

/// Says what runs when an active message for `handler` arrives, instead of what was said before.
/// `argument` is passed to it as it is.
///
/// # Safety
/// `t` is open. `run` and `argument` are good as long as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn taffrail_on_am(
    t: *mut taffrail_t,
    handler: u16,
    run: taffrail_handler_t,
    argument: *mut c_void,
) -> taffrail_code_t {
    // SAFETY: the caller's promises.
    guarded(|| unsafe {
        let endpoint = checked(t)?;
        let run = run.ok_or_else(|| Failure::null("the handler"))?;
        let argument = Argument(argument);
        endpoint.on_am(handler, move |endpoint: &mut Endpoint, message: AmMessage<'_>| {
            let argument: &Argument = &argument;
            let message = taffrail_am_t {
                source: message.source,
                handler,
                header: message.header,
                payload: message.payload.as_ptr().cast(),
                len: message.payload.len(),
            };
            let t: *mut Endpoint = endpoint;
            // SAFETY: the program has given a function of this type. The handle is that of the endpoint
            // that runs it, which is not used here before it returns.
            within_handler(|| run(t.cast(), &message, argument.0));
        });
        Ok(TAFFRAIL_OK)
    })
}
