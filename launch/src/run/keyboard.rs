//! Standard input for rank 0.
//!
//! Mostly it is simply inherited. The launcher reads it and passes it on
//! - from a terminal: ranks run in process groups of their own, and reading a terminal from the background
//!   stops the reader. The launcher reads it while it is in the foreground;
//! - from a pipe or socket, if rank 0 may be started again: what was read from there is gone;
//! - from a pipe or socket that whoever shares it has made not to block, which not every program can read.
//!
//! A rank 0 that is started again reads the same: a file from where it began, and else all that came so far.

use super::kept_input::KeptInput;
use super::outlets::does_not_block;
use super::rank_files::spill_folder;
use super::{Failure, family};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix::termios::{isatty, tcgetpgrp};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};

/// Bytes that are passed on before others have their turn.
const TURN: usize = 64 * 1024;

pub struct Keyboard {
    /// Rank 0's end; `None` when there is nothing to pass on (any more).
    to: Option<ChildStdin>,
    kept: KeptInput,
    ended: bool,
    /// Where a file began.
    began: Option<u64>,
    is_terminal: bool,
    /// Folder for input that has no room in memory.
    folder: PathBuf,
}

/// What a rank gets as standard input. Rank 0 is perhaps `restarted`.
pub fn stdin_of(rank: usize, restarted: bool) -> Stdio {
    let stdin = rustix::stdio::stdin();
    match rank {
        0 if isatty(stdin) => Stdio::piped(),
        0 if position().is_none() && (restarted || does_not_block(stdin)) => Stdio::piped(),
        0 => Stdio::inherit(),
        _ => Stdio::null(),
    }
}

/// Whether this process may read the terminal that is its standard input: in the background it would be stopped.
pub fn is_in_foreground() -> bool {
    let own = family::group(rustix::process::getpid());
    let stdin = rustix::stdio::stdin();
    tcgetpgrp(stdin).is_ok_and(|group| own == Some(group.as_raw_pid()))
}

/// Of a file: where it is read next.
fn position() -> Option<u64> {
    rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Current(0)).ok()
}

impl Keyboard {
    /// What comes is kept if rank 0 is perhaps `restarted`.
    pub fn new(args: &super::Args) -> Self {
        Keyboard {
            to: None,
            kept: KeptInput::new(args.failures.log()),
            ended: false,
            began: position(),
            is_terminal: isatty(rustix::stdio::stdin()),
            folder: spill_folder(args),
        }
    }

    /// Before rank 0 is started again.
    ///
    /// # Errors
    /// When it cannot have what the process before it has read.
    pub fn rewind(&mut self) -> Result<(), Failure> {
        let again = match self.began {
            Some(began) => rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Start(began))
                .map(drop)
                .map_err(|e| e.to_string()),
            None => self.kept.rewind(),
        };
        again.map_err(|why| {
            Failure::new(format!(
                "rank 0 is not restarted, since it cannot read its standard input again: {why}; give it a \
                 file (< FILE)"
            ))
        })
    }

    /// Rank 0 was started, with this end if something is passed on to it.
    pub fn connect(&mut self, to: Option<ChildStdin>) {
        // If it cannot be made non-blocking, a rank that does not read holds us up; no worse.
        let _ = to.as_ref().map(|to| rustix::io::ioctl_fionbio(to, true));
        self.to = to;
        self.write();
    }

    /// Standard input, when there is room for what it says; of a terminal, while we are in the foreground.
    pub fn source(&self) -> Option<BorrowedFd<'static>> {
        let wanted = self.to.is_some() && !self.ended && self.kept.is_passed();
        (wanted && (!self.is_terminal || is_in_foreground())).then_some(rustix::stdio::stdin())
    }

    /// Rank 0, when there is something for it.
    pub fn sink(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.kept.is_passed()).map(AsFd::as_fd)
    }

    pub fn read(&mut self) {
        let mut buffer = vec![0; TURN];
        // Not through std's buffer: what sat there would not show in a poll.
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.ended = true,
            Ok(len) => self.kept.push(&buffer[..len], &self.folder),
        }
        self.write();
    }

    /// Passes on what rank 0 takes now.
    pub fn write(&mut self) {
        let Some(to) = &mut self.to else { return };
        let mut buffer = vec![0; TURN];
        let written = self.kept.next(&mut buffer).and_then(|len| match len {
            0 => Ok(0),
            len => to.write(&buffer[..len]),
        });
        match written {
            Ok(len) => self.kept.passed(len),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.to = None,
        }
        if self.ended && self.kept.is_passed() {
            self.to = None;
        }
    }
}
