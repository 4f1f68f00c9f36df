use super::*;
use crate::roster::{Change, RankState};
use crate::wire::{Durability, EventKind, Level, LoggingProtocol, Stream, Welcome};

const RANKS: usize = 3;
const LIFE: RankIncarnation = RankIncarnation { rank: 1, incarnation: Incarnation(0) };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn welcome() -> Frame {
    Frame::Welcome(Box::new(Welcome {
        renewal: 0,
        node: 1,
        nodes: 2,
        ranks: 3,
        lease_ms: 10_000,
        renew_ms: 2_000,
        care: RankCare::default(),
        output_window: 100,
        secret: crate::Secret([1; 32]),
        job: "job".into(),
    }))
}

/// An agent that serves since second 1, under a lease until second 10.
fn serving() -> Agent {
    let (mut agent, actions) = Agent::new(Duration::ZERO, Hello::default());
    assert_eq!(actions, [Action::Send(Frame::Hello(Hello::default()))]);
    let actions = frame(&mut agent, 1, welcome());
    assert_eq!(actions[1], Action::Arm(seconds(10)));
    agent
}

fn frame(agent: &mut Agent, now: u64, frame: Frame) -> Vec<Action> {
    agent.handle(seconds(now), Event::Frame(frame))
}

fn live(epoch: u64, life: RankIncarnation) -> Frame {
    Frame::Roster(RosterUpdate {
        epoch,
        changes: vec![Change { life, node: 1, state: RankState::Live }],
    })
}

fn start(life: RankIncarnation) -> Frame {
    Frame::Start { life, app: 0, generations: vec![0; RANKS] }
}

#[test]
fn a_network_is_named_once_and_before_anything_listens() {
    let network = Frame::Network { network: "10.0.0.0/8".into() };
    let mut agent = serving();
    let actions = frame(&mut agent, 1, network.clone());
    assert_eq!(actions, [Action::Network("10.0.0.0/8".into())]);
    frame(&mut agent, 1, network.clone());
    assert!(is_fenced(&frame(&mut with_rank(), 1, network)) && agent.state() >= State::Fenced);
}

/// An agent with one rank.
fn with_rank() -> Agent {
    let mut agent = serving();
    let actions = frame(&mut agent, 1, live(1, LIFE));
    assert!(matches!(
        actions[..],
        [Action::Publish(_), Action::Send(Frame::RosterAck { epoch: 1 })]
    ));
    let spawn = Action::Spawn { life: LIFE, app: 0, generations: vec![0; RANKS] };
    assert_eq!(frame(&mut agent, 1, start(LIFE)), [spawn]);
    agent
}

fn is_fenced(actions: &[Action]) -> bool {
    actions.contains(&Action::KillAll) && matches!(actions[0], Action::Report(_))
}

#[test]
fn only_what_the_roster_has_here_is_started_and_only_once() {
    let other = RankIncarnation::new(1, 1);
    assert!(is_fenced(&frame(&mut serving(), 1, start(LIFE))), "not in the roster");
    let mut agent = with_rank();
    assert!(is_fenced(&frame(&mut agent, 1, start(LIFE))), "twice");
    let mut agent = with_rank();
    frame(&mut agent, 1, live(2, other));
    assert!(is_fenced(&frame(&mut agent, 1, start(other))), "while the one before lives");
    let mut agent = with_rank();
    agent.handle(seconds(1), Event::Ended { life: LIFE, end: End::Signal(9) });
    assert!(is_fenced(&frame(&mut agent, 1, start(LIFE))), "again");
    let mut agent = with_rank();
    agent.handle(seconds(1), Event::Ended { life: LIFE, end: End::Signal(9) });
    frame(&mut agent, 1, live(2, other));
    let spawn = Action::Spawn { life: other, app: 0, generations: vec![0; RANKS] };
    assert_eq!(frame(&mut agent, 1, start(other)), [spawn]);
}

#[test]
fn a_lease_is_renewed_and_ends_for_good() {
    let mut agent = with_rank();
    assert_eq!(agent.due(), Some(seconds(3)));
    assert_eq!(agent.handle(seconds(3), Event::Tick), [Action::Send(Frame::Renew { renewal: 1 })]);
    // It counts from when it was asked for.
    assert_eq!(frame(&mut agent, 4, Frame::Grant { renewal: 1 }), [Action::Arm(seconds(13))]);
    // The deadline comes before what else has come: nothing is started behind it.
    let actions = frame(&mut agent, 13, start(RankIncarnation::new(2, 0)));
    assert!(is_fenced(&actions) && actions.len() == 2, "{actions:?}");
    assert_eq!(frame(&mut agent, 14, welcome()), []);
    assert_eq!((agent.state(), agent.due()), (State::Fenced, None));
    let gone = agent.handle(seconds(14), Event::Ended { life: LIFE, end: End::Signal(9) });
    assert_eq!(gone, [Action::Send(Frame::Goodbye { refused: [0; 5] }), Action::Exit(1)]);
}

#[test]
fn whatever_loses_the_launcher_ends_the_ranks() {
    for event in [
        Event::ChannelLost { why: "end of the stream".into() },
        Event::GuardFired,
        Event::Frame(Frame::Revoke { why: "lost".into() }),
        Event::Frame(Frame::Grant { renewal: 9 }),
        Event::Frame(welcome()),
        Event::Frame(Frame::Renew { renewal: 0 }),
    ] {
        let mut agent = with_rank();
        assert!(is_fenced(&agent.handle(seconds(2), event.clone())), "{event:?}");
    }
}

#[test]
fn a_job_ends_with_its_grace_and_a_goodbye() {
    let mut agent = with_rank();
    let actions = frame(&mut agent, 2, Frame::End { signal: 15, grace_ms: 500 });
    let signals = [15, 18].map(|signal| Action::Signal(signal, Reach::Groups));
    assert_eq!(actions, signals);
    assert_eq!(agent.handle(Duration::from_millis(2499), Event::Tick), []);
    assert_eq!(agent.handle(Duration::from_millis(2500), Event::Tick), [Action::KillAll]);
    agent.handle(seconds(3), Event::Refused([0, 1, 0, 0, 0]));
    // Farewell waits for the last process.
    assert_eq!(frame(&mut agent, 3, Frame::Farewell), [Action::KillAll]);
    let gone = agent.handle(seconds(4), Event::Ended { life: LIFE, end: End::Exited(0) });
    assert_eq!(gone, [Action::Send(Frame::Goodbye { refused: [0, 1, 0, 0, 0] }), Action::Exit(0)]);
}

#[test]
fn output_has_a_window_and_ended_is_the_last_frame() {
    let mut agent = with_rank();
    let output = |len| {
        Event::Say(Frame::Output { life: LIFE, stream: Stream::Output, bytes: vec![b'x'; len] })
    };
    assert_eq!(agent.handle(seconds(1), output(70)).len(), 1);
    assert_eq!(agent.output_room(), 30);
    frame(&mut agent, 1, Frame::OutputTaken { bytes: 50 });
    assert_eq!(agent.output_room(), 80);
    let ended = Event::Ended { life: LIFE, end: End::Exited(3) };
    let actions = agent.handle(seconds(1), ended.clone());
    assert_eq!(actions, [Action::Send(Frame::Ended { life: LIFE, end: End::Exited(3) })]);
    assert_eq!(
        (agent.handle(seconds(1), output(1)), agent.handle(seconds(1), ended)),
        (vec![], vec![])
    );
    let note = Frame::Note { level: Level::Note, text: "of the agent itself".into() };
    assert_eq!(agent.handle(seconds(1), Event::Say(note)).len(), 1);
    assert!(is_fenced(&frame(&mut agent, 1, Frame::OutputTaken { bytes: 21 })));
}

fn logging() -> Frame {
    Frame::Logging(Logging {
        protocol: LoggingProtocol::Pessimistic,
        events: EventKind::All,
        durability: Durability::Copies(3),
        memory: 0,
        sets: vec![0; RANKS],
    })
}

/// An agent of a logged job, with a rank.
fn logged() -> Agent {
    let mut agent = serving();
    let actions = frame(&mut agent, 1, logging());
    assert!(matches!(actions[..], [Action::Log(_)]));
    frame(&mut agent, 1, live(1, LIFE));
    frame(&mut agent, 1, start(LIFE));
    agent
}

fn fenced(agent: &Agent) -> bool {
    agent.state() >= State::Fenced
}

#[test]
fn what_a_rank_leaves_is_found_out_after_its_end_only() {
    let mut agent = serving();
    frame(&mut agent, 1, Frame::AskHeld { number: 1 });
    assert!(fenced(&agent), "nothing is logged");
    let mut agent = logged();
    assert_eq!(frame(&mut agent, 1, Frame::AskHeld { number: 1 }), [Action::AskHeld(1)]);
    let held = Frame::Held { number: 1, more: true, determinants: vec![1; 40] };
    assert_eq!(frame(&mut agent, 1, held), [Action::Held(vec![1; 40])]);
    let mut agent = logged();
    frame(&mut agent, 1, Frame::Recover { life: LIFE, copy: 0 });
    assert!(fenced(&agent), "its process lives");
    let mut agent = logged();
    frame(&mut agent, 1, logging());
    assert!(fenced(&agent), "the logs are there");

    let mut agent = logged();
    agent.handle(seconds(1), Event::Ended { life: LIFE, end: End::Signal(9) });
    let recover = Frame::Recover { life: LIFE, copy: 0 };
    let expected = [Action::Recover { life: LIFE, copy: 0 }];
    assert_eq!(frame(&mut agent, 1, recover), expected);
    let left = LeftBehind { events: 7, checkpoint: None };
    let actions = agent.handle(seconds(1), Event::Recovered { life: LIFE, left });
    assert_eq!(actions, [Action::Send(Frame::Recovered { life: LIFE, left })]);
    let other = RankIncarnation::new(LIFE.rank, 1);
    // It has run on another node, of which this one has a copy.
    let actions = frame(&mut agent, 1, Frame::Recover { life: other, copy: 4 });
    assert_eq!(actions, [Action::Recover { life: other, copy: 4 }]);
    frame(&mut agent, 1, Frame::Recover { life: other, copy: 0 });
    assert!(fenced(&agent), "it was not started here");
}

#[test]
fn each_event_logger_has_its_last_order() {
    let of_logger = |logger, epoch, node, address: &str| {
        Frame::Copy(CopyOrder { epoch, logger, node, address: address.to_owned() })
    };
    let order = |epoch, node, address: &str| of_logger(1, epoch, node, address);
    let mut agent = logged();
    assert!(matches!(frame(&mut agent, 1, order(2, 0, "b:1"))[..], [Action::CopyTo(_)]));
    assert_eq!(agent.handle(seconds(1), Event::Copied { epoch: 1 }), []);
    let actions = agent.handle(seconds(1), Event::Copied { epoch: 2 });
    assert_eq!(actions, [Action::Send(Frame::Copied { epoch: 2 })]);
    // That of another logger leaves it in force.
    frame(&mut agent, 1, of_logger(2, 3, 0, "b:1"));
    for epoch in [2, 3] {
        let actions = agent.handle(seconds(1), Event::Copied { epoch });
        assert_eq!(actions, [Action::Send(Frame::Copied { epoch })]);
    }
    frame(&mut agent, 1, of_logger(2, 4, 0, "b:1"));
    assert_eq!(agent.handle(seconds(1), Event::Copied { epoch: 3 }), [], "it counts no more");
    frame(&mut agent, 1, order(4, 0, "b:1"));
    assert!(fenced(&agent), "an order comes once");
    let mut agent = logged();
    frame(&mut agent, 1, of_logger(3, 1, 0, "b:1"));
    assert!(
        fenced(&agent),
        "there are three event loggers, and the last is the second behind the first"
    );
    for (node, address) in [(1, "a:1"), (0, "")] {
        let mut agent = logged();
        frame(&mut agent, 1, order(1, node, address));
        assert!(fenced(&agent), "to itself, or to another node without an address");
    }
}

/// Of a copy that another node's rank has left here, to another node.
#[test]
fn only_a_log_of_another_node_is_brought_and_to_another_one() {
    let order = |node| BringOrder { copy: 3, epoch: 4, node, address: "a:1".into() };
    let bring = |life, node| Frame::Bring { life, order: order(node) };
    let elsewhere = RankIncarnation::new(0, 2);
    let mut agent = logged();
    let expected = [Action::Bring(elsewhere, order(0))];
    assert_eq!(frame(&mut agent, 1, bring(elsewhere, 0)), expected);
    let brought = Frame::Brought { life: elsewhere, epoch: 4, why: String::new() };
    let event = Event::Brought { life: elsewhere, epoch: 4, why: String::new() };
    assert_eq!(agent.handle(seconds(1), event), [Action::Send(brought)]);
    for (life, node, why) in [
        (elsewhere, 1, "to itself"),
        (RankIncarnation::new(RANKS as u32, 0), 0, "there is no such rank"),
        (LIFE, 0, "its process lives"),
        (RankIncarnation::new(LIFE.rank, 1), 0, "the one before lives"),
    ] {
        let mut agent = logged();
        assert!(is_fenced(&frame(&mut agent, 1, bring(life, node))), "{why}");
    }
    let mut agent = logged();
    agent.handle(seconds(1), Event::Ended { life: LIFE, end: End::Signal(9) });
    let next = RankIncarnation::new(LIFE.rank, 1);
    assert_eq!(frame(&mut agent, 1, bring(next, 0)), [Action::Bring(next, order(0))]);
    assert!(is_fenced(&frame(&mut agent, 1, bring(LIFE, 0))), "it was started here");
    assert!(is_fenced(&frame(&mut with_rank(), 1, bring(elsewhere, 0))), "nothing is logged");
}
