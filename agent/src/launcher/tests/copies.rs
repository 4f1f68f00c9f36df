//! Copies of events on other nodes: where they are, and which is used.

use super::*;

/// The same job, with copies of all events on another node. Node c is not up.
fn copied() -> Launcher {
    let mut launcher = logged_with(Durability::Copies(2));
    store(&mut launcher, 0);
    store(&mut launcher, 1);
    // The spare does not come up: the next node it is.
    let ordered = orders(&at(&mut launcher, 1, Event::Broken { node: 2, why: "no route".into() }));
    assert_eq!(ordered, [(0, 1, 1), (1, 2, 0)]);
    launcher
}

#[test]
fn a_copy_is_used_when_all_of_it_is_there() {
    for is_whole in [false, true] {
        let mut launcher = copied();
        if is_whole {
            from(&mut launcher, 1, Frame::Copied { epoch: 2 });
        }
        at(&mut launcher, 1, Event::Broken { node: 1, why: "a test".into() });
        let asked = at(&mut launcher, 1, Event::Recover(vec![2]));
        if !is_whole {
            let why = failure(&asked).unwrap_or_else(|| panic!("{asked:?}"));
            assert!(why.contains("no other node has a whole copy"), "{why}");
            continue;
        }
        assert_eq!(asked, [Action::Send(0, Frame::Recover { life: life(2), copy: 2 })]);
        let left = LeftBehind { events: 3, checkpoint: None };
        from(&mut launcher, 0, Frame::Recovered { life: life(2), left });
        at(&mut launcher, 1, Event::Restart { ranks: vec![2], generation: 1 });
        assert_eq!(launcher.map()[2], 0);
    }
}

#[test]
fn a_copy_that_is_lost_is_replaced_or_given_up() {
    let mut launcher = copied();
    // Its copy store was started again, and has nothing.
    assert_eq!(store(&mut launcher, 0), [(1, 3, 0)]);
    let copied = from(&mut launcher, 1, Frame::Copied { epoch: 2 });
    assert_eq!(copied, [], "of an order that counts no more");
    from(&mut launcher, 1, Frame::Copied { epoch: 3 });
    let uncopied = Frame::Uncopied { epoch: 3, why: "no route".into() };
    let actions = from(&mut launcher, 1, uncopied);
    assert_eq!(orders(&actions), [], "it counts for a while");
    assert_eq!(launcher.due(), Some(Duration::from_secs(6)));
    let actions = at(&mut launcher, 6, Event::Tick);
    assert_eq!(orders(&actions), [], "the only other node is tried again soon");
    assert_eq!(launcher.due(), Some(Duration::from_secs(11)));
    assert_eq!(orders(&at(&mut launcher, 11, Event::Tick)), [(1, 4, 0)]);
    let uncopied = Frame::Uncopied { epoch: 4, why: "no route".into() };
    let actions = from(&mut launcher, 1, uncopied);
    assert_eq!(orders(&actions), [(1, 5, 1)], "nowhere: none counts, and no other node is left");
    let early = from(&mut launcher, 1, Frame::Copied { epoch: 6 });
    assert_eq!(sent(&early)[0], (1, "REVOKE"));
}

/// What is between two nodes was cut for a while: the loss of one is survived again.
#[test]
fn a_node_that_could_not_be_reached_is_tried_again() {
    let mut launcher = copied();
    let uncopied = Frame::Uncopied { epoch: 2, why: "cut".into() };
    assert_eq!(orders(&from(&mut launcher, 1, uncopied)), [(1, 3, 1)], "nowhere");
    assert_eq!(orders(&at(&mut launcher, 5, Event::Tick)), []);
    assert_eq!(launcher.due(), Some(Duration::from_secs(6)), "then");
    assert_eq!(orders(&at(&mut launcher, 6, Event::Tick)), [(1, 4, 0)]);
    from(&mut launcher, 1, Frame::Copied { epoch: 4 });
    at(&mut launcher, 7, Event::Broken { node: 1, why: "a test".into() });
    let asked = at(&mut launcher, 7, Event::Recover(vec![2]));
    assert_eq!(asked, [Action::Send(0, Frame::Recover { life: life(2), copy: 4 })]);
}

/// Each copy of a node is on another one, where no other copy of it is; a node that has one counts when all of it is there.
#[test]
fn copies_of_a_node_are_on_different_nodes() {
    for copies in 1..=6 {
        let launcher = on_four_nodes(copies);
        let elsewhere = usize::try_from(copies - 1).unwrap().min(3);
        for home in 0..4 {
            let others = [0, 1, 2, 3].into_iter().filter(|node| *node != home);
            let others: Vec<NodeId> = others.collect();
            let survives = |lost: &[NodeId]| launcher.survives(&[&[home], lost].concat(), 0);
            for (number, lost) in (0..3).map(|number| (number, &others[..number])) {
                assert_eq!(survives(lost), number < elsewhere, "{copies} copies: {home}, {lost:?}");
            }
        }
    }
}

/// The node that was asked for what a lost one leaves is lost as well: the next one with a copy is asked.
#[test]
fn the_next_holder_is_asked_when_one_is_lost() {
    let mut launcher = on_four_nodes(3);
    let gone = |node| Event::Frame { node, frame: Frame::Goodbye { refused: [0; 5] } };
    at(&mut launcher, 1, gone(0));
    let recover = |actions: &[Action]| {
        let all = actions.iter().filter_map(|action| match action {
            Action::Send(node, Frame::Recover { life, copy }) => Some((*node, life.rank, *copy)),
            _ => None,
        });
        all.collect::<Vec<_>>()
    };
    let first = recover(&at(&mut launcher, 1, Event::Recover(vec![0])));
    assert!(matches!(first[..], [(1, 0, _)]), "{first:?}");
    let second = recover(&at(&mut launcher, 1, gone(1)));
    assert!(matches!(second[..], [(2, 0, _)]) && first[0].2 != second[0].2, "{second:?}");
    let actions = at(&mut launcher, 1, gone(2));
    let why = failure(&actions).unwrap_or_else(|| panic!("{actions:?}"));
    assert!(why.contains("rank 0 cannot be restarted"), "{why}");
}

/// Of a set of two the log of one is known when the node that has the copy is lost: it waits for the other one elsewhere.
#[test]
fn ranks_of_a_set_come_together() {
    use crate::mutant::{Mutant, set};
    for is_broken in [false, true] {
        set(is_broken.then_some(Mutant::SetInParts));
        let mut launcher = on_four_nodes_in_sets(3, vec![0, 0, 1, 2, 3]);
        let gone = |node| Event::Frame { node, frame: Frame::Goodbye { refused: [0; 5] } };
        at(&mut launcher, 1, gone(0));
        at(&mut launcher, 1, Event::Recover(vec![0, 1]));
        let left = LeftBehind::default();
        let recovered = |rank| Frame::Recovered { life: life(rank), left };
        from(&mut launcher, 1, recovered(0));
        let actions = at(&mut launcher, 1, gone(1));
        let asked = sent(&actions).into_iter().filter(|sent| *sent == (2, "RECOVER"));
        assert_eq!(asked.count(), 2, "both are asked for anew: {actions:?}");
        from(&mut launcher, 2, recovered(1));
        let actions = at(&mut launcher, 1, Event::Restart { ranks: vec![0, 1], generation: 1 });
        assert_eq!(sent(&actions).contains(&(2, "ROSTER")), is_broken);
        let actions = from(&mut launcher, 2, recovered(0));
        assert!(sent(&actions).contains(&(2, "ROSTER")), "{actions:?}");
        set(None);
    }
}

/// A lost copy is replaced alone; where no node is left for it, the others count.
#[test]
fn each_copy_has_orders_of_its_own() {
    let mut launcher = on_four_nodes(3);
    let epoch = launcher.copy_epoch;
    let gone = Event::Frame { node: 1, frame: Frame::Goodbye { refused: [0; 5] } };
    let ordered = orders(&at(&mut launcher, 1, gone));
    assert_eq!(ordered, [(0, epoch + 1, 3), (3, epoch + 2, 2)], "not where the other copy is");
    let report = |actions: &[Action]| {
        let all = actions.iter().filter_map(|action| match action {
            Action::Report(Report::Copying { node, logger, to, nodes }) => {
                Some((*node, *logger, *to, *nodes))
            }
            _ => None,
        });
        all.collect::<Vec<_>>()
    };
    let gone = Event::Frame { node: 2, frame: Frame::Goodbye { refused: [0; 5] } };
    let actions = at(&mut launcher, 1, gone);
    assert_eq!(report(&actions), [(0, 2, None, 1), (3, 2, None, 1)]);
    assert_eq!(launcher.holder(0), None, "the copy on d is not whole");
    from(&mut launcher, 0, Frame::Copied { epoch: epoch + 1 });
    assert_eq!(launcher.holder(0), Some((3, epoch + 1)));
    assert_eq!(launcher.holder(3).map(|(node, _)| node), Some(0));
}

/// No other copy is brought to a node whose copy still counts, though that is to be replaced: it would take its place.
#[test]
fn a_former_copy_that_counts_keeps_its_node() {
    let mut launcher = on_four_nodes(3);
    let (_, epoch) = launcher.holder(0).expect("it is whole");
    // Ranks of the two nodes do not reach each other, so that the first copy is kept and not avoided any more.
    let down = Some("no route".to_owned());
    let link = Frame::Link { life: life(0), peer: life(1), down };
    from(&mut launcher, 0, link.clone());
    from(&mut launcher, 0, Frame::Uncopied { epoch, why: "no route".into() });
    for seconds in [10, 20] {
        at(&mut launcher, seconds, Event::Frame { node: 0, frame: link.clone() });
    }
    let gone = Event::Frame { node: 2, frame: Frame::Goodbye { refused: [0; 5] } };
    let of_first: Vec<_> = orders(&at(&mut launcher, 20, gone));
    assert!(of_first.iter().any(|order| (order.0, order.2) == (0, 3)), "{of_first:?}");
    assert_eq!(launcher.holder(0), Some((1, epoch)));
}
