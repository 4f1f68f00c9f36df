//! Jobs over nodes that lose a node, or the copy that one keeps of another: they come to the answer of a run in peace.

use super::*;
use clap::ValueEnum;
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use taffrail::Job as Membership;
use taffrail_perf::app;

/// Work handed out to the rank that answers: its order is up to chance.
const APP: (&str, usize, u64) = ("irregular", 100, 40);

/// While a file of this name exists an iteration takes this long at least: 12 seconds for all, on however fast a machine.
const PACE: &str = "PACE";
const OF_ITERATION: Duration = Duration::from_millis(300);

/// Where more processes spin than there are processors, launchers and agents wait for theirs for two seconds at times. No node is
/// lost by that.
pub const LEASE: Duration = Duration::from_secs(5);
pub const LEASED: [&str; 2] = ["--lease", "5s"];

/// A rank of an application. Alone it does nothing.
#[test]
fn a_rank_of_an_application() {
    let Ok(part) = std::env::var("APP") else { return };
    let fields: Vec<&str> = part.split(' ').collect();
    let name = app::Name::from_str(fields[0], true).unwrap();
    let (size, iterations) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
    let every = fields.get(3).map_or(0, |every| every.parse().unwrap());
    let mut job = Membership::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let pace = std::env::var(PACE).unwrap_or_default();
    let mut began = Instant::now();
    let after = |_| {
        while began.elapsed() < OF_ITERATION && Path::new(&pace).exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        began = Instant::now();
    };
    let checksum = app::run(name, &mut endpoint, size, iterations, every, after).unwrap();
    if endpoint.rank() == 0 {
        let line = format!("\nchecksum {checksum:016x}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

pub fn application(hosts: &str, options: &[&str], every: u64) -> Job {
    application_of(APP, hosts, options, every)
}

/// A logged one on nodes of this host.
pub fn application_of(app: (&str, usize, u64), hosts: &str, options: &[&str], every: u64) -> Job {
    let job = Job::on(hosts).with(&LEASED).with(&["--logging", "pessimistic", "--network", "lo"]);
    program_of(app, job.with(options), every)
}

/// A logged one.
pub fn application_through(rsh_agent: &str, hosts: &str, options: &[&str], every: u64) -> Job {
    let job = Job::through(rsh_agent, hosts).with(&LEASED).with(&["--logging", "pessimistic"]);
    program_of_application(job.with(options), every)
}

/// The job with ranks of an application. From its begin to its end they keep the pace.
pub fn program_of_application(job: Job, every: u64) -> Job {
    program_of(APP, job, every)
}

fn program_of((name, size, iterations): (&str, usize, u64), job: Job, every: u64) -> Job {
    let part = format!("APP={name} {size} {iterations} {every}");
    let pace = format!("{PACE}={}", job.pace().display());
    let test = std::env::current_exe().unwrap();
    let program = [test.to_str().unwrap(), "--exact", "losses::a_rank_of_an_application"];
    let job = job.with(&["-n", "4"]).with(&["env", &part, &pace]);
    job.with(&program).with(&["--nocapture", "--quiet"])
}

pub fn checksum(ended: &Ended) -> Option<&str> {
    ended.out.lines().find_map(|line| line.strip_prefix("checksum "))
}

/// The answer.
pub static PEACE: LazyLock<String> = LazyLock::new(|| {
    let ended = application("a:2,b:2", &[], 0).run();
    assert_eq!(ended.status, 0, "{}", ended.err);
    checksum(&ended).expect("rank 0 says it").to_owned()
});

impl Process {
    /// Whether it is a rank of the node of this number, by what the agent gives it.
    fn is_rank_of(&self, number: usize) -> bool {
        let of_rank = |variable: &String| {
            variable.starts_with("TAFFRAIL_NODE=") && variable.ends_with(&format!(":{number}"))
        };
        self.environment().iter().any(of_rank)
    }
}

impl Job {
    /// All processes of a node: its agent's, by what starts that, and its ranks, by what the agent gives them.
    pub fn of_node(&self, node: &str) -> Vec<Process> {
        let part = format!("TAFFRAIL_TEST_PART={node}");
        let number = ["a", "b", "c", "d", "e"].iter().position(|name| *name == node).unwrap();
        let is_of =
            |process: &Process| process.environment().contains(&part) || process.is_rank_of(number);
        self.processes().into_iter().filter(is_of).collect()
    }

    /// The ranks of the node of this number.
    pub fn ranks_of(&self, number: usize) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.is_rank_of(number)).collect()
    }

    /// Sends a signal to all processes of a node.
    pub fn signal_node(&self, node: &str, signal: &str) {
        let all = self.of_node(node);
        assert!(!all.is_empty(), "node {node} runs");
        let pids = all.iter().map(|process| process.pid.to_string());
        let _ = Command::new("kill").arg(format!("-{signal}")).args(pids).status();
    }

    /// Kills a node, and another one this number of seconds after that one's lease has ended. How the job has ended.
    pub fn lose_in_turn(&self, child: Child, [first, second]: [&str; 2], seconds: u64) -> Ended {
        let started = Instant::now();
        self.signal_node(first, "KILL");
        std::thread::sleep(LEASE + Duration::from_secs(seconds));
        self.signal_node(second, "KILL");
        self.end(child, started)
    }

    /// Starts it, and waits until the ranks of all nodes have their copies and have begun.
    pub fn begin(&self) -> Child {
        self.begin_with(self.command())
    }

    pub fn begin_with(&self, mut command: Command) -> Child {
        std::fs::write(self.pace(), "").unwrap();
        let child = command.spawn().unwrap();
        let program = std::env::current_exe().unwrap();
        let ranks = || self.running(program.to_str().unwrap()).len();
        assert!(soon(|| ranks() == 4), "{:?}", self.processes());
        // Until then nothing of their events is copied.
        std::thread::sleep(Duration::from_millis(500));
        child
    }

    /// Processes of a node with this in their command line.
    pub fn processes_of(&self, node: &str, words: &str) -> Vec<Process> {
        let all = self.of_node(node).into_iter();
        all.filter(|process| process.words().contains(words)).collect()
    }

    pub fn copy_store(&self, node: &str) -> Process {
        self.processes_of(node, " copies").pop().expect("a copy store")
    }
}

/// Some time while the application runs.
pub fn some_time() {
    std::thread::sleep(Duration::from_millis(300 + fastrand::u64(0..3000)));
}

/// The last line first: that one says why the job ended, and reports are cut off.
fn backwards(lines: &str) -> String {
    lines.lines().rev().flat_map(|line| [line, "\n"]).collect()
}

pub fn assert_right(ended: &Ended, said: &[&str]) {
    assert_answer(ended, &PEACE, said);
}

pub fn assert_answer(ended: &Ended, answer: &str, said: &[&str]) {
    assert_eq!(ended.status, 0, "{}", backwards(&ended.err));
    assert_eq!(checksum(ended), Some(answer), "{}{}", ended.out, ended.err);
    for said in said {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
}

#[test]
fn a_node_is_killed() {
    for (node, ranks, options) in [
        ("b", "2-3", &[][..]),
        ("a", "0-1", &["--sets", "rank"]),
        ("b", "2-3", &["--events", "all"]),
    ] {
        LazyLock::force(&PEACE);
        let (job, started) = (application("a:2,b:2", options, 0), Instant::now());
        let child = job.begin();
        some_time();
        job.signal_node(node, "KILL");
        let ended = job.end(child, started);
        let lost = format!("node {node} lost (the connection with its agent is lost");
        let again = format!("restarting ranks {ranks}");
        assert_right(&ended, &[&lost, &again, "is not survived any more"]);
    }
}

/// What keeps copies is killed: the copies are made again, and used then.
#[test]
fn copies_are_made_again() {
    LazyLock::force(&PEACE);
    let (job, started) = (application("a:2,b:2", &["-v"], 0), Instant::now());
    let child = job.begin();
    let before = job.copy_store("a");
    before.signal("KILL");
    assert!(soon(|| !before.runs() && job.processes_of("a", " copies").len() == 1));
    let of_b = job.processes_of("b", "--elsewhere");
    assert_eq!(of_b.len(), 1, "one logger copies");
    of_b[0].signal("KILL");
    // Until all is copied again: the loss of the node would end the job before.
    std::thread::sleep(Duration::from_secs(4));
    job.signal_node("b", "KILL");
    let ended = job.end(child, started);
    let said = [
        "the copy store (pid ",
        "another one goes on, and nothing is lost",
        "restarting ranks 2-3",
    ];
    assert_right(&ended, &said);
}

/// First the node with the copies of two others, then one of these: the copies are on the third by then.
#[test]
fn the_node_with_the_copy_is_killed_first() {
    LazyLock::force(&PEACE);
    let job = application("a:2,b:1,c:1", &["-v"], 0);
    let ended = job.lose_in_turn(job.begin(), ["b", "c"], 4);
    assert_right(&ended, &["node b lost", "node c lost"]);
}

#[test]
fn a_spare_keeps_the_copies_and_gets_the_ranks() {
    LazyLock::force(&PEACE);
    let (job, started) = (application("a:2,b:2,c:2", &["-v"], 0), Instant::now());
    let child = job.begin();
    some_time();
    job.signal_node("a", "KILL");
    let ended = job.end(child, started);
    assert_right(&ended, &["ranks 0-1 restart on node c", "restarting ranks 0-1"]);
    assert!(!ended.err.contains("is not survived any more"), "{}", ended.err);
}

/// All nodes with ranks are killed at once (MPICH-V2: any number of any).
#[test]
fn all_but_the_reliable_host_are_killed() {
    LazyLock::force(&PEACE);
    let (job, started) = (application("a:2,b:2", &["--reliable", "c"], 0), Instant::now());
    let child = job.begin();
    some_time();
    job.signal_node("a", "KILL");
    job.signal_node("b", "KILL");
    let ended = job.end(child, started);
    let begins = "those of all lost nodes with the copy of their events that c has";
    assert_right(&ended, &[begins, "ranks 0-1 restart on node c", "ranks 2-3 restart on node c"]);
}

/// Then the others have each other's copies.
#[test]
fn the_reliable_host_is_killed_first() {
    LazyLock::force(&PEACE);
    let job = application("a:2,b:2", &["--reliable", "c"], 0);
    let ended = job.lose_in_turn(job.begin(), ["c", "b"], 2);
    assert_right(&ended, &["the reliable host c is lost", "restart on node a"]);
}

/// Everything of a node stands still for longer than its lease: its ranks restart elsewhere, and what wakes up is refused and
/// ended.
#[test]
fn a_node_that_comes_back_is_refused() {
    LazyLock::force(&PEACE);
    // The end of the starter ends no process of the node.
    let apart = "setsid --wait env TAFFRAIL_TEST_PART={host}";
    let job = application_through(apart, "a:2,b:2", &["--network", "lo", "--label"], 0);
    let (started, program) = (Instant::now(), "losses::a_rank_of_an_application");
    let child = job.begin();
    job.signal_node("b", "STOP");
    let moved = || job.processes_of("a", program).len() == 4;
    assert!(soon(moved), "{:?}", job.processes());
    assert_eq!(job.processes_of("b", program).len(), 2, "they stand still");
    job.signal_node("b", "CONT");
    assert!(soon(|| job.processes_of("b", program).is_empty()), "{:?}", job.processes());
    let ended = job.end(child, started);
    let answer = format!("[0] checksum {}", *PEACE);
    assert!(ended.status == 0 && ended.out.contains(&answer), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("node b lost (no word from its agent"), "{}", ended.err);
}

/// Its checkpoints are where the copy of its events is, and so is what its ranks had sent before.
#[test]
fn a_node_is_killed_after_checkpoints() {
    LazyLock::force(&PEACE);
    for (node, every) in [("b", 2), ("a", 1)] {
        let (job, started) = (application("a:2,b:2", &["--sets", "rank"], every), Instant::now());
        let child = job.begin();
        std::thread::sleep(Duration::from_millis(1500 + fastrand::u64(0..1500)));
        job.signal_node(node, "KILL");
        let ended = job.end(child, started);
        assert_right(&ended, &[&format!("node {node} lost"), "2 from checkpoints"]);
    }
}

/// All nodes with ranks are killed at once: what they had sent before their checkpoints comes from the copies of their logs.
#[test]
fn all_but_the_reliable_host_are_killed_after_checkpoints() {
    LazyLock::force(&PEACE);
    let options = ["--sets", "rank", "--reliable", "c"];
    let (job, started) = (application("a:2,b:2", &options, 1), Instant::now());
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1500 + fastrand::u64(0..1500)));
    job.signal_node("a", "KILL");
    job.signal_node("b", "KILL");
    let ended = job.end(child, started);
    assert_right(&ended, &["ranks 0-1 restart from the copy on node c", "4 from checkpoints"]);
}

/// What keeps copies is killed, and checkpoints are copied again; then a rank is killed, and then its node. Its ranks restart
/// elsewhere, and then that node is killed as well.
#[test]
fn checkpoints_are_copied_again() {
    LazyLock::force(&PEACE);
    let options = ["--sets", "rank", "-v"];
    let (job, started) = (application("a:2,b:2,c:2", &options, 1), Instant::now());
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1000));
    let before = job.copy_store("c");
    before.signal("KILL");
    job.ranks_of(1)[0].signal("KILL");
    std::thread::sleep(Duration::from_millis(2500));
    job.signal_node("b", "KILL");
    std::thread::sleep(LEASE + Duration::from_millis(3500));
    job.signal_node("c", "KILL");
    let ended = job.end(child, started);
    assert_right(
        &ended,
        &["the copy store (pid ", "node b lost", "node c lost", "5 from checkpoints"],
    );
}

#[test]
fn without_copies_a_lost_node_ends_the_job_by_name() {
    for options in [&["--durability", "process"][..], &["--durability", "node", "--copies", "1"]] {
        let job = application("a:2,b:2", options, 0);
        let child = job.begin();
        job.signal_node("b", "KILL");
        let ended = job.end(child, Instant::now());
        assert_eq!(ended.status, 137, "{}", ended.err);
        let said = "the loss of a node is not survived: the events of its ranks are there alone";
        assert!(ended.err.contains(said), "{}", ended.err);
        assert!(
            ended.err.contains("node b lost (the connection has ended): ranks 2-3"),
            "{}",
            ended.err
        );
    }
}
