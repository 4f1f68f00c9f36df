//! Threads of this library.

use std::ffi::{c_int, c_void};
use std::hint;
use std::io;
use std::mem::MaybeUninit;
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle};

/// Starts one, which may go on when the program ends.
///
/// # Errors
/// What the system says to a new thread.
pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    stay_loaded();
    let begun = Arc::new(Barrier::new(2));
    let ours = begun.clone();
    let body = move || {
        have_an_arena();
        ours.wait();
        body();
    };
    let thread = without_signals(|| Builder::new().name(name.into()).spawn(body))?;
    begun.wait();
    Ok(thread)
}

/// The C library maps memory for each thread that allocates: now, and not beside what the program maps then
/// (`heap.rs` says why that matters).
fn have_an_arena() {
    // SAFETY: a block that is given back at once, or null, which may be given back.
    unsafe { libc::free(hint::black_box(libc::malloc(1))) };
}

/// Keeps this library in memory when it is unloaded, as libfabric does at the end of a program: the
/// thread runs in it.
pub fn stay_loaded() {
    // SAFETY: the address is one of this library, `dladdr` fills the structure in before it is read,
    // and the name that it finds stays as long as the library does.
    unsafe {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        let own = stay_loaded as fn() as *const c_void;
        if libc::dladdr(own, found.as_mut_ptr()) != 0 {
            let name = found.assume_init().dli_fname;
            libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// Signals of the process are for the threads of the program: what is started here gets none.
fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    let mask = |how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t| {
        // SAFETY: sets that are there, or null for one that is not wanted.
        unsafe { libc::pthread_sigmask(how, set, old) };
    };
    let (mut all, mut old) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: fills the set in.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    mask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
    let result = act();
    mask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut());
    result
}
