//! Signals to the launcher, and what it was started with.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout};

/// A job that has written a given number of lines.
struct Running {
    job: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(args: &[&str], lines: usize) -> Running {
        let mut job = taffrail(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(job.stdout.take().unwrap()).lines();
        (0..lines).for_each(|_| drop(out.next().unwrap().unwrap()));
        Running { job, lines: out }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.job), signal).unwrap();
    }

    /// What it says from now on, its status, and its errors.
    fn end(self) -> (Vec<String>, Option<i32>, String) {
        let lines = self.lines.map(Result::unwrap).collect();
        let output = self.job.wait_with_output().unwrap();
        (lines, output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn user_signals_reach_every_rank_and_end_nothing() {
    let script = "exec 2>&-; trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; \
                  while :; do sleep 0.05; done";
    let mut job = Running::start(&["run", "-n", "2", "bash", "-c", script], 2);
    job.send(Signal::USR1);
    let said: Vec<_> = job.lines.by_ref().take(2).map(Result::unwrap).collect();
    assert_eq!(said, ["one", "one"]);
    job.send(Signal::USR2);
    let (said, status, err) = job.end();
    assert_eq!((said, status, err.as_str()), (vec!["two".into(), "two".into()], Some(0), ""));
}

#[test]
fn any_other_signal_ends_the_job_with_a_line_that_names_it() {
    let all = [
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::HUP, "SIGHUP"),
        (Signal::PROF, "SIGPROF"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::POWER, "SIGPWR"),
    ];
    for (signal, name) in all {
        let job = Running::start(&["run", "-n", "2", "bash", "-c", "echo $$; exec sleep 50"], 2);
        job.send(signal);
        let (_, status, err) = job.end();
        let number = signal.as_raw();
        assert_eq!(status, Some(128 + number), "{name}");
        assert_eq!(err, format!("taffrail: signal {number} ({name}): ending the job\n"));
    }
}

/// The state letter of a process.
fn state(pid: &str) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('-')
}

/// Ranks have process groups of their own, and what they start may have others.
#[test]
fn a_job_stops_and_goes_on_and_its_limit_does_not_run_meanwhile() {
    let script = "setsid sleep 1.5 & echo $$ $!; wait; echo done";
    let args = ["run", "-n", "2", "--timeout", "3", "--heartbeat", "1", "bash", "-c", script];
    let mut job = Running::start(&args, 0);
    let pids: Vec<String> = job.lines.by_ref().take(2).map(Result::unwrap).collect();
    let pids: Vec<&str> = pids.iter().flat_map(|line| line.split(' ')).collect();
    let launcher = job.job.id().to_string();
    job.send(Signal::TSTP);
    let all = || pids.iter().copied().chain([launcher.as_str()]);
    assert!(
        soon(|| all().all(|pid| state(pid) == 'T')),
        "{:?}",
        all().map(state).collect::<Vec<_>>()
    );
    std::thread::sleep(Duration::from_secs(3));
    job.send(Signal::CONT);
    let (said, status, err) = job.end();
    assert_eq!((said, status, err.as_str()), (vec!["done".into(), "done".into()], Some(0), ""));
}

/// A command whose parent ignores, or blocks, these signals.
fn with_signals(how: &str, args: &[&str]) -> Ended {
    let start = "import os, signal, sys; exec(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])";
    let mut command = Command::new("timeout");
    command.args(["60", "python3", "-c", start, how, env!("CARGO_BIN_EXE_taffrail")]).args(args);
    let started = Instant::now();
    ended(command.stdin(Stdio::null()).output().unwrap(), started)
}

#[test]
fn signals_that_the_parent_ignores_or_blocks_do_not_disturb_the_launcher() {
    let all = "signal.valid_signals()";
    let block = format!("signal.pthread_sigmask(signal.SIG_BLOCK, {all})");
    let ignore = format!("[signal.signal(s, signal.SIG_IGN) for s in {all} if s not in (9, 19)]");
    for how in [&block, &ignore] {
        for logging in [&[][..], &["--logging", "pessimistic", "--sets", "rank"]] {
            let job = |script| {
                with_signals(how, &[&["run", "-n", "2"], logging, &["bash", "-c", script]].concat())
            };
            let well = job("sleep 0.2");
            assert_eq!((well.status, well.err.as_str()), (0, ""), "{how} {logging:?}");
            assert_eq!(job("exit 7").status, 7, "{how} {logging:?}");
        }
    }
    // What ranks inherit: what is ignored, but for SIGCHLD and SIGPIPE, and nothing that is blocked.
    let show = ["run", "-n", "1", "grep", "-E", "SigIgn|SigBlk", "/proc/self/status"];
    let mask = |job: &Ended, name: &str| {
        let line = job.out.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask(&with_signals(&block, &show), "SigBlk:"), 0);
    let inherited = mask(&with_signals(&ignore, &show), "SigIgn:");
    let has = |signal: i32| inherited & 1 << (signal - 1) != 0;
    assert!(has(libc::SIGHUP) && has(libc::SIGTERM) && has(libc::SIGUSR1), "{inherited:x}");
    assert!(!has(libc::SIGCHLD) && !has(libc::SIGPIPE), "{inherited:x}");
}

#[test]
fn a_blocked_signal_still_ends_the_job() {
    let start = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); \
                 os.execvp(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new("python3");
    command.args(["-c", start, env!("CARGO_BIN_EXE_taffrail"), "run", "-n", "1", "bash", "-c"]);
    command.arg("echo ready; exec sleep 50").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut job = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(job.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    kill_process(Pid::from_child(&job), Signal::TERM).unwrap();
    let output = job.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
}
