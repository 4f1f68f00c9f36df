//! What survivors of a lost node hold.

use super::*;

/// The job in causal logging, with its copies on the spare, before anything is lost.
fn causal() -> Launcher {
    let mut launcher = logged_by(LoggingProtocol::Causal, Durability::Copies(2));
    store(&mut launcher, 0);
    store(&mut launcher, 1);
    from(&mut launcher, 2, Frame::Hello(Hello::default()));
    assert_eq!(store(&mut launcher, 2), [(0, 1, 2), (1, 2, 2)]);
    from(&mut launcher, 0, Frame::Copied { epoch: 1 });
    from(&mut launcher, 1, Frame::Copied { epoch: 2 });
    launcher
}

/// The same, after node b was lost and its ranks are to be recovered.
fn lost() -> (Launcher, Vec<Action>) {
    let mut launcher = causal();
    let mut actions = from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
    actions.extend(at(&mut launcher, 1, Event::Recover(vec![2, 3])));
    (launcher, actions)
}

fn held(number: u64, more: bool, determinants: Vec<u8>) -> Frame {
    Frame::Held { number, more, determinants }
}

/// *closed-door*: a rank that is asked knows from its roster that the ranks are dead.
#[test]
fn survivors_are_asked_behind_the_roster() {
    let (mut launcher, actions) = lost();
    for node in [0, 2] {
        let to_it: Vec<_> = sent(&actions).into_iter().filter(|(to, _)| *to == node).collect();
        assert_eq!(to_it.last(), Some(&(node, "ASK_HELD")), "{to_it:?}");
        assert!(to_it.contains(&(node, "ROSTER")), "{to_it:?}");
    }
    assert!(!sent(&actions).iter().any(|(_, name)| *name == "RECOVER"), "{actions:?}");
    // The first part of an answer, the last one, and that of the other node.
    assert_eq!(from(&mut launcher, 0, held(1, true, vec![1; 40])), []);
    assert_eq!(from(&mut launcher, 0, held(1, false, vec![2; 40])), []);
    let answered = from(&mut launcher, 2, held(1, false, vec![3; 40]));
    let all = [vec![1; 40], vec![2; 40], vec![3; 40]].concat();
    assert_eq!(
        answered,
        [
            Action::Send(2, held(1, true, all)),
            Action::Send(2, Frame::Recover { life: life(2), copy: 2 }),
            Action::Send(2, Frame::Recover { life: life(3), copy: 2 }),
        ]
    );
    let unasked = from(&mut launcher, 0, held(2, false, Vec::new()));
    assert_eq!(sent(&unasked)[0], (0, "REVOKE"));
}

/// A set that ends later asks again, and what was answered before is not lost.
#[test]
fn whoever_is_lost_meanwhile_is_asked_for_as_well() {
    let mut launcher = causal();
    from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
    at(&mut launcher, 1, Event::Recover(vec![2]));
    from(&mut launcher, 0, held(1, false, vec![1; 40]));
    let again = at(&mut launcher, 1, Event::Recover(vec![3]));
    assert_eq!(sent(&again), [(0, "ASK_HELD"), (2, "ASK_HELD")]);
    assert_eq!(from(&mut launcher, 2, held(1, false, vec![2; 40])), [], "it is asked again");
    from(&mut launcher, 0, held(2, false, Vec::new()));
    let answered = from(&mut launcher, 2, held(2, false, Vec::new()));
    assert_eq!(answered[0], Action::Send(2, held(2, true, [vec![1; 40], vec![2; 40]].concat())));
    assert_eq!(sent(&answered[1..]), [(2, "RECOVER"), (2, "RECOVER")]);
}

#[test]
fn a_survivor_that_is_lost_before_it_has_answered_ends_the_job_by_name() {
    let (mut launcher, _) = lost();
    let actions = from(&mut launcher, 0, Frame::Goodbye { refused: [0; 5] });
    let why = failure(&actions).unwrap_or_else(|| panic!("{actions:?}"));
    assert!(why.starts_with("node a was lost while it was asked"), "{why}");
}

/// Its events are cut by two event loggers from then on.
#[test]
fn a_node_to_which_ranks_of_a_lost_one_come_is_not_survived() {
    let mut launcher = causal();
    launcher.mix(2);
    launcher.void_copies(2);
    launcher.mix(0);
    launcher.void_copies(0);
    assert_eq!(orders(&at(&mut launcher, 1, Event::Tick)), [(0, 3, 0)], "nowhere");
    // Where none was before they are all that there is.
    from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
    at(&mut launcher, 1, Event::Recover(vec![2, 3]));
    from(&mut launcher, 0, held(1, false, Vec::new()));
    from(&mut launcher, 2, held(1, false, Vec::new()));
    for rank in [2, 3] {
        from(&mut launcher, 2, Frame::Recovered { life: life(rank), left: LeftBehind::default() });
    }
    at(&mut launcher, 1, Event::Restart { ranks: vec![2, 3], generation: 1 });
    let epoch = launcher.roster().epoch();
    from(&mut launcher, 0, Frame::RosterAck { epoch });
    let started = from(&mut launcher, 2, Frame::RosterAck { epoch });
    assert_eq!(orders(&started).last().map(|(home, _, to)| (*home, *to)), Some((2, 0)));
}
