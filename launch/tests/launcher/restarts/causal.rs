//! Causal logging: ranks that are killed while events travel with their messages.

use super::apps::{application, checksum, disturbed, in_peace};
use super::*;
use rustix::process::{Pid, Signal, kill_process};

const RANKS: u32 = 4;
/// Ranks that are killed in each job.
const KILLS: u32 = 4;

/// Kills ranks of an application at random moments. The answer is that of a run in peace.
fn killed(part: &str, options: &[&str]) {
    killed_on_disk(part, options, None);
}

/// As [`killed`], with events on disk, in a new folder within this one. Returns which.
fn killed_on_disk(part: &str, options: &[&str], within: Option<&Path>) -> Option<String> {
    let (answer, took) = in_peace(part, RANKS);
    let seed = fastrand::u64(..);
    println!("{part}, {options:?}: {took:?} in peace, seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for attempt in 1.. {
        let folder = within.map(|dir| dir.join(attempt.to_string()).to_str().unwrap().to_owned());
        let mut options = [&["--logging", "causal"], options].concat();
        if let Some(folder) = &folder {
            options.extend(["--durability", "disk", "--log-dir", folder]);
        }
        let most = took / [1, 2, 8][random.usize(..3)];
        let mut kills = 0;
        let job = disturbed(&mut application(part, RANKS, &options), |launcher, goes_on| {
            while kills < KILLS && goes_on(most.mul_f64(random.f64())) {
                let ranks = children(launcher).into_iter().filter(|pid| is_rank(pid));
                let Some(rank) = random.choice(ranks.collect::<Vec<_>>()) else { continue };
                let pid = Pid::from_raw(rank.parse().unwrap()).unwrap();
                kills += u32::from(kill_process(pid, Signal::KILL).is_ok());
            }
        });
        // All were done with each other before one of them was killed; or it was over before, or all were
        // killed before they had done anything.
        let late = job.err.contains("it is not restarted, since rank")
            || job.err.contains("was done with all others when one of them was killed");
        let early = job.err.contains("; 0 events handed out");
        if attempt < 20 && (late || early || kills == 0) {
            continue;
        }
        assert_eq!(job.status, 0, "{}", job.err);
        assert_eq!(checksum(&job), Some(&*answer), "{}", job.err);
        let told: Vec<&str> =
            job.err.lines().filter(|line| line.contains(" determinants created, ")).collect();
        // A rank that is killed when it has told tells again.
        let tells = |who: &str| told.iter().filter(|line| line.contains(who)).count();
        let each = (0..RANKS).all(|rank| tells(&format!("rank {rank}: ")) > 0);
        assert!(each && tells("causal logging: ") == 1, "each rank has told, and all: {}", job.err);
        println!("{kills} killed\n  {}", told.join("\n  "));
        return folder;
    }
    unreachable!("one of the attempts is the last")
}

#[test]
fn work_that_chance_hands_out_is_done_once() {
    killed("irregular 64 30", &["--sets", "rank"]);
    killed("irregular 64 30", &["--sets", "rank", "--events", "all"]);
}

#[test]
fn waves_go_on() {
    killed("wave2d 96 300", &["--sets", "rank", "--events", "all"]);
}

#[test]
fn events_go_through_sets() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = folder.path().join("pairs");
    std::fs::write(&pairs, "0 1\n2 3\n").unwrap();
    killed("irregular 64 30", &["--sets", pairs.to_str().unwrap(), "--events", "all"]);
}

#[test]
fn events_of_all_ranks_are_on_disk_together() {
    let within = tempfile::tempdir().unwrap();
    let folder = killed_on_disk("irregular 64 30", &["--sets", "rank"], Some(within.path()));
    let cuts: Vec<String> = std::fs::read_dir(folder.unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".cuts"))
        .collect();
    assert_eq!(cuts, ["set-0.cuts"]);
}

#[test]
fn several_loggers_have_the_events() {
    killed("irregular 64 30", &["--sets", "rank", "--durability", "node"]);
}

/// What is sent is preceded by what its sender has received, each of which is an event.
#[test]
fn determinants_are_counted() {
    let told = |events: &[&str]| {
        let options = [&["--logging", "causal", "--sets", "rank"], events].concat();
        let job = disturbed(&mut application("jacobi3d 16 40", RANKS, &options), |_, _| {});
        assert_eq!(job.status, 0, "{}", job.err);
        let lines = job.err.lines().filter_map(|line| line.split_once(" determinants created, "));
        let number = |text: &str| text.split_whitespace().last().unwrap().parse::<u64>().unwrap();
        let sent = |rest: &str| rest.split_once(' ').unwrap().0.parse::<u64>().unwrap();
        let mut all: Vec<_> = lines.map(|(created, rest)| (number(created), sent(rest))).collect();
        // The last line is the launcher's, of all.
        let sums = all.pop().unwrap();
        let add = |sums: (u64, u64), one: &(u64, u64)| (sums.0 + one.0, sums.1 + one.1);
        let told = all.iter().fold((0, 0), add);
        assert!(sums.0 >= told.0 && sums.1 >= told.1, "those of the end included: {}", job.err);
        all
    };
    let all = told(&["--events", "all"]);
    assert_eq!(all.len(), RANKS as usize);
    assert!(all.iter().all(|&(created, sent)| created > 40 && sent > 0), "{all:?}");
    // All of its receives name their source: without events there is nothing to send.
    assert_eq!(told(&[]), vec![(0, 0); RANKS as usize]);
}
