//! FINALIZING of ranks that know of all restarts, and of others (*neighbours-only*).

use super::*;
use crate::RANKS_MAX;
use crate::mutant::{Mutant, set};

fn finalizing(rank: u32, known: u64) -> Frame {
    Frame::Finalizing { life: life(rank), known }
}

/// The ranks that the roster shows as finalizing.
fn finalizing_ranks(launcher: &Launcher) -> Vec<u32> {
    let entries = launcher.roster().entries().iter();
    let all = entries.filter(|entry| entry.state == RankState::Finalizing);
    all.map(|entry| entry.life.rank).collect()
}

/// Rank 2 was killed, and is to be started again.
fn restart(launcher: &mut Launcher) -> Vec<Action> {
    from(launcher, 1, Frame::Ended { life: life(2), end: End::Signal(9) });
    at(launcher, 1, Event::Restart { ranks: vec![2], generation: 1 })
}

/// The changes of the roster among these actions, as node a gets them.
fn changes(actions: &[Action]) -> Vec<(RankIncarnation, NodeId, RankState)> {
    let updates = actions.iter().filter_map(|action| match action {
        Action::Send(0, Frame::Roster(update)) => Some(&update.changes),
        _ => None,
    });
    updates.flatten().map(|change| (change.life, change.node, change.state)).collect()
}

#[test]
fn a_restart_takes_back_what_was_said_without_knowing_of_it() {
    for is_broken in [false, true] {
        let mut launcher = running();
        let said = from(&mut launcher, 0, finalizing(0, 0));
        assert_eq!(changes(&said), [(life(0), 0, RankState::Finalizing)]);
        set(is_broken.then_some(Mutant::FinalizingKept));
        let again = (RankIncarnation::new(2, 1), 1, RankState::Live);
        let actions = restart(&mut launcher);
        set(None);
        if is_broken {
            assert_eq!((changes(&actions), finalizing_ranks(&launcher)), (vec![again], vec![0]));
            continue;
        }
        assert_eq!(changes(&actions), [(life(0), 0, RankState::Live), again]);
        let epoch = launcher.roster().epoch();
        from(&mut launcher, 0, Frame::RosterAck { epoch });
        let started = from(&mut launcher, 1, Frame::RosterAck { epoch });
        assert_eq!(sent(&started), [(1, "START")], "behind the update by which it is taken back");
    }
}

#[test]
fn what_is_said_without_knowing_of_a_restart_is_not_believed() {
    for is_broken in [false, true] {
        let mut launcher = running();
        restart(&mut launcher);
        set(is_broken.then_some(Mutant::StaleFinalizingBelieved));
        // It was under way, or the rank has not read its roster yet.
        let actions = from(&mut launcher, 0, finalizing(0, 0));
        set(None);
        if is_broken {
            assert_eq!(finalizing_ranks(&launcher), [0]);
            continue;
        }
        assert_eq!(actions, []);
        let actions = from(&mut launcher, 0, finalizing(0, 1));
        assert_eq!(changes(&actions), [(life(0), 0, RankState::Finalizing)]);
    }
}

/// It comes in one batch with the restart, in any order: the roster never shows it.
#[test]
fn what_is_said_beside_a_restart_is_not_believed() {
    let said = || Event::Frame { node: 0, frame: finalizing(0, 0) };
    let again = || Event::Restart { ranks: vec![2], generation: 1 };
    for batch in [[said(), again()], [again(), said()]] {
        let mut launcher = running();
        from(&mut launcher, 1, Frame::Ended { life: life(2), end: End::Signal(9) });
        let actions = launcher.handle(Duration::from_secs(1), batch.to_vec());
        assert_eq!(finalizing_ranks(&launcher), []);
        let updates = sent(&actions);
        assert_eq!(updates, [(0, "ROSTER"), (1, "ROSTER")], "in one update");
    }
}

/// The node of a rank that is about to be started is lost, and another one is to start the same incarnation: those that know of it say
/// nothing again, and are not taken back.
#[test]
fn an_incarnation_that_moves_before_its_start_takes_nothing_back() {
    for is_broken in [false, true] {
        let mut launcher = running();
        restart(&mut launcher);
        from(&mut launcher, 0, finalizing(0, 1));
        from(&mut launcher, 1, Frame::Goodbye { refused: [0; 5] });
        set(is_broken.then_some(Mutant::FinalizingTakenBackTwice));
        let actions = from(&mut launcher, 2, Frame::Hello(Hello::default()));
        set(None);
        let moved = (RankIncarnation::new(2, 1), 2, RankState::Live);
        assert!(changes(&actions).contains(&moved), "{actions:?}");
        let expected: &[u32] = if is_broken { &[] } else { &[0] };
        assert_eq!(finalizing_ranks(&launcher), expected);
    }
}

#[test]
fn all_ranks_of_the_largest_job_are_taken_back_in_one_frame() {
    let mut launcher = launcher(&format!("a:{RANKS_MAX}"), RANKS_MAX);
    at(&mut launcher, 0, Event::Begin);
    from(&mut launcher, 0, Frame::Hello(Hello::default()));
    let epoch = launcher.roster().epoch();
    from(&mut launcher, 0, Frame::RosterAck { epoch });
    let last = RANKS_MAX as u32 - 1;
    let frames = (0..last).map(|rank| finalizing(rank, 0));
    let ended = Frame::Ended { life: life(last), end: End::Signal(9) };
    let batch = frames.chain([ended]).map(|frame| Event::Frame { node: 0, frame }).collect();
    launcher.handle(Duration::from_secs(1), batch);
    assert_eq!(finalizing_ranks(&launcher).len(), last as usize);
    let actions = at(&mut launcher, 1, Event::Restart { ranks: vec![last], generation: 1 });
    let [Action::Send(0, frame)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(changes(&actions).len(), RANKS_MAX);
    assert!(frame.encode().is_ok() && finalizing_ranks(&launcher).is_empty());
}
