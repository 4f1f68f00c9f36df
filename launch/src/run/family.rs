//! The processes below a rank, wherever they have put themselves.

use rustix::process::{Pid, Signal};

/// Sends a signal to the group that a rank leads, and to all that it has started and that is in other groups.
/// A process is signalled before its children are looked up, so that one that stops starts none meanwhile.
pub fn signal_all(leader: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(leader, signal);
    let mut unseen = children(leader);
    while let Some(pid) = unseen.pop() {
        if rustix::process::getpgid(Some(pid)) != Ok(leader) {
            let _ = rustix::process::kill_process(pid, signal);
        }
        unseen.extend(children(pid));
    }
}

/// The children of all threads of a process, as far as the system tells.
pub fn children(pid: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| -> Vec<Pid> {
        list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    };
    lists.flat_map(pids).collect()
}

/// What the system calls the program of a process: up to 15 characters.
pub fn name(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}
