//! A peer process killed at a random moment: its own traffic fails, and nobody else's.

use super::memory::{Exposed, Way, expose};
use super::mesh::{Deadline, Seen, accepted, limits, poll};
use super::process::Family;
use super::ram::Ram;
use super::roles::{BYSTANDER, FAREWELL, KEYS, LAST, MEMORY, Role, TESTER, VICTIM, cast};
use super::seed::Seeded;
use super::stream::Stream;
use super::{Processes, pattern};
use crate::{Fabric, Fault, Head, Payload, PeerId, Refused, RemoteKey, Source, Token};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What happens to the victim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    /// Stopped first, for a time in which the others continue.
    StoppedAndKilled,
    InGoodOrder,
}

/// Killed in the middle of a stream: a beginning of the stream arrives, every message whole.
pub fn while_sending<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Sender, End::Killed, 20);
}

/// Killed while a stream comes to it.
pub fn while_receiving<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Receiver, End::Killed, 20);
}

/// Killed when it had never polled, and there was no room towards it any more.
pub fn while_still<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Still, End::Killed, 5);
}

/// Stopped at any point of a send, for longer than anyone should have to wait, and then killed.
pub fn while_stopped<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Sender, End::StoppedAndKilled, 10);
}

/// Killed between arming, sleeping and waking.
pub fn while_asleep<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Sleeper, End::Killed, 15);
}

/// Killed while its memory is read and written: what is under way ends, once.
pub fn while_read<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Owner, End::Killed, 20);
}

/// Killed while it reads and writes our memory, which can be deregistered afterwards.
pub fn while_reading<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Reader, End::Killed, 20);
}

/// It leaves by itself: all that it sent arrives, and it is not taken for dead.
pub fn in_good_order<B: Processes>(bench: &B, child: &str) {
    rounds(bench, child, Role::Leaver, End::InGoodOrder, 5);
}

fn rounds<B: Processes>(bench: &B, child: &str, role: Role, end: End, count: usize) {
    let mut random = Seeded::new();
    for _ in 0..count {
        let seed = random.u64(..);
        let (mut family, fabric) = Family::start(bench, child, &cast(role), seed);
        let life = Duration::from_micros(random.u64(..4000));
        let mut tester = Tester::new(fabric, role, seed, bench.patience());
        tester.round(&mut family, end, life, |fault| match end {
            End::InGoodOrder => *fault == Fault::Closed,
            End::Killed | End::StoppedAndKilled => bench.is_end_of_killed(fault),
        });
    }
}

/// Rank 0: deals with the victim as its role asks for, and with the bystander all the time.
struct Tester<F> {
    fabric: F,
    role: Role,
    patience: Duration,
    seen: Seen,
    /// To and from the victim.
    out: Stream,
    into: Stream,
    /// Echoes that came back from the bystander, and whether one is under way.
    echoes: u64,
    asked: bool,
    left: bool,
    /// The victim has shown that it is at work.
    alive: bool,
    keys: Vec<RemoteKey>,
    near: Ram,
    open: HashMap<Token, Way>,
    started: u64,
    seed: u64,
}

impl<F: Fabric> Tester<F> {
    fn new(fabric: F, role: Role, seed: u64, patience: Duration) -> Self {
        assert_eq!(fabric.me(), TESTER);
        let out = Stream::new(seed, TESTER, VICTIM, limits(&fabric));
        let into = match role {
            // What it sends is what it got.
            Role::Sleeper => out.clone(),
            _ => Stream::new(seed, VICTIM, TESTER, limits(&fabric)),
        };
        Tester {
            fabric,
            role,
            patience,
            seen: Seen::default(),
            out,
            into,
            echoes: 0,
            asked: false,
            left: false,
            alive: matches!(role, Role::Receiver | Role::Still),
            keys: Vec::new(),
            near: Ram::new(MEMORY),
            open: HashMap::new(),
            started: 0,
            seed,
        }
    }

    fn round(
        &mut self,
        family: &mut Family,
        end: End,
        life: Duration,
        is_right: impl Fn(&Fault) -> bool,
    ) {
        let exposed = self.expose();
        self.until("a sign of life of the victim", |tester| tester.alive);
        // A victim that dies while the bystander still connects ends that one's start-up instead.
        self.until("the first echo of the bystander", |tester| tester.echoes > 0);
        self.go_on(life);
        match end {
            End::Killed => family.kill(1),
            End::StoppedAndKilled => {
                family.stop(1);
                let before = self.echoes;
                self.go_on(Duration::from_millis(20));
                self.until("echoes while the victim is stopped", |t| t.echoes > before + 100);
                assert_eq!(self.seen.failed, [], "a stopped process is not a dead one");
                family.kill(1);
            }
            End::InGoodOrder => self.until("the leaver's end", |_| family.finished(1)),
        }
        self.until("the news of the victim's end", |tester| !tester.seen.failed.is_empty());
        self.until("the end of all gets and puts with it", |tester| tester.open.is_empty());
        let before = self.echoes;
        self.until("echoes after the victim's end", |tester| tester.echoes > before + 200);
        let [(VICTIM, fault)] = &self.seen.failed[..] else { panic!("{:?}", self.seen.failed) };
        assert!(is_right(fault), "the victim's link ended with {fault:?}");
        let fault = fault.clone();
        let late = accepted(&mut self.fabric, VICTIM, Head::default(), Source::Bytes(b"too late"));
        assert_eq!(late, Err(Refused::Failed(fault)));
        if end == End::InGoodOrder {
            assert_eq!(self.into.count, FAREWELL, "messages sent before leaving");
        }
        for one in exposed {
            // The dead hold nothing back.
            self.fabric.deregister(one.region.expect("a region")).expect("it is there");
            one.ram.fill(0);
        }
        self.until("the bystander to be asked", |tester| !tester.asked);
        let last = Head { kind: LAST, ..Head::default() };
        self.asked = true;
        accepted(&mut self.fabric, BYSTANDER, last, Source::Bytes(&[]))
            .expect("room: nothing else is under way");
        self.until("the bystander's last word", |tester| tester.left);
        self.until("the bystander's end", |_| family.finished(2));
    }

    /// Our memory, if the victim is to reach it.
    fn expose(&mut self) -> Vec<Exposed> {
        let mut all = Vec::new();
        if self.role == Role::Reader {
            for kind in KEYS {
                let exposed = expose(&mut self.fabric, kind, MEMORY);
                let region = exposed.region.expect("a region");
                let key = self.fabric.key(VICTIM, region, 0).expect("a region has a key");
                accepted(&mut self.fabric, VICTIM, Head::default(), Source::Bytes(key.as_bytes()))
                    .expect("room for two keys");
                all.push(exposed);
            }
        }
        all
    }

    fn go_on(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.step();
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Deadline::after(self.patience);
        while !done(self) {
            self.step();
            deadline.check(what);
        }
    }

    fn step(&mut self) {
        self.ask_bystander();
        if self.seen.failed.is_empty() {
            match self.role {
                Role::Receiver | Role::Still => self.send_to_victim(),
                // It is asleep again before the next one comes.
                Role::Sleeper if self.out.count == self.into.count => self.send_to_victim(),
                Role::Owner => self.reach(),
                _ => {}
            }
        }
        poll(&mut self.fabric, &mut self.seen);
        for (from, head, bytes) in std::mem::take(&mut self.seen.messages) {
            self.message(from, head, &bytes);
        }
        for (token, result) in std::mem::take(&mut self.seen.completed) {
            let way = self.open.remove(&token);
            assert!(way.is_some(), "{token:?} ended, and is not under way (any more)");
            if result.is_ok() && way == Some(Way::Get) {
                let expected = pattern::bytes(self.seed, MEMORY);
                pattern::assert_same(&self.near.read(), &expected, format_args!("a get"));
            }
        }
        // The bystander needs a core as well.
        std::thread::yield_now();
    }

    fn message(&mut self, from: PeerId, head: Head, bytes: &[u8]) {
        if from == BYSTANDER {
            assert!(self.asked, "an echo of nothing");
            self.asked = false;
            self.left = head.kind == LAST;
            self.echoes += 1;
            return;
        }
        assert_eq!(from, VICTIM);
        self.alive = true;
        match self.role {
            Role::Sender | Role::Leaver | Role::Sleeper => {
                self.into.receive(head, Payload::of(bytes));
            }
            Role::Owner => {
                self.keys.push(RemoteKey::from_bytes(bytes).expect("a key"));
            }
            Role::Reader => {}
            role => panic!("a message of a {role:?}"),
        }
    }

    fn ask_bystander(&mut self) {
        if !self.asked && !self.left {
            match self.fabric.send(BYSTANDER, Head::default(), Source::Bytes(b"are you well?")) {
                Ok(_) => self.asked = true,
                Err(Refused::Busy) => {}
                Err(refused) => panic!("to the bystander: {refused}"),
            }
        }
    }

    fn send_to_victim(&mut self) {
        let (head, payload) = self.out.next();
        match self.fabric.send(VICTIM, head, Source::Bytes(payload)) {
            Ok(_) => self.out.count += 1,
            Err(Refused::Busy | Refused::Failed(_)) => {}
            Err(refused) => panic!("to the victim: {refused}"),
        }
    }

    fn reach(&mut self) {
        // Few are started before the victim dies: each round begins with another kind of them.
        let kind = self.seed.wrapping_add(self.started) as usize;
        if self.open.is_empty()
            && let Some(key) = self.keys.get(kind % KEYS.len())
        {
            let way = Way::BOTH[kind / KEYS.len() % 2];
            let token = Token(self.started);
            self.started += 1;
            // A put brings what is there already, so that gets know what to expect.
            self.near.fill(if way == Way::Put { self.seed } else { !self.seed });
            // SAFETY: `near` lives as long as `self`, and the fabric does not live longer.
            let started = unsafe {
                way.start(&mut self.fabric, VICTIM, (key, 0), (self.near.at(), MEMORY), token)
            };
            if started.is_ok() {
                self.open.insert(token, way);
            }
        }
    }
}
