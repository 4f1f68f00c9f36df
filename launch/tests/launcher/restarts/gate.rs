//! Every frame on which a rank of another set goes on waits for stable events (`docs/logging.md`, section 2):
//! the event loggers are stopped, and whoever waits for such a frame waits until they go on.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Child;
use taffrail::{Endpoint, Error, Job, Pattern, Rank, collectives};

/// Two ranks that do what a test is about, each for its part. Alone it does nothing.
#[test]
fn a_rank_behind_the_gate() {
    let Some(dir) = std::env::var_os("GATE") else { return };
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let mut sum = [1];
    collectives::allreduce(&mut endpoint, &mut sum, collectives::sum).unwrap();
    let part = Part { dir: dir.into(), rank: job.rank() };
    part.say("there");
    while !part.dir.join("go").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    match (std::env::var("PART").unwrap().as_str(), job.rank()) {
        ("short" | "long", 0) => part.receives(&mut endpoint),
        ("short", _) => part.sends(&mut endpoint, 8),
        ("long", _) => part.sends(&mut endpoint, 1 << 20),
        ("polls", 0) => part.polls(&mut endpoint),
        ("polls", _) => part.sends(&mut endpoint, 8),
        ("unreceived" | "finalize", 0) => {
            part.event(&mut endpoint);
            part.say("received");
        }
        ("unreceived", _) => {
            let result = endpoint.send_sync((0, 2), &[1; 8]);
            assert!(matches!(result, Err(Error::PeerFailed { rank: 0, .. })), "{result:?}");
            part.say("goes_on");
        }
        ("finalize", _) => {
            let result = endpoint.recv((0, 1), &mut [0; 8]);
            assert!(matches!(result, Err(Error::PeerFailed { rank: 0, .. })), "{result:?}");
            part.say("goes_on");
        }
        other => panic!("{other:?}"),
    }
}

struct Part {
    dir: PathBuf,
    rank: Rank,
}

impl Part {
    fn say(&self, what: &str) {
        let name = format!("{what}.{}", self.rank);
        std::fs::write(self.dir.join(name), std::process::id().to_string()).unwrap();
    }

    /// Lets chance decide something, which is an event that the stopped loggers do not take.
    fn event(&self, endpoint: &mut Endpoint) {
        endpoint.send((0, 7), &[1]).unwrap();
        endpoint.recv(Pattern::any_source(7), &mut [0]).unwrap();
    }

    /// Receives what rank 1 sends, by chance from it.
    fn receives(&self, endpoint: &mut Endpoint) {
        let mut into = vec![0; 1 << 20];
        let request = endpoint.scope(|scope| {
            let request = scope.irecv(Pattern::any_source(1), &mut into).unwrap();
            // A long one is here only when its sender has heard of the match.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(100) {
                scope.endpoint().progress();
            }
            self.say("received");
            scope.wait(request)
        });
        assert!(request.unwrap().len > 0);
    }

    /// What chance decides is that probes find nothing; the receive after that is a named one, no event.
    fn polls(&self, endpoint: &mut Endpoint) {
        assert!(endpoint.probe(Pattern::new(1, 9)).unwrap().is_none());
        endpoint.recv((1, 1), &mut [0; 8]).unwrap();
        self.say("received");
    }

    fn sends(&self, endpoint: &mut Endpoint, len: usize) {
        endpoint.send_sync((0, 1), &vec![1; len]).unwrap();
        self.say("goes_on");
    }
}

const DISK: &str = "disk";
const NODE: &str = "node";

struct Gated {
    dir: tempfile::TempDir,
    job: Child,
    loggers: Vec<Pid>,
}

impl Gated {
    /// A job that is about to do its part, with its loggers stopped.
    fn start(part: &str, durability: &str) -> Gated {
        let dir = tempfile::tempdir().unwrap();
        let log_dir = dir.path().join("events");
        std::fs::create_dir(&log_dir).unwrap();
        let mut command = taffrail(&["run", "-n", "2", "--sets", "rank", "--timeout", "50"]);
        command.args(LOGGED).args(["--durability", durability]);
        if durability == DISK {
            command.arg("--log-dir").arg(log_dir);
        }
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "restarts::gate::a_rank_behind_the_gate", "--nocapture"]);
        command.env("GATE", dir.path()).env("PART", part);
        let job = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = |what: &str| dir.path().join(what).exists();
        assert!(soon(|| said("there.0") && said("there.1")));
        let loggers = children(job.id()).into_iter().filter(|pid| is_logger(pid));
        let loggers: Vec<Pid> =
            loggers.map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect();
        assert_eq!(loggers.len(), if durability == NODE { 2 } else { 1 });
        loggers.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
        std::fs::write(dir.path().join("go"), "").unwrap();
        Gated { dir, job, loggers }
    }

    fn has_said(&self, what: &str) -> bool {
        self.dir.path().join(what).exists()
    }

    /// Whether rank 1 stays where it is, when rank 0 has done its part.
    fn holds(&self) -> bool {
        assert!(soon(|| self.has_said("received.0")));
        std::thread::sleep(Duration::from_millis(150));
        !self.has_said("goes_on.1")
    }

    fn kill(&self, rank: Rank) {
        let pid = std::fs::read_to_string(self.dir.path().join(format!("there.{rank}"))).unwrap();
        kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    }

    /// The loggers go on; the job ends well, and rank 1 has gone on.
    fn ends(self) -> Ended {
        self.loggers.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
        let job = ended(self.job.wait_with_output().unwrap(), Instant::now());
        assert_eq!(job.status, 0, "{}", job.err);
        assert!(self.dir.path().join("goes_on.1").exists(), "{}", job.err);
        job
    }
}

/// Those of the parts in which rank 1 goes on because of an event that is not stable.
fn not_held<'a>(parts: &[&'a str], durability: &str) -> Vec<&'a str> {
    let goes_on = |part: &&str| {
        let job = Gated::start(part, durability);
        let holds = job.holds();
        job.ends();
        !holds
    };
    parts.iter().copied().filter(goes_on).collect()
}

#[test]
fn whoever_waits_for_another_set_waits_for_its_events_on_disk() {
    let parts = ["short", "long", "polls", "unreceived", "finalize"];
    assert_eq!(not_held(&parts, DISK), [""; 0]);
}

#[test]
fn whoever_waits_for_another_set_waits_for_all_copies_of_its_events() {
    assert_eq!(not_held(&["short", "long"], NODE), [""; 0]);
}

/// Either of the two is killed while the acknowledgement waits at the gate: it is started again, and the other
/// gets the acknowledgement in the end.
#[test]
fn an_acknowledgement_at_the_gate_survives_the_death_of_either_rank() {
    for (part, victim) in [("short", 0), ("short", 1), ("long", 0), ("long", 1)] {
        let job = Gated::start(part, DISK);
        assert!(job.holds(), "{part}");
        job.kill(victim);
        std::thread::sleep(Duration::from_millis(50));
        let job = job.ends();
        assert!(job.err.contains("as incarnation 1"), "{part} {victim}: {}", job.err);
    }
}
