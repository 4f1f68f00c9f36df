//! Several event loggers, each with a copy: all but one of them are killed at whatever moment.

use super::*;

const COPIES: u32 = 3;

fn copies(sets: &[usize]) -> Keeper {
    keeper(sets, &Keeping::Node { copies: COPIES })
}

fn pid(keeper: &Keeper, copy: usize) -> Pid {
    keeper.pids().nth(copy).unwrap()
}

/// Kills loggers at some moments.
fn kill_loggers(keeper: &Keeper, copies: impl Iterator<Item = usize>) {
    let pids: Vec<Pid> = copies.map(|copy| pid(keeper, copy)).collect();
    for &pid in &pids {
        kill_process(pid, Signal::KILL).unwrap();
        pause(1000);
    }
    assert!(soon(|| !pids.iter().any(|pid| runs(&pid.as_raw_pid().to_string()))));
}

fn others(copy: usize) -> impl Iterator<Item = usize> {
    (0..COPIES as usize).filter(move |&other| other != copy)
}

fn promised(keeper: &Keeper) -> [u64; 2] {
    [0, 1].map(|rank| stable(keeper, rank))
}

#[test]
fn all_but_one_are_killed_a_hundred_times_and_nothing_is_lost() {
    for sets in [[0, 0], [0, 1]] {
        let mut keeper = copies(&sets);
        keeper.start().unwrap();
        let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
        for _ in 0..50 {
            let before = promised(&keeper);
            assert!(soon(|| promised(&keeper).iter().zip(before).all(|(now, then)| *now > then)));
            pause(2000);
            let promised = promised(&keeper);
            kill_loggers(&keeper, others(fastrand::usize(..COPIES as usize)));
            keeper.start().unwrap();
            for rank in 0..2 {
                assert!(stable(&keeper, rank) >= promised[rank as usize]);
            }
        }
        ranks.iter_mut().for_each(kill);
        for rank in [0, 1] {
            assert_eq!(check(&mut keeper, rank), written(&keeper, rank));
        }
        assert!(keeper.news().unwrap().told.is_empty(), "nothing was wrong");
        // Each of them alone has all of it.
        for alone in 0..COPIES as usize {
            kill_loggers(&keeper, others(alone));
            for rank in [0, 1] {
                assert_eq!(check(&mut keeper, rank), written(&keeper, rank));
            }
            keeper.start().unwrap();
        }
    }
}

/// A logger that is stopped has no copy of what comes: nothing is stable, and ranks wait for room.
#[test]
fn ranks_wait_for_the_slowest() {
    let mut keeper = copies(&[0, 0]);
    keeper.start().unwrap();
    kill_process(pid(&keeper, 1), Signal::STOP).unwrap();
    let mut ranks = [rank(&keeper, 0), rank(&keeper, 1)];
    let full = |keeper: &Keeper| {
        (0..2).all(|rank| written(keeper, rank) == stable(keeper, rank) + CAPACITY)
    };
    assert!(soon(|| full(&keeper)));
    let stopped = promised(&keeper);
    std::thread::sleep(Duration::from_millis(50));
    assert!(full(&keeper) && promised(&keeper) == stopped);
    kill_process(pid(&keeper, 1), Signal::CONT).unwrap();
    assert!(soon(|| promised(&keeper)
        .iter()
        .zip(stopped)
        .all(|(now, then)| *now > then + CAPACITY)));
    ranks.iter_mut().for_each(kill);
}

/// Those that are asked first are gone, and another one answers: then nothing tells of them any more.
#[test]
fn who_is_found_to_be_gone_when_it_is_asked_is_to_be_started_again() {
    let mut keeper = copies(&[0, 0]);
    keeper.start().unwrap();
    assert!(!keeper.lacks_one());
    let mut writer = rank(&keeper, 0);
    assert!(soon(|| stable(&keeper, 0) > 2 * CAPACITY));
    kill(&mut writer);
    let last = COPIES as usize - 1;
    kill_loggers(&keeper, others(last));
    assert_eq!(check(&mut keeper, 0), written(&keeper, 0));
    assert_eq!(keeper.sockets().count(), 1);
    assert!(keeper.lacks_one());
    keeper.start().unwrap();
    assert!(!keeper.lacks_one());
    assert_eq!(keeper.sockets().count(), COPIES as usize);
}

/// What an agent asks and does not wait for is done all the same, also when the first one that is asked stands still.
#[test]
fn loggers_that_are_not_waited_for_serve_and_answer() {
    let mut keeper = copies(&[0, 0]);
    let (answer, end) = (Duration::from_millis(500), Duration::from_millis(100));
    keeper.set_patience(Patience { answer, end, waits: false });
    fn answered<T>(answer: Result<T, KeeperError>) -> Option<T> {
        match answer {
            Err(KeeperError::Unanswered) => None,
            other => Some(other.unwrap()),
        }
    }
    let fetched = |keeper: &mut Keeper| {
        let mut events = None;
        soon(|| {
            events = answered(keeper.fetch(0));
            events.is_some()
        });
        events.unwrap().len() as u64
    };
    assert!(answered(keeper.start()).is_none(), "it does not wait");
    assert!(soon(|| answered(keeper.start_missing()).is_some()));
    let mut writer = rank(&keeper, 0);
    assert!(soon(|| stable(&keeper, 0) > 2 * CAPACITY));
    kill_process(pid(&keeper, 0), Signal::STOP).unwrap();
    kill(&mut writer);
    assert_eq!(fetched(&mut keeper), written(&keeper, 0));
    assert!(keeper.lacks_one());
    assert!(soon(|| answered(keeper.start_missing()).is_some()));
    kill_loggers(&keeper, others(0));
    assert_eq!(fetched(&mut keeper), written(&keeper, 0), "it has what another one had");
}

#[test]
fn when_all_are_killed_it_is_said() {
    let mut keeper = copies(&[0, 0]);
    keeper.start().unwrap();
    let mut writer = rank(&keeper, 0);
    assert!(soon(|| stable(&keeper, 0) > 2 * CAPACITY));
    kill_loggers(&keeper, 0..COPIES as usize);
    for _ in 0..2 {
        let said = keeper.start().unwrap_err().to_string();
        assert!(said.starts_with("all 3 event loggers are gone"), "{said}");
    }
    assert!(matches!(keeper.fetch(0), Err(KeeperError::Channel(ChannelError::Closed))));
    kill(&mut writer);
}

#[test]
fn copies_are_named() {
    for (arguments, why) in [
        (vec!["--durability", "node"], "--copies"),
        (vec!["--durability", "node", "--copies", "9", "--copy", "0"], "1..=8"),
    ] {
        let job = run(&[&["eventlog"], &arguments[..]].concat());
        assert!(job.status == 2 && job.err.contains(why), "{}", job.err);
    }
}
