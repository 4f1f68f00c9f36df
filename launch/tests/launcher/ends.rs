//! How jobs end: statuses, signals, time limits.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};

/// Waits until every rank is here, by the launcher's own barrier.
const MEET: &str = "echo cmd=barrier_in >&$PMI_FD; read -r answer <&$PMI_FD;";

#[test]
fn the_first_failing_rank_decides_the_status_and_ends_the_others() {
    let job = script(3, "[ $PMI_RANK = 1 ] && exit 7; exec sleep 50");
    assert_eq!(job.status, 7);
    assert!(job.took < Duration::from_secs(10), "{:?}", job.took);
    let (start, end) = ("taffrail: rank 1 (pid ", ") exited with status 7\n");
    assert!(job.err.starts_with(start) && job.err.ends_with(end), "{}", job.err);
    assert_eq!(job.err.lines().count(), 1, "{}", job.err);
}

#[test]
fn a_rank_killed_by_a_signal_is_128_and_the_signal() {
    let job = script(2, "[ $PMI_RANK = 0 ] && kill -SEGV $$; exec sleep 50");
    assert_eq!(job.status, 128 + 11);
    assert!(
        job.err.contains("rank 0 (pid ") && job.err.contains(") killed by signal 11 (SIGSEGV)")
    );
}

#[test]
fn ranks_that_ignore_being_asked_are_killed() {
    let ignore = "[ $PMI_RANK = 0 ] && exit 3; while :; do sleep 0.1; done";
    let job = script(2, &format!("trap '' TERM; {MEET} {ignore}"));
    assert_eq!(job.status, 3);
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(15)).contains(&job.took),
        "{:?}",
        job.took
    );
}

#[test]
fn ranks_may_use_the_grace_to_clean_up() {
    let clean = "[ $PMI_RANK = 0 ] && exit 3; while :; do sleep 0.05; done";
    let job = script(2, &format!("trap 'echo clean; exit' TERM; {MEET} {clean}"));
    assert_eq!((job.status, job.out.as_str()), (3, "clean\n"));
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let job = run(&["run", "-n", "2", "--timeout", "1", "sleep", "50"]);
    assert_eq!(job.status, 124);
    assert_eq!(job.err, "taffrail: the job did not end within 1 s\n");
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(10)).contains(&job.took),
        "{:?}",
        job.took
    );
}

#[test]
fn signals_to_the_launcher_reach_every_rank() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let trap = format!(
            "trap 'echo got {name}; exit 0' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let mut command = taffrail(&["run", "-n", "2", "bash", "-c", &trap]);
        let mut job = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(job.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.by_ref().take(2).collect::<Vec<_>>(), ["ready", "ready"]);
        kill_process(Pid::from_child(&job), signal).unwrap();
        let got = format!("got {name}");
        assert_eq!(lines.collect::<Vec<_>>(), [&*got, &*got]);
        assert_eq!(job.wait().unwrap().code(), Some(128 + signal.as_raw()));
    }
}

#[test]
fn a_second_signal_is_not_argued_with() {
    let stubborn = "trap '' INT; echo ready; while :; do sleep 0.05; done";
    let mut command = taffrail(&["run", "-n", "1", "bash", "-c", stubborn]);
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(job.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let mut said = BufReader::new(job.stderr.take().unwrap()).lines();
    let started = Instant::now();
    kill_process(Pid::from_child(&job), Signal::INT).unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "taffrail: signal 2 (SIGINT): ending the job");
    kill_process(Pid::from_child(&job), Signal::INT).unwrap();
    assert_eq!(job.wait().unwrap().code(), Some(130));
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

/// A rank that joins the job as a library does.
const JOIN: &str =
    "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read -r answer <&$PMI_FD;";

#[test]
fn a_rank_that_ends_without_finalising_while_another_one_waits_fails_the_job() {
    let job = script(2, &format!("{JOIN} [ $PMI_RANK = 1 ] || exec sleep 50"));
    assert_eq!(job.status, 1);
    let why = ") ended with status 0 without finalising (MPI_Finalize), while rank 0 goes on\n";
    assert!(job.err.starts_with("taffrail: rank 1 (pid ") && job.err.ends_with(why), "{}", job.err);
    assert!(job.took < Duration::from_secs(10), "{:?}", job.took);
}

#[test]
fn a_rank_that_never_joins_while_another_one_has_fails_the_job_and_plain_programs_do_not() {
    let job = script(2, &format!("[ $PMI_RANK = 1 ] || {{ {JOIN} exec sleep 50; }}"));
    assert_eq!(job.status, 1);
    assert!(job.err.contains("ended with status 0 and never joined the job"), "{}", job.err);
    let job = script(2, "[ $PMI_RANK = 1 ] || sleep 1");
    assert_eq!((job.status, &*job.err), (0, ""));
}

#[test]
fn a_member_below_a_script_that_is_killed_fails_the_job() {
    let below =
        format!("bash -c '{JOIN} [ $PMI_RANK = 0 ] && kill -KILL $$; exec sleep 50'; sleep 50");
    let job = script(2, &below);
    assert_eq!(job.status, 1);
    assert!(
        job.err.contains("lost its process ") && job.err.contains("not finalised"),
        "{}",
        job.err
    );
}
