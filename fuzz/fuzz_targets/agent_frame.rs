//! The bytes of a channel between launcher and agent, in either direction: read or refused, and what is read is
//! written as the same bytes. Both ends take whatever frames come: no panic, and nothing is started without a lease.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use taffrail_agent::lease::Terms;
use taffrail_agent::wire::{
    Decoder, Direction, Durability, EventKind, Frame, GREETING_MAX, Hello, Item, LeftBehind,
    Logging, LoggingProtocol, Program, RankCare, preamble,
};
use taffrail_agent::{Agent, Launcher, Secret, agent, launcher};

/// Ranks of the job.
const RANKS: usize = 4;

// The first byte says who sends, and how many bytes come at a time.
fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let from = if first & 1 == 0 { Direction::Up } else { Direction::Down };
    let piece = usize::from(first >> 1) + 1;
    match from {
        Direction::Up => to_launcher(read(bytes, from, piece)),
        Direction::Down => to_agent(read(bytes, from, piece)),
    }
    hosts(bytes);
});

/// The frames of a channel. Some inputs bring their own preamble.
fn read(bytes: &[u8], from: Direction, piece: usize) -> Vec<Frame> {
    let mut all = Vec::new();
    if bytes.starts_with(b"TA") {
        all.extend(preamble());
    }
    all.extend(bytes);
    let mut decoder = Decoder::new(from);
    let (mut frames, mut used) = (Vec::new(), Vec::new());
    'channel: for piece in all.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next_item() {
                Ok(Some(Item::Preamble(greeting))) => {
                    assert!(greeting.len() <= GREETING_MAX);
                    used.extend(greeting);
                    used.extend(preamble());
                }
                Ok(Some(Item::Frame(frame))) => {
                    used.extend(frame.encode().expect("a frame that was read"));
                    frames.push(frame);
                }
                Ok(None) => break,
                Err(_) => break 'channel,
            }
        }
    }
    assert!(all.starts_with(&used), "what was read is written as the same bytes");
    frames
}

fn to_agent(frames: Vec<Frame>) {
    let (mut agent, _) = Agent::new(Duration::ZERO, Hello::default());
    let mut deadline = Duration::ZERO;
    for (now, frame) in (0..).map(Duration::from_millis).zip(frames) {
        for action in agent.handle(now, agent::Event::Frame(frame)) {
            match action {
                agent::Action::Arm(until) => deadline = until,
                agent::Action::Spawn { life, .. } => {
                    assert!(now < deadline, "{life} is started without a lease");
                    let ended = taffrail_agent::wire::End::Signal(9);
                    agent.handle(now, agent::Event::Started { life, pid: 1 });
                    if life.rank % 2 == 0 {
                        agent.handle(now, agent::Event::Ended { life, end: ended });
                    }
                }
                agent::Action::Send(frame) => assert!(frame.encode().is_ok()),
                _ => {}
            }
        }
    }
    agent.handle(deadline, agent::Event::Tick);
    assert!(
        agent.state() >= agent::State::Fenced
            || agent.state() == agent::State::Greeting
            || agent.state() == agent::State::Leaving && deadline == Duration::ZERO
    );
}

/// One agent of two is what the bytes say; the other one keeps to the rules.
fn to_launcher(frames: Vec<Frame>) {
    let logs = frames.len() % 2 == 1;
    let logging = logs.then(|| Logging {
        protocol: LoggingProtocol::Pessimistic,
        events: EventKind::All,
        durability: Durability::Process,
        memory: 0,
        sets: (0..RANKS as u32).collect(),
    });
    let config = launcher::Config {
        logging,
        hosts: "a:2,b:2,c".parse().expect("hosts"),
        reliable: None,
        care: RankCare::default(),
        ranks: RANKS,
        oversubscribe: false,
        sets: None,
        programs: vec![Program { arguments: vec![b"a".to_vec()], ..Program::default() }],
        apps: vec![0; RANKS],
        job: "job".into(),
        secret: Secret([1; 32]),
        network: String::new(),
        terms: Terms::default(),
        start_timeout: Duration::from_secs(30),
        output_window: 65_536,
    };
    let mut launcher = Launcher::new(config).expect("enough slots");
    let mut good = vec![Frame::Hello(Hello::default())];
    let mut now = Duration::ZERO;
    let mut events = vec![launcher::Event::Begin];
    let mut frames = frames.into_iter();
    loop {
        events.extend(good.drain(..).map(|frame| launcher::Event::Frame { node: 1, frame }));
        for action in launcher.handle(now, std::mem::take(&mut events)) {
            match action {
                launcher::Action::Send(1, Frame::Roster(update)) => {
                    good.push(Frame::RosterAck { epoch: update.epoch });
                }
                launcher::Action::Send(1, Frame::Recover { life, copy: _ }) => {
                    good.push(Frame::Recovered { life, left: LeftBehind::default() });
                }
                launcher::Action::Send(_, frame) => assert!(frame.encode().is_ok()),
                launcher::Action::Report(launcher::Report::Ended { life, .. }) if logs => {
                    events.push(launcher::Event::Recover(vec![life.rank]));
                }
                launcher::Action::Report(
                    launcher::Report::Ended { life, .. } | launcher::Report::Recovered { life, .. },
                ) => {
                    events.push(launcher::Event::Restart { ranks: vec![life.rank], generation: 1 });
                }
                launcher::Action::Close(node) => {
                    assert_ne!(node, 1, "an agent that keeps to the rules is cut off");
                }
                _ => {}
            }
        }
        now += Duration::from_millis(1);
        if events.is_empty() && good.is_empty() {
            let Some(frame) = frames.next() else { return };
            events.push(launcher::Event::Frame { node: 0, frame });
        }
    }
}

/// The same bytes as what a user writes.
fn hosts(bytes: &[u8]) {
    use taffrail_agent::hosts::Hosts;
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for hosts in [text.parse::<Hosts>(), Hosts::from_file(text)].into_iter().flatten() {
        assert!(hosts.0.iter().all(|host| !host.name.starts_with('-') && host.slots > 0));
    }
}
