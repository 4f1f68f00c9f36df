//! What logging does not cover of a program that calls its MPI from several threads.
//!
//! The order in which threads get to call is not logged (`docs/mpi.md`, "What a program must not do"). MPIs serialise
//! calls before they call libfabric, so the MPI is asked, by its public functions. `MPI_Initialized` may be called
//! by any thread at any time. `MPI_Query_thread` may not be called within `MPI_Finalize`: Open MPI ends the job then,
//! so of Open MPI its variable is read. MPICH calls it finalised only when its endpoints are closed.

use crate::say::say;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

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
        if is("PMI_RANK") && is("TAFFRAIL_INCARNATION") && level() == Some(MPI_THREAD_MULTIPLE) {
            say(
                "the program asks for MPI_THREAD_MULTIPLE: the order in which its threads call MPI is not \
                 logged; if it decides what is sent or who receives what, a killed rank is not repeated as it was",
            );
        }
    }
}

/// The level of threads of the MPI, which is initialised.
fn level() -> Option<c_int> {
    if let Some(variable) = find(c"ompi_mpi_thread_provided") {
        // SAFETY: an int of Open MPI's, at home in a library that is not unloaded. It is written in `MPI_Init`.
        return Some(unsafe { variable.cast::<AtomicI32>().as_ref() }.load(Ordering::Relaxed));
    }
    ask(c"MPI_Query_thread")
}

/// What a function of the MPI says, if there is one.
fn ask(name: &CStr) -> Option<c_int> {
    let found = find(name)?;
    let mut value = 0;
    // SAFETY: both functions have this signature in every MPI, and any thread may call them now.
    unsafe { transmute::<*mut c_void, Query>(found.as_ptr())(&mut value) };
    Some(value)
}

/// A function or variable of this process.
fn find(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a look-up by name has no preconditions.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
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
