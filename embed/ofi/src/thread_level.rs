//! What logging does not cover of a program that calls its MPI from several threads.
//!
//! The order in which threads get to call is not logged (`docs/mpi.md`, "What a program must not do"). MPIs serialise
//! calls before they call libfabric, so the MPI is asked, by its public functions. `MPI_Initialized` may be called
//! by any thread at any time. `MPI_Query_thread` may not be called within `MPI_Finalize`: Open MPI ends the job then,
//! so of Open MPI its variable is read. MPICH calls it finalised only when its endpoints are closed.

use crate::say::say;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::transmute;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

/// Of MPICH and Open MPI, and of the common ABI of MPI 5.
const MPI_THREAD_MULTIPLE: [c_int; 2] = [3, 4096];

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
        let is_multiple = || level().is_some_and(|level| MPI_THREAD_MULTIPLE.contains(&level));
        if is("PMI_RANK") && is("TAFFRAIL_INCARNATION") && is_multiple() {
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

/// A function or variable of the MPI. Python and others load it so that only they see its names.
fn find(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a look-up by name has no preconditions.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
        .or_else(|| libraries().iter().find_map(|library| find_in(library, name)))
}

/// The same in a library that is loaded, and stays so from now on.
fn find_in(library: &CStr, name: &CStr) -> Option<NonNull<c_void>> {
    let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: nothing is loaded, so no code runs; the handle is closed once and not used after that.
    unsafe {
        let handle = NonNull::new(libc::dlopen(library.as_ptr(), how))?;
        let found = libc::dlsym(handle.as_ptr(), name.as_ptr());
        libc::dlclose(handle.as_ptr());
        NonNull::new(found)
    }
}

/// The loaded libraries that have the name of an MPI: `libmpi.so.12`, `libmpich.so.12`, `libmpi_abi.so.0` and the like.
/// They are opened later: the system holds a lock while it lists them.
fn libraries() -> Vec<CString> {
    let mut all: Vec<CString> = Vec::new();
    // SAFETY: `keep_mpi` takes what it is given here, the list, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(keep_mpi), (&raw mut all).cast()) };
    all
}

/// # Safety
/// As `dl_iterate_phdr` calls it; `all` is a `Vec<CString>`.
unsafe extern "C" fn keep_mpi(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    all: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let (object, all) = unsafe { (&*object, &mut *all.cast::<Vec<CString>>()) };
    if let Some(name) = NonNull::new(object.dlpi_name.cast_mut()) {
        // SAFETY: a string of the loader's, which keeps it during the call.
        let path = unsafe { CStr::from_ptr(name.as_ptr()) };
        let file = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if file.starts_with(b"libmpi") {
            all.push(path.to_owned());
        }
    }
    0
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
