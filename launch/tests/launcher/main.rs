//! The `taffrail` command on real processes.

mod disks;
mod ends;
mod eventlog;
mod info;
mod orphans;
mod pmi;
mod processes;
mod programs;
mod programs_of_a_job;
mod readers;
mod restarts;
mod signals;
mod starts;
mod words;

use processes::*;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How a job ended.
struct Ended {
    status: i32,
    out: String,
    err: String,
    took: Duration,
}

/// `taffrail` with these arguments.
fn taffrail(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end, but a minute at most.
fn run(args: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_taffrail")]);
    command.args(args).stdin(Stdio::null());
    let started = Instant::now();
    ended(command.output().expect("timeout(1) is installed"), started)
}

fn ended(output: Output, started: Instant) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended {
        status: output.status.code().expect("it exits, also when a rank is killed"),
        out: text(output.stdout),
        err: text(output.stderr),
        took: started.elapsed(),
    }
}

/// A job of `n` ranks that each run a bash script.
fn script(n: u32, script: &str) -> Ended {
    run(&["run", "-n", &n.to_string(), "bash", "-c", script])
}

/// The lines of a text, sorted: ranks finish in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Whether a process runs: it exists and is no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}
