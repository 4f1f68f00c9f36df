//! Ranks that take checkpoints, and go on from them when they are killed: with messages that were here and
//! not received, messages that nobody had sent yet, and messages that their receivers lost with them.
//!
//! What a rank sends depends on all that it has seen, looks in vain included, so a rank that does not do
//! again what it did tells the others something else than they have.

use super::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IoSlice;
use taffrail::{Dest, Endpoint, Error, Job, Pattern, Status};

/// Rounds of each rank.
const ROUNDS: u64 = 100;
/// The longest messages: of several pieces.
const LONG: usize = 300_000;
/// Messages to anybody, of which each rank gets one from each other in a round, but not in which.
const ANY: u64 = 1;
/// Messages that lie for a while before they are received.
const LATE: u64 = 2;
/// What was sent, at the end.
const ACCOUNT: u64 = 3;
/// Messages of a rank to itself.
const OWN: u64 = 4;
/// In every so many rounds what lies there is received.
const PATIENCE: u64 = 7;

/// What a rank knows: all of it is in its checkpoints.
struct Known {
    round: u64,
    /// All that it has seen, folded into a number.
    seen: u64,
    /// A late message was here when the checkpoint was taken.
    is_late_here: bool,
    /// What was sent to each rank, and what has come from each, folded: late messages and others.
    sent: Vec<u64>,
    got: Vec<u64>,
}

fn fold(into: &mut u64, what: impl Hash) {
    let mut hasher = DefaultHasher::new();
    (*into, what).hash(&mut hasher);
    *into = hasher.finish();
}

/// The place in an account.
fn place(rank: u32, tag: u64) -> usize {
    2 * rank as usize + usize::from(tag == LATE)
}

impl Known {
    fn new(ranks: u32) -> Known {
        let none = vec![0; 2 * ranks as usize];
        Known { round: 0, seen: 0, is_late_here: false, sent: none.clone(), got: none }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let own = [self.round, self.seen, self.is_late_here.into()];
        let words = [&own[..], &self.sent, &self.got].concat();
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Known {
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let (sent, got) = words[3..].split_at((words.len() - 3) / 2);
        let is_late_here = words[2] == 1;
        Known { round: words[0], seen: words[1], is_late_here, sent: sent.into(), got: got.into() }
    }
}

/// When a process dies.
struct Death {
    round: u64,
    place: u64,
}

struct Rank {
    endpoint: Endpoint,
    known: Known,
    death: Option<Death>,
    into: Vec<u8>,
}

impl Rank {
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.endpoint.rank();
        (0..self.endpoint.size()).filter(move |&rank| rank != me)
    }

    /// It dies here, if this is where.
    fn at(&self, place: u64) {
        let here = |death: &Death| death.round == self.known.round && death.place == place;
        if self.death.as_ref().is_some_and(here) {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
    }

    /// Sends what depends on all that was seen.
    fn send(&mut self, to: u32, tag: u64) {
        let Known { seen, sent, .. } = &mut self.known;
        let word = *seen ^ u64::from(to) << 8 ^ tag;
        let len = match word % 64 {
            // A long one to itself would wait for its receive.
            0 if tag != OWN => LONG,
            1..4 => 40_000,
            4..12 => 700,
            _ => 8 + word as usize % 40,
        };
        let mut bytes: Vec<u8> = (0..len).map(|at| (word as usize + at) as u8).collect();
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        fold(&mut sent[place(to, tag)], (word, len));
        fold(seen, len);
        self.endpoint.send(Dest::new(to, tag), &bytes).unwrap();
    }

    fn receive(&mut self, from: Pattern) {
        let status = self.endpoint.recv(from, &mut self.into).unwrap();
        self.got(status);
    }

    fn got(&mut self, Status { source, tag, len, .. }: Status) {
        let word = u64::from_le_bytes(self.into[..8].try_into().unwrap());
        let bytes = self.into[8..len].iter().enumerate();
        assert!(bytes.into_iter().all(|(at, &byte)| byte == (word as usize + at + 8) as u8));
        fold(&mut self.known.got[place(source, tag)], (word, len));
        fold(&mut self.known.seen, (source, word, len));
    }

    fn round(&mut self) {
        let (me, round) = (self.endpoint.rank(), self.known.round);
        for to in self.others() {
            self.send(to, ANY);
            self.at(0);
        }
        let next = (me + 1) % self.endpoint.size();
        self.send(next, LATE);
        self.send(me, OWN);
        self.at(1);
        for k in 0..self.endpoint.size() - 1 {
            let any = Pattern::any_source(ANY);
            match (self.known.seen + u64::from(k)) % 4 {
                // Looks in vain count.
                0 => {
                    while self.endpoint.probe(any).unwrap().is_none() {
                        fold(&mut self.known.seen, "nothing");
                    }
                    self.receive(any);
                }
                1 => {
                    let (at, len) = (self.into.as_mut_ptr(), self.into.len());
                    // SAFETY: the memory is there until the receive is over.
                    let request = unsafe { self.endpoint.irecv_raw(any, at, len).unwrap() };
                    let status = loop {
                        match self.endpoint.test(request).unwrap() {
                            Some(status) => break status,
                            None => fold(&mut self.known.seen, "not yet"),
                        }
                    };
                    self.got(status);
                }
                _ => self.receive(any),
            }
            self.at(2);
        }
        if round % PATIENCE == PATIENCE - 1 {
            let before = (me + self.endpoint.size() - 1) % self.endpoint.size();
            (0..PATIENCE).for_each(|_| self.receive(Pattern::new(before, LATE)));
        }
        self.receive(Pattern::new(me, OWN));
        self.at(3);
        self.known.round += 1;
    }

    fn late(&mut self) -> bool {
        let before = (self.endpoint.rank() + self.endpoint.size() - 1) % self.endpoint.size();
        self.endpoint.probe(Pattern::new(before, LATE)).unwrap().is_some()
    }

    fn checkpoint(&mut self) -> bool {
        self.known.is_late_here = self.late();
        let state = self.known.to_bytes();
        let (front, rest) = state.split_at(16);
        let taken = self.endpoint.checkpoint(&[IoSlice::new(front), IoSlice::new(rest)]).unwrap();
        self.at(4);
        taken
    }

    /// What had been seen before the checkpoint is there, also for who goes on from it.
    fn after_checkpoint(&mut self) {
        let is_here = self.late();
        assert!(
            is_here || !self.known.is_late_here,
            "a message that was seen is not there any more"
        );
        fold(&mut self.known.seen, is_here);
    }

    /// Tells the others what was sent to them, and compares.
    fn settle(&mut self) {
        let me = self.endpoint.rank();
        let left = ROUNDS % PATIENCE;
        let before = (me + self.endpoint.size() - 1) % self.endpoint.size();
        (0..left).for_each(|_| self.receive(Pattern::new(before, LATE)));
        let account = |of: &[u64], rank: u32| {
            [ANY, LATE].map(|tag| of[place(rank, tag)].to_le_bytes()).concat()
        };
        for to in self.others() {
            let sent = account(&self.known.sent, to);
            self.endpoint.send(Dest::new(to, ACCOUNT), &sent).unwrap();
        }
        for from in self.others() {
            let mut sent = [0; 16];
            self.endpoint.recv(Pattern::new(from, ACCOUNT), &mut sent).unwrap();
            assert_eq!(sent[..], account(&self.known.got, from), "rank {from} to rank {me}");
        }
    }
}

#[test]
fn a_rank_with_checkpoints() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let Some(seed) = number("CHECKPOINTS") else { return };
    let every = number("CHECKPOINTS_EVERY").unwrap();
    let mut job = Job::from_env().unwrap();
    let incarnation = number("TAFFRAIL_INCARNATION").unwrap_or(0);
    let mut random =
        fastrand::Rng::with_seed(seed ^ u64::from(job.rank()) << 32 ^ incarnation << 48);
    let mut endpoint = job.endpoint().unwrap();
    let restored = endpoint.restored();
    assert!(endpoint.restored().is_none(), "it is told once");
    let known = restored.as_deref().map(Known::from_bytes);
    let known = known.unwrap_or_else(|| Known::new(endpoint.size()));
    let first = known.round;
    let death = Death { round: first + random.u64(0..ROUNDS / 2), place: random.u64(0..5) };
    let death = (incarnation < 6).then_some(death);
    let mut rank = Rank { endpoint, known, death, into: vec![0; LONG] };
    if restored.is_some() {
        rank.after_checkpoint();
    }
    let mut taken = 0;
    while rank.known.round < ROUNDS {
        rank.round();
        // Each at another time.
        if (rank.known.round + u64::from(rank.endpoint.rank())).is_multiple_of(every) {
            taken += u64::from(rank.checkpoint());
            rank.after_checkpoint();
        }
    }
    rank.settle();
    println!(
        "rank {} goes from {first} to {}, {taken} taken",
        rank.endpoint.rank(),
        rank.known.round
    );
}

fn run(seed: u64, ranks: u32, every: u64, options: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    let n = ranks.to_string();
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", &n]);
    command.args(LOGGED).args(options).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::checkpoints::a_rank_with_checkpoints"]);
    command.args(["--nocapture", "--quiet"]).stdin(Stdio::null());
    command.env("CHECKPOINTS", seed.to_string()).env("CHECKPOINTS_EVERY", every.to_string());
    ended(command.output().unwrap(), Instant::now())
}

#[test]
fn whoever_is_killed_goes_on_from_its_checkpoint() {
    let given = std::env::var("CHECKPOINTS_SEED").ok();
    let jobs = if given.is_some() { 1 } else { 10 };
    let first = given.map_or_else(|| fastrand::u64(..1 << 32), |seed| seed.parse().unwrap());
    let (mut went_on, mut killed) = (0, 0);
    for seed in first..first + jobs {
        let ranks = 2 + (seed % 3) as u32;
        let every = [1, 3, 10, 40][(seed / 3 % 4) as usize];
        let memory = ["1M", "64M"][(seed / 12 % 2) as usize];
        let events = ["nondeterministic", "all"][(seed / 24 % 2) as usize];
        let options = ["--sets", "rank", "--log-memory", memory, "--events", events];
        let job = run(seed, ranks, every, &options);
        let about = || {
            format!(
                "{}\n{}\n{ranks} ranks, {every}, {options:?}; again: CHECKPOINTS_SEED={seed} cargo test \
                 -p taffrail-launch --test launcher restarts::checkpoints",
                job.out, job.err
            )
        };
        if job.status != 0 && job.err.contains("it is not restarted, since rank") {
            continue;
        }
        assert_eq!(job.status, 0, "{}", about());
        let done = job.out.lines().filter(|line| line.contains("goes from")).count();
        assert_eq!(done, ranks as usize, "{}", about());
        killed += job.err.matches("; restarting it").count();
        went_on += job.err.matches(" from checkpoint ").count();
    }
    println!("{killed} killed, {went_on} went on from checkpoints; first seed {first}");
    assert!(jobs < 10 || went_on > killed / 3, "{went_on} of {killed} went on from checkpoints");
}

#[test]
fn where_none_can_be_taken_that_is_said() {
    for (options, why) in [
        (&["--sets", "node"][..], "start the job with --logging pessimistic --sets rank"),
        (&["--logging", "causal", "--sets", "rank"], "--logging pessimistic --sets rank"),
    ] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", "2"]);
        if !options.contains(&"--logging") {
            command.args(LOGGED);
        }
        command.args(options).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "restarts::checkpoints::a_rank_that_may_not", "--nocapture"]);
        command.arg("--quiet").stdin(Stdio::null()).env("CHECKPOINTS_REFUSED", why);
        let job = ended(command.output().unwrap(), Instant::now());
        assert_eq!(job.status, 0, "{}\n{}", job.out, job.err);
    }
}

#[test]
fn a_rank_that_may_not() {
    let Ok(why) = std::env::var("CHECKPOINTS_REFUSED") else { return };
    let mut endpoint = Job::from_env().unwrap().endpoint().unwrap();
    let error = endpoint.checkpoint(&[]).unwrap_err();
    assert!(
        matches!(error, Error::NotLogged { .. }) && error.to_string().contains(&why),
        "{error}"
    );
}

/// Whatever is under way is named, and afterwards one can be taken.
#[test]
fn nothing_may_be_under_way() {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", "1"]);
    command.args(LOGGED).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::checkpoints::a_rank_that_has_begun", "--nocapture"]);
    command.arg("--quiet").stdin(Stdio::null()).env("CHECKPOINTS_BEGUN", "");
    let job = ended(command.output().unwrap(), Instant::now());
    assert_eq!(job.status, 0, "{}\n{}", job.out, job.err);
}

#[test]
fn a_rank_that_has_begun() {
    if std::env::var("CHECKPOINTS_BEGUN").is_err() {
        return;
    }
    let mut endpoint = Job::from_env().unwrap().endpoint().unwrap();
    let refused = |endpoint: &mut Endpoint, what: &str| match endpoint.checkpoint(&[]) {
        Err(error @ Error::Pending { .. }) => assert!(error.to_string().contains(what), "{error}"),
        other => panic!("{other:?}, expected {what}"),
    };
    let mut into = [0; 8];
    // SAFETY: the array outlives the request.
    let request =
        unsafe { endpoint.irecv_raw(Pattern::any_source(1), into.as_mut_ptr(), 8).unwrap() };
    refused(&mut endpoint, "a receive with any rank");
    endpoint.send((0, 1), b"own").unwrap();
    while endpoint.progress() > 0 {}
    refused(&mut endpoint, "its result was not taken");
    endpoint.wait(request).unwrap();
    endpoint.send((0, 2), b"own").unwrap();
    while endpoint.probe(Pattern::new(0, 2)).unwrap().is_none() {}
    refused(&mut endpoint, "to itself is not received");
    let claimed = endpoint.claim(Pattern::new(0, 2)).unwrap().unwrap();
    refused(&mut endpoint, "claimed and not received");
    endpoint.recv_claimed(claimed, &mut into).unwrap();
    assert!(endpoint.checkpoint(&[]).unwrap());
}
