//! Standard input for rank 0.
//!
//! A file or pipe is simply inherited. A terminal is not: ranks run in process groups of their
//! own, and reading a terminal from the background stops the reader. So the launcher reads it,
//! while it is in the foreground, and passes it on.
//!
//! A rank 0 that is started again reads the same: a file from where it began, and all that the terminal
//! has said. What was read from a pipe is gone.

use rustix::fs::SeekFrom;
use rustix::termios::{isatty, tcgetpgrp};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStdin, Stdio};

pub struct Keyboard {
    /// Rank 0's end; `None` when there is nothing to pass on (any more).
    to: Option<ChildStdin>,
    /// All that the terminal has said, and how much of it was passed on.
    said: Vec<u8>,
    passed: usize,
    ended: bool,
    /// Where a file began.
    began: Option<u64>,
}

/// Whether standard input is to be passed on by [`Keyboard`].
pub fn is_terminal() -> bool {
    isatty(rustix::stdio::stdin())
}

/// What a rank gets as standard input.
pub fn stdin_of(rank: usize) -> Stdio {
    match rank {
        0 if is_terminal() => Stdio::piped(),
        0 => Stdio::inherit(),
        _ => Stdio::null(),
    }
}

impl Keyboard {
    pub fn new() -> Self {
        let began = rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Current(0)).ok();
        Keyboard { to: None, said: Vec::new(), passed: 0, ended: false, began }
    }

    /// Before rank 0 is started again.
    pub fn rewind(&self) {
        if let Some(began) = self.began {
            let _ = rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Start(began));
        }
    }

    /// Rank 0 was started, with this end if what the terminal says is passed on.
    pub fn connect(&mut self, to: Option<ChildStdin>) {
        // If it cannot be made non-blocking, a rank that does not read holds us up; no worse.
        let _ = to.as_ref().map(|to| rustix::io::ioctl_fionbio(to, true));
        self.to = to;
        self.passed = 0;
        self.write();
    }

    /// The terminal, when there is room for what it says and we are in the foreground.
    pub fn source(&self) -> Option<BorrowedFd<'static>> {
        let wanted = self.to.is_some() && !self.ended && self.passed == self.said.len();
        let terminal = rustix::stdio::stdin();
        let foreground = || tcgetpgrp(terminal).is_ok_and(|g| g == rustix::process::getpgrp());
        (wanted && foreground()).then_some(terminal)
    }

    /// Rank 0, when there is something for it.
    pub fn sink(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| self.passed < self.said.len()).map(AsFd::as_fd)
    }

    pub fn read(&mut self) {
        let mut buffer = [0; 4096];
        // Not through std's buffer: what sat there would not show in a poll.
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => self.ended = true,
            Ok(len) => self.said.extend(&buffer[..len]),
        }
        self.write();
    }

    pub fn write(&mut self) {
        let Some(to) = &mut self.to else { return };
        while self.passed < self.said.len() {
            match to.write(&self.said[self.passed..]) {
                Ok(len) => self.passed += len,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => return self.to = None,
            }
        }
        if self.ended {
            self.to = None;
        }
    }
}
