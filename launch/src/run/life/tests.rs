//! Each transition of `docs/spec/rank-life.md`.

mod first_cause;
mod restarts;

use super::*;

/// Milliseconds.
const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// Two ranks with the process ids 10 and 11. Where restarts are allowed each is a set.
fn job(on_failure: OnFailure, restarts: Option<u32>) -> Life {
    sets(on_failure, restarts, "rank")
}

fn sets(on_failure: OnFailure, restarts: Option<u32>, how: &str) -> Life {
    let restarts = restarts.map(|max| Restarts { sets: Sets::choose(how, &[0; 2]).unwrap(), max });
    let mut life = Life::new(2, on_failure, restarts);
    for rank in 0..2 {
        assert_eq!(at(&mut life, 0, vec![started(rank)]), []);
    }
    life
}

fn unlogged() -> Life {
    job(OnFailure::Abort, None)
}

fn logged() -> Life {
    job(OnFailure::Restart, Some(100))
}

fn at(life: &mut Life, time: u64, events: Vec<Event>) -> Vec<Action> {
    life.handle(ms(time), events)
}

fn started(rank: usize) -> Event {
    Event::Started { rank, pid: 10 + rank as i32 }
}

fn joined(rank: usize, by: By) -> Event {
    Event::Joined { rank, pid: 10 + rank as i32, by }
}

fn finalised(rank: usize, by: By) -> Event {
    Event::Finalised { rank, pid: 10 + rank as i32, by }
}

fn exited(rank: usize, status: i32) -> Event {
    Event::Ended { rank, end: End::Exited(status) }
}

fn killed(rank: usize, signal: i32) -> Event {
    Event::Ended { rank, end: End::Signal(signal) }
}

fn aborted(rank: usize, code: i64) -> Event {
    Event::Aborted { rank, code, text: None }
}

fn both_joined(life: &mut Life) {
    let by = By::Endpoint;
    assert_eq!(at(life, 1, vec![joined(0, by), joined(1, by)]), []);
}

/// The lines that are said.
fn lines(actions: &[Action]) -> Vec<&str> {
    let line = |action: &'_ Action| -> Option<&str> {
        if let Action::Report(line) = action { Some(line.clone().leak()) } else { None }
    };
    actions.iter().filter_map(line).collect()
}

/// It ends with this status and this line.
#[track_caller]
fn ends(life: &Life, actions: &[Action], status: u8, line: &str) {
    assert!(life.is_ending(), "{actions:?}");
    assert_eq!((life.status(), lines(actions)), (status, vec![line]), "{actions:?}");
    assert!(actions.contains(&Action::EndAll(libc::SIGTERM)), "{actions:?}");
}

/// The answer to [`Action::FindExiting`]: the direct children of these ranks.
fn exiting(life: &mut Life, time: u64, ranks: &[usize]) -> Vec<Action> {
    let child = |&rank: &usize| Process { rank, pid: 10 + rank as i32 };
    at(life, time, vec![Event::Exiting { processes: ranks.iter().map(child).collect() }])
}

#[test]
fn a_program_that_never_joins_is_a_plain_one() {
    let mut life = unlogged();
    assert_eq!(at(&mut life, 5, vec![exited(0, 0)]), [Action::Leave(0)]);
    assert!(life.goes_on());
    assert_eq!(at(&mut life, 9000, vec![exited(1, 0)]), [Action::Leave(1)]);
    assert!(!life.goes_on() && life.summary().is_empty());
    assert_eq!(life.status(), 0);
}

#[test]
fn who_joins_and_finalises_has_ended_well_however_it_does_so() {
    for by in [By::Pmi, By::Pmix, By::Endpoint] {
        let mut life = unlogged();
        at(&mut life, 1, vec![joined(0, by), joined(1, by)]);
        at(&mut life, 2, vec![finalised(0, by), exited(0, 0)]);
        assert_eq!(life.due(), None, "{by:?}");
        assert_eq!(at(&mut life, 9000, vec![Event::Tick]), []);
        at(&mut life, 9000, vec![finalised(1, by), exited(1, 0)]);
        assert_eq!((life.status(), life.goes_on(), life.summary()), (0, false, Vec::new()));
    }
}

#[test]
fn who_ends_without_finalising_while_another_one_waits_fails_the_job() {
    for mut life in [unlogged(), logged(), job(OnFailure::ShrinkReport, None)] {
        both_joined(&mut life);
        assert_eq!(at(&mut life, 10, vec![exited(0, 0)]), [Action::Leave(0)]);
        assert_eq!(life.due(), Some(ms(510)));
        assert_eq!(at(&mut life, 509, vec![Event::Tick]), []);
        let actions = at(&mut life, 510, vec![Event::Tick]);
        let line = "rank 0 (pid 10) ended with status 0 without finalising (MPI_Finalize), while rank 1 goes on";
        ends(&life, &actions, 1, line);
    }
}

/// An MPICH finalises PMI whenever it exits.
#[test]
fn pmi_does_not_say_that_an_endpoint_was_closed() {
    let mut life = unlogged();
    both_joined(&mut life);
    at(&mut life, 2, vec![joined(0, By::Pmi)]);
    at(&mut life, 10, vec![finalised(0, By::Pmi), exited(0, 0)]);
    at(&mut life, 510, vec![Event::Tick]);
    assert_eq!(life.status(), 1);
}

#[test]
fn what_follows_from_such_an_end_does_not_hide_it() {
    for follows in [aborted(1, 15), exited(1, 17), Event::Stuck { waiting: 1, gone: 0 }] {
        let mut life = unlogged();
        both_joined(&mut life);
        at(&mut life, 10, vec![exited(0, 0)]);
        let mut actions = at(&mut life, 11, vec![follows]);
        assert!(actions.contains(&Action::FindExiting), "{actions:?}");
        actions.extend(exiting(&mut life, 11, &[]));
        actions.retain(|action| matches!(action, Action::Report(_) | Action::EndAll(_)));
        let line = "rank 0 (pid 10) ended with status 0 without finalising (MPI_Finalize), while rank 1 goes on";
        ends(&life, &actions, 1, line);
    }
}

#[test]
fn who_never_joins_while_another_one_does_fails_the_job_in_either_order() {
    let line = "rank 1 (pid 11) ended with status 0 and never joined the job; rank 0 has joined it, and waits for all ranks";
    for first in [true, false] {
        let mut life = unlogged();
        let mut events = vec![exited(1, 0), joined(0, By::Pmi)];
        if first {
            events.reverse();
        }
        for event in events {
            at(&mut life, 10, vec![event]);
        }
        let actions = at(&mut life, 600, vec![Event::Tick]);
        ends(&life, &actions, 1, line);
    }
}

#[test]
fn who_joins_again_when_another_one_has_ended_waits_in_vain() {
    for again in [10, 20] {
        let mut life = unlogged();
        at(&mut life, 1, vec![joined(0, By::Pmi), joined(1, By::Pmi)]);
        at(&mut life, 5, vec![finalised(0, By::Pmi), finalised(1, By::Pmi)]);
        at(&mut life, 10, vec![exited(1, 0)]);
        at(&mut life, 20, vec![Event::Joined { rank: 0, pid: again, by: By::Pmi }]);
        let actions = at(&mut life, 600, vec![Event::Tick]);
        match again {
            10 => assert_eq!((actions, life.goes_on()), (vec![], true), "a session of its own"),
            _ => {
                let line = "rank 1 (pid 11) ended with status 0; rank 0 has joined the job again, by another process, and waits for all ranks";
                ends(&life, &actions, 1, line);
            }
        }
    }
}

#[test]
fn where_all_end_without_finalising_nobody_waits() {
    let mut life = logged();
    both_joined(&mut life);
    at(&mut life, 10, vec![exited(1, 0)]);
    at(&mut life, 300, vec![exited(0, 0)]);
    assert_eq!((life.status(), life.goes_on(), life.due()), (0, false, None));
    let line = "ranks 0-1 ended without finalising (MPI_Finalize); no other rank waited for that";
    assert_eq!(life.summary(), [line]);
}

#[test]
fn a_failure_ends_the_job_with_its_status() {
    for (event, status, line) in [
        (exited(1, 3), 3, "rank 1 (pid 11) exited with status 3"),
        (exited(1, 256), 1, "rank 1 (pid 11) exited with status 256"),
        (aborted(1, 0), 1, "rank 1 (pid 11) aborted the job with code 0"),
        (aborted(1, 256), 1, "rank 1 (pid 11) aborted the job with code 256"),
        (aborted(1, -1), 255, "rank 1 (pid 11) aborted the job with code -1"),
        (aborted(1, 3), 3, "rank 1 (pid 11) aborted the job with code 3"),
    ] {
        let mut life = unlogged();
        let mut actions = at(&mut life, 10, vec![event]);
        actions.extend(exiting(&mut life, 10, &[]));
        ends(&life, &actions, status, line);
    }
    let mut life = unlogged();
    let actions = at(&mut life, 10, vec![killed(0, libc::SIGSEGV)]);
    ends(&life, &actions, 139, "rank 0 (pid 10) killed by signal 11 (SIGSEGV)");
}

/// The kernel closes the connections of a process before it says that it has ended.
#[test]
fn an_abort_that_follows_from_an_end_does_not_hide_it() {
    for (end, status, line) in [
        (exited(1, 3), 3, "rank 1 (pid 11) exited with status 3"),
        (killed(1, 11), 139, "rank 1 (pid 11) killed by signal 11 (SIGSEGV)"),
        (
            exited(1, 0),
            1,
            "rank 1 (pid 11) ended with status 0 without finalising (MPI_Finalize), while rank 0 goes on",
        ),
    ] {
        // In one poll; or the end is noticed later, and the system says that it will come.
        for together in [true, false] {
            let mut life = unlogged();
            both_joined(&mut life);
            let mut events = vec![aborted(0, 1), end.clone()];
            let mut actions = Vec::new();
            if !together {
                actions.extend(at(&mut life, 10, vec![events.remove(0)]));
                actions.extend(exiting(&mut life, 10, &[0, 1]));
                assert_eq!((life.is_ending(), life.due()), (false, Some(ms(510))));
            }
            actions.extend(at(&mut life, 30, events));
            actions.extend(exiting(&mut life, 30, &[0]));
            ends(&life, &actions, status, line);
        }
    }
}

#[test]
fn an_abort_is_the_cause_if_nobody_else_was_ending_or_does_so_in_time() {
    let mut life = unlogged();
    at(&mut life, 10, vec![aborted(0, 5)]);
    exiting(&mut life, 10, &[0]);
    assert_eq!(life.status(), 5);
    let mut life = unlogged();
    at(&mut life, 10, vec![aborted(0, 5)]);
    exiting(&mut life, 10, &[1]);
    let actions = at(&mut life, 510, vec![Event::Tick]);
    ends(&life, &actions, 5, "rank 0 (pid 10) aborted the job with code 5");
    // Its own status is no other cause.
    let mut life = unlogged();
    let mut actions = at(&mut life, 10, vec![aborted(0, 256), exited(0, 1)]);
    actions.extend(exiting(&mut life, 10, &[]));
    ends(&life, &actions, 1, "rank 0 (pid 10) aborted the job with code 256");
}

#[test]
fn of_ends_in_one_poll_that_by_a_signal_is_the_cause_unless_it_can_be_restarted() {
    let together = || vec![exited(0, 1), killed(1, 11)];
    let mut life = unlogged();
    at(&mut life, 10, together());
    exiting(&mut life, 10, &[]);
    assert_eq!(life.status(), 139);
    let mut life = logged();
    at(&mut life, 10, together());
    exiting(&mut life, 10, &[]);
    assert_eq!(life.status(), 1);
}

#[test]
fn a_job_that_ends_is_killed_after_a_while_or_by_the_second_signal() {
    let mut life = unlogged();
    let signal = || Event::Signalled { signal: libc::SIGINT, to_ranks: libc::SIGINT };
    let actions = at(&mut life, 10, vec![signal()]);
    assert_eq!(lines(&actions), ["signal 2 (SIGINT): ending the job"]);
    assert!(actions.contains(&Action::EndAll(libc::SIGINT)));
    assert_eq!(life.due(), Some(ms(2010)));
    // What ranks do then is no failure.
    assert_eq!(at(&mut life, 20, vec![exited(0, 9), aborted(1, 3)]), [Action::Leave(0)]);
    assert_eq!(at(&mut life, 30, vec![signal()]), [Action::KillAll]);
    assert_eq!(at(&mut life, 2030, vec![Event::Tick]), [Action::KillAll]);
    assert_eq!((life.status(), life.kills()), (130, 2));
}

#[test]
fn the_time_limit_and_trouble_of_the_launcher_end_the_job() {
    let mut life = logged();
    let actions = at(&mut life, 10, vec![Event::TimedOut { limit: ms(3000) }]);
    ends(&life, &actions, 124, "the job did not end within 3 s");
    let mut life = logged();
    let actions = at(&mut life, 10, vec![Event::Trouble { status: 1, why: "why".into() }]);
    ends(&life, &actions, 1, "why");
}
