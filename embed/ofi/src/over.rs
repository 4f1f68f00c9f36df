//! What a process says of itself to `taffrail run`: that it has opened an endpoint, that it has closed the
//! last one, and that it exits (`docs/spec/rank-life.md`). Without that a process that goes away below a
//! script cannot be distinguished from one that never took part.
//!
//! A program whose messages are logged waits until those of all ranks are over: what a process has logged
//! ends with it, and a rank that is killed later, in MPI_Finalize or when it writes its results, needs it.
//! So when the program ends, its process writes its buffers, tells the launcher, and ends when the launcher
//! says that all are over; until then the standby goes on (`docs/logging.md`, section 12).

use crate::settings;
use crate::standby;
use crate::thread;
use std::ffi::{c_int, c_void};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The variable with the descriptor of a connection with the launcher.
const NAME: &str = "TAFFRAIL_OVER";

/// The connection, which keeps messages apart, and the process that it is of.
static LAUNCHER: OnceLock<(UnixStream, u32)> = OnceLock::new();

/// Endpoints that are open.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// The program exits with success.
static SUCCEEDS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// Of the C library: `call` is called with the status that the process exits with.
    fn on_exit(call: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// An endpoint was opened. Takes the connection over with the first one; without a connection nothing is
/// said and nothing is waited for.
///
/// # Errors
/// When the variable names no descriptor that is open.
pub fn opened() -> io::Result<()> {
    if LAUNCHER.get().is_none() {
        connect()?;
    }
    if OPEN.fetch_add(1, Relaxed) == 0 {
        say("o");
    }
    Ok(())
}

/// Ends the program with an error, without a word of its MPI: that may hang.
pub fn end_program(why: &str) -> ! {
    crate::say::say(why);
    // SAFETY: it does not return, and nothing of the program's own is called.
    unsafe { libc::_exit(1) }
}

/// An endpoint was closed.
pub fn closed() {
    if OPEN.fetch_sub(1, Relaxed) == 1 {
        say("c");
    }
}

fn connect() -> io::Result<()> {
    let Some(text) = taffrail::environment::value(NAME) else { return Ok(()) };
    if settings::is_of_other_job() {
        note_other_launcher();
        return Ok(());
    }
    let wrong = || {
        let why =
            format!("{NAME} should be an open descriptor above 2, from `taffrail run`: {text}");
        io::Error::new(ErrorKind::InvalidInput, why)
    };
    let number = text.parse().ok().filter(|&fd: &RawFd| fd > 2).ok_or_else(wrong)?;
    // SAFETY: a call with a number.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        // A program that a rank has started, perhaps. What is not logged can do without.
        return if settings::is_logged() { Err(wrong()) } else { Ok(()) };
    }
    LAUNCHER.get_or_init(|| {
        // SAFETY: it is open, the launcher has opened it for this library, and it is taken once.
        let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) });
        thread::stay_loaded();
        // SAFETY: a function that stays where it is.
        unsafe { on_exit(exits, null_mut()) };
        (stream, std::process::id())
    });
    Ok(())
}

/// A rank has started another launcher, and that has started this process.
fn note_other_launcher() {
    let is_first =
        ["PMIX_RANK", "PMI_RANK"].iter().find_map(|name| taffrail::environment::value(name));
    if std::env::var_os("TAFFRAIL_LOGGING").is_some() && is_first.as_deref() == Some("0") {
        crate::say::say(
            "a rank of taffrail run has started these processes by another launcher: their messages are not \
             logged, and they are not started again",
        );
    }
}

/// The connection, in the process that has opened the endpoint: a forked child says nothing.
fn launcher() -> Option<&'static UnixStream> {
    let (launcher, process) = LAUNCHER.get()?;
    (*process == std::process::id()).then_some(launcher)
}

/// A launcher that is gone hears nothing.
fn say(what: &str) -> bool {
    launcher().is_some_and(|mut launcher| launcher.write_all(what.as_bytes()).is_ok())
}

extern "C" fn exits(status: c_int, _: *mut c_void) {
    SUCCEEDS.store(status == 0, Relaxed);
    if OPEN.load(Relaxed) > 0 {
        say(&format!("x{status}"));
    }
}

/// Called by the C library when all functions were that the program and its libraries have registered for
/// its exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = wait_for_all;

/// A program that fails, that has not closed its endpoint, or whose messages are not logged, ends at once.
extern "C" fn wait_for_all() {
    let Some(mut launcher) = launcher() else { return };
    if !SUCCEEDS.load(Relaxed) || !standby::is_closed() {
        return;
    }
    // What is killed from now on has nothing left to do.
    write_buffers();
    if say(".") {
        let _ = launcher.read_exact(&mut [0]);
    }
    standby::keep_away().for_ever();
}

/// Writes what the C library and that of Fortran have in buffers.
fn write_buffers() {
    // SAFETY: of all streams.
    unsafe { libc::fflush(null_mut()) };
    // SAFETY: a name; what is found is a function of the Fortran library that takes a pointer to the number
    // of a unit, or null for all units.
    unsafe {
        let flush = libc::dlsym(libc::RTLD_DEFAULT, c"_gfortran_flush_i4".as_ptr());
        if !flush.is_null() {
            let flush: unsafe extern "C" fn(*const i32) = std::mem::transmute(flush);
            flush(null());
        }
    }
}
