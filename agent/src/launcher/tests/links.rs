//! Links that are down between nodes that the launcher reaches.

use super::*;
use crate::launcher::copies::Copies;

/// A job of one rank on each of four nodes, on all of which it runs, with a copy of each node on the next one.
fn parted(reliable: bool) -> Launcher {
    let mut launcher = on_four_nodes(2);
    // As if ranks had come there.
    launcher.config.reliable = reliable.then_some(3);
    launcher
}

/// The rank of a node reports that another one's cannot be reached, or can again.
fn report(
    launcher: &mut Launcher,
    seconds: u64,
    (node, peer): (u32, u32),
    is_down: bool,
) -> Vec<Action> {
    let down = is_down.then(|| "no route".to_owned());
    let frame = Frame::Link { life: life(node), peer: life(peer), down };
    at(launcher, seconds, Event::Frame { node: node as NodeId, frame })
}

/// These links are reported every five seconds from then on, up to this time: what follows from the last report of the first one.
fn repeat(
    launcher: &mut Launcher,
    seconds: std::ops::RangeInclusive<u64>,
    links: &[(u32, u32)],
) -> Vec<Action> {
    let mut last = Vec::new();
    for second in seconds.step_by(5) {
        for (number, link) in links.iter().enumerate() {
            assert_eq!((revoked(&last), failure(&last)), (None, None), "before {second}");
            let actions = report(launcher, second, *link, true);
            match number {
                0 => last = actions,
                _ => last.extend(actions),
            }
        }
    }
    last
}

/// The node that is ended, and the one where its ranks restart.
fn revoked(actions: &[Action]) -> Option<(NodeId, NodeId)> {
    let found = actions.iter().find_map(|action| match action {
        Action::Report(Report::NodeRevoked { node, copy, .. }) => Some((*node, *copy)),
        _ => None,
    });
    let sent = sent(actions).into_iter().find(|(_, name)| *name == "REVOKE");
    assert_eq!(sent.map(|(node, _)| node), found.map(|(node, _)| node));
    found
}

#[test]
fn the_node_that_fewer_reach_is_ended_else_the_later_one() {
    for (down, reliable, ended) in [
        (&[(1, 2)][..], false, (2, 3)),
        (&[(2, 1)], false, (2, 3)),
        // Both have reported the same.
        (&[(1, 2), (2, 1), (1, 0)], false, (1, 2)),
        (&[(0, 1), (0, 2), (3, 0)], false, (0, 1)),
        (&[(2, 3)], true, (2, 3)),
        (&[(2, 3), (1, 3), (0, 3)], true, (2, 3)),
    ] {
        let mut launcher = parted(reliable);
        assert_eq!(repeat(&mut launcher, 2..=62, down), []);
        assert_eq!(launcher.due(), Some(Duration::from_secs(62) + LINK_LAPSE));
        // A tick is no report.
        assert_eq!(revoked(&at(&mut launcher, 63, Event::Tick)), None);
        let actions = report(&mut launcher, 67, down[0], true);
        assert_eq!(revoked(&actions), Some(ended), "{down:?}");
    }
}

/// Nothing is started elsewhere before its agent has said that its ranks have ended, or its lease has expired.
#[test]
fn an_ended_node_is_lost_when_its_ranks_have_ended() {
    for says_so in [true, false] {
        let mut launcher = parted(false);
        assert!(revoked(&repeat(&mut launcher, 2..=67, &[(1, 2)])).is_some());
        let ended = Frame::Ended { life: life(2), end: End::Signal(9) };
        assert_eq!(from(&mut launcher, 2, ended), [], "nothing of it is listened to");
        assert_eq!(from(&mut launcher, 2, Frame::Renew { renewal: 1 }), []);
        assert_eq!(at(&mut launcher, 68, Event::Broken { node: 2, why: "a test".into() }), []);
        let actions = match says_so {
            true => from(&mut launcher, 2, Frame::Goodbye { refused: [0; 5] }),
            false => {
                assert_eq!(at(&mut launcher, 1000, Event::Tick), []);
                at(&mut launcher, 1020, Event::Tick)
            }
        };
        let is_lost = |action: &Action| match action {
            Action::Report(Report::NodeEnded { node: 2, lost, copy: Some(3), .. }) => {
                *lost == [life(2)]
            }
            _ => false,
        };
        assert!(actions.iter().any(is_lost), "{actions:?}");
    }
}

/// A link that is up again counts no more, nor does one of a rank that has ended.
#[test]
fn links_that_are_up_and_ranks_that_have_ended_end_no_node() {
    for is_up in [true, false] {
        let mut launcher = parted(false);
        repeat(&mut launcher, 2..=52, &[(1, 2)]);
        match is_up {
            true => report(&mut launcher, 53, (1, 2), false),
            false => {
                let ended = Frame::Ended { life: life(2), end: End::Exited(0) };
                from(&mut launcher, 2, ended)
            }
        };
        let again = [57, 62, 67, 72].map(|seconds| match is_up {
            true => report(&mut launcher, seconds, (1, 2), true),
            false => at(&mut launcher, seconds, Event::Tick),
        });
        assert_eq!(again.each_ref().map(|actions| revoked(actions)), [None; 4]);
        assert_eq!(revoked(&at(&mut launcher, 900, Event::Tick)), None);
    }
    let mut launcher = parted(false);
    let error = report(&mut launcher, 2, (1, 1), true);
    assert_eq!(sent(&error)[0], (1, "REVOKE"), "no peer of itself");
}

/// Neither node has a copy: that one comes is waited for, and then the job ends.
#[test]
fn a_job_ends_by_name_if_neither_node_can_be_ended() {
    for comes in [false, true] {
        let mut launcher = parted(false);
        (1..3).for_each(|home| launcher.nodes[home].copies = Copies::new(1));
        let orders = orders(&report(&mut launcher, 2, (1, 2), true));
        assert_eq!(orders.len(), 2);
        let actions = repeat(&mut launcher, 7..=97, &[(1, 2)]);
        assert_eq!((revoked(&actions), failure(&actions)), (None, None));
        if comes {
            let (home, epoch, _) = orders[0];
            let frame = Frame::Copied { epoch };
            let actions = at(&mut launcher, 100, Event::Frame { node: home, frame });
            assert_eq!(revoked(&actions), None, "the link is not reported now");
            assert_eq!(revoked(&report(&mut launcher, 102, (1, 2), true)), Some((1, 2)));
            continue;
        }
        let actions = repeat(&mut launcher, 102..=127, &[(1, 2)]);
        let why = failure(&actions).unwrap_or_else(|| panic!("{actions:?}"));
        let said =
            "node b (rank 1) and node c (rank 2) have not reached each other for 120 s (no route)";
        assert!(why.starts_with(said) && why.contains("--link-timeout"), "{why}");
    }
}

/// A node that nobody reaches keeps the copy that it has had, since nothing is stable by another order.
#[test]
fn the_former_copy_counts_while_a_node_is_parted() {
    let mut launcher = parted(false);
    let links = [(2, 0), (2, 1), (2, 3)];
    repeat(&mut launcher, 2..=7, &links);
    let epoch = launcher.copy_epoch;
    let uncopied = Frame::Uncopied { epoch: 3, why: "no route".into() };
    let actions = at(&mut launcher, 9, Event::Frame { node: 2, frame: uncopied });
    assert_eq!(orders(&actions), []);
    assert_eq!(orders(&repeat(&mut launcher, 12..=62, &links)), []);
    assert_eq!(launcher.copy_epoch, epoch);
    assert_eq!(revoked(&report(&mut launcher, 67, links[0], true)), Some((2, 3)));
}

/// The link heals, and its reporter has got its message elsewhere and computes: it does not say so. Where neither node can be ended, the
/// job is not either.
#[test]
fn a_reporter_that_is_silent_ends_no_node_and_no_job() {
    for has_copies in [true, false] {
        // Seconds at which it reports: behind a pause one report is of an attempt that failed before.
        for seconds in [&[2][..], &[2, 70], &[2, 7, 12, 17, 62], &[2, 70, 140, 210, 280]] {
            let mut launcher = parted(false);
            if !has_copies {
                (1..3).for_each(|home| launcher.nodes[home].copies = Copies::new(1));
            }
            for &second in seconds {
                let actions = report(&mut launcher, second, (1, 2), true);
                assert_eq!((revoked(&actions), failure(&actions)), (None, None), "{seconds:?}");
            }
            let last = seconds[seconds.len() - 1];
            for after in [14, 15, 60, 61, 120, 121, 600] {
                let actions = at(&mut launcher, last + after, Event::Tick);
                assert_eq!((revoked(&actions), failure(&actions)), (None, None), "{seconds:?}");
                assert_eq!(launcher.is_parted(1), after < LINK_LAPSE.as_secs());
            }
        }
    }
}

/// Reports that were held up on their way and arrive together are one, and what comes behind them counts.
#[test]
fn reports_that_arrive_together_are_one() {
    let mut launcher = parted(false);
    repeat(&mut launcher, 2..=57, &[(1, 2)]);
    for _ in 0..5 {
        assert_eq!(revoked(&report(&mut launcher, 62, (1, 2), true)), None);
    }
    report(&mut launcher, 62, (1, 2), false);
    assert_eq!(revoked(&report(&mut launcher, 67, (1, 2), true)), None);
}
