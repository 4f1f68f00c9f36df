//! `kill -9` and `kill -STOP` of everything that a job over nodes has: nothing is left behind.

use super::ranks::program;
use super::*;

/// Ranks that each have a child, and one of them in a session of its own.
const FAMILY: &str = "sleep 300 & setsid sleep 300 & wait";

fn started(job: &Job, ranks: usize) -> Child {
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 2 * ranks), "{:?}", job.processes());
    child
}

#[test]
fn a_rank() {
    let job = Job::on("a:2,b:2").script(4, FAMILY);
    let child = started(&job, 4);
    job.running("bash")[2].signal("KILL");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(ended.err.contains("killed by signal 9 (SIGKILL)"), "{}", ended.err);
}

/// Calls the library until it does not, in its first life.
#[test]
fn a_rank_that_hangs() {
    let Ok(hangs) = std::env::var("HANGS") else { return };
    let mut job = taffrail::Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let mut sum = [1];
    taffrail::collectives::allreduce(&mut endpoint, &mut sum, taffrail::collectives::sum).unwrap();
    let is_first = std::env::var("TAFFRAIL_INCARNATION").is_ok_and(|life| life == "0");
    if hangs == job.rank().to_string() && is_first {
        std::thread::sleep(Duration::from_secs(300));
    }
    taffrail::collectives::barrier(&mut endpoint).unwrap();
}

const OVERDUE: &str = "has not called the library for 1 s, or is stopped; killing it (--heartbeat)";

#[test]
fn who_hangs_is_killed_on_its_node() {
    for (logging, status) in [(&[][..], 137), (&["--logging", "pessimistic"], 0)] {
        let job = Job::on("a:1,b:2").with(&["-n", "3", "--heartbeat", "1"]).with(logging);
        let job = job.with(&["env", "HANGS=2"]).with(&program("kills::a_rank_that_hangs"));
        let ended = job.run();
        assert_eq!(ended.status, status, "{}", ended.err);
        let said = ended.err.lines().find(|line| line.contains(OVERDUE)).expect(&ended.err);
        assert!(said.starts_with("taffrail: rank 2 "), "{}", ended.err);
    }
}

#[test]
fn who_is_stopped_with_the_job_is_not_overdue() {
    let script = "sleep 1.5 & echo up; wait; echo done";
    let job = Job::on("a,b").with(&["--heartbeat", "1"]).script(2, script);
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 2));
    let launcher = Process { pid: child.id() };
    launcher.signal("TSTP");
    let stopped = |process: &Process| process.read("stat").contains(") T ");
    assert!(soon(|| job.running("bash").iter().all(stopped)));
    std::thread::sleep(Duration::from_secs(3));
    launcher.signal("CONT");
    let ended = job.end(child, Instant::now());
    assert_eq!(
        (ended.status, ended.sorted()),
        (0, vec!["done", "done", "up", "up"]),
        "{}",
        ended.err
    );
}

#[test]
fn an_agent() {
    let job = Job::on("a:2,b:2").script(4, FAMILY);
    let child = started(&job, 4);
    job.agent("b").signal("KILL");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    let why = "taffrail: node b lost (the connection has ended): ranks 2-3\n";
    assert!(ended.err.starts_with(why), "{}", ended.err);
    assert!(ended.took < Duration::from_secs(10), "{:?}", ended.took);
}

#[test]
fn an_agent_by_a_signal_that_it_sees() {
    let job = Job::on("a,b").script(2, FAMILY);
    let child = started(&job, 2);
    job.agent("b").signal("TERM");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(ended.err.contains("node b lost (its agent has left): rank 1"), "{}", ended.err);
    assert!(
        ended.err.contains("b: the launcher is gone: the agent got signal 15"),
        "{}",
        ended.err
    );
}

#[test]
fn the_launcher() {
    // With a log there are event loggers, copies of them, and copy stores as well.
    for logging in [&[][..], &["--logging", "pessimistic"], &["--logging", "causal"]] {
        let job = Job::on("a:2,b:2").with(&["--network", "lo"]).with(logging).script(4, FAMILY);
        let mut child = started(&job, 4);
        let stores = job.processes().into_iter().filter(|it| it.words().contains(" copies"));
        assert_eq!(stores.count(), if logging.is_empty() { 0 } else { 2 }, "{logging:?}");
        let killed = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        job.assert_nothing_left("after the launcher was killed");
        let took = killed.elapsed();
        assert!(took < Duration::from_secs(8), "before the lease ends: {took:?}, {logging:?}");
    }
}

/// Neither end can say anything: the guard of the stopped agent ends the ranks when the lease ends. The agents have
/// sessions of their own; the kernel would let a stopped one continue when the launcher ends.
#[test]
fn the_launcher_while_an_agent_is_stopped() {
    let apart = "setsid --wait env TAFFRAIL_TEST_PART={host}";
    let job = Job::through(apart, "a,b").with(&["--lease", "1s"]).script(2, FAMILY);
    let mut child = started(&job, 2);
    job.agent("b").signal("STOP");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(soon(|| job.running("sleep").len() == 2), "agent a has ended its rank");
    job.assert_nothing_left("after the launcher was killed and an agent stopped");
}

#[test]
fn an_agent_that_stands_still_loses_its_node() {
    let job = Job::on("a,b").with(&["--lease", "1s"]).script(2, FAMILY);
    let child = started(&job, 2);
    job.agent("b").signal("STOP");
    assert!(
        soon(|| job.running("sleep").len() == 2),
        "the guard of b has ended the rank of b alone"
    );
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(
        ended.err.contains("node b lost (") && ended.err.contains("): rank 1\n"),
        "{}",
        ended.err
    );
}

/// Its ranks end with its lease. Who waits for one of them fails first, and does not know why that is.
#[test]
fn a_node_that_stands_still_is_named_when_others_miss_it() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid").display().to_string();
    // A process that was killed has no command line any more, and stays until its agent continues.
    let missed = format!(
        "[ $PMI_RANK = 0 ] || {{ echo $$ > {pid}; exec sleep 300; }}
         until [ -s {pid} ]; do sleep 0.02; done
         while grep -q . /proc/$(cat {pid})/cmdline; do sleep 0.02; done
         exit 3"
    );
    let job = Job::on("a,b").with(&["--lease", "1s"]).script(2, &missed);
    let child = job.command().spawn().unwrap();
    assert!(soon(|| !job.running("sleep 300").is_empty()), "{:?}", job.processes());
    job.agent("b").signal("STOP");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 3, "{}", ended.err);
    let silent = "node b: its agent gives no sign of life; its ranks end with its lease";
    assert!(ended.err.contains(silent), "{}", ended.err);
}

/// The launcher grants nothing while it is stopped: agents end their ranks in time, and the launcher finds that out.
#[test]
fn a_launcher_that_stands_still_loses_its_nodes() {
    let job = Job::on("a,b").with(&["--lease", "1s"]).script(2, FAMILY);
    let child = started(&job, 2);
    let launcher = Process { pid: child.id() };
    launcher.signal("STOP");
    assert!(soon(|| job.running("sleep").is_empty()), "{:?}", job.processes());
    launcher.signal("CONT");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(ended.err.contains("the lease of this node has ended"), "{}", ended.err);
    assert!(ended.err.contains("lost (its agent has left)"), "{}", ended.err);
}

#[test]
fn a_guard_is_replaced() {
    let job = Job::on("a,b").script(2, "sleep 1.5; echo $PMI_RANK");
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 2));
    let guards = job.processes().into_iter().filter(|process| process.words().ends_with(" guard"));
    guards.for_each(|guard| guard.signal("KILL"));
    let ended = job.end(child, Instant::now());
    assert_eq!((ended.status, ended.sorted()), (0, vec!["0", "1"]), "{}", ended.err);
}

#[test]
fn many_leases_are_renewed_in_a_job_that_takes_long() {
    let job = Job::on("a,b").with(&["--lease", "4s"]).script(2, "sleep 11; echo $PMI_RANK").run();
    assert_eq!((job.status, job.sorted()), (0, vec!["0", "1"]), "{}", job.err);
}
