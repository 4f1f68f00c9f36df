//! Ranks of a lost node whose set has moved to another one: they reach each other and the ranks there over sockets.

use super::losses::{application_of, assert_answer, checksum};
use super::*;

/// Ranks of a set that wait for each other all the time.
const APP: (&str, usize, u64) = ("ring", 100, 40);

/// The set of a lost node has moved, and one of its ranks is killed while the launcher stands still. The others cannot reach it, and no
/// verdict has come yet: that is waited for.
#[test]
fn a_rank_of_a_moved_set_is_killed() {
    let peace = application_of(APP, "a:2,b:2", &[], 0).run();
    let answer = checksum(&peace).expect(&peace.err).to_owned();
    for victim in [2, 3] {
        let (job, started) = (application_of(APP, "a:2,b:2", &[], 0), Instant::now());
        let child = job.begin();
        job.signal_node("b", "KILL");
        let program = "losses::a_rank_of_an_application";
        let moved = || job.processes_of("a", program).len() == 4;
        assert!(soon(moved), "{:?}", job.processes());
        // Until they have gone through what their former lives did, and use their links.
        std::thread::sleep(Duration::from_secs(2));
        let of_victim = format!("PMI_RANK={victim}");
        let ranks = job.processes_of("a", program);
        let ranks: Vec<_> =
            ranks.iter().filter(|rank| rank.environment().contains(&of_victim)).collect();
        assert_eq!(ranks.len(), 1, "{:?}", job.processes());
        let launcher = Process { pid: child.id() };
        launcher.signal("STOP");
        ranks[0].signal("KILL");
        std::thread::sleep(Duration::from_secs(1));
        launcher.signal("CONT");
        let ended = job.end(child, started);
        assert_answer(&ended, &answer, &["node b lost", "restarting ranks 2-3"]);
    }
}
