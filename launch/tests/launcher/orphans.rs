//! Nobody is left behind, however a job ends.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::read_to_string;

/// A rank that starts a process of its own, and writes down both numbers.
const FAMILY: &str = "sleep 300 & echo $$ $! > $DIR/$PMI_RANK; wait";

fn family(dir: &std::path::Path, ranks: usize) -> Vec<String> {
    let of = |rank: usize| read_to_string(dir.join(rank.to_string())).unwrap_or_default();
    let all = || (0..ranks).map(of).collect::<String>();
    let found = soon(|| all().split_whitespace().count() == 2 * ranks);
    assert!(found, "the ranks write down their processes");
    all().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_launcher_killed_outright_takes_everybody_along() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = taffrail(&["run", "-n", "3", "bash", "-c", FAMILY]);
    let mut job = command.env("DIR", dir.path()).spawn().unwrap();
    let pids = family(dir.path(), 3);
    assert!(pids.iter().all(|pid| runs(pid)));
    kill_process(Pid::from_child(&job), Signal::KILL).unwrap();
    job.wait().unwrap();
    assert!(soon(|| !pids.iter().any(|pid| runs(pid))), "still running of {pids:?}");
}

/// The guard has the rule of the launcher: who holds the output is ended, a daemon goes on.
#[test]
fn a_launcher_killed_outright_takes_sessions_along_but_no_daemons() {
    let rank = "setsid sleep 300 & holder=$!; setsid sleep 301 >/dev/null 2>&1 & \
                echo $holder $! > $DIR/0; wait";
    for how in [&[][..], &["--label"]] {
        let dir = tempfile::tempdir().unwrap();
        let words = [&["run", "-n", "1"], how, &["bash", "-c", rank]].concat();
        let mut command = taffrail(&words);
        command.env("DIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let job = command.spawn().unwrap();
        let pids = family(dir.path(), 1);
        // Both have their sessions and outputs by then.
        let sleeps = |pid: &String| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("sleep"))
        };
        assert!(soon(|| pids.iter().all(sleeps)), "{how:?}");
        kill_process(Pid::from_child(&job), Signal::KILL).unwrap();
        job.wait_with_output().unwrap();
        assert!(soon(|| !runs(&pids[0])), "{how:?}: the session still runs");
        assert!(runs(&pids[1]), "{how:?}: the daemon was ended");
        kill_process(Pid::from_raw(pids[1].parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
}

#[test]
fn what_a_failed_job_started_is_gone_when_the_launcher_returns() {
    let dir = tempfile::tempdir().unwrap();
    let failing = format!("[ $PMI_RANK = 2 ] && {{ sleep 1; exit 9; }}; {FAMILY}");
    let mut command = taffrail(&["run", "-n", "3", "bash", "-c", &failing]);
    let mut job = command.env("DIR", dir.path()).stderr(Stdio::null()).spawn().unwrap();
    let pids = family(dir.path(), 2);
    assert_eq!(job.wait().unwrap().code(), Some(9));
    assert!(!pids.iter().any(|pid| runs(pid)), "still running of {pids:?}");
}

#[test]
fn a_process_that_a_rank_sent_into_the_background_ends_with_the_job() {
    for how in ["sleep 300 &", "setsid sleep 300 &"] {
        let job = script(1, &format!("{how} echo $!; exec >&-; sleep 0.2"));
        assert_eq!(job.status, 0);
        assert!(!runs(job.out.trim()), "{how} still runs as {}", job.out);
    }
}

#[test]
fn a_guard_that_was_killed_does_not_disturb_the_job() {
    let kill_guard = "pkill -KILL -P $PPID -x taffrail; sleep 0.3; echo done";
    let job = script(1, kill_guard);
    assert_eq!((job.status, job.out.as_str()), (0, "done\n"), "{}", job.err);
}
