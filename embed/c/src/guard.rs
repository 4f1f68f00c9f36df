//! The boundary: errors become codes, their texts are kept for `taffrail_last_error`, and no panic
//! gets past it.

use crate::code::{self, taffrail_code_t};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail::Error;
use taffrail_code_t::*;

/// Why a call has failed.
pub(crate) enum Failure {
    Error(Error),
    Argument(String),
    Version(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl Failure {
    /// A pointer that must not be null.
    pub(crate) fn null(what: &str) -> Failure {
        Failure::Argument(format!("{what} is a null pointer; the call needs it"))
    }

    /// Keeps the text, and returns the code.
    #[cold]
    pub(crate) fn note(self) -> taffrail_code_t {
        match self {
            Failure::Error(error) => note(code::of(&error), error.to_string()),
            Failure::Argument(text) => note(TAFFRAIL_ERROR_ARGUMENT, text),
            Failure::Version(text) => note(TAFFRAIL_ERROR_VERSION, text),
        }
    }
}

/// Runs the inside of a call.
#[inline]
pub(crate) fn guarded(call: impl FnOnce() -> Result<taffrail_code_t, Failure>) -> taffrail_code_t {
    // The endpoint may be left in the middle of something; its memory is sound all the same, and the
    // code says to close it.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.note(),
        Err(panic) => panicked(&*panic),
    }
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> taffrail_code_t {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason said");
    note(
        TAFFRAIL_ERROR_INTERNAL,
        format!("a mistake in the library ({said}); close the endpoint, and please report it"),
    )
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the text of an error of this thread.
fn note(code: taffrail_code_t, text: String) -> taffrail_code_t {
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    // A thread that is about to end keeps none.
    let _ = LAST.try_with(|last| last.replace(text));
    code
}

/// The error that the last failed call of this thread has met: what was expected, what there was, and
/// what to do. The text is good until the next call of this thread that fails; it is empty when none
/// has.
#[unsafe(no_mangle)]
pub extern "C" fn taffrail_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: the text is good until the next error of this thread.
        unsafe { CStr::from_ptr(taffrail_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_with_its_text() {
        let code = guarded(|| panic!("rank {} is not there", 3));
        assert_eq!(code, TAFFRAIL_ERROR_INTERNAL);
        assert!(last().contains("(rank 3 is not there); close the endpoint"), "{}", last());
        assert_eq!(guarded(|| panic!("plain")), TAFFRAIL_ERROR_INTERNAL);
        assert!(last().contains("(plain)"), "{}", last());
    }

    #[test]
    fn a_text_is_kept_until_the_next_error_of_the_thread() {
        let fail = |text: &str| guarded(|| Err(Failure::Argument(text.to_owned())));
        assert_eq!((fail("first\0second"), &*last()), (TAFFRAIL_ERROR_ARGUMENT, "first\\0second"));
        assert_eq!(guarded(|| Ok(TAFFRAIL_PENDING)), TAFFRAIL_PENDING);
        assert_eq!(last(), "first\\0second");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
    }
}
