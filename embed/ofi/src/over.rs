//! The end of a program whose messages are logged: it waits until those of all ranks are over.
//!
//! What a process has logged ends with it, and a rank that is killed later, in MPI_Finalize or when it
//! writes its results, needs it. So when the program ends, its process tells the launcher, and ends when
//! the launcher says that all are over; until then the standby goes on (`docs/logging.md`, section 12).
//!
//! That is the last that the process does but for writing what it has in buffers: an MPI says its farewell
//! to the launcher when the program exits, and not before.

use crate::standby;
use std::ffi::{c_int, c_void};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The variable with the descriptor of a connection with the launcher.
const NAME: &str = "TAFFRAIL_OVER";

/// The connection, and the process that it is of.
static LAUNCHER: OnceLock<(UnixStream, u32)> = OnceLock::new();

/// The program exits with success.
static SUCCEEDS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// Of the C library: `call` is called with the status that the process exits with.
    fn on_exit(call: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Takes the connection over, and waits when the process ends. Without a connection nothing is waited
/// for.
///
/// # Errors
/// When the variable names no descriptor that is open.
pub fn begin() -> io::Result<()> {
    let Ok(text) = std::env::var(NAME) else { return Ok(()) };
    let wrong = || {
        let why =
            format!("{NAME} should be an open descriptor above 2, from `taffrail run`: {text}");
        io::Error::new(ErrorKind::InvalidInput, why)
    };
    let number = text.parse().ok().filter(|&fd: &RawFd| fd > 2).ok_or_else(wrong)?;
    // SAFETY: a call with a number.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(wrong());
    }
    LAUNCHER.get_or_init(|| {
        // SAFETY: it is open, the launcher has opened it for this library, and it is taken once.
        let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) });
        // SAFETY: a function that stays where it is, since the standby has the library stay.
        unsafe { on_exit(exits, null_mut()) };
        (stream, std::process::id())
    });
    Ok(())
}

extern "C" fn exits(status: c_int, _: *mut c_void) {
    SUCCEEDS.store(status == 0, Relaxed);
}

/// Called by the C library when all functions were that the program and its libraries have registered for
/// its exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = wait_for_all;

/// A program that fails, or that has not closed its endpoint, ends at once.
extern "C" fn wait_for_all() {
    let Some((launcher, process)) = LAUNCHER.get() else { return };
    if !SUCCEEDS.load(Relaxed) || !standby::is_closed() || *process != std::process::id() {
        return;
    }
    let mut launcher = launcher;
    // A launcher that is gone has nobody wait.
    if launcher.write_all(b".").is_ok() {
        let _ = launcher.read_exact(&mut [0]);
    }
    standby::keep_away().for_ever();
}
