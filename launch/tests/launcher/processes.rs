//! Processes of a job, found from outside.

use std::time::{Duration, Instant};

/// Whether something becomes true within some seconds.
pub fn soon(mut what: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(30) {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Children of the first thread of a process.
pub fn children(of: u32) -> Vec<String> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    children.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The word after the program in the command line of a process.
pub fn first_argument(pid: &str) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let word = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    String::from_utf8_lossy(word).into_owned()
}

pub fn is_logger(pid: &str) -> bool {
    first_argument(pid) == "eventlog"
}
