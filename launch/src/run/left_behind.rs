//! What ranks leave behind when they have ended: it has become a child of the launcher. Most of it ends with
//! the job; a daemon goes on, and so do children that are not of the job (`docs/spec/rank-life.md`). Where the launcher
//! was killed the guard looks by the same rule, among all processes.

use super::{family, in_words, own_program, ranks, say};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{read, read_dir, read_link};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};
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

/// What the processes that were started for ranks of a job have in their environment, as `NAME=VALUE`. Those of an agent
/// have its node, too: several nodes may be one machine.
pub fn mark(job: &str, node: Option<u16>) -> String {
    match node {
        None => format!("TAFFRAIL_JOB={job}"),
        Some(node) => format!("{NODE}={}", node_value(job, node)),
    }
}

/// The variable of an agent's ranks.
pub const NODE: &str = "TAFFRAIL_NODE";

/// The value of that.
pub fn node_value(job: &str, node: u16) -> String {
    format!("{job}:{node}")
}

/// Ends what ranks that have this [`mark`] have left behind, but for the processes of the launcher itself.
pub fn end(mark: &str, ours: &[Pid]) {
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
            match kin(pid, mark, &outputs) {
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

/// Ends what ranks that have this [`mark`] have left behind whose launcher is gone, wherever it is by now. `outputs` are the pipes
/// that the launcher read; of its own outputs this process has copies.
pub fn end_everywhere(mark: &str, outputs: &BTreeSet<OsString>, until: Instant) {
    let is_left = |pid: &Pid| match kin(*pid, mark, outputs) {
        Kin::Orphan => true,
        // The guard of a job in this job has to do the same.
        Kin::Server => family::name(pid.as_raw_pid()).as_bytes() != own_program::GUARD.to_bytes(),
        Kin::Foreign | Kin::Daemon => false,
    };
    loop {
        let others = processes().filter(|pid| *pid != getpid());
        // Each is held while it is looked at: its number may be another's by the time of the signal.
        let held = others.map(|pid| (pid, pidfd_open(pid, PidfdFlags::empty())));
        let mut is_any_left = false;
        for (pid, held) in held.filter(|(pid, _)| is_left(pid)) {
            is_any_left = true;
            let _ = match held {
                Ok(held) => pidfd_send_signal(held, Signal::KILL),
                Err(_) => rustix::process::kill_process(pid, Signal::KILL),
            };
        }
        // What they have started meanwhile comes with the next turn.
        if !is_any_left || Instant::now() > until {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All that the system shows.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
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

fn kin(pid: Pid, mark: &str, outputs: &BTreeSet<OsString>) -> Kin {
    let environment = read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if !environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
        return Kin::Foreign;
    }
    if own_program::is_of(pid) {
        return Kin::Server;
    }
    let has_left =
        family::session(pid).is_some_and(|session| Some(session) != family::session(getpid()));
    match has_left && ![1, 2].into_iter().any(|fd| holds_output(pid, fd, outputs)) {
        true => Kin::Daemon,
        false => Kin::Orphan,
    }
}

/// Whether a descriptor of a process is an output of the job: of the launcher, or a pipe that it reads.
fn holds_output(pid: Pid, fd: i32, outputs: &BTreeSet<OsString>) -> bool {
    let Ok(link) = read_link(format!("/proc/{pid}/fd/{fd}")) else { return false };
    let link = OsString::from(link);
    let own = |own: i32| read_link(format!("/proc/self/fd/{own}")).is_ok_and(|own| own == *link);
    // Two that have opened /dev/null have nothing in common.
    let is_same = |number| own(number) && ranks::is_same_file(pid, fd, number).unwrap_or(true);
    is_same(1) || is_same(2) || outputs.contains(&link)
}

/// The outputs of a process that are pipes.
pub fn pipes_of(pid: Pid) -> impl Iterator<Item = OsString> {
    let links =
        [1, 2].into_iter().filter_map(move |fd| read_link(format!("/proc/{pid}/fd/{fd}")).ok());
    links.map(OsString::from).filter(is_pipe)
}

fn is_pipe(link: &OsString) -> bool {
    link.as_bytes().starts_with(b"pipe:")
}

/// The pipes that this process has open.
fn outputs() -> BTreeSet<OsString> {
    let open = read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = open.filter_map(|entry| read_link(entry.path()).ok()).map(OsString::from);
    links.filter(is_pipe).collect()
}
