//! Jobs over nodes that lose a node, or the copy that one keeps of another: they come to the answer of a run in peace.

use super::*;
use clap::ValueEnum;
use std::io::Write as _;
use std::sync::LazyLock;
use taffrail::Job as Membership;
use taffrail_perf::app;

/// Work handed out to the rank that answers: its order is up to chance.
const APP: (&str, usize, u64) = ("irregular", 100, 40);

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
    let checksum = app::run(name, &mut endpoint, size, iterations, every, |_| {}).unwrap();
    if endpoint.rank() == 0 {
        let line = format!("\nchecksum {checksum:016x}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

fn application(hosts: &str, options: &[&str], every: u64) -> Job {
    application_through(HERE, hosts, &[&["--network", "lo"], options].concat(), every)
}

/// A logged one.
pub fn application_through(rsh_agent: &str, hosts: &str, options: &[&str], every: u64) -> Job {
    let job = Job::through(rsh_agent, hosts).with(&["--lease", "2s", "--logging", "pessimistic"]);
    program_of_application(job.with(options), every)
}

/// The job with ranks of an application.
pub fn program_of_application(job: Job, every: u64) -> Job {
    let (name, size, iterations) = APP;
    let part = format!("APP={name} {size} {iterations} {every}");
    let test = std::env::current_exe().unwrap();
    let program = [test.to_str().unwrap(), "--exact", "losses::a_rank_of_an_application"];
    let job = job.with(&["-n", "4"]).with(&["env", &part]);
    job.with(&program).with(&["--nocapture", "--quiet"])
}

fn checksum(ended: &Ended) -> Option<&str> {
    ended.out.lines().find_map(|line| line.strip_prefix("checksum "))
}

/// The answer, and how long it takes to be found.
pub static PEACE: LazyLock<(String, Duration)> = LazyLock::new(|| {
    let ended = application("a:2,b:2", &[], 0).run();
    assert_eq!(ended.status, 0, "{}", ended.err);
    (checksum(&ended).expect("rank 0 says it").to_owned(), ended.took)
});

impl Job {
    /// All processes of a node: its agent's, by what starts that, and its ranks, by what the agent gives them.
    fn of_node(&self, node: &str) -> Vec<Process> {
        let part = format!("TAFFRAIL_TEST_PART={node}");
        let number = ["a", "b", "c"].iter().position(|name| *name == node).unwrap();
        let agent = self.processes().into_iter();
        let agent = agent.filter(|process| process.environment().contains(&part));
        let mut all: Vec<_> = agent.chain(self.ranks_of(&number.to_string())).collect();
        all.sort_by_key(|process| process.pid);
        all.dedup_by_key(|process| process.pid);
        all
    }

    /// The ranks of the node of this number.
    pub fn ranks_of(&self, number: &str) -> Vec<Process> {
        let of_rank = |variable: &String| {
            variable.starts_with("TAFFRAIL_NODE=") && variable.ends_with(&format!(":{number}"))
        };
        let is_of = |process: &Process| process.environment().iter().any(of_rank);
        self.processes().into_iter().filter(is_of).collect()
    }

    /// Sends a signal to all processes of a node.
    fn signal_node(&self, node: &str, signal: &str) {
        let all = self.of_node(node);
        assert!(!all.is_empty(), "node {node} runs");
        let pids = all.iter().map(|process| process.pid.to_string());
        let _ = Command::new("kill").arg(format!("-{signal}")).args(pids).status();
    }

    /// Starts it, and waits until the ranks of all nodes have their copies and have begun.
    pub fn begin(&self) -> Child {
        self.begin_with(self.command())
    }

    pub fn begin_with(&self, mut command: Command) -> Child {
        let child = command.spawn().unwrap();
        let program = std::env::current_exe().unwrap();
        let ranks = || self.running(program.to_str().unwrap()).len();
        assert!(soon(|| ranks() == 4), "{:?}", self.processes());
        // Until then nothing of their events is copied.
        std::thread::sleep(Duration::from_millis(500));
        child
    }

    /// Processes of a node with this in their command line.
    fn processes_of(&self, node: &str, words: &str) -> Vec<Process> {
        let all = self.of_node(node).into_iter();
        all.filter(|process| process.words().contains(words)).collect()
    }

    fn copy_store(&self, node: &str) -> Process {
        self.processes_of(node, " copies").pop().expect("a copy store")
    }
}

/// Some time while the application runs.
pub fn some_time() {
    let took = PEACE.1.as_millis() as u64;
    std::thread::sleep(Duration::from_millis(300 + fastrand::u64(0..took / 2)));
}

pub fn assert_right(ended: &Ended, said: &[&str]) {
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert_eq!(checksum(ended), Some(PEACE.0.as_str()), "{}{}", ended.out, ended.err);
    for said in said {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
}

/// Survivors know events of a node that its copy lacks: no rank is started from that alone.
#[test]
fn the_loss_of_a_node_ends_a_causal_job_by_name() {
    LazyLock::force(&PEACE);
    let options = ["--lease", "2s", "--network", "lo", "--logging", "causal"];
    let job = program_of_application(Job::on("a:2,b:2").with(&options), 0);
    let child = job.begin();
    some_time();
    job.signal_node("b", "KILL");
    let ended = job.end(child, Instant::now());
    assert_ne!(ended.status, 0, "{}", ended.err);
    let why = "): ranks 2-3; with --logging causal this is not survived yet\n";
    assert!(ended.err.contains("node b lost (") && ended.err.contains(why), "{}", ended.err);
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
    let (job, started) = (application("a:2,b:1,c:1", &["-v"], 0), Instant::now());
    let child = job.begin();
    job.signal_node("b", "KILL");
    std::thread::sleep(Duration::from_secs(6));
    job.signal_node("c", "KILL");
    let ended = job.end(child, started);
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
    let begins = "those of all lost nodes on c, which has a copy of their events";
    assert_right(&ended, &[begins, "ranks 0-1 restart on node c", "ranks 2-3 restart on node c"]);
}

/// Then the others have each other's copies.
#[test]
fn the_reliable_host_is_killed_first() {
    LazyLock::force(&PEACE);
    let (job, started) = (application("a:2,b:2", &["--reliable", "c"], 0), Instant::now());
    let child = job.begin();
    job.signal_node("c", "KILL");
    std::thread::sleep(Duration::from_secs(4));
    job.signal_node("b", "KILL");
    let ended = job.end(child, started);
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
    let answer = format!("[0] checksum {}", PEACE.0);
    assert!(ended.status == 0 && ended.out.contains(&answer), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("node b lost (no word from its agent"), "{}", ended.err);
}

/// The others have dropped what a checkpoint covers, which is gone with its node.
#[test]
fn a_lost_checkpoint_ends_the_job_by_name() {
    let job = application("a:2,b:2", &["--sets", "rank"], 2);
    let child = job.begin();
    std::thread::sleep(Duration::from_millis(1500));
    job.signal_node("b", "KILL");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 1, "{}", ended.err);
    let why = "cannot be restarted: its checkpoint was on node b alone, which is lost";
    assert!(ended.err.contains(why), "{}", ended.err);
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
