mod copies;
mod finalizing;
mod held;
mod links;
mod moves;
mod networks;
mod together;

use super::*;
use crate::wire::{Durability, EventKind, LoggingProtocol, RankCare};

fn launcher(hosts: &str, ranks: usize) -> Launcher {
    Launcher::new(config(hosts, ranks)).unwrap()
}

fn config(hosts: &str, ranks: usize) -> Config {
    let program = Program { arguments: vec![b"a.out".to_vec()], ..Program::default() };
    Config {
        hosts: hosts.parse().unwrap(),
        reliable: None,
        ranks,
        oversubscribe: false,
        sets: None,
        logging: None,
        programs: vec![program],
        apps: vec![0; ranks],
        job: "job".into(),
        secret: Secret([1; 32]),
        network: String::new(),
        terms: Terms::default(),
        start_timeout: Duration::from_secs(30),
        link_timeout: Duration::from_secs(60),
        link_lapse: LINK_LAPSE,
        output_window: 100,
        care: RankCare::default(),
    }
}

fn at(launcher: &mut Launcher, seconds: u64, event: Event) -> Vec<Action> {
    launcher.handle(Duration::from_secs(seconds), vec![event])
}

fn from(launcher: &mut Launcher, node: NodeId, frame: Frame) -> Vec<Action> {
    at(launcher, 1, Event::Frame { node, frame })
}

fn sent(actions: &[Action]) -> Vec<(NodeId, &'static str)> {
    let names = actions.iter().filter_map(|action| match action {
        Action::Send(node, frame) => Some((*node, frame.name())),
        _ => None,
    });
    names.collect()
}

/// A job of two ranks on each of two nodes, which runs.
fn running() -> Launcher {
    begun(launcher("a:2,b:2,c:2", 4))
}

fn begun(mut launcher: Launcher) -> Launcher {
    let logs = launcher.config.logging.is_some();
    let started = at(&mut launcher, 0, Event::Begin);
    assert_eq!(started, [Action::StartAgent(0), Action::StartAgent(1)], "a spare has no agent");
    let one = from(&mut launcher, 0, Frame::Hello(Hello::default()));
    let rosters = [(0, "ROSTER"), (0, "ROSTER")];
    let expected: Vec<_> = [(0, "WELCOME")].into_iter().chain(rosters).collect();
    assert_eq!(sent(&one), expected);
    let two = sent(&from(&mut launcher, 1, Frame::Hello(Hello::default())));
    let network = |node| [Some((node, "NETWORK")), logs.then_some((node, "LOGGING"))];
    let listeners: Vec<_> = [network(0), network(1)].into_iter().flatten().flatten().collect();
    assert!(two.windows(listeners.len()).any(|sent| sent == listeners), "{two:?}");
    let epoch = launcher.roster().epoch();
    assert_eq!(sent(&from(&mut launcher, 0, Frame::RosterAck { epoch })), []);
    let all = from(&mut launcher, 1, Frame::RosterAck { epoch });
    let on = |node| [(node, "PROGRAM"), (node, "START"), (node, "START")];
    assert_eq!(sent(&all), [on(0), on(1)].concat());
    launcher
}

fn life(rank: u32) -> RankIncarnation {
    RankIncarnation::new(rank, 0)
}

#[test]
fn a_killed_rank_starts_again_on_its_node() {
    let mut launcher = running();
    let ended = Frame::Ended { life: life(2), end: End::Signal(9) };
    let actions = from(&mut launcher, 1, ended);
    assert_eq!(actions[0], Action::Report(Report::Ended { life: life(2), end: End::Signal(9) }));
    let actions = at(&mut launcher, 1, Event::Restart { ranks: vec![2], generation: 1 });
    assert_eq!(sent(&actions), [(0, "ROSTER"), (1, "ROSTER")]);
    let epoch = launcher.roster().epoch();
    from(&mut launcher, 1, Frame::RosterAck { epoch });
    let actions = from(&mut launcher, 0, Frame::RosterAck { epoch });
    let again =
        Frame::Start { life: RankIncarnation::new(2, 1), app: 0, generations: vec![0, 0, 1, 0] };
    assert_eq!(actions, [Action::Send(1, again)]);
}

#[test]
fn a_lost_node_is_replaced_by_a_spare_when_its_lease_has_ended() {
    let mut launcher = running();
    let broken = at(&mut launcher, 2, Event::Broken { node: 0, why: "gone".into() });
    let ranks = vec![life(0), life(1)];
    let cut = Report::NodeCut { node: 0, why: "gone".into(), ranks, copy: None };
    assert_eq!(broken, [Action::Close(0), Action::Report(cut)]);
    // The last grant was at second 1; 10 s, a 64th of that, and 2 s.
    assert_eq!(launcher.due(), Some(Duration::from_micros(13_156_250)));
    let lost = at(&mut launcher, 14, Event::Tick);
    let reported = |action: &Action| match action {
        Action::Report(Report::NodeEnded { node: 0, lost, .. }) => *lost == [life(0), life(1)],
        _ => false,
    };
    assert!(lost.iter().any(reported), "{lost:?}");
    let mut launcher = running();
    from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] });
    let actions = at(&mut launcher, 1, Event::Restart { ranks: vec![0, 1], generation: 1 });
    assert!(actions.contains(&Action::StartAgent(2)), "{actions:?}");
    assert_eq!(launcher.map(), [2, 2, 1, 1]);
}

#[test]
fn an_agent_that_breaks_the_protocol_is_cut_off() {
    for frame in [
        Frame::Hello(Hello::default()),
        Frame::Renew { renewal: 7 },
        Frame::RosterAck { epoch: 99 },
        Frame::Started { life: RankIncarnation::new(99, 0), pid: 1 },
        Frame::Started { life: RankIncarnation::new(0, 1), pid: 1 },
        Frame::Started { life: life(2), pid: 1 },
        Frame::Enter { life: life(0), barrier: 2 },
        Frame::Output { life: life(0), stream: Stream::Output, bytes: vec![0; 101] },
        Frame::Release,
    ] {
        let mut launcher = running();
        let actions = from(&mut launcher, 0, frame.clone());
        assert_eq!(sent(&actions), [(0, "REVOKE")], "{frame:?}");
        let cut = matches!(&actions[2], Action::Report(Report::NodeCut { node: 0, .. }));
        assert!(actions[1] == Action::Close(0) && cut && actions.len() == 3, "{frame:?}");
        // It is left to its lease: nothing that it sends counts.
        assert_eq!(from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] }), []);
    }
}

#[test]
fn the_exchange_goes_over_all_nodes() {
    let mut launcher = running();
    let put = Frame::Put { life: life(0), key: "k".into(), value: "v".into() };
    assert_eq!(sent(&from(&mut launcher, 0, put)), [(1, "PUT")]);
    let address = Frame::Address { life: life(0), address: vec![1] };
    assert_eq!(sent(&from(&mut launcher, 0, address)), [(0, "ADDRESS"), (1, "ADDRESS")]);
    for (rank, node) in [(0, 0), (1, 0), (2, 1)] {
        let enter = Frame::Enter { life: life(rank), barrier: 1 };
        assert_eq!(from(&mut launcher, node, enter), []);
    }
    let stuck = at(&mut launcher, 1, Event::Leave(3));
    assert_eq!(stuck, [Action::Report(Report::Stuck { waiting: 0, gone: 3 })]);
    let mut late = launcher;
    let last = from(&mut late, 1, Frame::Enter { life: life(3), barrier: 1 });
    assert_eq!(sent(&last), [(0, "COMPLETE"), (1, "COMPLETE")]);
}

#[test]
fn output_that_was_taken_makes_room() {
    let mut launcher = running();
    let output = Frame::Output { life: life(0), stream: Stream::Error, bytes: vec![b'x'; 60] };
    assert_eq!(from(&mut launcher, 0, output.clone()).len(), 1);
    let taken = at(&mut launcher, 1, Event::OutputTaken { node: 0, bytes: 60 });
    assert_eq!(taken, [Action::Send(0, Frame::OutputTaken { bytes: 60 })]);
    assert_eq!(from(&mut launcher, 0, output).len(), 1);
}

#[test]
fn a_host_that_does_not_come_up_is_named() {
    let mut launcher = launcher("a:2,b:2", 4);
    at(&mut launcher, 0, Event::Begin);
    from(&mut launcher, 0, Frame::Hello(Hello::default()));
    let actions = at(&mut launcher, 30, Event::Tick);
    let why = "host b did not come up: no agent has answered in time".to_owned();
    assert!(actions.contains(&Action::Report(Report::Failed { status: 1, why })), "{actions:?}");
    let actions = at(&mut launcher, 30, Event::Finish);
    assert!(actions.contains(&Action::Report(Report::Done)), "{actions:?}");
}

#[test]
fn a_job_is_done_when_all_agents_have_left() {
    let mut launcher = running();
    let actions = at(&mut launcher, 2, Event::Finish);
    assert_eq!(sent(&actions), [(0, "FAREWELL"), (1, "FAREWELL")]);
    from(&mut launcher, 0, Frame::Goodbye { refused: [1, 2, 3, 4, 5] });
    let actions = from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
    assert_eq!(actions.last(), Some(&Action::Report(Report::Done)));
}

/// Sets that must stay on one node are placed on one, over its slots if need be.
#[test]
fn a_set_stays_on_one_node() {
    let mut launcher = running();
    launcher.config.sets = Some(vec![0, 0, 1, 1]);
    launcher.nodes[2].state = nodes::NodeState::Ended;
    from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] });
    at(&mut launcher, 1, Event::Restart { ranks: vec![0, 1], generation: 1 });
    assert_eq!(launcher.map(), [1, 1, 1, 1]);
    // Those that were about to start on the last node have none now.
    let actions = from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
    let why = "no host is left; the last one was b".to_owned();
    assert_eq!(actions.last(), Some(&Action::Report(Report::Failed { status: 1, why })));
}

/// The same job, with its messages logged, after rank 2 was killed.
fn logged() -> Launcher {
    logged_with(Durability::Process)
}

fn logged_with(durability: Durability) -> Launcher {
    logged_by(LoggingProtocol::Pessimistic, durability)
}

fn logged_by(protocol: LoggingProtocol, durability: Durability) -> Launcher {
    let logging = Logging {
        protocol,
        events: EventKind::Nondeterministic,
        durability,
        memory: 0,
        sets: vec![0, 0, 1, 1],
    };
    let config = Config { logging: Some(logging), ..config("a:2,b:2,c:2", 4) };
    let mut launcher = begun(Launcher::new(config).unwrap());
    from(&mut launcher, 1, Frame::Ended { life: life(2), end: End::Signal(9) });
    launcher
}

fn failure(actions: &[Action]) -> Option<&str> {
    actions.iter().find_map(|action| match action {
        Action::Report(Report::Failed { why, .. }) => Some(why.as_str()),
        _ => None,
    })
}

#[test]
fn what_a_killed_rank_leaves_is_found_out_on_its_node() {
    let mut launcher = logged();
    let actions = at(&mut launcher, 1, Event::Recover(vec![2]));
    assert_eq!(actions, [Action::Send(1, Frame::Recover { life: life(2), copy: 0 })]);
    let left = LeftBehind { events: 3, checkpoint: None };
    let actions = from(&mut launcher, 1, Frame::Recovered { life: life(2), left });
    assert_eq!(actions, [Action::Report(Report::Recovered { life: life(2), left })]);
    // A second answer is to nothing.
    let actions = from(&mut launcher, 1, Frame::Recovered { life: life(2), left });
    assert_eq!(sent(&actions), [(1, "REVOKE")]);
}

#[test]
fn a_rank_is_not_started_again_without_its_log() {
    // Its node is lost before it is asked, before it has answered, or before the rank is started.
    for asked in 0..3 {
        let mut launcher = logged();
        let lost = Event::Broken { node: 1, why: "a test".into() };
        if asked > 0 {
            at(&mut launcher, 1, Event::Recover(vec![2]));
        }
        if asked > 1 {
            let left = LeftBehind::default();
            from(&mut launcher, 1, Frame::Recovered { life: life(2), left });
        }
        at(&mut launcher, 1, lost);
        let actions = match asked {
            0 => at(&mut launcher, 1, Event::Recover(vec![2])),
            1 => at(&mut launcher, 100, Event::Tick),
            _ => at(&mut launcher, 1, Event::Restart { ranks: vec![2], generation: 1 }),
        };
        let why = failure(&actions).unwrap_or_else(|| panic!("{asked}: {actions:?}"));
        assert!(why.contains("rank 2 cannot be restarted") && why.contains("node b"), "{why}");
    }
}

/// A job of one rank on each of four nodes, on all of which it runs, with copies of each node on the next ones.
fn on_four_nodes(copies: u32) -> Launcher {
    on_four_nodes_in_sets(copies, vec![0, 1, 2, 3])
}

/// The same; ranks of the same set are on one node.
fn on_four_nodes_in_sets(copies: u32, sets: Vec<usize>) -> Launcher {
    on_four_nodes_by(LoggingProtocol::Pessimistic, copies, sets)
}

/// The same by another protocol; a fifth rank is on the first node.
fn on_four_nodes_by(protocol: LoggingProtocol, copies: u32, sets: Vec<usize>) -> Launcher {
    on_nodes(if sets.len() == 5 { "a:2,b,c,d" } else { "a,b,c,d" }, protocol, copies, sets)
}

/// The same on these hosts.
fn on_nodes(hosts: &str, protocol: LoggingProtocol, copies: u32, sets: Vec<usize>) -> Launcher {
    let ranks = sets.len();
    let logging = Logging {
        protocol,
        events: EventKind::Nondeterministic,
        durability: Durability::Copies(copies),
        memory: 0,
        sets: sets.iter().map(|set| *set as u32).collect(),
    };
    let terms = Terms { lease: Duration::from_secs(1000), ..Terms::default() };
    let (logging, sets) = (Some(logging), Some(sets));
    let config = Config { logging, terms, sets, ..config(hosts, ranks) };
    let mut launcher = Launcher::new(config).unwrap();
    let nodes = launcher.nodes.len() as NodeId;
    at(&mut launcher, 0, Event::Begin);
    (0..nodes).for_each(|node| drop(from(&mut launcher, node, Frame::Hello(Hello::default()))));
    let epoch = launcher.roster().epoch();
    (0..nodes).for_each(|node| drop(from(&mut launcher, node, Frame::RosterAck { epoch })));
    for node in 0..nodes {
        for (home, epoch, _) in store(&mut launcher, node) {
            from(&mut launcher, home, Frame::Copied { epoch });
        }
    }
    launcher
}

/// The orders to copy among these actions: the node, the number, and where to.
fn orders(actions: &[Action]) -> Vec<(NodeId, u64, NodeId)> {
    let order = |action: &Action| match action {
        Action::Send(node, Frame::Copy(order)) => Some((*node, order.epoch, order.node)),
        _ => None,
    };
    actions.iter().filter_map(order).collect()
}

fn store(launcher: &mut Launcher, node: NodeId) -> Vec<(NodeId, u64, NodeId)> {
    orders(&from(launcher, node, Frame::Store { address: format!("{node}:1") }))
}
