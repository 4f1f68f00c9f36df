//! Lines of the launcher, how many of them, and the ways to write its options.

use super::*;

/// A job with a variable in its environment.
fn with(name: &str, value: &str, args: &[&str]) -> Ended {
    let started = Instant::now();
    ended(taffrail(args).env(name, value).output().unwrap(), started)
}

#[test]
fn a_variable_that_nothing_reads_is_said_once_with_what_was_meant() {
    let job = with("TAFFRAIL_EAGERMAX", "64K", &["run", "-n", "3", "true"]);
    let line = "taffrail: the variable TAFFRAIL_EAGERMAX is set, and nothing reads it; did you mean \
                TAFFRAIL_EAGER_MAX?\n";
    assert_eq!((job.status, &*job.err), (0, line));
    let job = with("TAFFRAIL_EAGERMAX", "64K", &["run", "-q", "-n", "3", "true"]);
    assert_eq!((job.status, &*job.err), (0, ""));
}

/// The PMIx server is a process of its own: its exit status shows its parent that it does not serve.
#[test]
fn a_pmix_server_without_a_job_fails_with_its_line() {
    let started = Instant::now();
    let mut command = taffrail(&["pmix-server"]);
    for name in ["PMI_FD", "PMI_RANK", "PMI_SIZE", "TAFFRAIL_JOB"] {
        command.env_remove(name);
    }
    let server = ended(command.output().unwrap(), started);
    assert_eq!((server.status, server.err.lines().count()), (1, 1), "{}", server.err);
    assert!(server.err.starts_with("taffrail: the PMIx server of a rank: "), "{}", server.err);
}

#[test]
fn mpirun_s_way_to_say_how_many_is_understood_and_left_to_the_program() {
    for words in ["-np 2", "--np 2", "-n2", "-n 2", "--label -np 2 --bind none"] {
        let args: Vec<&str> =
            ["run"].into_iter().chain(words.split(' ')).chain(["echo", "-np", "7"]).collect();
        let job = run(&args);
        assert_eq!((job.status, job.out.lines().count(), &*job.err), (0, 2, ""), "{words}");
        assert!(job.out.lines().all(|line| line.ends_with("-np 7")), "{words}: {}", job.out);
    }
    let job = run(&["run", "-np", "1", "echo", "a", ":", "-np", "2", "echo", "b"]);
    assert_eq!((job.status, sorted(&job.out)), (0, vec!["a", "b", "b"]), "{}", job.err);
    for words in
        [vec!["run", "-np"], vec!["run", "-np", "0", "true"], vec!["run", "-np", "x", "true"]]
    {
        let job = run(&words);
        assert!(job.status == 2 && job.err.contains("--ranks <N>"), "{words:?}: {}", job.err);
    }
}

#[test]
fn more_is_said_when_asked_for_and_only_errors_when_quiet() {
    let plain = run(&["run", "-n", "1", "true"]);
    assert_eq!(plain.err, "");
    let bound = "taffrail: rank 0 is bound to CPU ";
    let verbose = run(&["run", "-v", "-n", "1", "--bind", "core", "true"]);
    assert!(verbose.err.lines().any(|line| line.starts_with(bound)), "{}", verbose.err);
    let speed = ["release build: ", "tuning profile: "];
    let said = |what: &str| verbose.err.lines().filter(|line| line.contains(what)).count();
    assert_eq!(speed.map(said), [1, 1], "{}", verbose.err);
    assert_eq!(verbose.err.contains("a debug build"), cfg!(debug_assertions), "{}", verbose.err);
    let asked = with("TAFFRAIL_LOG", "debug", &["run", "-n", "1", "--bind", "core", "true"]);
    assert!(asked.err.lines().any(|line| line.starts_with(bound)), "{}", asked.err);
    let quiet = with("TAFFRAIL_LOG", "debug", &["run", "-q", "-n", "1", "--bind", "core", "true"]);
    assert_eq!(quiet.err, "");
    let failed = run(&["run", "-q", "-n", "2", "bash", "-c", "exit 3"]);
    assert!(failed.status == 3 && failed.err.contains("with status 3"), "{}", failed.err);
}

#[test]
fn a_wrong_filter_of_what_is_said_is_refused_before_anything_is_started() {
    for value in ["taffrail=loud", "nonsense", "warn,verbose"] {
        for how in ["run", "mpi"] {
            let job = with("TAFFRAIL_LOG", value, &[how, "-n", "1", "echo", "started"]);
            let expected =
                format!("taffrail: TAFFRAIL_LOG={value}: expected error, warn, info, debug");
            let refused = job.status == 2 && job.out.is_empty() && job.err.starts_with(&expected);
            assert!(refused, "{how}: {} {}{}", job.status, job.out, job.err);
        }
        // The options go before it.
        let job = with("TAFFRAIL_LOG", value, &["run", "-q", "-n", "1", "true"]);
        assert_eq!((job.status, &*job.err), (0, ""), "{value}");
    }
    for value in ["", "off", "WARN", "taffrail_launch=debug,warn"] {
        let job = with("TAFFRAIL_LOG", value, &["run", "-n", "1", "true"]);
        assert_eq!(job.status, 0, "{value}: {}", job.err);
    }
}

#[test]
fn durations_and_sizes_are_read_in_one_way_and_refused_with_what_was_expected() {
    let job = run(&["run", "-n", "1", "--timeout", "300ms", "sleep", "20"]);
    assert!(job.status == 124 && job.took < Duration::from_secs(10), "{}", job.err);
    assert_eq!(job.err, "taffrail: the job did not end within 300 ms\n");
    for (option, value, expected) in [
        ("--timeout", "0", "expected a duration above 0"),
        ("--timeout", "-1s", "expected a duration above 0"),
        ("--timeout", "soon", "expected a duration above 0"),
        ("--heartbeat", "2M", "expected a duration above 0"),
        ("--log-memory", "-1K", "expected a size above 0"),
        ("--log-memory", "lots", "expected a size above 0"),
    ] {
        let job = run(&["run", "-n", "1", &format!("{option}={value}"), "true"]);
        assert!(job.status == 2 && job.err.contains(expected), "{option} {value}: {}", job.err);
    }
    let logged = ["run", "-n", "1", "--logging", "pessimistic", "true"];
    let job = with("TAFFRAIL_LOG_MEMORY", "much", &logged);
    let expected = "taffrail: TAFFRAIL_LOG_MEMORY: expected a size above 0";
    assert!(job.status == 2 && job.err.starts_with(expected), "{}", job.err);
    assert_eq!(with("TAFFRAIL_LOG_MEMORY", "64MiB", &logged).status, 0);
}

#[test]
fn commands_that_only_the_launcher_starts_are_not_in_the_help() {
    let help = run(&["--help"]);
    for inner in ["eventlog", "guard", "pmix"] {
        assert!(!help.out.contains(inner), "{}", help.out);
    }
    assert!(help.out.contains("  run ") && help.out.contains("  mpi "), "{}", help.out);
}
