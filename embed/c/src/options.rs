//! What few messages need, beside rank and tag.

use crate::callbacks::{self, taffrail_callback_t};
use crate::code::taffrail_code_t;
use crate::guard::Failure;
use crate::names::{TAFFRAIL_ANY_SOURCE, taffrail_request_t};
use std::ffi::c_void;
use taffrail::{CONTEXTS, Data, Dest, Endpoint, Pattern, Request};
use taffrail_code_t::TAFFRAIL_OK;

/// The member `context` is set.
pub const TAFFRAIL_OPTION_CONTEXT: u32 = 1;

/// Of a send: it is over when a receive has matched the message. It has no member.
pub const TAFFRAIL_OPTION_SYNC: u32 = 2;

/// The member `data` is set. Of sends only.
pub const TAFFRAIL_OPTION_DATA: u32 = 4;

/// Of an operation that is started: its end is told by taffrail_next_ended(). It has no member.
pub const TAFFRAIL_OPTION_REPORT: u32 = 8;

/// The members `callback` and `argument` are set. Of an operation that is started: the function runs when
/// it is over, and neither taffrail_next_ended() nor taffrail_test() and the like tell of it.
pub const TAFFRAIL_OPTION_CALLBACK: u32 = 16;

/// What few messages need. Calls take a null pointer for none of it. Set `fields` to the sum of the
/// TAFFRAIL_OPTION_* that are wanted; members of others are not looked at, so that later versions can
/// have more of them. What a call does not know, or cannot use, is TAFFRAIL_ERROR_ARGUMENT.
#[repr(C)]
pub struct taffrail_options_t {
    /// The sum of the TAFFRAIL_OPTION_* that are wanted.
    pub fields: u32,
    /// The context (communicator): messages and receives of different contexts never meet. Programs
    /// use 0 to 49151, and of an endpoint that was opened (not joined) 0, 16384 and 32768; others are
    /// refused.
    pub context: u16,
    /// A number that travels beside the payload, for the receiver's status. Numbers up
    /// to 16382 cost nothing in an open job; others 8 bytes more on the way.
    pub data: u32,
    /// What runs when the operation is over.
    pub callback: taffrail_callback_t,
    /// Passed to it as it is.
    pub argument: *mut c_void,
}

/// How the end of an operation that is started may be told.
pub(crate) const ENDS: u32 = TAFFRAIL_OPTION_REPORT | TAFFRAIL_OPTION_CALLBACK;

/// Hands out the request of an operation, whose end is to be told in the way that these options say. `with`:
/// which of them are wanted.
///
/// # Safety
/// `request` is writable; `options` points to options, unless `with` is 0.
#[inline]
pub(crate) unsafe fn started(
    endpoint: &mut Endpoint,
    operation: Request,
    with: u32,
    options: *const taffrail_options_t,
    request: *mut taffrail_request_t,
) -> Result<taffrail_code_t, Failure> {
    // SAFETY: the caller's promise.
    unsafe { request.write(operation.into()) };
    if with & TAFFRAIL_OPTION_CALLBACK != 0 {
        // SAFETY: the caller's promise.
        let taffrail_options_t { callback, argument, .. } = unsafe { &*options };
        callbacks::attach(endpoint, operation, *callback, *argument)?;
    } else if with & TAFFRAIL_OPTION_REPORT != 0 {
        endpoint.report(operation)?;
    }
    Ok(TAFFRAIL_OK)
}

/// Where a message goes, with the options that are no part of it.
///
/// # Safety
/// `options` is null, or points to options.
#[inline(always)]
pub(crate) unsafe fn dest(
    endpoint: &Endpoint,
    rank: u32,
    tag: u64,
    options: *const taffrail_options_t,
    usable: u32,
) -> Result<(Dest, u32), Failure> {
    let dest = Dest::new(rank, tag);
    // SAFETY: the caller's promise.
    match unsafe { options.as_ref() } {
        None => Ok((dest, 0)),
        Some(options) => options.of_send(endpoint, dest, usable),
    }
}

/// Which messages a receive takes, with the options that are no part of it.
///
/// # Safety
/// `options` is null, or points to options.
#[inline(always)]
pub(crate) unsafe fn pattern(
    endpoint: &Endpoint,
    source: u32,
    tag: u64,
    ignore: u64,
    options: *const taffrail_options_t,
    usable: u32,
) -> Result<(Pattern, u32), Failure> {
    let source = (source != TAFFRAIL_ANY_SOURCE).then_some(source);
    let pattern = Pattern { source, context: 0, tag, ignore };
    // SAFETY: the caller's promise.
    match unsafe { options.as_ref() } {
        None => Ok((pattern, 0)),
        Some(options) => options.of_receive(endpoint, pattern, usable),
    }
}

/// A member whose field is not set may be uninitialised: it is not read.
impl taffrail_options_t {
    #[inline(never)]
    fn of_send(
        &self,
        endpoint: &Endpoint,
        dest: Dest,
        usable: u32,
    ) -> Result<(Dest, u32), Failure> {
        let with = self.only(usable)?;
        Ok((Dest { context: self.context(endpoint)?, data: self.data(), ..dest }, with))
    }

    #[inline(never)]
    fn of_receive(
        &self,
        endpoint: &Endpoint,
        pattern: Pattern,
        usable: u32,
    ) -> Result<(Pattern, u32), Failure> {
        let with = self.only(usable)?;
        Ok((pattern.context(self.context(endpoint)?), with))
    }

    fn has(&self, field: u32) -> bool {
        self.fields & field != 0
    }

    fn context(&self, endpoint: &Endpoint) -> Result<u16, Failure> {
        let context = if self.has(TAFFRAIL_OPTION_CONTEXT) { self.context } else { 0 };
        match context < CONTEXTS && endpoint.tells_context(context) {
            true => Ok(context),
            false => Err(Failure::Argument(format!(
                "options.context is {context}: it must be below {CONTEXTS}, and 0, 16384 or 32768 where \
                 an endpoint was opened and not joined"
            ))),
        }
    }

    fn data(&self) -> Data {
        if self.has(TAFFRAIL_OPTION_DATA) { Data::new(self.data) } else { Data::NONE }
    }

    /// The fields, if there are no others than these.
    fn only(&self, known: u32) -> Result<u32, Failure> {
        match self.fields & !known {
            0 if self.has(TAFFRAIL_OPTION_CALLBACK) && self.callback.is_none() => {
                Err(Failure::null("options.callback"))
            }
            0 => Ok(self.fields),
            others => Err(Failure::Argument(format!(
                "options.fields has {others:#x}, which this call cannot use (it can {known:#x}); \
                 leave them out, or use a library that knows them"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taffrail::Job;

    const ALL: u32 = 31;

    fn options(fields: u32, context: u16, data: u32) -> taffrail_options_t {
        let (callback, argument) = (None, std::ptr::null_mut());
        taffrail_options_t { fields, context, data, callback, argument }
    }

    fn with_endpoint(test: impl FnOnce(&mut Endpoint)) {
        test(&mut Job::local(1).remove(0).endpoint().unwrap());
    }

    fn sends(endpoint: &Endpoint, fields: u32, context: u16, data: u32) -> Option<(Dest, u32)> {
        let options = options(fields, context, data);
        // SAFETY: the options are there.
        unsafe { dest(endpoint, 1, 2, &options, ALL) }.ok()
    }

    #[test]
    fn only_what_is_set_is_looked_at() {
        with_endpoint(|ep| {
            assert_eq!(sends(ep, 0, u16::MAX, u32::MAX), Some((Dest::new(1, 2), 0)));
            let context = TAFFRAIL_OPTION_CONTEXT;
            let to = Dest::new(1, 2);
            assert_eq!(sends(ep, context, 9, u32::MAX), Some((to.context(9), context)));
            assert_eq!(sends(ep, context, CONTEXTS, 0), None);
            let data = TAFFRAIL_OPTION_DATA;
            assert_eq!(sends(ep, data, u16::MAX, 7), Some((to.data(7), data)));
            assert_eq!(sends(ep, data, 0, u32::MAX), Some((to.data(u32::MAX), data)));
        });
    }

    #[test]
    fn what_a_call_cannot_use_is_refused() {
        with_endpoint(|ep| {
            assert_eq!(sends(ep, ALL + 1, 0, 0), None);
            assert_eq!(sends(ep, TAFFRAIL_OPTION_CALLBACK, 0, 0), None, "there is none");
            let options = options(TAFFRAIL_OPTION_SYNC, 0, 0);
            // SAFETY: the options are there.
            assert!(unsafe { pattern(ep, 1, 2, 0, &options, TAFFRAIL_OPTION_CONTEXT) }.is_err());
        });
    }

    #[test]
    fn any_source_is_no_rank() {
        with_endpoint(|ep| {
            let none = std::ptr::null();
            // SAFETY: null is allowed.
            let of = |source| unsafe { pattern(ep, source, 5, 6, none, 0) }.ok().unwrap();
            assert_eq!(of(TAFFRAIL_ANY_SOURCE), (Pattern::any_source(5).ignore(6), 0));
            assert_eq!(of(3), (Pattern::new(3, 5).ignore(6), 0));
        });
    }
}
