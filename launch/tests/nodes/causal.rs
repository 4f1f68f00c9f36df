//! Causal jobs that lose a node: what its events were is in part with the ranks that depend on them.

use super::losses::{LEASED, PEACE, assert_right, program_of_application, some_time};
use super::*;
use std::sync::LazyLock;

fn causal(hosts: &str, options: &[&str]) -> Job {
    let job = Job::on(hosts).with(&LEASED).with(&["--network", "lo", "--logging", "causal"]);
    program_of_application(job.with(options), 0)
}

#[test]
fn a_node_is_killed() {
    for (hosts, node, again, options) in [
        ("a:2,b:2", "b", "restarting ranks 2-3", &["--sets", "rank"][..]),
        ("a:2,b:2", "a", "restarting ranks 0-1", &["--events", "all"]),
        ("a:2,b:2,c:2", "a", "restarting ranks 0-1", &["--copies", "3"]),
        // Its ranks go to the host that had none.
        ("a:2,b:1,c:1,d:1", "b", "restarting it as", &["-v"]),
    ] {
        LazyLock::force(&PEACE);
        let (job, started) = (causal(hosts, options), Instant::now());
        let child = job.begin();
        some_time();
        job.signal_node(node, "KILL");
        let ended = job.end(child, started);
        let lost = format!("node {node} lost (the connection with its agent is lost");
        assert_right(&ended, &[&lost, again]);
    }
}

/// Events of a node are not copied for a while, which nobody waits for, and then it is lost: those that depend on
/// them have them. In the second run these are killed as well: what they held outlives them.
#[test]
fn what_was_not_copied_is_with_survivors() {
    for killed in [false, true] {
        LazyLock::force(&PEACE);
        let job = causal("a:2,b:2", &["--sets", "rank", "--events", "all", "-v"]);
        let (started, child) = (Instant::now(), job.begin());
        job.processes_of("b", "--elsewhere").iter().for_each(|logger| logger.signal("STOP"));
        std::thread::sleep(Duration::from_secs(2));
        if killed {
            job.ranks_of(0).iter().for_each(|rank| rank.signal("KILL"));
        }
        job.signal_node("b", "KILL");
        let ended = job.end(child, started);
        assert_right(&ended, &["node b lost", "events that survivors held"]);
    }
}

/// Behind the first loss, those of another node are survived again: where ranks have come to a host that had none.
#[test]
fn one_node_after_another_is_killed() {
    LazyLock::force(&PEACE);
    let job = causal("a:2,b:1,c:1,d:1", &["-v"]);
    let child = job.begin();
    some_time();
    let ended = job.lose_in_turn(child, ["b", "c"], 4);
    assert_right(&ended, &["node b lost", "node c lost"]);
}

/// Where they have come to others, two event loggers cut what depends on each other.
#[test]
fn a_node_with_ranks_of_another_ends_the_job_by_name() {
    LazyLock::force(&PEACE);
    let (job, started) = (causal("a:2,b:1,c:1", &["-v"]), Instant::now());
    let child = job.begin();
    some_time();
    job.signal_node("b", "KILL");
    let moved = || job.ranks_of(2).len() + job.ranks_of(0).len() == 4;
    assert!(soon(moved), "{:?}", job.processes());
    std::thread::sleep(Duration::from_secs(2));
    let node = if job.ranks_of(2).len() == 2 { "c" } else { "a" };
    job.signal_node(node, "KILL");
    let ended = job.end(child, started);
    assert_ne!(ended.status, 0, "{}", ended.err);
    let why = "no other node has a whole copy of their events";
    assert!(ended.err.contains(why), "{}", ended.err);
}
