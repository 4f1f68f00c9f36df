//! What logging does not cover of a program that calls its MPI from several threads.
//!
//! The order in which threads get to call is not logged (`docs/mpi.md`, "What a program must not do"). MPIs serialise
//! calls before they call libfabric, so the MPI is asked: by its public functions, which any thread may call
//! at any time, if this process has them.

use crate::say::say;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;

/// Of MPICH and Open MPI.
const MPI_THREAD_MULTIPLE: c_int = 3;

/// `MPI_Initialized`, `MPI_Query_thread`.
type Query = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Looks once whether the program may call from several threads.
#[derive(Default)]
pub struct ThreadLevel {
    is_known: bool,
}

impl ThreadLevel {
    /// Looks, if the MPI is initialised by now, and says so in the first process of rank 0.
    pub fn look(&mut self) {
        if self.is_known || ask(c"MPI_Initialized") == Some(0) {
            return;
        }
        self.is_known = true;
        let is = |name: &str| {
            taffrail::environment::value(name)
                .is_some_and(|value| value.trim_matches('0').is_empty())
        };
        let is_multiple = || ask(c"MPI_Query_thread") == Some(MPI_THREAD_MULTIPLE);
        if is("PMI_RANK") && is("TAFFRAIL_INCARNATION") && is_multiple() {
            say(
                "the program asks for MPI_THREAD_MULTIPLE: the order in which its threads call MPI is not \
                 logged; if it decides what is sent or who receives what, a killed rank is not repeated as it was",
            );
        }
    }
}

/// What a function of the MPI says, if there is one.
fn ask(name: &CStr) -> Option<c_int> {
    // SAFETY: a look-up by name has no preconditions.
    let found: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    let mut value = 0;
    // SAFETY: both functions have this signature in every MPI, and may be called at any time by any thread.
    unsafe { transmute::<*mut c_void, Query>(found)(&mut value) };
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_mpi_is_looked_at_once() {
        assert_eq!(ask(c"MPI_Initialized"), None);
        let mut level = ThreadLevel::default();
        level.look();
        assert!(level.is_known);
    }
}
