//! Processes of the job, as `/proc` shows them: for reports about ranks that do not answer.

use crate::Rank;
use std::path::PathBuf;

/// Variables in which launchers tell a process its rank.
const RANK_NAMES: [&[u8]; 3] = [b"PMI_RANK=", b"PMIX_RANK=", b"OMPI_COMM_WORLD_RANK="];

/// The rank in the environment of a process, which its launcher has set.
pub(super) fn rank_of(pid: i32) -> Option<Rank> {
    rank_in(&environment(pid)?)
}

/// The rank that the launcher of this process has told it.
pub(crate) fn own_rank() -> Option<Rank> {
    rank_of(std::process::id() as i32)
}

/// The processes of a rank of the job that `taffrail run` has given this name.
pub(super) fn of_rank(job: &str, rank: Rank) -> Vec<i32> {
    let job = format!("TAFFRAIL_JOB={job}").into_bytes();
    let is_of_rank = |environment: &[u8]| {
        let mut all = environment.split(|&byte| byte == 0);
        all.any(|variable| variable == job) && rank_in(environment) == Some(rank)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| environment(pid).is_some_and(|text| is_of_rank(&text))).collect()
}

/// Whether a process is stopped.
pub(super) fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // Behind the name, which may have anything in it.
    let state = stat.ok().and_then(|stat| stat.rsplit(") ").next()?.chars().next());
    matches!(state, Some('T' | 't'))
}

/// The network namespace of a process.
pub(super) fn network_of(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

fn environment(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

fn rank_in(environment: &[u8]) -> Option<Rank> {
    let of = |name: &[u8]| {
        let mut all = environment.split(|&byte| byte == 0);
        let value = all.find_map(|variable| variable.strip_prefix(name))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    RANK_NAMES.into_iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn child(job: &str, rank: &str) -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").env("TAFFRAIL_JOB", job).env("PMI_RANK", rank).spawn().unwrap()
    }

    #[test]
    fn a_stopped_process_is_seen() {
        let mut child = child("a", "0");
        let pid = rustix::process::Pid::from_child(&child);
        assert!(!is_stopped(child.id() as i32));
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        while !is_stopped(child.id() as i32) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn processes_of_a_rank_are_found_by_their_environment() {
        let job = format!("test-{}", std::process::id());
        let mut all = [child(&job, "3"), child(&job, "4"), child("another", "3")];
        let pid = all[0].id() as i32;
        assert_eq!(of_rank(&job, 3), [pid]);
        assert_eq!(rank_of(pid), Some(3));
        assert_eq!(network_of(pid), network_of(std::process::id() as i32));
        assert!(network_of(pid).is_some() && of_rank(&job, 5).is_empty());
        for child in &mut all {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
