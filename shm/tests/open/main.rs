//! Open lines of real processes, which are killed while they connect, and of impostors ([`impostor`]).
//!
//! The test has one line; each child process has another, and is killed at a point that it prints.

mod impostor;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use taffrail_fabric::{Body, Fabric, Fault, Head, LinkEvent, PeerId, Sink, Source, Take, Token};
use taffrail_shm::{Config, Setup, ShmFabric};

const PATIENCE: Duration = Duration::from_secs(60);

fn line(seats: u32) -> ShmFabric {
    let setup = Setup::new(Config {
        open: true,
        outbox_max: 1 << 20,
        patience: PATIENCE,
        ..Config::new(0, seats)
    });
    setup.and_then(Setup::open).expect("an open line")
}

/// What a line has said.
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
    line: &mut ShmFabric,
    said: &mut Said,
    what: &str,
    done: impl Fn(&ShmFabric, &Said) -> bool,
) {
    let start = Instant::now();
    while !done(line, said) {
        line.poll(said);
        line.check(said);
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
    let mut line = line(3);
    print_line(&format!("address {}", line.address()));
    let begin = || {
        let mut word = String::new();
        std::io::stdin().read_line(&mut word).expect("a pipe");
    };
    begin();
    let mut said = Said::default();
    let (how, address) = (words[1], words.get(2));
    if words[0] == "call" {
        line.call(address.expect("an address")).expect("a seat");
    }
    if how == "meet" {
        until(&mut line, &mut said, "somebody", |line, _| line.is_met(PeerId(1)));
        for tag in 0..5 {
            let head = Head { tag, ..Head::default() };
            line.send(PeerId(1), head, Source::Bytes(&[0; 300])).expect("room");
        }
    }
    print_line("there");
    loop {
        if how != "serve" {
            std::thread::park();
            continue;
        }
        line.poll(&mut said);
        line.check(&mut said);
        for (from, tag) in said.messages.drain(..) {
            line.send(from, Head { tag, ..Head::default() }, Source::Bytes(&[])).expect("room");
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

/// The line has no trouble with the next one, which gets the only seat.
fn next_one_is_welcome(line: &mut ShmFabric) {
    let mut child = Process::start("listen serve");
    child.begin();
    let peer = line.call(&child.address).expect("the seat is free");
    let mut said = Said::default();
    until(line, &mut said, "they meet", |line, _| line.is_met(peer));
    for tag in 0..20 {
        line.send(peer, Head { tag, ..Head::default() }, Source::Bytes(&[])).expect("room");
        until(line, &mut said, "an echo", |_, said| said.messages == [(peer, tag)]);
        said.messages.clear();
    }
    assert!(said.failed.is_empty(), "{said:?}");
    child.kill();
    until(line, &mut said, "its end", |_, said| !said.failed.is_empty());
    assert_eq!(said.failed, [(peer, Fault::Died)]);
    line.forget(peer);
}

fn checks(line: &mut ShmFabric, said: &mut Said) {
    for _ in 0..20 {
        line.poll(said);
        line.check(said);
    }
}

#[test]
fn a_caller_killed_after_its_hello_was_never_there() {
    let mut line = line(2);
    for _ in 0..5 {
        let mut child = Process::start(&format!("call wait {}", line.address()));
        child.go();
        child.kill();
        let mut said = Said::default();
        checks(&mut line, &mut said);
        assert!(said.messages.is_empty() && said.failed.is_empty(), "{said:?}");
    }
    next_one_is_welcome(&mut line);
}

#[test]
fn a_caller_killed_after_the_answer_has_died_and_what_it_sent_is_delivered() {
    let mut line = line(2);
    for _ in 0..5 {
        let mut child = Process::start(&format!("call meet {}", line.address()));
        child.begin();
        let mut said = Said::default();
        // The answer is all that it gets.
        let address = child.address.clone();
        let there = |line: &ShmFabric, _: &Said| line.address_of(PeerId(1)) == Some(&address);
        let start = Instant::now();
        while !there(&line, &said) || !line.is_met(PeerId(1)) {
            line.check(&mut said);
            assert!(start.elapsed() < PATIENCE, "nobody came");
        }
        child.read("there");
        child.kill();
        until(&mut line, &mut said, "its end", |_, said| !said.failed.is_empty());
        assert_eq!(said.messages, Vec::from_iter((0..5).map(|tag| (PeerId(1), tag))));
        assert_eq!(said.failed, [(PeerId(1), Fault::Died)]);
        line.forget(PeerId(1));
        next_one_is_welcome(&mut line);
    }
}

#[test]
fn a_callee_killed_before_its_answer_cannot_be_reached() {
    let mut line = line(2);
    for called_before in [false, true, true] {
        let mut child = Process::start("listen wait");
        child.go();
        let mut said = Said::default();
        if called_before {
            line.call(&child.address).expect("a seat");
            checks(&mut line, &mut said);
            child.kill();
        } else {
            child.kill();
            line.call(&child.address).expect("a seat");
        }
        until(&mut line, &mut said, "its end", |_, said| !said.failed.is_empty());
        checks(&mut line, &mut said);
        match &said.failed[..] {
            [(PeerId(1), Fault::Died)] if called_before => {}
            [(PeerId(1), Fault::Unreachable { address, why })] if !called_before => {
                assert_eq!(*address, child.address);
                assert!(why.contains("nobody listens"), "{why}");
            }
            _ => panic!("{said:?}"),
        }
        line.forget(PeerId(1));
        next_one_is_welcome(&mut line);
    }
}

/// It had answered, and sent, before we have looked.
#[test]
fn a_callee_killed_after_its_answer_has_died_and_what_it_sent_is_delivered() {
    let mut line = line(2);
    for _ in 0..5 {
        let mut child = Process::start("listen meet");
        line.call(&child.address).expect("a seat");
        child.begin();
        // It connects to see which process listens here; no answer is needed.
        child.read("there");
        child.kill();
        let mut said = Said::default();
        until(&mut line, &mut said, "its end", |_, said| !said.failed.is_empty());
        assert_eq!(said.messages, Vec::from_iter((0..5).map(|tag| (PeerId(1), tag))));
        assert_eq!(said.failed, [(PeerId(1), Fault::Died)]);
        line.forget(PeerId(1));
        next_one_is_welcome(&mut line);
    }
}

#[test]
fn a_process_killed_at_any_moment_of_crossing_calls_fails_once_and_leaves_its_seat() {
    let mut line = line(2);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let mut child = Process::start(&format!("call serve {}", line.address()));
        child.begin();
        let end = Instant::now() + Duration::from_micros(random.u64(..3000));
        let mut said = Said::default();
        let call = Instant::now() + Duration::from_micros(random.u64(..1000));
        let mut called = None;
        while Instant::now() < end {
            if called.is_none() && Instant::now() > call {
                called = Some(line.call(&child.address).expect("the seat is free"));
            }
            if random.bool() {
                line.check(&mut said);
            }
            line.poll(&mut said);
        }
        child.kill();
        let what = format!("round {round}");
        let called = called.unwrap_or_else(|| line.call(&child.address).expect("the seat is free"));
        until(&mut line, &mut said, &what, |_, said| !said.failed.is_empty());
        checks(&mut line, &mut said);
        assert_eq!(said.failed.len(), 1, "{what}: {said:?}");
        assert_eq!(said.failed[0].0, called, "{what}");
        line.forget(called);
    }
    next_one_is_welcome(&mut line);
}
