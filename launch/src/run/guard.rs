//! The guard: a small process that ends the job when the launcher is killed outright.
//!
//! A rank itself dies with its launcher (the kernel sees to that), but what the rank has started
//! would not. The guard holds one end of a connection on which every rank announces its process
//! group before it runs any program; when the launcher is gone the connection ends, and the guard
//! kills the groups that are left.

use super::{Failure, own_program};
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};

/// The launcher's handle on its guard.
pub struct Guard {
    process: Child,
    connection: Option<UnixStream>,
}

impl Guard {
    pub fn start() -> Result<Guard, Failure> {
        let failed = |e| Failure::new(format!("cannot start the guard of the job: {e}"));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let process = own_program::command()
            .arg("guard")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Guard { process, connection: Some(ours) })
    }

    /// Starts another one for these groups, if this one was killed.
    pub fn replace_if_dead(&mut self, groups: impl Iterator<Item = Pid>) -> Result<(), Failure> {
        if let Ok(Some(_)) = self.process.try_wait() {
            *self = Guard::start()?;
            groups.for_each(|group| self.watch(group));
        }
        Ok(())
    }

    /// Where ranks announce themselves with [`announce`].
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_ref().expect("open until dropped").as_fd()
    }

    /// A group that is to end with the job, whose leader has not announced itself.
    pub fn watch(&self, group: Pid) {
        say(self.connection(), group.as_raw_pid());
    }

    /// The group has nobody in it any more. To be said while its number cannot be used again.
    pub fn forget(&self, group: Pid) {
        say(self.connection(), -group.as_raw_pid());
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.connection = None;
        let _ = self.process.wait();
    }
}

/// Tells the guard of the process group of this process, its leader. Async-signal-safe.
pub fn announce(connection: BorrowedFd<'_>) {
    say(connection, rustix::process::getpid().as_raw_pid());
}

/// A guard that someone killed guards no more; the job itself is not in danger.
fn say(connection: BorrowedFd<'_>, number: i32) {
    let _ = rustix::net::send(connection, &number.to_ne_bytes(), SendFlags::NOSIGNAL);
}

/// What the guard process does.
pub fn guard() -> ExitCode {
    own_program::name_process(c"taffrail-guard");
    let mut groups = BTreeSet::new();
    let mut record = [0; 4];
    let mut connection = std::io::stdin().lock();
    while connection.read_exact(&mut record).is_ok() {
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
