//! Jobs whose processes are killed from outside, at moments that nobody has chosen.

use super::*;
use rustix::process::{Pid, Signal, kill_process};

/// What is killed.
#[derive(Clone, Copy)]
struct Storm {
    sets: &'static str,
    /// How many processes.
    kills: u32,
    /// One in so many is the event logger, and one is the guard.
    others: u32,
    /// At most so long between two, in microseconds.
    pause: u64,
}

/// Kills children of the launcher while it runs, then lets it finish. All must come to the right end.
fn weather(storm: Storm) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let mut command =
        taffrail(&["run", "-n", "4", "--max-restarts", "100000", "--sets", storm.sets]);
    command.args(LOGGED).arg(test);
    command.args(["--exact", "restarts::rank::a_rank", "--nocapture", "--quiet"]);
    command.env("RESTARTS", dir.path()).env("PAUSE", "20");
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let launcher = job.id();
    let (mut ranks, mut loggers, mut guards) = (0, 0, 0);
    while ranks + loggers + guards < storm.kills && job.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(random.u64(..storm.pause)));
        let all = children(launcher);
        let what = if storm.others > 0 { random.u32(..storm.others) } else { 2 };
        let (killed, count): (Vec<String>, _) = match what {
            0 => (all.into_iter().filter(|pid| is_logger(pid)).collect(), &mut loggers),
            1 => (all.into_iter().filter(|pid| is_guard(pid)).collect(), &mut guards),
            _ => (all.into_iter().filter(|pid| is_rank(pid)).collect(), &mut ranks),
        };
        let Some(victim) = random.choice(killed) else { continue };
        let victim = Pid::from_raw(victim.parse().unwrap()).unwrap();
        *count += u32::from(kill_process(victim, Signal::KILL).is_ok());
    }
    let done = ended(job.wait_with_output().unwrap(), Instant::now());
    println!("{ranks} ranks, {loggers} loggers, {guards} guards killed");
    println!("{}", done.err.lines().last().unwrap_or_default());
    assert_eq!(done.status, 0, "{}", done.err);
    assert_eq!(finished(&done), all_four(), "{}", done.err);
    let restarted = done.err.lines().filter(|line| line.contains("restarting ")).count() as u32;
    assert!(restarted > 0 && restarted <= ranks, "{restarted} restarts of {ranks} killed ranks");
}

#[test]
fn single_ranks_are_killed() {
    weather(Storm { sets: "rank", kills: 60, others: 0, pause: 30_000 });
}

/// Most of them before they have done anything.
#[test]
fn ranks_are_killed_while_they_start() {
    weather(Storm { sets: "rank", kills: 100, others: 0, pause: 4000 });
}

#[test]
fn sets_are_killed() {
    weather(Storm { sets: "node", kills: 60, others: 0, pause: 30_000 });
}

#[test]
fn the_event_logger_and_the_guard_are_killed_as_well() {
    weather(Storm { sets: "rank", kills: 100, others: 5, pause: 8000 });
}
