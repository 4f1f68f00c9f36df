//! Ranks that were killed.

use super::*;

/// A restart of one set that finds `events`; returns the actions at its end.
fn restart(life: &mut Life, time: u64, rank: usize, signal: i32, events: u64) -> Vec<Action> {
    assert_eq!(at(life, time, vec![killed(rank, signal)]), [Action::Recover(vec![rank])]);
    let recovered = Event::Recovered { rank, events, checkpoint: None };
    let actions = at(life, time, vec![recovered]);
    if actions != [Action::Start(vec![rank])] {
        return actions;
    }
    at(life, time, vec![Event::Started { rank, pid: 20 + rank as i32 }])
}

#[test]
fn a_killed_rank_is_started_again() {
    let mut life = logged();
    both_joined(&mut life);
    let actions = restart(&mut life, 10, 1, 9, 7);
    let line = "rank 1 (pid 11) was killed by signal 9 (SIGKILL); restarting it as incarnation 1 (7 events to replay)";
    assert_eq!(actions, [Action::Report(line.into())]);
    let generations: Vec<_> =
        life.generations().iter().map(|life| (life.incarnation, life.generation)).collect();
    assert_eq!(generations, [(0, 0), (1, 1)]);
    assert_eq!((life.stats.failures, life.stats.successors, life.stats.events), (1, 1, 7));
}

#[test]
fn a_set_is_started_again_as_a_whole() {
    let mut life = sets(OnFailure::Restart, Some(100), "node");
    assert_eq!(at(&mut life, 10, vec![killed(1, 9)]), [Action::Stop(vec![0])]);
    assert_eq!(at(&mut life, 10, vec![killed(0, 9)]), [Action::Recover(vec![0, 1])]);
    let last = Some(Checkpoint { number: 3, events: 4 });
    let recovered = |rank, checkpoint| Event::Recovered { rank, events: 5, checkpoint };
    assert_eq!(at(&mut life, 10, vec![recovered(0, last)]), []);
    assert_eq!(at(&mut life, 10, vec![recovered(1, None)]), [Action::Start(vec![0, 1])]);
    assert_eq!(at(&mut life, 11, vec![started(0)]), []);
    let actions = at(&mut life, 12, vec![started(1)]);
    let line = "rank 1 (pid 11) was killed by signal 9 (SIGKILL); restarting ranks 0-1 from checkpoint 3 (6 events to replay)";
    assert_eq!(lines(&actions), [line]);
}

#[test]
fn who_ends_by_itself_while_its_set_is_stopped_decides() {
    let stop = |end| {
        let mut life = sets(OnFailure::Restart, Some(100), "node");
        at(&mut life, 10, vec![killed(1, 9)]);
        let actions = at(&mut life, 10, vec![end]);
        (life.status(), lines(&actions).concat())
    };
    assert_eq!(stop(exited(0, 4)), (4, "rank 0 (pid 10) exited with status 4".into()));
    let (status, line) = stop(exited(0, 0));
    assert!(status == 137 && line.contains("since rank 0 is done with all others"), "{line}");
}

#[track_caller]
fn is_given_up(life: &Life, actions: &[Action], status: u8, why: &str) {
    let line = lines(actions).concat();
    assert!(life.is_ending() && life.status() == status && line.contains(why), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Start(_) | Action::Stop(_))));
}

#[test]
fn who_is_done_takes_nobody_in() {
    for event in [exited(0, 0), Event::Left { rank: 0, known: 0 }] {
        let mut life = logged();
        at(&mut life, 5, vec![event]);
        let actions = at(&mut life, 10, vec![killed(1, 9)]);
        is_given_up(&life, &actions, 137, "since rank 0 is done with all others");
    }
}

#[test]
fn who_left_without_knowing_of_a_restart_fails_the_job() {
    for (known, status) in [(0, 1), (1, 0)] {
        let mut life = logged();
        restart(&mut life, 10, 1, 9, 0);
        at(&mut life, 20, vec![Event::Left { rank: 0, known }, exited(0, 0)]);
        assert_eq!(life.status(), status);
    }
}

#[test]
fn restarts_are_bounded_for_all_sets_together() {
    let mut life = job(OnFailure::Restart, Some(2));
    restart(&mut life, 10, 0, 9, 0);
    restart(&mut life, 20, 1, 9, 0);
    let actions = at(&mut life, 30, vec![killed(0, 9)]);
    is_given_up(&life, &actions, 137, "--max-restarts is 2, and 0 are left");
    let mut life = job(OnFailure::Restart, Some(1));
    let actions = at(&mut life, 30, vec![killed(0, 9), killed(1, 9)]);
    is_given_up(&life, &actions, 137, "--max-restarts is 1, and 1 are left");
}

#[test]
fn who_dies_by_its_own_again_without_progress_is_given_up() {
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS] {
        let mut life = logged();
        let lives = |life: &mut Life, events| restart(life, 10, 1, signal, events);
        assert!(!lives(&mut life, 3).contains(&Action::EndAll(libc::SIGTERM)));
        // Further, and by another signal in between.
        lives(&mut life, 4);
        restart(&mut life, 10, 1, libc::SIGKILL, 4);
        lives(&mut life, 4);
        assert!(!life.is_ending());
        let actions = lives(&mut life, 4);
        is_given_up(&life, &actions, low(128 + signal), "too, and this one came no further");
    }
}

fn low(status: i32) -> u8 {
    status as u8
}

/// It is not its fault.
#[test]
fn who_is_killed_in_its_replay_is_started_again() {
    let mut life = logged();
    for turn in 0..50 {
        restart(&mut life, turn, 1, libc::SIGKILL, 3);
    }
    assert!(!life.is_ending());
}

#[test]
fn a_checkpoint_is_progress() {
    let mut life = logged();
    for number in 1..9 {
        at(&mut life, 10, vec![killed(1, libc::SIGSEGV)]);
        let checkpoint = Some(Checkpoint { number, events: 0 });
        let actions = at(&mut life, 10, vec![Event::Recovered { rank: 1, events: 0, checkpoint }]);
        assert_eq!(actions, [Action::Start(vec![1])]);
        at(&mut life, 10, vec![started(1)]);
    }
}

#[test]
fn what_must_repeat_is_not_tried_again() {
    for signal in [libc::SIGPIPE, libc::SIGXCPU, libc::SIGXFSZ] {
        let mut life = logged();
        let actions = at(&mut life, 10, vec![killed(1, signal)]);
        is_given_up(&life, &actions, low(128 + signal), "it would do the same again");
    }
}

#[test]
fn programs_that_are_over_are_let_go_together() {
    let mut life = logged();
    both_joined(&mut life);
    let over = |rank| {
        vec![finalised(rank, By::Endpoint), Event::ProgramOver { rank, pid: 10 + rank as i32 }]
    };
    assert_eq!(at(&mut life, 10, over(0)), []);
    // It is killed before: it has to say so again.
    at(&mut life, 11, vec![killed(0, 9)]);
    at(&mut life, 11, vec![Event::Recovered { rank: 0, events: 0, checkpoint: None }]);
    at(&mut life, 11, vec![started(0)]);
    assert_eq!(at(&mut life, 12, over(1)), []);
    assert_eq!(at(&mut life, 13, over(0)), [Action::Release]);
    // Killed in the last moment: nothing was left to do.
    let actions = at(&mut life, 14, vec![killed(1, 9)]);
    let line = "rank 1 (pid 11) was killed by signal 9 (SIGKILL) as it ended: its program was over, and nothing is lost";
    assert_eq!(lines(&actions), [line]);
    at(&mut life, 15, vec![exited(0, 0)]);
    assert_eq!((life.status(), life.goes_on()), (0, false));
}

/// The script goes on when the program is over.
#[test]
fn a_script_that_is_killed_when_all_programs_are_over_is_not_done() {
    let mut life = logged();
    for rank in 0..2 {
        let pid = 30 + rank as i32;
        let by = By::Endpoint;
        at(&mut life, 1, vec![Event::Joined { rank, pid, by }]);
        let over = [Event::Finalised { rank, pid, by }, Event::ProgramOver { rank, pid }];
        at(&mut life, 2, over.into());
    }
    let actions = at(&mut life, 14, vec![killed(1, 9)]);
    is_given_up(&life, &actions, 137, "since all programs were over");
}

/// The process below a script is gone, and the script goes on, or not.
#[test]
fn a_member_that_is_gone_without_finalising_is_a_failure() {
    let lost = |life: &mut Life| {
        at(life, 1, vec![Event::Joined { rank: 1, pid: 31, by: By::Endpoint }]);
        at(life, 10, vec![Event::MemberGone { rank: 1, pid: 31 }])
    };
    let mut life = unlogged();
    assert_eq!((lost(&mut life), life.due()), (vec![], Some(ms(110))));
    assert_eq!(at(&mut life, 110, vec![Event::Tick]), [Action::Kill(1)]);
    let actions = at(&mut life, 111, vec![killed(1, 9)]);
    let line = "rank 1 (pid 11) lost its process 31, which had not finalised";
    ends(&life, &actions, 1, line);
    // The script passes the status on.
    let mut life = unlogged();
    lost(&mut life);
    let actions = at(&mut life, 11, vec![exited(1, 137)]);
    ends(&life, &actions, 137, line);
    // Logged, it is started again.
    let mut life = logged();
    lost(&mut life);
    assert_eq!(at(&mut life, 11, vec![exited(1, 137)]), [Action::Recover(vec![1])]);
    at(&mut life, 11, vec![Event::Recovered { rank: 1, events: 2, checkpoint: None }]);
    let actions = at(&mut life, 11, vec![started(1)]);
    let again = format!("{line}; restarting it as incarnation 1 (2 events to replay)");
    assert_eq!(lines(&actions), [again]);
}

#[test]
fn a_member_that_exits_by_itself_is_not_started_again() {
    for (status, expected) in [(3, 3), (0, 1)] {
        let mut life = logged();
        at(&mut life, 1, vec![joined(0, By::Endpoint)]);
        at(&mut life, 1, vec![Event::Joined { rank: 1, pid: 31, by: By::Endpoint }]);
        at(&mut life, 9, vec![Event::Exits { rank: 1, pid: 31, status }]);
        at(&mut life, 10, vec![Event::MemberGone { rank: 1, pid: 31 }, exited(1, 0)]);
        exiting(&mut life, 11, &[]);
        at(&mut life, 600, vec![Event::Tick]);
        assert_eq!((life.is_ending(), life.status()), (true, expected));
    }
}

#[test]
fn a_member_that_has_finalised_may_go() {
    let mut life = unlogged();
    let (rank, pid, by) = (1, 31, By::Endpoint);
    at(&mut life, 1, vec![Event::Joined { rank, pid, by }, Event::Finalised { rank, pid, by }]);
    assert_eq!(at(&mut life, 2, vec![Event::MemberGone { rank, pid }]), []);
    assert_eq!(life.due(), None);
}

#[test]
fn the_others_go_on_where_that_is_asked_for() {
    let mut life = job(OnFailure::ShrinkReport, None);
    let actions = at(&mut life, 10, vec![killed(1, 9)]);
    let line = "rank 1 (pid 11) was killed by signal 9 (SIGKILL); the others go on without it";
    assert_eq!(actions, [Action::Report(line.into()), Action::Leave(1)]);
    at(&mut life, 20, vec![exited(0, 0)]);
    assert_eq!((life.status(), life.goes_on()), (137, false));
    assert_eq!(life.summary(), ["1 of 2 ranks were killed, the others went on: 1"]);
}

#[test]
fn a_rank_that_hangs_is_killed() {
    let mut life = logged();
    let overdue = || vec![Event::Overdue { rank: 1, limit: ms(2000) }];
    let actions = at(&mut life, 10, overdue());
    assert!(lines(&actions)[0].contains("rank 1 (pid 11) has not called the library for 2 s"));
    assert!(actions.contains(&Action::Kill(1)));
    assert_eq!(at(&mut life, 10, vec![killed(1, 9)]), [Action::Recover(vec![1])]);
}

#[test]
fn a_restart_that_fails_names_what_it_was_for() {
    let mut life = logged();
    at(&mut life, 10, vec![killed(1, 9)]);
    let actions = at(&mut life, 10, vec![Event::Trouble { status: 127, why: "why".into() }]);
    ends(&life, &actions, 127, "rank 1 (pid 11) was killed by signal 9 (SIGKILL); why");
    assert_eq!(life.generations()[1].incarnation, 0);
    at(&mut life, 20, vec![killed(0, 15)]);
    assert!(!life.goes_on());
}

#[test]
fn ranks_of_other_nodes_are_heard_late() {
    // Of a process that is to be stopped it is heard only then that it was started.
    let restarts = Restarts { sets: Sets::choose("node", &[0, 0, 1]).unwrap(), max: 100 };
    let mut life = Life::new(3, OnFailure::Restart, Some(restarts));
    at(&mut life, 0, vec![started(1)]);
    assert_eq!(at(&mut life, 1, vec![killed(1, 9)]), [Action::Stop(vec![0])]);
    assert_eq!(at(&mut life, 2, vec![started(0)]), []);
    assert_eq!(at(&mut life, 3, vec![killed(0, 9)]), [Action::Recover(vec![0, 1])]);
    // That another set runs is no news of this one.
    assert_eq!(at(&mut life, 4, vec![started(2)]), []);
    let recovered = |rank| Event::Recovered { rank, events: 0, checkpoint: None };
    let actions = at(&mut life, 5, vec![recovered(0), recovered(1)]);
    assert_eq!(actions, [Action::Start(vec![0, 1])]);
    assert_eq!(at(&mut life, 6, vec![started(0)]), []);
    assert!(lines(&at(&mut life, 7, vec![started(1)]))[0].contains("restarting ranks 0-1"));
}

#[test]
fn ranks_that_are_killed_during_a_restart_have_the_next_one() {
    let recovered = |rank| Event::Recovered { rank, events: 0, checkpoint: None };
    let mut life = logged();
    assert_eq!(at(&mut life, 1, vec![killed(1, 9)]), [Action::Recover(vec![1])]);
    assert_eq!(at(&mut life, 2, vec![killed(0, 9)]), []);
    assert_eq!(at(&mut life, 3, vec![recovered(1)]), [Action::Start(vec![1])]);
    let actions = at(&mut life, 4, vec![started(1)]);
    assert!(lines(&actions)[0].starts_with("rank 1"), "{actions:?}");
    assert!(actions.contains(&Action::Recover(vec![0])), "{actions:?}");
    assert_eq!(at(&mut life, 5, vec![recovered(0)]), [Action::Start(vec![0])]);
    assert!(lines(&at(&mut life, 6, vec![started(0)]))[0].starts_with("rank 0"));
    assert_eq!(life.stats.failures, 2);
    // If the first comes to nothing, so does the second.
    let mut life = logged();
    at(&mut life, 1, vec![killed(1, 9)]);
    at(&mut life, 2, vec![killed(0, 9)]);
    at(&mut life, 3, vec![Event::Trouble { status: 1, why: "no logger".into() }]);
    assert!(life.is_ending() && !life.goes_on());
}
