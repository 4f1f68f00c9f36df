//! A copy store is killed, or its node, when it is asked for the log of a lost node's rank, or brings it: another copy is used.

use super::losses::{LEASE, LEASED, PEACE, application, assert_right, program_of_application};
use super::*;
use std::fs::File;
use std::sync::LazyLock;

/// A job that runs, and what its launcher has said so far.
struct Heard {
    child: Child,
    words: PathBuf,
    started: Instant,
}

impl Job {
    fn begin_heard(&self) -> Heard {
        LazyLock::force(&PEACE);
        let words = std::env::temp_dir().join(format!("{}.words", self.mark));
        let mut command = self.command();
        command.stderr(File::create(&words).unwrap());
        let (started, child) = (Instant::now(), self.begin_with(command));
        std::thread::sleep(Duration::from_millis(1000));
        Heard { child, words, started }
    }
}

impl Heard {
    fn said(&self) -> String {
        std::fs::read_to_string(&self.words).unwrap_or_default()
    }

    /// Waits until it says this.
    fn hear(&self, words: &str) {
        assert!(soon(|| self.said().contains(words)), "{words}: {}", self.said());
    }

    fn end(self, job: &Job) -> Ended {
        let Heard { child, words, started } = self;
        let mut ended = job.end(child, started);
        ended.err = std::fs::read_to_string(&words).unwrap();
        let _ = std::fs::remove_file(&words);
        ended
    }
}

/// Node b is lost. Node c, which has its first copy, is asked for it, and its copy store does not answer before it is killed, if it
/// is: it stands still.
fn lose_b_and_its_first_copy(job: &Job, is_killed: bool) -> Ended {
    let heard = job.begin_heard();
    let store = job.copy_store("c");
    store.signal("STOP");
    job.signal_node("b", "KILL");
    heard.hear("node b lost (");
    if is_killed {
        // It is asked by then, and counts as there for half of a lease.
        std::thread::sleep(LEASE / 10);
        store.signal("KILL");
    }
    heard.end(job)
}

const NO_COPY: &str = "node c has no copy of the events of rank 1 any more";

#[test]
fn another_copy_of_a_rank_is_used() {
    for is_killed in [true, false] {
        let job = application("a:1,b:1,c:1,d:1", &["--copies", "3"], 1);
        let ended = lose_b_and_its_first_copy(&job, is_killed);
        assert_right(&ended, &[NO_COPY, "restarting it as incarnation 1 from checkpoint"]);
        // Its agent has renewed its lease meanwhile.
        assert!(!ended.err.contains("node c lost"), "{}", ended.err);
    }
}

#[test]
fn another_copy_of_a_set_is_used() {
    let job = application("a:1,b:2,c:1", &["--copies", "3"], 0);
    let ended = lose_b_and_its_first_copy(&job, true);
    let other = NO_COPY.replace("rank 1", "rank 2");
    assert_right(&ended, &[NO_COPY, &other, "restarting ranks 1-2"]);
}

#[test]
fn another_copy_of_causal_ranks_is_used() {
    let options = ["--network", "lo", "--logging", "causal", "--copies", "3"];
    let job = Job::on("a:1,b:2,c:1").with(&LEASED).with(&options);
    let ended = lose_b_and_its_first_copy(&program_of_application(job, 0), true);
    assert_right(&ended, &[NO_COPY, "restarting ranks 1-2"]);
}

/// One of the two ranks of node b is to go to node a, whose copy store stands still. Meanwhile that of node c is killed, which brings
/// the log, or all of node c: the other copy is on node a.
#[test]
fn another_copy_is_used_where_one_is_lost_on_its_way() {
    for node_is_lost in [false, true] {
        let options = ["--copies", "3", "--sets", "rank", "-v"];
        let job = application("a:1,b:2,c:1", &options, 0);
        let heard = job.begin_heard();
        let (taker, bringer) = (job.copy_store("a"), job.copy_store("c"));
        taker.signal("STOP");
        job.signal_node("b", "KILL");
        heard.hear("rank 2 restarts on node a: its log goes there from node c");
        match node_is_lost {
            true => job.signal_node("c", "KILL"),
            false => bringer.signal("KILL"),
        }
        taker.signal("CONT");
        let said =
            if node_is_lost { "node c lost (" } else { &NO_COPY.replace("rank 1", "rank 2") };
        heard.hear(said);
        assert!(soon(|| job.ranks_of(0).len() >= 2), "{}", heard.said());
        assert_right(&heard.end(&job), &["node b lost ("]);
    }
}

/// The reliable host has the copy, and no room for both ranks: they go to a host that is not used.
#[test]
fn ranks_are_spread_from_the_reliable_host() {
    let options = ["--reliable", "d", "--sets", "rank", "-v"];
    let job = application("a:2,b:2,c:2", &options, 1);
    let heard = job.begin_heard();
    job.signal_node("b", "KILL");
    assert!(soon(|| job.ranks_of(2).len() == 2), "{}", heard.said());
    let moves = [2, 3]
        .map(|rank| format!("rank {rank} restarts on node c: its log goes there from node d"));
    assert_right(&heard.end(&job), &[&moves[0], &moves[1], "2 from checkpoints"]);
}
