//! The guard: a small process that ends the job when the launcher is killed outright.
//!
//! A rank itself dies with its launcher (the kernel sees to that), but what the rank has started
//! would not. The guard holds the reading end of a pipe on which every rank announces its process
//! group before it runs any program; when the launcher is gone the pipe ends, and the guard kills
//! the groups that are left.

use super::Failure;
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

/// The launcher's handle on its guard.
pub struct Guard {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub fn start() -> Result<Guard, Failure> {
        let failed = |e| Failure::new(format!("cannot start the guard of the job: {e}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut process = Command::new(program)
            .arg("guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let pipe = process.stdin.take();
        Ok(Guard { process, pipe })
    }

    /// Where ranks announce themselves with [`announce`].
    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_ref().expect("open until dropped").as_fd()
    }

    /// The group has nobody in it any more. To be said while its number cannot be used again.
    pub fn forget(&self, group: Pid) {
        // A guard that someone killed guards no more; the job itself is not in danger.
        let _ = rustix::io::write(self.pipe(), &(-group.as_raw_pid()).to_ne_bytes());
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.process.wait();
    }
}

/// Tells the guard of the process group of this process, its leader. Async-signal-safe.
pub fn announce(pipe: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::io::write(pipe, &rustix::process::getpid().as_raw_pid().to_ne_bytes()).map(drop)
}

/// What the guard process does.
pub fn guard() -> ExitCode {
    let mut groups = BTreeSet::new();
    let mut record = [0; 4];
    let mut pipe = std::io::stdin().lock();
    while pipe.read_exact(&mut record).is_ok() {
        let number = i32::from_ne_bytes(record);
        match number {
            1.. => groups.insert(number),
            _ => groups.remove(&number.saturating_neg()),
        };
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}
