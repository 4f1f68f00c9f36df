//! Ranks that read a completion queue, as the runtimes on top do: what ends first, and how often they
//! look in vain, decides what they send. A rank that is killed must do again what it did.

use super::*;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use taffrail::{Completion, Dest, Endpoint, Job, Pattern, Request};

/// Messages of each rank to each other.
const MESSAGES: u64 = 120;
/// A message that is announced.
const LONG: usize = 100_000;
const SHORT: usize = 24;
/// The tag of messages that say what was sent, at the end.
const ACCOUNTS: u64 = 9;
/// Tags of the others; the last is that of multi-receives.
const TAGS: u64 = 3;
const MANY: u64 = TAGS - 1;

/// What a rank has seen so far, folded into a number.
#[derive(Default)]
struct Seen(u64);

impl Seen {
    fn add(&mut self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.0, what).hash(&mut hasher);
        self.0 = hasher.finish();
    }
}

/// A receive and its memory.
struct Receive {
    into: Vec<u8>,
    from: Pattern,
}

struct Rank {
    endpoint: Endpoint,
    seen: Seen,
    receives: HashMap<Request, Receive>,
    sends: HashMap<Request, Vec<u8>>,
    /// Messages carry the rank beside them.
    embedded: bool,
    /// What was sent to each rank: the account of it.
    sent: Vec<Vec<u64>>,
    got: Vec<Vec<u64>>,
}

impl Rank {
    /// A receive of many messages into one buffer, until there is no room for another long one.
    fn receive_many(&mut self) {
        let from = Pattern::any_source(MANY);
        let mut into = vec![0; 4 * LONG];
        let (at, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: as below.
        let request = unsafe { self.endpoint.irecv_multi_raw(from, at, len, LONG).unwrap() };
        self.endpoint.report(request).unwrap();
        self.receives.insert(request, Receive { into, from });
    }

    fn receive(&mut self, from: Pattern) {
        let mut into = vec![0; LONG];
        // SAFETY: the vector lives in the table until the end of the receive was told.
        let request = unsafe { self.endpoint.irecv_raw(from, into.as_mut_ptr(), LONG).unwrap() };
        self.endpoint.report(request).unwrap();
        self.receives.insert(request, Receive { into, from });
    }

    /// Sends what was seen so far to the rank that it says, while there is one left to send to.
    fn send(&mut self) {
        let me = self.endpoint.rank();
        let open = |to: &u32| *to != me && (self.sent[*to as usize].len() as u64) < MESSAGES;
        let open: Vec<u32> = (0..self.endpoint.size()).filter(open).collect();
        if open.is_empty() {
            return;
        }
        let word = self.seen.0;
        let to = open[word as usize % open.len()];
        self.sent[to as usize].push(word);
        let len = if word.is_multiple_of(16) { LONG } else { SHORT };
        let mut bytes = vec![0; len];
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        let dest = Dest::new(to, word % TAGS);
        let dest = if self.embedded { dest.data(me) } else { dest };
        if word.is_multiple_of(3) {
            // SAFETY: the vector lives until the call returns.
            return unsafe { self.endpoint.inject(&dest, bytes.as_ptr(), len).unwrap() };
        }
        // SAFETY: the vector lives in the table until the end of the send was told.
        let request = unsafe { self.endpoint.isend_raw(dest, bytes.as_ptr(), len).unwrap() };
        self.endpoint.report(request).unwrap();
        self.sends.insert(request, bytes);
    }

    /// Looks for the next end of an operation.
    fn look(&mut self) -> bool {
        let Some((request, completion)) = self.endpoint.next_ended().unwrap() else {
            // Looks in vain count, too.
            self.seen.add("nothing");
            return false;
        };
        let status = match completion {
            Completion::Ended(result) => result.unwrap(),
            Completion::Landed(landed) => {
                let landed = landed.unwrap();
                let bytes = &self.receives[&request].into[landed.offset..][..8];
                let word = u64::from_le_bytes(bytes.try_into().unwrap());
                self.got[landed.status.source as usize].push(word);
                self.seen.add((landed.offset, landed.status.len, word));
                return true;
            }
        };
        if self.receives.get(&request).is_some_and(|it| it.from.tag == MANY) {
            self.receives.remove(&request);
            self.seen.add("full");
            self.receive_many();
            return true;
        }
        self.seen.add((status.source, status.tag, status.len));
        if let Some(Receive { into, from }) = self.receives.remove(&request) {
            assert_eq!(status.data.get(), self.embedded.then_some(status.source));
            let word = u64::from_le_bytes(into[..8].try_into().unwrap());
            self.got[status.source as usize].push(word);
            self.seen.add(word);
            self.receive(from);
        } else {
            self.sends.remove(&request).expect("a send that is under way");
        }
        true
    }

    /// Says what is missing.
    fn complain(&mut self) {
        let counts = |words: &[Vec<u64>]| words.iter().map(Vec::len).collect::<Vec<_>>();
        let receives: Vec<_> = self.receives.iter().map(|(r, it)| (*r, it.from)).collect();
        eprintln!(
            "rank {} waits: sent {:?}, got {:?}, receives {receives:?}, sends {:?}\n{}",
            self.endpoint.rank(),
            counts(&self.sent),
            counts(&self.got),
            self.sends.keys(),
            self.endpoint.explain(),
        );
    }

    /// Tells the others what was sent to them, and compares.
    fn settle(&mut self) {
        let (me, size) = (self.endpoint.rank(), self.endpoint.size());
        for request in self.receives.keys().copied().collect::<Vec<_>>() {
            // A multi-receive may be full, which is not told yet.
            let full = self.receives[&request].from.tag == MANY;
            assert!(self.endpoint.cancel(request).unwrap() || full, "all have come");
        }
        let mut accounts: VecDeque<Vec<u8>> = VecDeque::new();
        for to in (0..size).filter(|&to| to != me) {
            let account = self.sent[to as usize].iter().flat_map(|word| word.to_le_bytes());
            accounts.push_back(account.collect());
        }
        for from in 0..size {
            if from == me {
                for to in (0..size).filter(|&to| to != me) {
                    let account = accounts.pop_front().unwrap();
                    self.endpoint.send((to, ACCOUNTS), &account).unwrap();
                }
                continue;
            }
            let mut account = vec![0; 8 * MESSAGES as usize];
            self.endpoint.recv((from, ACCOUNTS), &mut account).unwrap();
            let said: Vec<u64> =
                account.chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
            for tag in 0..TAGS {
                let of = |words: &[u64]| -> Vec<u64> {
                    words.iter().copied().filter(|w| w % TAGS == tag).collect()
                };
                let (mut said, mut got) = (of(&said), of(&self.got[from as usize]));
                // Long ones may end later than shorter ones behind them.
                said.sort_unstable();
                got.sort_unstable();
                assert_eq!(said, got, "what rank {from} says that it has sent to rank {me}");
            }
        }
    }
}

#[test]
fn a_rank_with_a_queue() {
    let Ok(seed) = std::env::var("QUEUES") else { return };
    let number = |name: &str| std::env::var(name).unwrap_or_default().parse::<u64>().unwrap_or(0);
    // As below an MPI, which has the connection to the launcher.
    let embedded = std::env::var("QUEUES_EMBEDDED").is_ok();
    let mut job = if embedded { Job::embedded(1) } else { Job::from_env() }.unwrap();
    let incarnation = number("TAFFRAIL_INCARNATION");
    let seed = seed.parse::<u64>().unwrap() ^ u64::from(job.rank()) << 32 ^ incarnation << 48;
    let mut random = fastrand::Rng::with_seed(seed);
    let endpoint = job.endpoint().unwrap();
    let size = endpoint.size() as usize;
    let all = 2 * MESSAGES * (size as u64 - 1);
    let deadly = if incarnation < 4 { random.u64(..2 * all) } else { u64::MAX };
    let mut rank = Rank {
        endpoint,
        seen: Seen::default(),
        receives: HashMap::new(),
        sends: HashMap::new(),
        embedded,
        sent: vec![Vec::new(); size],
        got: vec![Vec::new(); size],
    };
    let me = rank.endpoint.rank();
    rank.receive(Pattern::any_source(0));
    rank.receive(Pattern::any_source(0));
    rank.receive(Pattern::any_source(0).ignore(1));
    for from in (0..rank.endpoint.size()).filter(|&from| from != me) {
        rank.receive(Pattern::new(from, 1));
    }
    rank.receive_many();
    rank.seen.add(me);
    let has_all = |rank: &Rank| {
        let full = |words: &Vec<Vec<u64>>| words.iter().map(|w| w.len() as u64).sum::<u64>();
        full(&rank.got) == all / 2 && full(&rank.sent) == all / 2 && rank.sends.is_empty()
    };
    (0..4).for_each(|_| rank.send());
    let (mut looks, mut idle) = (0, 0);
    while !has_all(&rank) {
        match rank.look() {
            true => (looks, idle) = (looks + 1, 0),
            false => idle += 1,
        }
        if idle == 20_000_000 {
            rank.complain();
        }
        rank.send();
        if looks >= deadly {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
    }
    rank.settle();
    println!("rank {me} has settled");
}

fn run(seed: u64, ranks: u32, embedded: bool, options: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    let n = ranks.to_string();
    command.args(["--kill-after=5", "60", env!("CARGO_BIN_EXE_taffrail"), "run", "-n", &n]);
    command.args(LOGGED).args(options).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "restarts::queues::a_rank_with_a_queue"]);
    command.args(["--nocapture", "--quiet"]).env("QUEUES", seed.to_string()).stdin(Stdio::null());
    if embedded {
        command.env("QUEUES_EMBEDDED", "1");
    }
    ended(command.output().unwrap(), Instant::now())
}

#[test]
fn what_a_queue_has_told_is_told_again() {
    let seed =
        std::env::var("QUEUES_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    let mut killed = 0;
    for (k, sets) in (0..).zip(["rank", "node", "rank", "rank"]) {
        let seed = seed.wrapping_add(k);
        for events in ["nondeterministic", "all"] {
            let ranks = 2 + (k % 3) as u32;
            let job = run(seed, ranks, k >= 2, &["--sets", sets, "--events", events]);
            let settled: Vec<&str> = job.out.lines().filter(|l| l.contains("settled")).collect();
            let what = format!("QUEUES_SEED={seed}, {ranks} ranks, {sets}, {events}: {}", job.err);
            assert_eq!((job.status, settled.len()), (0, ranks as usize), "{what}");
            killed += job.err.matches("restarting").count();
        }
    }
    assert!(killed > 0, "QUEUES_SEED={seed}: nobody was killed");
}
