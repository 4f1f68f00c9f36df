//! Ranks of a lost node that restart on several nodes: their logs go there first.

use super::losses::{LEASE, PEACE, application_through, assert_right};
use super::*;
use std::sync::LazyLock;

fn application(hosts: &str, every: u64) -> Job {
    application_with(hosts, &[], every)
}

fn application_with(hosts: &str, options: &[&str], every: u64) -> Job {
    LazyLock::force(&PEACE);
    let options = [&["--network", "lo", "--sets", "rank", "-v"], options].concat();
    application_through(HERE, hosts, &options, every)
}

/// Whether ranks of the application run on these nodes: how many on each.
fn are_on(job: &Job, nodes: &[(&str, usize)]) -> bool {
    let program = "losses::a_rank_of_an_application";
    nodes.iter().all(|(node, ranks)| job.processes_of(node, program).len() == *ranks)
}

/// One of two nodes with a rank each has the copy of the third. Both get one of its ranks.
#[test]
fn ranks_of_a_lost_node_are_spread() {
    for every in [0, 1] {
        let (job, started) = (application("a:1,b:2,c:1", every), Instant::now());
        let child = job.begin();
        std::thread::sleep(Duration::from_millis(1500));
        job.signal_node("b", "KILL");
        assert!(soon(|| are_on(&job, &[("a", 2), ("c", 2)])), "{:?}", job.processes());
        let ended = job.end(child, started);
        let moves = "rank 2 restarts on node a: its log goes there from node c";
        assert_right(&ended, &["ranks 1-2 restart from the copy on node c", moves]);
        assert!(every == 0 || ended.err.contains("2 from checkpoints"), "{}", ended.err);
    }
}

/// Both nodes with ranks are lost at once. Each of the two that have the copies gets one of each.
#[test]
fn ranks_of_two_lost_nodes_are_spread() {
    let job = application_with("a:2,b:2,c:1,d:1", &["--copies", "3"], 1);
    let (started, child) = (Instant::now(), job.begin());
    std::thread::sleep(Duration::from_millis(1500));
    ["a", "b"].iter().for_each(|node| job.signal_node(node, "KILL"));
    assert!(soon(|| are_on(&job, &[("c", 2), ("d", 2)])), "{:?}", job.processes());
    let ended = job.end(child, started);
    let moves = [1, 3].map(|rank| format!("rank {rank} restarts on node d: its log goes there"));
    assert_right(&ended, &["node a lost", "node b lost", &moves[0], &moves[1]]);
}

/// The host with the copy has room for one of them, another one that is not used has room for both.
#[test]
fn a_spare_host_gets_the_ranks_of_a_lost_node() {
    let (job, started) = (application("a:1,b:2,c:1,d:1,e:2", 1), Instant::now());
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1500));
    job.signal_node("b", "KILL");
    assert!(soon(|| are_on(&job, &[("a", 1), ("c", 1), ("e", 2)])), "{:?}", job.processes());
    let ended = job.end(child, started);
    let moves = [1, 2].map(|rank| format!("rank {rank} restarts on node e: its log goes there"));
    assert_right(&ended, &[&moves[0], &moves[1], "2 from checkpoints"]);
}

/// The copy store that is to take a log stands still, and then its node is killed: all ranks restart on the one that is left.
#[test]
fn the_node_that_is_to_take_a_rank_is_killed() {
    let (job, started) = (application("a:1,b:2,c:1", 0), Instant::now());
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1500));
    let store = job.copy_store("a");
    store.signal("STOP");
    job.signal_node("b", "KILL");
    // When the lease of b has ended, the log of rank 2 is on its way.
    std::thread::sleep(LEASE + Duration::from_secs(3));
    assert!(are_on(&job, &[("a", 1)]), "{:?}", job.processes());
    job.signal_node("a", "KILL");
    assert!(soon(|| are_on(&job, &[("c", 4)])), "{:?}", job.processes());
    let ended = job.end(child, started);
    assert_right(&ended, &["node a lost", "node b lost", "rank 2 restarts on node a"]);
}

/// It goes on standing still: the rank restarts where the copy is.
#[test]
fn a_copy_store_that_takes_no_log_is_passed_over() {
    let (job, started) = (application("a:1,b:2,c:1", 0), Instant::now());
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1500));
    let store = job.copy_store("a");
    store.signal("STOP");
    job.signal_node("b", "KILL");
    assert!(soon(|| are_on(&job, &[("a", 1), ("c", 3)])), "{:?}", job.processes());
    store.signal("CONT");
    let ended = job.end(child, started);
    let said = "the log of rank 2 could not be brought to node a";
    assert_right(&ended, &[said, "it restarts on another one"]);
}

/// Two hosts are not used, and each has room for one of them.
#[test]
fn two_spare_hosts_share_the_ranks_of_a_lost_node() {
    let (job, started) = (application("a:2,b:2,c:1,d:1", 0), Instant::now());
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1500));
    job.signal_node("b", "KILL");
    assert!(soon(|| are_on(&job, &[("a", 2), ("c", 1), ("d", 1)])), "{:?}", job.processes());
    let ended = job.end(child, started);
    assert_right(&ended, &["node b lost", "restarts on node d: its log goes there from node c"]);
}
