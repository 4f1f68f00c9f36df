//! Which of the ends and aborts that follow from each other decides, below scripts: `docs/spec/rank-life.md`,
//! section 6.

use super::*;

/// The process below the script that rank 1 is.
const MEMBER: Process = Process { rank: 1, pid: 31 };

/// Both ranks are scripts, and the processes below them have joined.
fn scripts() -> Life {
    let mut life = unlogged();
    let by = By::Endpoint;
    let members = [(0, 30), (1, 31)].map(|(rank, pid)| Event::Joined { rank, pid, by });
    at(&mut life, 1, members.to_vec());
    life
}

fn gone(rank: usize) -> Event {
    Event::MemberGone { rank, pid: 30 + rank as i32 }
}

/// How the process below the script of rank 1 goes, the status of the job, and its line.
fn losses() -> [(Option<i32>, i32, u8, &'static str); 4] {
    let lost = "rank 1 (pid 11) lost its process 31, which had not finalised";
    let exited =
        "rank 1 (pid 11) lost its process 31, which had not finalised: it exited with status 3";
    let in_vain = "rank 1 (pid 11) ended with status 0 without finalising (MPI_Finalize), while rank 0 goes on";
    [(Some(3), 0, 3, exited), (None, 0, 1, lost), (None, 137, 137, lost), (Some(0), 0, 1, in_vain)]
}

#[test]
fn a_lost_rank_is_the_cause_whenever_the_abort_that_follows_comes() {
    for (exits, passed_on, status, line) in losses() {
        // Before the abort: the system shows the process as exiting; it has gone; it has said that it exits.
        for before in 0..3 {
            let mut life = scripts();
            if let Some(status) = exits {
                at(&mut life, 9, vec![Event::Exits { rank: 1, pid: 31, status }]);
            }
            if before == 1 {
                at(&mut life, 10, vec![gone(1)]);
            }
            at(&mut life, 11, vec![aborted(0, 17)]);
            let seen = if before == 0 { vec![MEMBER] } else { Vec::new() };
            let waits = before < 2 || exits.is_some();
            at(&mut life, 11, vec![Event::Exiting { processes: seen }]);
            assert_eq!(life.is_ending(), !waits, "{before} {exits:?}");
            if !waits {
                continue;
            }
            // What aborts goes, and explains nothing.
            at(&mut life, 12, vec![gone(0)]);
            let mut actions = at(&mut life, 13, vec![exited(0, 0)]);
            actions.extend(at(&mut life, 14, vec![gone(1)]));
            assert!(!life.is_ending(), "{before} {exits:?}");
            actions.extend(at(&mut life, 30, vec![exited(1, passed_on)]));
            actions.extend(exiting(&mut life, 30, &[]));
            if exits == Some(0) {
                // Nobody is left that waits.
                assert_eq!(life.status(), status, "{before}: {actions:?}");
                continue;
            }
            ends(&life, &actions, status, line);
        }
    }
}

#[test]
fn a_rank_that_has_aborted_is_not_lost() {
    // The other one has failed, and which processes are exiting is asked for: both.
    let mut life = scripts();
    at(&mut life, 10, vec![Event::Exits { rank: 1, pid: 31, status: 3 }, gone(1)]);
    at(&mut life, 11, vec![exited(1, 0)]);
    assert!(!life.is_ending());
    let processes = vec![Process { rank: 0, pid: 30 }];
    assert_eq!(at(&mut life, 11, vec![Event::Exiting { processes }]), []);
    let actions = at(&mut life, 12, vec![aborted(0, 17), gone(0), exited(0, 0)]);
    let line =
        "rank 1 (pid 11) lost its process 31, which had not finalised: it exited with status 3";
    ends(&life, &actions, 3, line);
    // Alone, however it ends.
    for end in [exited(0, 0), exited(0, 17), killed(0, 6)] {
        for together in [true, false] {
            let mut life = scripts();
            let mut events = vec![aborted(0, 17), gone(0), end.clone()];
            let mut actions = Vec::new();
            if !together {
                actions.extend(at(&mut life, 10, vec![events.remove(0)]));
                actions.extend(exiting(&mut life, 10, &[0]));
            }
            actions.extend(at(&mut life, 11, events));
            actions.extend(exiting(&mut life, 11, &[0]));
            ends(&life, &actions, 17, "rank 0 (pid 10) aborted the job with code 17");
        }
    }
}

#[test]
fn a_member_that_has_finalised_explains_nothing() {
    let mut life = scripts();
    at(&mut life, 5, vec![Event::Finalised { rank: 1, pid: 31, by: By::Endpoint }]);
    at(&mut life, 9, vec![Event::Exits { rank: 1, pid: 31, status: 0 }]);
    at(&mut life, 10, vec![aborted(0, 17)]);
    let actions = at(&mut life, 10, vec![Event::Exiting { processes: vec![MEMBER] }]);
    ends(&life, &actions, 17, "rank 0 (pid 10) aborted the job with code 17");
}

#[test]
fn a_rank_that_goes_for_too_long_is_not_waited_for() {
    let mut life = scripts();
    at(&mut life, 10, vec![aborted(0, 17)]);
    at(&mut life, 10, vec![Event::Exiting { processes: vec![MEMBER] }]);
    assert_eq!((life.is_ending(), life.due()), (false, Some(ms(510))));
    let actions = at(&mut life, 510, vec![Event::Tick]);
    ends(&life, &actions, 17, "rank 0 (pid 10) aborted the job with code 17");
}
