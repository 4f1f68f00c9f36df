//! Jobs that lose several nodes at once, of which each has copies of the others' events.

use super::losses::{PEACE, application, application_through, assert_right};
use super::*;
use std::sync::LazyLock;

impl Job {
    /// Kills several nodes at the same moment. How the job has ended.
    fn lose_at_once(&self, child: Child, nodes: &[&str]) -> Ended {
        let started = Instant::now();
        let all = nodes.iter().flat_map(|node| self.of_node(node));
        let pids: Vec<String> = all.map(|process| process.pid.to_string()).collect();
        let _ = Command::new("kill").arg("-KILL").args(pids).status();
        self.end(child, started)
    }
}

/// Copies of a node are on the two that follow: two nodes are killed at once, of which the second has the first copy of the first.
#[test]
fn as_many_nodes_are_killed_at_once_as_have_copies() {
    for (nodes, restart, options, every) in [
        (["b", "c"], "rank 2 restarts from the copy on node d", &[][..], 0),
        (["d", "a"], "rank 0 restarts from the copy on node b", &["--sets", "rank"], 1),
    ] {
        LazyLock::force(&PEACE);
        let options = [&["--copies", "3", "-v"], options].concat();
        let job = application("a:1,b:1,c:1,d:1", &options, every);
        let child = job.begin();
        std::thread::sleep(Duration::from_millis(1500 + fastrand::u64(0..1500)));
        let ended = job.lose_at_once(child, &nodes);
        let lost = nodes.map(|node| format!("node {node} lost (the connection with its agent is"));
        assert_right(&ended, &["2 nodes may be lost at once", &lost[0], &lost[1], restart]);
        let from = if every > 0 { "2 from checkpoints" } else { "2 processes started again" };
        assert_right(&ended, &["are on 1 other node now: no more are left", from]);
    }
}

/// Each of three nodes has everything: the last one that is left continues alone.
#[test]
fn all_nodes_but_one_are_killed() {
    LazyLock::force(&PEACE);
    for at_once in [true, false] {
        let job = application("a:2,b:1,c:1", &["--copies", "3"], 0);
        let child = job.begin();
        std::thread::sleep(Duration::from_millis(1500 + fastrand::u64(0..500)));
        let ended = match at_once {
            true => job.lose_at_once(child, &["a", "b"]),
            false => job.lose_in_turn(child, ["a", "b"], 4),
        };
        assert_right(&ended, &["node a lost", "node b lost", "2 nodes may be lost at once"]);
        assert!(ended.err.contains("is not survived any more"), "{}", ended.err);
    }
}

/// A node stands still, and the one that has its first copy soon after: that is asked for what the first one leaves, and does not
/// answer before its lease has ended. The next one with a copy is asked then.
#[test]
fn the_node_that_was_asked_for_the_copy_is_lost() {
    LazyLock::force(&PEACE);
    let apart = "setsid --wait env TAFFRAIL_TEST_PART={host}";
    let options = ["--network", "lo", "--copies", "3", "-v"];
    let job = application_through(apart, "a:1,b:1,c:1,d:1", &options, 0);
    let (started, child) = (Instant::now(), job.begin());
    std::thread::sleep(Duration::from_millis(1500));
    job.signal_node("b", "STOP");
    std::thread::sleep(Duration::from_millis(1200));
    job.signal_node("c", "STOP");
    // Those that are left have one each of the lost ranks.
    let are_spread = || [0, 3].iter().all(|node| job.ranks_of(*node).len() == 2);
    assert!(soon(are_spread), "{:?}", job.processes());
    ["b", "c"].iter().for_each(|node| job.signal_node(node, "KILL"));
    let ended = job.end(child, started);
    assert_right(
        &ended,
        &["node b lost (no word from its agent", "node c lost (no word from its agent"],
    );
}
