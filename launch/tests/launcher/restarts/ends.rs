//! What is not started again, and how jobs that were end.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;

#[test]
fn restarts_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let orders: Vec<String> = (0..9).map(|life| format!("2.{life}.{life}:2")).collect();
    let options = ["--sets", "rank", "--max-restarts", "4"];
    let job = killed(dir.path(), &options, &orders.join(" "));
    assert_eq!(job.status, 128 + 9, "{}", job.err);
    assert_eq!(lives(dir.path(), 2), 5);
    let end = "was killed by signal 9 (SIGKILL); it is not restarted: --max-restarts is 4, and 0 are left";
    assert!(job.err.contains(end), "{}", job.err);
    assert!(job.err.contains("taffrail: 5 failures; 4 processes started again"), "{}", job.err);
}

#[test]
fn a_rank_may_be_killed_as_often_as_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let orders: Vec<String> = (0..30).map(|life| format!("1.{life}.{}:1", life % 7)).collect();
    let job = killed(dir.path(), &["--sets", "rank", "--max-restarts", "30"], &orders.join(" "));
    assert_eq!(job.status, 0, "{}", job.err);
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [1, 31, 1, 1]);
}

#[test]
fn a_program_that_fails_by_itself_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = job(dir.path(), &LOGGED);
    let job = ended(command.env("EXIT", "3:7").output().unwrap(), Instant::now());
    assert_eq!(job.status, 7, "{}", job.err);
    assert!(job.err.contains("rank 3 (pid ") && job.err.contains(") exited with status 7"));
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [1, 1, 1, 1]);
}

#[test]
fn a_failure_ends_the_job_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let job = killed(dir.path(), &["--on-failure", "abort"], "1.0.3:1");
    assert_eq!(job.status, 128 + 9, "{}", job.err);
    assert!(job.err.contains("rank 1 (pid ") && job.err.contains(") killed by signal 9 (SIGKILL)"));
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [1, 1, 1, 1]);
}

/// A rank ends when all are done: what is killed then has no messages to send again, and no peer.
#[test]
fn after_one_has_ended_nobody_is_restarted() {
    let meet = "echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD; \
        [ $PMI_RANK = 1 ] && { sleep 0.5; kill -KILL $$; }; \
        [ $PMI_RANK = 2 ] && exec sleep 50; true";
    let job = run(&[&["run", "-n", "3"], &LOGGED[..], &["bash", "-c", meet]].concat());
    assert_eq!(job.status, 128 + 9, "{}", job.err);
    assert!(
        job.err.contains("it is not restarted, since rank 0 is done with all others"),
        "{}",
        job.err
    );
    assert!(job.err.contains("such as to write its results, is not done"), "{}", job.err);
    assert!(job.took < Duration::from_secs(20));
}

#[test]
fn the_others_go_on_where_that_is_asked_for() {
    let some = "[ $PMI_RANK = 1 ] && kill -KILL $$; [ $PMI_RANK = 3 ] && kill -SEGV $$; \
        sleep 0.5; echo $PMI_RANK";
    let job = run(&["run", "-n", "5", "--on-failure", "shrink-report", "bash", "-c", some]);
    assert_eq!(sorted(&job.out), ["0", "2", "4"]);
    assert!([128 + 9, 128 + 11].contains(&job.status), "{}", job.status);
    let lines: Vec<&str> = job.err.lines().collect();
    assert_eq!(lines.len(), 3, "{}", job.err);
    assert!(lines[..2].iter().all(|line| line.ends_with("; the others go on without it")));
    assert_eq!(lines[2], "taffrail: 2 of 5 ranks were killed, the others went on: 1, 3");
}

#[test]
fn what_the_others_wait_for_in_vain_ends_the_job() {
    let one = "[ $PMI_RANK = 1 ] && kill -KILL $$; echo cmd=barrier_in >&$PMI_FD; exec sleep 50";
    let job = run(&["run", "-n", "2", "--on-failure", "shrink-report", "bash", "-c", one]);
    assert_eq!(job.status, 128 + 9, "{}", job.err);
    assert!(job.err.contains("rank 0 waits in a start-up barrier that rank 1"), "{}", job.err);
}

/// A job that runs for long, its launcher without `timeout` between, and its event logger.
fn long(dir: &Path) -> (Child, String) {
    let test = std::env::current_exe().unwrap();
    let mut command = taffrail(&["run", "-n", "4", "--sets", "rank"]);
    command.args(LOGGED).arg(test);
    command.args(["--exact", "restarts::rank::a_rank", "--nocapture", "--quiet"]);
    command.env("RESTARTS", dir).env("PAUSE", "500").stdout(Stdio::null()).stderr(Stdio::null());
    let launcher = command.spawn().unwrap();
    assert!(soon(|| (0..4).all(|rank| lives(dir, rank) == 1)));
    let logger = children(launcher.id()).into_iter().find(|pid| is_logger(pid)).unwrap();
    (launcher, logger)
}

#[test]
fn nobody_is_left_when_the_job_is_ended() {
    for (signal, stopped) in [(Signal::TERM, false), (Signal::KILL, false), (Signal::KILL, true)] {
        let dir = tempfile::tempdir().unwrap();
        let (mut launcher, logger) = long(dir.path());
        let ranks = [0, 1, 2, 3].map(|rank| pid(dir.path(), rank).to_string());
        let logger_pid = Pid::from_raw(logger.parse().unwrap()).unwrap();
        if stopped {
            // It does not see that its connection is closed.
            kill_process(logger_pid, Signal::STOP).unwrap();
        }
        kill_process(Pid::from_child(&launcher), signal).unwrap();
        launcher.wait().unwrap();
        let all = || ranks.iter().chain([&logger]).filter(|pid| runs(pid)).collect::<Vec<_>>();
        assert!(soon(|| all().is_empty()), "{signal:?}, logger stopped: {stopped}: {:?}", all());
    }
}

/// A rank that is killed by its launcher since the job is ending is not started again.
#[test]
fn an_ending_job_restarts_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (mut launcher, _) = long(dir.path());
    kill_process(Pid::from_child(&launcher), Signal::TERM).unwrap();
    assert_eq!(launcher.wait().unwrap().code(), Some(128 + 15));
    assert_eq!([0, 1, 2, 3].map(|rank| lives(dir.path(), rank)), [1, 1, 1, 1]);
}
