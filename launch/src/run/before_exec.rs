//! What the process of a rank does between fork and exec.

use super::files;
use super::guard::{self, Guard};
use rustix::process::{Resource, Signal, setrlimit};
use rustix::thread::CpuSet;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// System calls without which a rank is not started. A sandbox may refuse them.
const CALLS: [&str; 4] = ["setpgid", "sched_setaffinity", "setrlimit", "fcntl"];
const SETPGID: i32 = 0;
const SCHED_SETAFFINITY: i32 = 1;
const SETRLIMIT: i32 = 2;
const FCNTL: i32 = 3;

/// The child has only a number to say why it failed: this and what is above it is the place of the call in [`CALLS`],
/// and one.
const PLACE: i32 = 1 << 16;

fn named<T>(call: i32, result: rustix::io::Result<T>) -> Result<T> {
    result.map_err(|errno| Error::from_raw_os_error((call + 1) * PLACE + errno.raw_os_error()))
}

/// Has the process of `command` do what a rank needs: it gets a process group of its own, that the guard knows, and
/// keeps what is to be `inherited`.
pub fn prepare(
    command: &mut Command,
    inherited: Vec<OwnedFd>,
    cpu: Option<usize>,
    guard: &Guard,
) -> Result<()> {
    let launcher = rustix::process::getpid();
    let guard = guard.connection().try_clone_to_owned()?;
    let place = cpu.map(|cpu| {
        let mut set = CpuSet::new();
        set.set(cpu);
        set
    });
    let files = files::limit_to_restore();
    let prepare = move || {
        named(SETPGID, rustix::process::setpgid(None, None))?;
        // Where that is refused there is still the guard.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        // The launcher may have died before that call; then the signal never comes.
        if rustix::process::getppid() != Some(launcher) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        guard::announce(guard.as_fd());
        if let Some(place) = &place {
            named(SCHED_SETAFFINITY, rustix::thread::sched_setaffinity(None, place))?;
        }
        if let Some(files) = files {
            named(SETRLIMIT, setrlimit(Resource::Nofile, files))?;
        }
        for file in &inherited {
            named(FCNTL, rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()))?;
        }
        Ok(())
    };
    // SAFETY: the closure runs in the forked child. It only makes system calls on values that are
    // there already: no allocation, no lock, nothing that another thread could hold.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

/// Why a process was not started: the status to end with, and words.
pub fn why(error: &Error) -> (u8, String) {
    let raw = error.raw_os_error().unwrap_or(0);
    let call = usize::try_from(raw / PLACE - 1).ok().and_then(|place| CALLS.get(place));
    if let Some(call) = call {
        return (1, format!("{call}: {}", super::in_words(&Error::from_raw_os_error(raw % PLACE))));
    }
    let words = super::in_words(error);
    match (error.kind(), raw) {
        // Of a file, these are not said.
        (_, libc::EPERM | libc::ENOSYS) => (1, format!("pipe2, fork or execve: {words}")),
        (ErrorKind::NotFound, _) => (127, words),
        (ErrorKind::PermissionDenied, _) => (126, words),
        _ => (1, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_call_that_is_refused_is_named() {
        for (call, name) in [(SETPGID, "setpgid"), (SETRLIMIT, "setrlimit"), (FCNTL, "fcntl")] {
            let error = named::<()>(call, Err(Errno::PERM)).unwrap_err();
            let expected = format!("{name}: Operation not permitted (os error 1)");
            assert_eq!(why(&error), (1, expected));
        }
        assert_eq!(why(&Errno::NOENT.into()).0, 127);
        assert_eq!(why(&Errno::ACCESS.into()).0, 126);
        assert_eq!(
            why(&Errno::PERM.into()).1,
            "pipe2, fork or execve: Operation not permitted (os error 1)"
        );
    }
}
