//! An event logger stands still when it is asked for the events of a killed rank: its agent goes on with its lease.

use super::losses::{PEACE, assert_right, program_of_application};
use super::*;
use std::sync::LazyLock;

/// Stops loggers of node b by a word of their command lines, kills a rank of it, and checks that the node is there to the end.
fn kill_a_rank_of_b(options: &[&str], loggers: &str) -> Ended {
    LazyLock::force(&PEACE);
    let job = Job::on("a:2,b:2").with(&["--lease", "3s", "--network", "lo", "-v"]);
    let job = job.with(&["--logging", "pessimistic"]).with(options);
    let job = program_of_application(job, 0);
    let (started, child) = (Instant::now(), job.begin());
    let stopped = job.processes_of("b", loggers);
    assert_eq!(stopped.len(), 1, "{:?}", job.processes());
    stopped[0].signal("STOP");
    job.ranks_of(1)[0].signal("KILL");
    let ended = job.end(child, started);
    for fenced in ["node b lost", "the lease of this node has ended", "the guard has ended"] {
        assert!(!ended.err.contains(fenced), "{}", ended.err);
    }
    ended
}

const SILENT: &str = "has neither answered nor used a processor for 1.5 s";

#[test]
fn another_logger_goes_on_where_nothing_is_lost() {
    for (options, loggers) in [
        (&["--durability", "process"][..], " eventlog"),
        (
            &["--durability", "node", "--copies", "2"],
            " eventlog --durability=node --copies=2 --copy=0",
        ),
    ] {
        let ended = kill_a_rank_of_b(options, loggers);
        assert_right(&ended, &["another one goes on, and nothing is lost"]);
    }
}

#[test]
fn the_only_one_with_the_events_ends_the_job_by_name() {
    let ended = kill_a_rank_of_b(&["--durability", "node", "--copies", "1"], " eventlog");
    assert_ne!(ended.status, 0, "{}", ended.err);
    for said in ["all 1 event loggers are gone", SILENT] {
        assert!(ended.err.contains(said), "{}", ended.err);
    }
}
