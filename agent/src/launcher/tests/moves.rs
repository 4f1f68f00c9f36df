//! Ranks of a lost node that restart elsewhere than where the copy of their logs is.

use super::*;
use crate::wire::BringOrder;

/// Ranks 1 and 2 were on node b, which is lost, and this node has the copy, the last one that is up. The order by which it has it.
fn lost(hosts: &str, holder: NodeId) -> (Launcher, u64) {
    let logging = Logging {
        protocol: LoggingProtocol::Pessimistic,
        events: EventKind::Nondeterministic,
        durability: Durability::Copies(2),
        memory: 0,
        sets: vec![0, 1, 2, 3],
    };
    let mut launcher =
        Launcher::new(Config { logging: Some(logging), ..config(hosts, 4) }).unwrap();
    at(&mut launcher, 0, Event::Begin);
    (0..3).for_each(|node| _ = from(&mut launcher, node, Frame::Hello(Hello::default())));
    let epoch = launcher.roster().epoch();
    (0..3).for_each(|node| _ = from(&mut launcher, node, Frame::RosterAck { epoch }));
    (3..=holder).for_each(|node| _ = from(&mut launcher, node, Frame::Hello(Hello::default())));
    let orders: Vec<_> = (0..=holder).flat_map(|node| store(&mut launcher, node)).collect();
    let copy = orders.iter().find(|(node, _, to)| (*node, *to) == (1, holder)).expect("an order").1;
    from(&mut launcher, 1, Frame::Copied { epoch: copy });
    from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
    (launcher, copy)
}

/// The orders to bring a log among these actions: to which node it is said, the rank, and the order.
fn brings(actions: &[Action]) -> Vec<(NodeId, u32, BringOrder)> {
    let order = |action: &Action| match action {
        Action::Send(node, Frame::Bring { life, order }) => Some((*node, life.rank, order.clone())),
        _ => None,
    };
    actions.iter().filter_map(order).collect()
}

fn recovers(actions: &[Action]) -> Vec<(NodeId, u32, u64)> {
    let order = |action: &Action| match action {
        Action::Send(node, Frame::Recover { life, copy }) => Some((*node, life.rank, *copy)),
        _ => None,
    };
    actions.iter().filter_map(order).collect()
}

/// The log of rank 2 is on its way to node a: by which order.
fn under_way() -> (Launcher, u64, u64) {
    let (mut launcher, copy) = lost("a:1,b:2,c:1", 2);
    let actions = at(&mut launcher, 1, Event::Recover(vec![1, 2]));
    assert_eq!(recovers(&actions), [(2, 1, copy)]);
    let all = brings(&actions);
    let epoch = all[0].2.epoch;
    assert!(epoch > copy, "{all:?}");
    let order = BringOrder { copy, epoch, node: 0, address: "0:1".into() };
    assert_eq!(all, [(2, 2, order)]);
    (launcher, copy, epoch)
}

fn brought(rank: u32, epoch: u64, why: &str) -> Frame {
    Frame::Brought { life: life(rank), epoch, why: why.into() }
}

#[test]
fn a_log_is_brought_before_it_is_asked_for() {
    let (mut launcher, _, epoch) = under_way();
    assert_eq!(from(&mut launcher, 0, brought(2, epoch, "")), [], "node c was asked");
    let early = from(&mut launcher, 2, brought(2, epoch - 1, ""));
    assert_eq!(early, [], "another order");
    let actions = from(&mut launcher, 2, brought(2, epoch, ""));
    assert_eq!(recovers(&actions), [(0, 2, epoch)]);
    let left = LeftBehind::default();
    from(&mut launcher, 0, Frame::Recovered { life: life(2), left });
    from(&mut launcher, 2, Frame::Recovered { life: life(1), left });
    at(&mut launcher, 1, Event::Restart { ranks: vec![1, 2], generation: 1 });
    assert_eq!(launcher.map(), [0, 2, 0, 2]);
    let wrong = from(&mut launcher, 2, brought(2, epoch + 100, ""));
    assert_eq!(sent(&wrong)[0], (2, "REVOKE"));
}

/// It cannot be brought, it is lost there again, its node is lost at every moment, or nothing is heard of it.
#[test]
fn a_log_that_is_not_where_it_was_to_be_is_taken_from_the_copy() {
    for moment in 0..5 {
        let (mut launcher, copy, epoch) = under_way();
        if moment > 1 {
            from(&mut launcher, 2, brought(2, epoch, ""));
        }
        if moment > 2 {
            from(&mut launcher, 0, Frame::Recovered { life: life(2), left: LeftBehind::default() });
        }
        let actions = match moment {
            0 => from(&mut launcher, 2, brought(2, epoch, "no route")),
            1 => {
                let due = launcher.due().unwrap();
                assert!(due <= Duration::from_secs(61), "{due:?}");
                for renewal in 1..60 {
                    for node in [0, 2] {
                        let frame = Frame::Renew { renewal };
                        at(&mut launcher, renewal + 1, Event::Frame { node, frame });
                    }
                }
                at(&mut launcher, 61, Event::Tick)
            }
            2 => from(&mut launcher, 0, brought(2, epoch, "there is no such copy")),
            3 => {
                from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] });
                at(&mut launcher, 1, Event::Restart { ranks: vec![2], generation: 1 })
            }
            _ => {
                at(&mut launcher, 1, Event::Restart { ranks: vec![2], generation: 1 });
                from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] })
            }
        };
        assert_eq!(recovers(&actions), [(2, 2, copy)], "{moment}: {actions:?}");
    }
}

/// A host that is not used has room for both, the one with the copy for one. Its agent, and its copy store, are waited for.
#[test]
fn a_spare_is_started_for_them() {
    let (mut launcher, copy) = lost("a:1,b:2,c:1,d:1,e:2", 3);
    let actions = at(&mut launcher, 1, Event::Recover(vec![1, 2]));
    assert_eq!(actions, [Action::StartAgent(4)]);
    from(&mut launcher, 4, Frame::Hello(Hello::default()));
    let actions = from(&mut launcher, 4, Frame::Store { address: "4:1".into() });
    let to: Vec<_> = brings(&actions).iter().map(|(at, rank, to)| (*at, *rank, to.node)).collect();
    assert_eq!(to, [(3, 1, 4), (3, 2, 4)]);
    // It does not come up.
    let (mut launcher, _) = lost("a:1,b:2,c:1,d:1,e:2", 3);
    at(&mut launcher, 1, Event::Recover(vec![1, 2]));
    let actions = at(&mut launcher, 1, Event::Broken { node: 4, why: "no route".into() });
    let all = vec![(3, 1, copy), (3, 2, copy)];
    assert_eq!((recovers(&actions), brings(&actions)), (all, vec![]), "d is the first of equals");
    // The one with the copy is lost: nothing is left of them.
    let (mut launcher, _) = lost("a:1,b:2,c:1,d:1,e:2", 3);
    at(&mut launcher, 1, Event::Recover(vec![1, 2]));
    at(&mut launcher, 1, Event::Broken { node: 3, why: "a test".into() });
    let actions = from(&mut launcher, 4, Frame::Hello(Hello::default()));
    let store = from(&mut launcher, 4, Frame::Store { address: "4:1".into() });
    let why = failure(&actions).or(failure(&store)).expect("a failure");
    assert!(why.contains("no other node has a whole copy"), "{why}");
}

/// A correlated set stays where its copy is.
#[test]
fn a_set_stays_together() {
    let (mut launcher, copy) = lost("a:1,b:2,c:1", 2);
    launcher.config.sets = Some(vec![0, 1, 1, 2]);
    let actions = at(&mut launcher, 1, Event::Recover(vec![1, 2]));
    assert_eq!(recovers(&actions), [(2, 1, copy), (2, 2, copy)]);
}

/// One rank alone: all nodes have as many ranks for their slots, so that nothing travels.
#[test]
fn of_equals_the_node_with_the_copy_is_taken() {
    let (mut launcher, copy) = lost("a:1,b:2,c:1", 2);
    let actions = at(&mut launcher, 1, Event::Recover(vec![2]));
    assert_eq!((recovers(&actions), brings(&actions)), (vec![(2, 2, copy)], vec![]));
}

/// A job that ends does not wait for a log that is on its way.
#[test]
fn nothing_is_due_for_a_log_of_a_job_that_ends() {
    let (mut launcher, ..) = under_way();
    let way = launcher.moves_due();
    assert_eq!(way, Some(Duration::from_secs(61)));
    at(&mut launcher, 1, Event::End(15, Duration::ZERO));
    assert_eq!(launcher.moves_due(), None);
}
