//! Links between nodes that are cut at a certain moment, and heal: in the middle of a big message, while a rank is replayed, and
//! before a node is lost.

use super::losses::{PEACE, assert_right, program_of_application, some_time};
use super::messages::{bytes, joined, line};
use super::ranks::{program, said};
use super::spaces::{NETNS, Nodes};
use super::*;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use taffrail::Pattern;

/// The folder in which ranks write how far they are.
pub(super) const FOLDER: &str = "CUTS_FOLDER";
/// The file in it that is there when the link has been cut.
const IS_CUT: &str = "cut";

/// How far a life of a rank is, a byte for each step.
struct Steps(File);

impl Steps {
    fn begin(folder: &str, rank: u32, life: u32) -> Steps {
        let path = Path::new(folder).join(format!("{rank}.{life}"));
        Steps(File::options().create(true).append(true).open(path).unwrap())
    }

    fn done(&mut self) {
        self.0.write_all(b".").unwrap();
    }
}

/// A file of this name is put into the folder: others wait for that.
pub(super) fn mark(folder: impl AsRef<Path>, name: &str) {
    std::fs::write(folder.as_ref().join(name), []).unwrap();
}

pub(super) fn is_marked(folder: impl AsRef<Path>, name: &str) -> bool {
    folder.as_ref().join(name).exists()
}

/// How a link is cut.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    /// Nothing passes.
    Cable,
    /// Long packets to the second node do not.
    LongPackets,
}

/// Two ranks, each on a node of its own.
pub(super) struct Pair<'a> {
    pub(super) how: Cut,
    pub(super) nodes: &'a Nodes,
    pub(super) folder: tempfile::TempDir,
    pub(super) job: Job,
}

impl Pair<'_> {
    pub(super) fn of<'a>(nodes: &'a Nodes, options: &[&str], test: &str) -> Pair<'a> {
        let folder = tempfile::tempdir().unwrap();
        let job = Job::through(NETNS, &format!("{0}n0:1,{0}n1:1", nodes.id));
        let job = job.with(&["--network", Nodes::NETWORK, "-n", "2"]).with(options);
        let steps = format!("{FOLDER}={}", folder.path().display());
        let job = job.with(&["env", &steps]).with(&program(test));
        Pair { how: Cut::Cable, nodes, folder, job }
    }

    pub(super) fn set_cut(&self, on: bool) {
        match self.how {
            Cut::Cable => self.nodes.cable(1, if on { "down" } else { "up" }),
            Cut::LongPackets => assert!(self.nodes.swallow(1, on)),
        }
    }

    /// Cuts the link. Ranks that wait for that before they come to their end continue.
    fn cut_link(&self) {
        self.set_cut(true);
        mark(self.folder.path(), IS_CUT);
    }

    /// How many steps a life of a rank has done.
    fn steps(&self, life: &str) -> u64 {
        std::fs::metadata(self.folder.path().join(life)).map_or(0, |file| file.len())
    }

    /// Cuts the link for some seconds as soon as a life of a rank has done some steps, and until none is done for a second: what
    /// has come before takes its time. Waits for the end. How many it had done while the link was cut.
    fn cut(&self, life: &str, steps: u64, seconds: u64) -> (u64, Ended) {
        let (child, started) = (self.job.command().spawn().unwrap(), Instant::now());
        let far = soon(|| self.steps(life) >= steps);
        self.cut_link();
        let mut cut = self.steps(life);
        let still = (1..=20).any(|second| {
            std::thread::sleep(Duration::from_secs(1));
            let before = std::mem::replace(&mut cut, self.steps(life));
            before == cut && second >= seconds
        });
        self.set_cut(false);
        let ended = self.job.end(child, started);
        assert!(far && still, "{cut} steps: {}{}", ended.out, ended.err);
        (cut, ended)
    }

    /// Cuts the link as soon as a life of a rank has done some steps, and until the job has ended.
    fn cut_for_good(&self, life: &str, steps: u64) -> Ended {
        let (child, started) = (self.job.command().spawn().unwrap(), Instant::now());
        let far = soon(|| self.steps(life) >= steps);
        self.cut_link();
        let ended = self.job.end(child, started);
        self.set_cut(false);
        assert!(far, "{}{}", ended.out, ended.err);
        ended
    }
}

/// The link is not healed: what is not logged ends by name, and what is logged comes to its answer on the node that is left.
#[test]
fn a_big_message_whose_link_stays_cut_ends_by_name_or_is_sent_again() {
    let Some(nodes) = Nodes::new() else { return };
    let test = "cuts::a_rank_with_big_messages";
    let mut pair = Pair::of(&nodes, &[], test);
    pair.job.before = vec!["env".to_owned(), "TAFFRAIL_CONNECT_TIMEOUT=3".to_owned()];
    let ended = pair.cut_for_good("1.0", 2);
    let by_name = ["rank 0", "rank 1"].iter().any(|rank| ended.err.contains(rank));
    assert!(ended.status != 0 && by_name, "{}{}", ended.out, ended.err);

    let logged = ["--logging", "pessimistic", "--link-timeout", "8s"];
    let ended = Pair::of(&nodes, &logged, test).cut_for_good("1.0", 2);
    assert!(ended.err.contains("have not reached each other for 8 s"), "{}", ended.err);
    assert_all(&ended);
}

/// Both are right, and have said so.
pub(super) fn assert_all(ended: &Ended) {
    let expected = (0, vec!["rank 0: all", "rank 1: all"]);
    assert_eq!((ended.status, said(ended)), expected, "{}{}", ended.out, ended.err);
}

/// Of one fragment and of several, longer than what a connection keeps, and the last one longer than what is sent without asking
/// if it is logged.
const BIG: [usize; 5] = [256 << 10, 1 << 20, 8 << 20, 3 << 20, 16 << 20];
const BIG_ONES: usize = 60;
/// If the link has not been cut by then, rank 1 waits for that while a message of 8 MiB comes.
const LATEST: usize = 47;

/// A rank that exchanges big messages with the other one. No byte is the same in two of them that follow each other.
#[test]
fn a_rank_with_big_messages() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (_job, mut ep) = joined();
    let (me, other) = (ep.rank(), 1 - ep.rank());
    let mut steps = Steps::begin(&folder, me, 0);
    let longest = BIG.into_iter().max().unwrap();
    let (all, mut into) = (bytes(longest + 2 * BIG_ONES, 0), vec![0; longest]);
    for number in 0..BIG_ONES {
        if (me, number) == (1, LATEST) {
            assert!(soon(|| is_marked(&folder, IS_CUT)), "the link is not cut");
        }
        let len = BIG[number % BIG.len()];
        let of = |rank: u32| &all[2 * number + rank as usize..][..len];
        let into = &mut into[..len];
        let status = ep.sendrecv((other, 1), of(me), (other, 1), into).unwrap();
        assert!(status.len == len && into == of(other), "message {number} of {other}");
        steps.done();
    }
    ep.sendrecv((other, 2), &[], (other, 2), &mut []).unwrap();
    assert_eq!(ep.probe((other, 1)).unwrap(), None, "nothing came twice");
    // Before that the other one does not finalise.
    ep.sendrecv((other, 3), &[], (other, 3), &mut []).unwrap();
    line(&format!("rank {me}: all"));
}

/// The kernel outlasts two seconds; after seven the connection is another one.
#[test]
fn a_big_message_whose_link_is_cut_is_whole() {
    let Some(nodes) = Nodes::new() else { return };
    let pessimistic = ["--logging", "pessimistic"];
    for (options, seconds) in [(&[][..], 7), (&pessimistic, 2), (&pessimistic, 7)] {
        let pair = Pair::of(&nodes, options, "cuts::a_rank_with_big_messages");
        let (cut, ended) = pair.cut("1.0", 2, seconds);
        assert!(cut < BIG_ONES as u64, "all were there before");
        assert_all(&ended);
    }
}

/// Handshakes and other short packets pass, and long ones do not, as with an MTU of 9000 where a network on the way has 1500: what is not
/// logged ends by its limit, and what is logged continues on one node, or when they pass again.
#[test]
fn a_way_that_swallows_long_packets_is_a_cut_link() {
    let Some(nodes) = Nodes::new() else { return };
    if !(nodes.swallow(1, true) && nodes.swallow(1, false)) {
        return;
    }
    let pair = |options: &[&str]| {
        let pair = Pair::of(&nodes, options, "cuts::a_rank_with_big_messages");
        Pair { how: Cut::LongPackets, ..pair }
    };
    const WHY: &str =
        "connections were made and have carried nothing; check the MTU of all networks on the way";
    let mut unlogged = pair(&[]);
    unlogged.job.before = vec!["env".to_owned(), "TAFFRAIL_CONNECT_TIMEOUT=8".to_owned()];
    let ended = unlogged.cut_for_good("1.0", 2);
    assert!(ended.status != 0 && ended.err.contains(WHY), "{}{}", ended.out, ended.err);

    let logged = ["--logging", "pessimistic"];
    let ended = pair(&[&logged[..], &["--link-timeout", "8s"]].concat()).cut_for_good("1.0", 2);
    let apart = "have not reached each other for 8 s";
    assert!(ended.err.contains(apart) && ended.err.contains(WHY), "{}", ended.err);
    assert_all(&ended);

    let (cut, ended) = pair(&logged).cut("1.0", 2, 7);
    assert!(cut < BIG_ONES as u64 && !ended.err.contains(" lost ("), "{cut}: {}", ended.err);
    assert_all(&ended);
}

/// Rank 1 is killed in this round of its first life.
const DEADLY: u64 = 400;
const ROUNDS: u64 = 450;
const LEN: usize = 64 << 10;

/// A rank that exchanges many messages with the other one, and takes its time when it is replayed.
#[test]
fn a_rank_with_a_history() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (_job, mut ep) = joined();
    let (me, other) = (ep.rank(), 1 - ep.rank());
    let life = std::env::var("TAFFRAIL_INCARNATION").unwrap().parse().unwrap();
    let mut steps = Steps::begin(&folder, me, life);
    let (all, mut into) = (bytes(LEN + ROUNDS as usize, 0), vec![0; LEN]);
    for round in 0..ROUNDS {
        let expected = &all[round as usize..][..LEN];
        match (me, life) {
            (1, 0) if round == DEADLY => Process { pid: std::process::id() }.signal("KILL"),
            (1, 1) if round < DEADLY => std::thread::sleep(Duration::from_millis(5)),
            _ => {}
        }
        if me == 0 {
            ep.send((other, 1), expected).unwrap();
        }
        let status = ep.recv(Pattern::any_source(1), &mut into).unwrap();
        assert!(status.len == LEN && into == expected, "message {round} of {other}");
        if me == 1 {
            ep.send((other, 1), expected).unwrap();
        }
        steps.done();
    }
    line(&format!("rank {me}: all"));
}

/// A rank is killed, and the link over which it gets again what it had received is cut in the middle of that.
#[test]
fn a_rank_whose_link_is_cut_while_it_is_replayed_is_not_missed() {
    let Some(nodes) = Nodes::new() else { return };
    for (logging, seconds) in [("pessimistic", 3), ("pessimistic", 7), ("causal", 7)] {
        let options = ["--logging", logging, "--sets", "rank"];
        let pair = Pair::of(&nodes, &options, "cuts::a_rank_with_a_history");
        let (cut, ended) = pair.cut("1.1", 20, seconds);
        assert!(cut < DEADLY, "{cut} rounds: all was replayed before");
        assert!(ended.err.contains("restarting it as incarnation 1"), "{}", ended.err);
        assert_all(&ended);
    }
}

/// As above, and the link is not healed: the node where the rank was replayed is ended.
#[test]
fn a_rank_whose_link_stays_cut_while_it_is_replayed_is_not_missed() {
    let Some(nodes) = Nodes::new() else { return };
    let options = ["--logging", "pessimistic", "--sets", "rank", "--link-timeout", "8s"];
    let ended = Pair::of(&nodes, &options, "cuts::a_rank_with_a_history").cut_for_good("1.1", 20);
    assert!(ended.err.contains("restarting it as incarnation 1"), "{}", ended.err);
    assert!(ended.err.contains("have not reached each other for 8 s"), "{}", ended.err);
    assert_all(&ended);
}

/// Two nodes are cut off from each other until the events of the first one cannot be copied. The link heals, and the node is killed: what
/// was copied before counts, and is continued.
#[test]
fn a_node_that_is_killed_when_its_link_has_healed_is_not_missed() {
    let Some(nodes) = Nodes::new() else { return };
    LazyLock::force(&PEACE);
    let job = Job::through(NETNS, &format!("{0}n0:2,{0}n1:2", nodes.id));
    let options = ["--network", Nodes::NETWORK, "-v", "--lease", "5s", "--logging", "pessimistic"];
    let job = program_of_application(job.with(&options), 0);
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut command = job.command();
    command.stderr(said.reopen().unwrap());
    let (child, started) = (job.begin_with(command), Instant::now());
    let text = || std::fs::read_to_string(said.path()).unwrap();
    let node = format!("{}n0", nodes.id);
    some_time();
    nodes.cable(1, "down");
    let uncopied = format!("the events of node {node} cannot be copied");
    let cut = soon(|| text().contains(&uncopied));
    nodes.cable(1, "up");
    some_time();
    let killed = job.kill_in_namespace(&node);
    let mut ended = job.end(child, started);
    ended.err = text();
    assert!(cut && killed > 2, "{cut}, {killed} processes: {}", ended.err);
    assert_right(&ended, &[&format!("node {node} lost"), "restarting ranks 0-1"]);
    let never = format!("the loss of node {node} is not survived any more");
    assert!(!ended.err.contains(&never), "{}", ended.err);
}

impl Job {
    /// Kills all processes of the job in a network namespace. How many.
    fn kill_in_namespace(&self, name: &str) -> usize {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(format!("/run/netns/{name}")).unwrap().ino();
        let theirs = |process: &Process| {
            let of = std::fs::metadata(format!("/proc/{}/ns/net", process.pid));
            of.is_ok_and(|of| of.ino() == inode)
        };
        let all: Vec<_> = self.processes().into_iter().filter(theirs).collect();
        let pids = all.iter().map(|process| process.pid.to_string());
        let _ = Command::new("kill").arg("-KILL").args(pids).status();
        all.len()
    }
}
