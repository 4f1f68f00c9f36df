//! A copy store ends when it is asked for the log of a rank of a lost node: what the launcher hears of it, in any order.

use super::*;
use crate::mutant::{Mutant, set};

fn gone(node: NodeId) -> Event {
    Event::Frame { node, frame: Frame::Goodbye { refused: [0; 5] } }
}

fn lacks(rank: u32, epoch: u64) -> Frame {
    Frame::Brought { life: life(rank), epoch, why: "the copy is gone".into() }
}

fn new_store(node: NodeId) -> Frame {
    Frame::Store { address: format!("{node}:2") }
}

fn recovered(rank: u32) -> Frame {
    Frame::Recovered { life: life(rank), left: LeftBehind::default() }
}

/// The orders to recover among these actions.
fn recovers(actions: &[Action]) -> Vec<(NodeId, u32, u64)> {
    let order = |action: &Action| match action {
        Action::Send(node, Frame::Recover { life, copy }) => Some((*node, life.rank, *copy)),
        _ => None,
    };
    actions.iter().filter_map(order).collect()
}

/// The ranks among these actions of which it is reported what they leave.
fn reported(actions: &[Action]) -> Vec<u32> {
    let report = |action: &Action| match action {
        Action::Report(Report::Recovered { life, .. }) => Some(life.rank),
        _ => None,
    };
    actions.iter().filter_map(report).collect()
}

/// All nodes that are left answer to the last question, if there was one. What follows.
fn answer(launcher: &mut Launcher, asked: &[Action]) -> Vec<Action> {
    let asked = asked.iter().filter_map(|action| match action {
        Action::Send(node, Frame::AskHeld { number }) => Some((*node, *number)),
        _ => None,
    });
    let held = |number| Frame::Held { number, more: false, determinants: Vec::new() };
    asked.flat_map(|(node, number)| from(launcher, node, held(number))).collect()
}

/// Node a of four is lost, with ranks that stay together or alone. The orders by which nodes b and c have the copies, and which
/// ranks there are: b is asked for all of them.
fn lost(protocol: LoggingProtocol, sets: &[usize], copies: u32) -> (Launcher, [u64; 2], Vec<u32>) {
    let mut launcher = on_four_nodes_by(protocol, copies, sets.to_vec());
    let ranks: Vec<u32> = (0..sets.len() as u32 - 3).collect();
    at(&mut launcher, 1, gone(0));
    let mut actions = at(&mut launcher, 1, Event::Recover(ranks.clone()));
    actions.extend(answer(&mut launcher, &actions.clone()));
    let all = recovers(&actions);
    assert!(
        all.iter().map(|(node, rank, _)| (*node, *rank)).eq(ranks.iter().map(|rank| (1, *rank)))
    );
    let whole = launcher.nodes[0].copies.orders();
    assert_eq!(whole[0], all[0].2);
    (launcher, [whole[0], whole.get(1).copied().unwrap_or(0)], ranks)
}

const ALONE: &[usize] = &[0, 1, 2, 3];
const SET: &[usize] = &[0, 0, 1, 2, 3];
const KINDS: [(LoggingProtocol, &[usize]); 4] = [
    (LoggingProtocol::Pessimistic, ALONE),
    (LoggingProtocol::Pessimistic, SET),
    (LoggingProtocol::Causal, ALONE),
    (LoggingProtocol::Causal, SET),
];

/// The frames of node b by which it says that a copy is gone, with answers for other ranks before or between.
fn orders_of_frames(ranks: &[u32], epoch: u64) -> Vec<Vec<Frame>> {
    let last = ranks.len() - 1;
    let mut all = Vec::new();
    for found in 0..=last {
        // Some of them were handed out before.
        let early: Vec<Frame> = ranks[..found].iter().map(|rank| recovered(*rank)).collect();
        let gone: Vec<Frame> = ranks[found..].iter().map(|rank| lacks(*rank, epoch)).collect();
        let late: Vec<Frame> = gone.iter().rev().cloned().collect();
        let store = vec![new_store(1)];
        all.push([early.clone(), gone.clone(), store.clone()].concat());
        all.push([early.clone(), store.clone(), gone.clone()].concat());
        all.push([early.clone(), late[..1].to_vec(), store, late[1..].to_vec()].concat());
        // Of one rank it is damaged, and it comes before.
        all.push([gone, early].concat());
    }
    all
}

#[test]
fn another_copy_is_used_for_all_that_stay_together() {
    for (protocol, sets) in KINDS {
        let (_, [first, _], ranks) = lost(protocol, sets, 3);
        for frames in orders_of_frames(&ranks, first) {
            let (mut launcher, [_, second], _) = lost(protocol, sets, 3);
            let mut actions = Vec::new();
            for frame in frames.iter().cloned() {
                actions.extend(from(&mut launcher, 1, frame));
            }
            let asked: Vec<Action> = actions.clone();
            actions.extend(answer(&mut launcher, &asked));
            let mut all = recovers(&actions);
            all.sort_unstable();
            let expected: Vec<_> = ranks.iter().map(|rank| (2, *rank, second)).collect();
            assert_eq!(all, expected, "{protocol:?}, {frames:?}: {actions:?}");
            assert_eq!(failure(&actions), None, "{frames:?}");
            for rank in ranks.iter().rev() {
                actions.extend(from(&mut launcher, 2, recovered(*rank)));
            }
            let mut known = reported(&actions);
            known.sort_unstable();
            assert_eq!(known, ranks, "each once: {frames:?}");
            let restart = Event::Restart { ranks: ranks.clone(), generation: 1 };
            let actions = at(&mut launcher, 1, restart);
            assert!(sent(&actions).contains(&(2, "ROSTER")), "{actions:?}");
            assert!(launcher.map()[..ranks.len()].iter().all(|node| *node == 2));
        }
    }
}

#[test]
fn where_no_other_copy_is_left_the_job_ends_by_name() {
    for (protocol, sets) in KINDS {
        let (_, [first, _], ranks) = lost(protocol, sets, 2);
        for frames in orders_of_frames(&ranks, first) {
            let (mut launcher, ..) = lost(protocol, sets, 2);
            let all = frames.iter().cloned();
            let actions: Vec<Action> =
                all.flat_map(|frame| from(&mut launcher, 1, frame)).collect();
            let why = failure(&actions).unwrap_or_else(|| panic!("{frames:?}: {actions:?}"));
            let said = "cannot be restarted: node a is lost, and no other node has a whole copy of its events";
            assert!(why.ends_with(said), "{why}");
        }
    }
}

/// It waits for the others of its set where they are asked for anew, whether it is to be started already or not.
#[test]
fn a_rank_whose_copy_is_gone_is_not_started_before_the_others() {
    for is_broken in [false, true] {
        set(is_broken.then_some(Mutant::CopiesMixed));
        let (mut launcher, [first, second], _) = lost(LoggingProtocol::Pessimistic, SET, 3);
        from(&mut launcher, 1, recovered(0));
        at(&mut launcher, 1, Event::Restart { ranks: vec![0], generation: 1 });
        from(&mut launcher, 1, lacks(1, first));
        from(&mut launcher, 2, recovered(1));
        let actions = at(&mut launcher, 1, Event::Restart { ranks: vec![1], generation: 1 });
        assert_eq!(sent(&actions).contains(&(2, "ROSTER")), is_broken, "{second}: {actions:?}");
        if !is_broken {
            let actions = from(&mut launcher, 2, recovered(0));
            assert!(sent(&actions).contains(&(2, "ROSTER")), "{actions:?}");
        }
        assert_eq!(launcher.map()[..2], if is_broken { [1, 2] } else { [2, 2] });
        set(None);
    }
}

/// In causal logging one rank was started from a copy when the next one is asked for: from another copy it may lack events that the
/// first one depends on.
#[test]
fn a_causal_rank_starts_from_the_copy_of_those_before() {
    for is_broken in [false, true] {
        set(is_broken.then_some(Mutant::OtherCopyUsed));
        let sets = vec![0, 1, 2, 3, 4];
        let mut launcher = on_four_nodes_by(LoggingProtocol::Causal, 3, sets);
        at(&mut launcher, 1, gone(0));
        let asked = at(&mut launcher, 1, Event::Recover(vec![0]));
        let first = recovers(&answer(&mut launcher, &asked))[0];
        from(&mut launcher, 1, recovered(0));
        at(&mut launcher, 1, Event::Restart { ranks: vec![0], generation: 1 });
        let epoch = launcher.roster().epoch();
        let acked: Vec<Action> =
            (1..4).flat_map(|node| from(&mut launcher, node, Frame::RosterAck { epoch })).collect();
        assert!(sent(&acked).contains(&(1, "START")), "{acked:?}");
        let asked = at(&mut launcher, 1, Event::Recover(vec![1]));
        assert_eq!(recovers(&answer(&mut launcher, &asked)), [(1, 1, first.2)]);
        let actions = from(&mut launcher, 1, lacks(1, first.2));
        assert_eq!(failure(&actions).is_none(), is_broken, "{actions:?}");
        set(None);
    }
}

/// The node that is to bring a log does not have it: another copy is used, and the node where there is room for it is not to blame.
#[test]
fn a_source_without_the_log_is_not_the_fault_of_its_destination() {
    for store_first in [false, true] {
        let sets = vec![0, 1, 2, 3, 4, 5];
        let mut launcher = on_nodes("a:2,b,c,d,e:4", LoggingProtocol::Pessimistic, 3, sets);
        let whole = launcher.nodes[0].copies.orders();
        at(&mut launcher, 1, gone(0));
        let ordered = at(&mut launcher, 1, Event::Recover(vec![0, 1]));
        let brings = |actions: &[Action]| {
            let order = |action: &Action| match action {
                Action::Send(node, Frame::Bring { life, order }) => {
                    Some((*node, life.rank, order.copy, order.node))
                }
                _ => None,
            };
            actions.iter().filter_map(order).collect::<Vec<_>>()
        };
        assert_eq!(brings(&ordered), [(1, 0, whole[0], 4), (1, 1, whole[0], 4)]);
        let mut actions = Vec::new();
        if store_first {
            actions.extend(from(&mut launcher, 1, new_store(1)));
        }
        actions.extend(from(&mut launcher, 1, lacks(0, whole[0])));
        actions.extend(from(&mut launcher, 1, lacks(1, whole[0])));
        assert_eq!(brings(&actions), [(2, 0, whole[1], 4), (2, 1, whole[1], 4)], "{actions:?}");
        let blamed = |action: &Action| matches!(action, Action::Report(Report::NotMoved { .. }));
        assert!(!actions.iter().any(blamed), "{actions:?}");
    }
}
