//! Ranks that hang, and ranks that only seem to.

use super::apps::{application, checksum, disturbed, in_peace};
use super::*;
use rustix::process::{Pid, Signal, kill_process};
use taffrail::{Job, collectives};

/// A rank that exchanges numbers with the others twice. Before the first time, rank 1 calls the library so often,
/// each time after so many milliseconds; not if it was started again. Where `STANDS_IN` is set, somebody
/// stands in for its program meanwhile. Alone it does nothing.
#[test]
fn a_rank_that_takes_its_time() {
    let Ok(calls_and_nap) = std::env::var("HEARTBEATS") else { return };
    let (calls, nap) = calls_and_nap.split_once(' ').unwrap();
    let (calls, nap): (u32, u64) = (calls.parse().unwrap(), nap.parse().unwrap());
    let mut job = Job::from_env().unwrap();
    let mut endpoint = job.endpoint().unwrap();
    let again = std::env::var("TAFFRAIL_INCARNATION").is_ok_and(|life| life != "0");
    for round in 0..2 {
        if job.rank() == 1 && round == 0 && !again {
            for _ in 0..calls {
                let until = Instant::now() + Duration::from_millis(nap);
                while std::env::var_os("STANDS_IN").is_some() && Instant::now() < until {
                    endpoint.stand_in();
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                endpoint.progress();
            }
        }
        let mut sum = [1];
        collectives::allreduce(&mut endpoint, &mut sum, collectives::sum).unwrap();
        assert_eq!(sum, [u64::from(job.size())]);
    }
    drop(endpoint);
    // What a program does without the library is its own business.
    std::thread::sleep(Duration::from_millis(nap.min(3000)));
}

fn with_a_nap(calls_and_nap: &str, options: &[&str]) -> Ended {
    ended_after(&mut napping(calls_and_nap, options))
}

fn ended_after(command: &mut Command) -> Ended {
    let started = Instant::now();
    ended(command.output().unwrap(), started)
}

fn napping(calls_and_nap: &str, options: &[&str]) -> Command {
    let mut command = taffrail(&["run", "-n", "3", "--timeout", "100", "--heartbeat", "2"]);
    command.args(options).arg(std::env::current_exe().unwrap());
    let this = "restarts::heartbeats::a_rank_that_takes_its_time";
    command.args(["--exact", this, "--nocapture", "--quiet"]).env("HEARTBEATS", calls_and_nap);
    command
}

const OVERDUE: &str = "has not called the library for 2 s, or is stopped; killing it";

#[test]
fn a_rank_that_hangs_is_killed_and_started_again() {
    let job = with_a_nap("1 1000000", &[&LOGGED[..], &["--sets", "rank"]].concat());
    assert_eq!(job.status, 0, "{}", job.err);
    assert_eq!(job.err.matches(OVERDUE).count(), 1, "{}", job.err);
    assert!(job.err.contains("taffrail: 1 failure; 1 process started again"), "{}", job.err);
}

#[test]
fn who_stands_in_for_a_rank_that_hangs_does_not_hide_it() {
    let mut command = napping("1 1000000", &[&LOGGED[..], &["--sets", "rank"]].concat());
    let job = ended_after(command.env("STANDS_IN", "1"));
    assert_eq!(job.status, 0, "{}", job.err);
    assert_eq!(job.err.matches(OVERDUE).count(), 1, "{}", job.err);
}

#[test]
fn without_logging_it_ends_the_job() {
    let job = with_a_nap("1 1000000", &[]);
    assert_eq!(job.status, 128 + 9, "{}", job.err);
    assert!(job.err.contains(OVERDUE) && job.err.contains("rank 1 (pid "), "{}", job.err);
}

/// The others wait for it for longer than 2 seconds, which is no silence, and it ends without the library.
#[test]
fn who_calls_now_and_then_is_left_alone_and_so_is_who_waits() {
    let job = with_a_nap("10 400", &[]);
    assert_eq!((job.status, job.err.matches("taffrail").count()), (0, 0), "{}", job.err);
    let job = with_a_nap("1 100", &[&LOGGED[..], &["--sets", "rank"]].concat());
    assert_eq!((job.status, job.err.matches("taffrail").count()), (0, 0), "{}", job.err);
}

/// Ranks that hang in the library are not killed, but say what they wait for.
#[test]
fn who_waits_for_long_says_so() {
    let job = with_a_nap("30 400", &[]);
    assert_eq!(job.status, 0, "{}", job.err);
    let is_said = |line: &str| {
        line.starts_with("taffrail: rank ")
            && line.contains(" waits for the messages of 1 posted receive (from rank ")
            && line.ends_with("; nothing has completed for 10 s")
    };
    assert!(!job.err.is_empty() && job.err.lines().all(is_said), "{}", job.err);
}

#[test]
fn programs_without_the_library_are_left_alone() {
    let job = run(&["run", "-n", "2", "--heartbeat", "1", "bash", "-c", "sleep 2.5; echo done"]);
    assert_eq!((job.status, &*job.out), (0, "done\ndone\n"), "{}", job.err);
}

#[test]
fn a_stopped_rank_is_killed_and_started_again() {
    let part = "ring 1024 40000";
    let (answer, _) = in_peace(part, 3);
    for sets in ["rank", "node"] {
        let options = [&LOGGED[..], &["--sets", sets, "--heartbeat", "2"]].concat();
        let job = disturbed(&mut application(part, 3, &options), |launcher, goes_on| {
            // Also before it has an endpoint.
            let pause = fastrand::u64(1..100);
            while goes_on(Duration::from_millis(pause)) {
                let mut ranks = children(launcher).into_iter();
                if let Some(rank) = ranks.find(|pid| first_argument(pid) == "--exact") {
                    let pid = Pid::from_raw(rank.parse().unwrap()).unwrap();
                    return kill_process(pid, Signal::STOP).unwrap();
                }
            }
        });
        assert_eq!((job.status, checksum(&job)), (0, Some(&*answer)), "{sets}: {}", job.err);
        assert_eq!(job.err.matches(OVERDUE).count(), 1, "{sets}: {}", job.err);
    }
}
