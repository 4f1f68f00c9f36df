//! Open jobs of real processes, which are killed while they connect, and of impostors ([`impostor`]).
//!
//! The test has one fabric; each child process has another, and is killed at a point that it prints.

mod impostor;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Source, Take, Token};
use taffrail_shm::{Config, Setup, ShmFabric};

const PATIENCE: Duration = Duration::from_secs(60);

fn fabric(peer_slots: u32) -> ShmFabric {
    let setup = Setup::new(Config {
        open: true,
        outbox_max: 1 << 20,
        patience: PATIENCE,
        ..Config::new(0, peer_slots)
    });
    setup.and_then(Setup::open).expect("an open job")
}

/// What a fabric has reported.
#[derive(Default, Debug)]
struct Said {
    messages: Vec<(PeerId, u64)>,
    failed: Vec<(PeerId, Fault)>,
}

impl Sink for Said {
    fn message(&mut self, from: PeerId, head: Head, _: Body<'_>) -> Take {
        self.messages.push((from, head.tag));
        Take::Done
    }

    fn sent(&mut self, _: Token, _: Result<(), Fault>) {}

    fn moved(&mut self, _: Token, _: Result<(), Fault>) {}

    fn link(&mut self, peer: PeerId, event: LinkEvent) {
        match event {
            LinkEvent::Closed => self.failed.push((peer, Fault::Closed)),
            LinkEvent::Broken(why) => self.failed.push((peer, why)),
            LinkEvent::Up(_) => {}
        }
    }
}

fn until(
    fabric: &mut ShmFabric,
    said: &mut Said,
    what: &str,
    done: impl Fn(&ShmFabric, &Said) -> bool,
) {
    let start = Instant::now();
    while !done(fabric, said) {
        fabric.poll(said);
        fabric.check(said);
        assert!(start.elapsed() < PATIENCE, "{what}: {said:?}");
    }
}

/// What a child process does: `listen` or `call ADDRESS`, and then `wait` (nothing more) or `meet` (until
/// it is connected with a peer; it sends that peer five messages) or `serve` (until it is killed).
#[test]
#[ignore = "run by the other tests here, as a peer process of theirs"]
fn child() {
    let Ok(part) = std::env::var("OPEN_LINE") else { return };
    let words: Vec<&str> = part.split(' ').collect();
    let mut fabric = fabric(3);
    print_line(&format!("address {}", fabric.address()));
    let begin = || {
        let mut word = String::new();
        std::io::stdin().read_line(&mut word).expect("a pipe");
    };
    begin();
    let mut said = Said::default();
    let (how, address) = (words[1], words.get(2));
    if words[0] == "call" {
        fabric.call(address.expect("an address")).expect("a peer slot");
    }
    if how == "meet" {
        until(&mut fabric, &mut said, "somebody", |fabric, _| fabric.is_met(PeerId(1)));
        for tag in 0..5 {
            let head = Head { tag, ..Head::default() };
            fabric.send(PeerId(1), head, Source::Bytes(&[0; 300])).expect("room");
        }
    }
    print_line("there");
    loop {
        if how != "serve" {
            std::thread::park();
            continue;
        }
        fabric.poll(&mut said);
        fabric.check(&mut said);
        for (from, tag) in said.messages.drain(..) {
            fabric.send(from, Head { tag, ..Head::default() }, Source::Bytes(&[])).expect("room");
        }
    }
}

/// On a line of its own, whatever the test harness has written before.
fn print_line(what: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{what}\n").as_bytes()).and_then(|()| out.flush()).expect("a pipe");
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Process {
    fn start(part: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env("OPEN_LINE", part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut process = Process { child, input, output, address: String::new() };
        process.address = process.read("address ");
        process
    }

    /// What follows on the next line that begins so.
    fn read(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("a pipe");
            assert!(read > 0, "a child has ended");
            if let Some(rest) = line.trim_end().strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    fn begin(&mut self) {
        writeln!(self.input, "begin").expect("a pipe");
    }

    /// Lets it go as far as it goes by itself.
    fn go(&mut self) {
        self.begin();
        self.read("there");
    }

    /// With SIGKILL.
    fn kill(&mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("a process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fabric has no trouble with the next one, which gets the only peer slot.
fn next_one_is_welcome(fabric: &mut ShmFabric) {
    let mut child = Process::start("listen serve");
    child.begin();
    let peer = fabric.call(&child.address).expect("the peer slot is free");
    let mut said = Said::default();
    until(fabric, &mut said, "they meet", |fabric, _| fabric.is_met(peer));
    for tag in 0..20 {
        fabric.send(peer, Head { tag, ..Head::default() }, Source::Bytes(&[])).expect("room");
        until(fabric, &mut said, "an echo", |_, said| said.messages == [(peer, tag)]);
        said.messages.clear();
    }
    assert!(said.failed.is_empty(), "{said:?}");
    child.kill();
    until(fabric, &mut said, "its end", |_, said| !said.failed.is_empty());
    assert_eq!(said.failed, [(peer, Fault::Died)]);
    fabric.forget(peer);
}

fn checks(fabric: &mut ShmFabric, said: &mut Said) {
    for _ in 0..20 {
        fabric.poll(said);
        fabric.check(said);
    }
}

#[test]
fn a_caller_killed_after_its_hello_was_never_there() {
    let mut fabric = fabric(2);
    for _ in 0..5 {
        let mut child = Process::start(&format!("call wait {}", fabric.address()));
        child.go();
        child.kill();
        let mut said = Said::default();
        checks(&mut fabric, &mut said);
        assert!(said.messages.is_empty() && said.failed.is_empty(), "{said:?}");
    }
    next_one_is_welcome(&mut fabric);
}

#[test]
fn a_caller_killed_after_the_answer_has_died_and_what_it_sent_is_delivered() {
    let mut fabric = fabric(2);
    for _ in 0..5 {
        let mut child = Process::start(&format!("call meet {}", fabric.address()));
        child.begin();
        let mut said = Said::default();
        // The answer is all that it gets.
        let address = child.address.clone();
        let there = |fabric: &ShmFabric, _: &Said| fabric.address_of(PeerId(1)) == Some(&address);
        let start = Instant::now();
        while !there(&fabric, &said) || !fabric.is_met(PeerId(1)) {
            fabric.check(&mut said);
            assert!(start.elapsed() < PATIENCE, "nobody came");
        }
        child.read("there");
        child.kill();
        until(&mut fabric, &mut said, "its end", |_, said| !said.failed.is_empty());
        assert_eq!(said.messages, Vec::from_iter((0..5).map(|tag| (PeerId(1), tag))));
        assert_eq!(said.failed, [(PeerId(1), Fault::Died)]);
        fabric.forget(PeerId(1));
        next_one_is_welcome(&mut fabric);
    }
}

#[test]
fn a_callee_killed_before_its_answer_cannot_be_reached() {
    let mut fabric = fabric(2);
    for called_before in [false, true, true] {
        let mut child = Process::start("listen wait");
        child.go();
        let mut said = Said::default();
        if called_before {
            fabric.call(&child.address).expect("a peer slot");
            checks(&mut fabric, &mut said);
            child.kill();
        } else {
            child.kill();
            fabric.call(&child.address).expect("a peer slot");
        }
        until(&mut fabric, &mut said, "its end", |_, said| !said.failed.is_empty());
        checks(&mut fabric, &mut said);
        match &said.failed[..] {
            [(PeerId(1), Fault::Died)] if called_before => {}
            [(PeerId(1), Fault::Unreachable { address, why })] if !called_before => {
                assert_eq!(*address, child.address);
                assert!(why.contains("nobody listens"), "{why}");
            }
            _ => panic!("{said:?}"),
        }
        fabric.forget(PeerId(1));
        next_one_is_welcome(&mut fabric);
    }
}

/// It had answered, and sent, before we have looked.
#[test]
fn a_callee_killed_after_its_answer_has_died_and_what_it_sent_is_delivered() {
    let mut fabric = fabric(2);
    for _ in 0..5 {
        let mut child = Process::start("listen meet");
        fabric.call(&child.address).expect("a peer slot");
        child.begin();
        // It connects to see which process listens here; no answer is needed.
        child.read("there");
        child.kill();
        let mut said = Said::default();
        until(&mut fabric, &mut said, "its end", |_, said| !said.failed.is_empty());
        assert_eq!(said.messages, Vec::from_iter((0..5).map(|tag| (PeerId(1), tag))));
        assert_eq!(said.failed, [(PeerId(1), Fault::Died)]);
        fabric.forget(PeerId(1));
        next_one_is_welcome(&mut fabric);
    }
}

#[test]
fn a_process_killed_at_any_moment_of_crossing_calls_fails_once_and_leaves_its_peer_slot() {
    let mut fabric = fabric(2);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let mut child = Process::start(&format!("call serve {}", fabric.address()));
        child.begin();
        let end = Instant::now() + Duration::from_micros(random.u64(..3000));
        let mut said = Said::default();
        let call = Instant::now() + Duration::from_micros(random.u64(..1000));
        let mut called = None;
        while Instant::now() < end {
            if called.is_none() && Instant::now() > call {
                called = Some(fabric.call(&child.address).expect("the peer slot is free"));
            }
            if random.bool() {
                fabric.check(&mut said);
            }
            fabric.poll(&mut said);
        }
        child.kill();
        let what = format!("round {round}");
        let called =
            called.unwrap_or_else(|| fabric.call(&child.address).expect("the peer slot is free"));
        until(&mut fabric, &mut said, &what, |_, said| !said.failed.is_empty());
        checks(&mut fabric, &mut said);
        assert_eq!(said.failed.len(), 1, "{what}: {said:?}");
        assert_eq!(said.failed[0].0, called, "{what}");
        fabric.forget(called);
    }
    next_one_is_welcome(&mut fabric);
}
