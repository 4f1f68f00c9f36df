//! How jobs over nodes end by themselves, or by a signal to their launcher.

use super::*;

#[test]
fn one_rank_that_fails_ends_the_job_with_its_status() {
    let job = Job::on("a:2,b:2").script(4, "[ $PMI_RANK = 3 ] && exit 7; sleep 60").run();
    assert_eq!(job.status, 7, "{}", job.err);
    assert!(job.err.contains("taffrail: rank 3 (pid ") && job.err.contains("exited with status 7"));
    assert_eq!(job.err.lines().count(), 1, "{}", job.err);
    assert!(job.took < Duration::from_secs(20));
}

#[test]
fn ranks_that_do_not_end_when_asked_are_killed() {
    let script =
        "trap '' TERM; [ $PMI_RANK = 0 ] && sleep 0.5 && exit 3; while :; do sleep 1; done";
    let job = Job::on("a,b").script(2, script).run();
    assert_eq!(job.status, 3, "{}", job.err);
    let expected = Duration::from_millis(2500)..Duration::from_secs(20);
    assert!(expected.contains(&job.took), "{:?}", job.took);
}

#[test]
fn a_signal_to_the_launcher_reaches_all_ranks_and_ends_the_job() {
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let script =
            "trap 'echo trapped; exit 0' INT TERM; echo ready; while :; do sleep 0.05; done";
        let job = Job::on("a,b").script(2, script);
        let child = job.command().spawn().unwrap();
        assert!(soon(|| job.running("bash").len() == 2));
        std::thread::sleep(Duration::from_millis(300));
        Process { pid: child.id() }.signal(signal);
        let ended = job.end(child, Instant::now());
        assert_eq!(ended.status, status, "{}", ended.err);
        assert_eq!(ended.sorted(), ["ready", "ready", "trapped", "trapped"], "{}", ended.err);
    }
}

#[test]
fn a_signal_before_hosts_are_up_ends_the_job() {
    let job = Job::through("sh -c 'exec sleep 60'", "a,b").with(&["-n", "2", "true"]);
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 2));
    Process { pid: child.id() }.signal("INT");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 130, "{}", ended.err);
    assert!(ended.took < Duration::from_secs(10));
}

#[test]
fn user_signals_are_passed_on_and_stopped_ranks_continue() {
    let script = "trap 'echo user; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let job = Job::on("a,b").script(2, script);
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("bash").len() == 2));
    std::thread::sleep(Duration::from_millis(300));
    let launcher = Process { pid: child.id() };
    let is_stopped = |process: &Process| process.read("stat").contains(") T ");
    launcher.signal("TSTP");
    assert!(soon(|| job.running("bash").iter().all(is_stopped)));
    launcher.signal("CONT");
    assert!(soon(|| !job.running("bash").iter().any(is_stopped)));
    launcher.signal("USR1");
    let ended = job.end(child, Instant::now());
    assert_eq!((ended.status, ended.sorted()), (0, vec!["ready", "ready", "user", "user"]));
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let job = Job::on("a,b").with(&["--timeout", "500ms", "-n", "2", "sleep", "60"]).run();
    assert_eq!(job.status, 124);
    assert!(job.err.contains("the job did not end within 500 ms"), "{}", job.err);
}

#[test]
fn what_ranks_leave_behind_ends_with_the_job() {
    let job = Job::on("a,b").script(2, "sleep 300 & disown; exit 0").run();
    assert_eq!(job.status, 0, "{}", job.err);
}

#[test]
fn a_rank_that_aborts_ends_the_job_with_its_code() {
    let script = r#"printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&$PMI_FD; read -u $PMI_FD line
        [ $PMI_RANK = 1 ] && printf 'cmd=abort exitcode=5\n' >&$PMI_FD; sleep 60"#;
    let job = Job::on("a,b").script(2, script).run();
    assert_eq!(job.status, 5, "{}", job.err);
    assert!(job.err.contains("aborted the job with code 5"), "{}", job.err);
}

#[test]
fn a_rank_that_waits_in_a_barrier_for_one_that_has_ended_is_named() {
    let script = r#"[ $PMI_RANK = 1 ] && exit 0
        printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&$PMI_FD; read -u $PMI_FD line
        printf 'cmd=barrier_in\n' >&$PMI_FD; read -u $PMI_FD line; sleep 60"#;
    let job = Job::on("a,b").script(2, script).run();
    assert_eq!(job.status, 1, "{}", job.err);
    // The second where rank 1 has ended before rank 0 was heard to begin.
    let lines =
        ["never joined the job", "a start-up barrier that rank 1, which ended, never entered"];
    assert!(
        job.err.contains("rank 1") && lines.iter().any(|line| job.err.contains(line)),
        "{}",
        job.err
    );
}

/// More is written than is under way at a time, and nobody reads it.
#[test]
fn a_job_that_fails_does_not_wait_for_its_reader() {
    let script = "[ $PMI_RANK = 1 ] && sleep 1 && exit 3; yes $PMI_RANK";
    let job = Job::on("a:2,b:2").script(4, script);
    let mut child = job.command().spawn().unwrap();
    let started = Instant::now();
    let reader = child.stdout.take().unwrap();
    let ended = job.end(child, started);
    drop(reader);
    assert_eq!(ended.status, 3, "{}", ended.err);
    assert!(ended.err.contains("exited with status 3"), "{}", ended.err);
    assert!(ended.err.contains("nobody reads the output of rank"), "{}", ended.err);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let job = Job::on("a:2,b:2").script(4, "yes $PMI_RANK");
    let mut child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("yes").len() == 4));
    drop(child.stdout.take());
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 141, "{}", ended.err);
    assert!(ended.err.contains("cannot pass on the output of ranks: Broken pipe"), "{}", ended.err);
}
