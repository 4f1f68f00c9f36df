//! What ranks leave behind when they have ended: it has become a child of the launcher. Most of it ends with
//! the job; a daemon goes on, and so do children that are not of the job (`docs/spec/rank-life.md`).

use super::{family, in_words, own_program, ranks, say};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, getsid};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{read, read_dir, read_link};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;
use taffrail::words::counted;

/// What is to be done about a child of the launcher.
#[derive(PartialEq, Eq)]
enum Kin {
    /// It is not of the job, or has ended.
    Foreign,
    /// A server of a rank, which is about to end.
    Server,
    /// It has left on purpose.
    Daemon,
    /// It is ended with the job.
    Orphan,
}

/// Ends what the ranks of a job have left behind, but for the processes of the launcher itself.
pub fn end(job: &str, ours: &[Pid]) {
    let mut spared: BTreeSet<i32> = ours.iter().map(|pid| pid.as_raw_pid()).collect();
    let outputs = outputs();
    let until = Instant::now() + family::PATIENCE;
    loop {
        let mut left = family::children(getpid());
        left.retain(|pid| !spared.contains(&pid.as_raw_pid()));
        if left.is_empty() {
            return;
        }
        if Instant::now() > until {
            return say(&format!(
                "ranks have left behind {} more, which start others faster than they are ended",
                counted(left.len(), "process")
            ));
        }
        for pid in left {
            let name = family::name(pid.as_raw_pid());
            match kin(pid, job, &outputs) {
                Kin::Foreign => drop(spared.insert(pid.as_raw_pid())),
                Kin::Daemon => {
                    spared.insert(pid.as_raw_pid());
                    say(&format!(
                        "process {pid} ({name}), which a rank has started, is a daemon and goes on"
                    ));
                }
                kin => {
                    // What it has started itself comes with the next turn.
                    let ended = kill(pid);
                    if let Err(why) = &ended {
                        spared.insert(pid.as_raw_pid());
                        say(&format!(
                            "process {pid} ({name}), which a rank has left behind, cannot be ended {why}"
                        ));
                    } else if kin == Kin::Orphan {
                        say(&format!(
                            "process {pid} ({name}), which a rank has left behind, was ended"
                        ));
                    }
                }
            }
        }
    }
}

/// Ends a child. Why that is not possible: the call, and what it says.
fn kill(pid: Pid) -> Result<(), String> {
    let why = |call: &str, e: std::io::Error| format!("({call}): {}", in_words(&e));
    match rustix::process::kill_process(pid, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(e) => return Err(why("kill", e.into())),
    }
    let wait = || Ok(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)?.map(drop));
    match family::wait_for(family::PATIENCE, wait) {
        Err(e) if e.raw_os_error() != Some(Errno::CHILD.raw_os_error()) => Err(why("wait4", e)),
        _ => Ok(()),
    }
}

fn kin(pid: Pid, job: &str, outputs: &BTreeSet<OsString>) -> Kin {
    let mark = format!("TAFFRAIL_JOB={job}");
    let environment = read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if !environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
        return Kin::Foreign;
    }
    if own_program::is_of(pid) {
        return Kin::Server;
    }
    let has_left = getsid(Some(pid)).is_ok_and(|session| Ok(session) != getsid(None));
    match has_left && ![1, 2].into_iter().any(|fd| holds_output(pid, fd, outputs)) {
        true => Kin::Daemon,
        false => Kin::Orphan,
    }
}

/// Whether a descriptor of a process is an output of the job: of the launcher, or a pipe that it reads.
fn holds_output(pid: Pid, fd: i32, outputs: &BTreeSet<OsString>) -> bool {
    let Ok(link) = read_link(format!("/proc/{pid}/fd/{fd}")) else { return false };
    let is_pipe = link.as_os_str().as_bytes().starts_with(b"pipe:");
    let own = |own: i32| read_link(format!("/proc/self/fd/{own}")).is_ok_and(|own| own == link);
    // Two that have opened /dev/null have nothing in common.
    let is_same = |number| own(number) && ranks::is_same_file(pid, fd, number).unwrap_or(true);
    is_same(1) || is_same(2) || is_pipe && outputs.contains(link.as_os_str())
}

/// The pipes that this process has open.
fn outputs() -> BTreeSet<OsString> {
    let open = read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = open.filter_map(|entry| read_link(entry.path()).ok()).map(OsString::from);
    links.filter(|link| link.as_bytes().starts_with(b"pipe:")).collect()
}
