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
use taffrail_agent::{Agent, Launcher, NodeId, Secret, agent, launcher};

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

/// One agent of three is what the bytes say, and leaves behind them. The others keep to the rules; they restart what was lost, or say
/// that they cannot.
fn to_launcher(frames: Vec<Frame>) {
    let kind = frames.len() % 4;
    let logs = kind > 0;
    let mut launcher = Launcher::new(config(kind)).expect("enough slots");
    let hello = |node| launcher::Event::Frame { node, frame: Frame::Hello(Hello::default()) };
    let mut events = vec![launcher::Event::Begin, hello(1), hello(2)];
    let mut now = Duration::ZERO;
    let mut copied = Vec::new();
    let mut frames = frames.into_iter().map(Some).chain([None]);
    loop {
        let mut follow = Vec::new();
        for action in launcher.handle(now, std::mem::take(&mut events)) {
            match action {
                launcher::Action::Send(0, Frame::Copy(order)) => copied.push(order.epoch),
                launcher::Action::Send(0, frame) => assert!(frame.encode().is_ok()),
                launcher::Action::Send(node, frame) => {
                    assert!(frame.encode().is_ok());
                    let answer = answer(node, frame);
                    follow.extend(answer.map(|frame| launcher::Event::Frame { node, frame }));
                }
                launcher::Action::Report(report) => follow.extend(reported(report, logs)),
                launcher::Action::Close(node) => {
                    assert_eq!(node, 0, "an agent that keeps to the rules is cut off");
                }
                launcher::Action::StartAgent(_) => {}
            }
        }
        events = follow;
        now += Duration::from_millis(1);
        if events.is_empty() {
            let Some(frame) = frames.next() else { return };
            let all = match frame {
                Some(frame) => vec![frame],
                // What it was to copy is there, and it is lost.
                None => {
                    let all = copied.drain(..).map(|epoch| Frame::Copied { epoch });
                    all.chain([Frame::Goodbye { refused: [0; 5] }]).collect()
                }
            };
            let of_bytes = |frame| launcher::Event::Frame { node: 0, frame };
            events.extend(all.into_iter().map(of_bytes));
        }
    }
}

/// A job that is not logged, or pessimistic without sets or with some, or causal.
fn config(kind: usize) -> launcher::Config {
    let logging = (kind > 0).then(|| Logging {
        protocol: match kind {
            3 => LoggingProtocol::Causal,
            _ => LoggingProtocol::Pessimistic,
        },
        events: EventKind::All,
        durability: Durability::Copies(3),
        memory: 0,
        sets: (0..RANKS as u32).collect(),
    });
    launcher::Config {
        logging,
        hosts: "a:2,b,c".parse().expect("hosts"),
        reliable: None,
        care: RankCare::default(),
        ranks: RANKS,
        oversubscribe: false,
        sets: (kind == 2).then(|| vec![0, 0, 1, 2]),
        programs: vec![Program { arguments: vec![b"a".to_vec()], ..Program::default() }],
        apps: vec![0; RANKS],
        job: "job".into(),
        secret: Secret([1; 32]),
        network: String::new(),
        terms: Terms::default(),
        start_timeout: Duration::from_secs(30),
        link_timeout: Duration::from_secs(60),
        link_lapse: launcher::LINK_LAPSE,
        output_window: 65_536,
    }
}

/// What an agent says that keeps to the rules. Of some orders it does not have what they were to bring.
fn answer(node: NodeId, frame: Frame) -> Option<Frame> {
    let lacks = |life, epoch| Frame::Brought { life, epoch, why: "it is gone".into() };
    Some(match frame {
        Frame::Roster(update) => Frame::RosterAck { epoch: update.epoch },
        Frame::Logging(_) => Frame::Store { address: format!("n{node}:1") },
        Frame::Copy(order) => Frame::Copied { epoch: order.epoch },
        Frame::AskHeld { number } => Frame::Held { number, more: false, determinants: Vec::new() },
        Frame::Recover { life, copy } if copy % 5 == 4 => lacks(life, copy),
        Frame::Recover { life, .. } => Frame::Recovered { life, left: LeftBehind::default() },
        Frame::Bring { life, order } => match order.epoch % 4 {
            0 => lacks(life, order.copy),
            1 => lacks(life, order.epoch),
            _ => Frame::Brought { life, epoch: order.epoch, why: String::new() },
        },
        _ => return None,
    })
}

/// What follows from a report: ranks that have ended are started again.
fn reported(report: launcher::Report, logs: bool) -> Option<launcher::Event> {
    let restart = |ranks| launcher::Event::Restart { ranks, generation: 1 };
    let again = |ranks| if logs { launcher::Event::Recover(ranks) } else { restart(ranks) };
    match report {
        launcher::Report::Ended { life, .. } => Some(again(vec![life.rank])),
        launcher::Report::Recovered { life, .. } => Some(restart(vec![life.rank])),
        launcher::Report::NodeEnded { lost, .. } if !lost.is_empty() => {
            Some(again(lost.iter().map(|life| life.rank).collect()))
        }
        _ => None,
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
