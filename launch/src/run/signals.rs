//! Signals to the launcher, as readable descriptors.

use super::Failure;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

pub struct Signals {
    pipes: Vec<(i32, UnixStream)>,
}

impl Signals {
    pub fn catch() -> Result<Signals, Failure> {
        let pipe = |signal| -> std::io::Result<(i32, UnixStream)> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, write)?;
            Ok((signal, read))
        };
        let caught = [SIGINT, SIGTERM, SIGHUP, SIGCONT].into_iter().filter(|s| !ignored(*s));
        let pipes = caught.map(pipe);
        let pipes = pipes.collect::<Result<_, _>>();
        Ok(Signals {
            pipes: pipes.map_err(|e| Failure::new(format!("cannot catch signals: {e}")))?,
        })
    }

    /// A descriptor for each signal, readable when it came.
    pub fn watched(&self) -> impl Iterator<Item = (i32, BorrowedFd<'_>)> {
        self.pipes.iter().map(|(signal, pipe)| (*signal, pipe.as_fd()))
    }

    /// Forgets that the signal came.
    pub fn clear(&mut self, signal: i32) {
        for (_, pipe) in self.pipes.iter_mut().filter(|(s, _)| *s == signal) {
            while matches!(pipe.read(&mut [0; 64]), Ok(1..)) {}
        }
    }
}

/// Whether whoever started us (nohup, a shell for its background jobs) wants the signal ignored.
fn ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action changes nothing; the old one is written to `now`, whose zeroes are a
    // valid value should the call fail.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// `9 (SIGKILL)`.
pub fn name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => format!("{signal} ({name})"),
        None => signal.to_string(),
    }
}
