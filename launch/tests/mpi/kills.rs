//! Ranks that are killed at any moment of their lives, several at once, and again and again.

use super::installed::{self, Mpi};
use super::programs::{Job, RANKS, addresses_stay, answers, kills, random};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Whom to kill, and how long after the one before, or the start of the job.
type Plan = Vec<(Duration, Vec<u32>)>;

/// Programs with few steps, so that starting and ending take most of their time.
const PROGRAMS: [(&str, u32); 5] =
    [("ring", 30), ("cg", 40), ("comms", 10), ("workers", 100), ("windows", 10)];

/// Runs each program again and again with kills that `plan` makes of its length, until as many runs as
/// wanted had all their kills in time, and compares the answers.
fn disturbed(test: &str, mut plan: impl FnMut(&mut fastrand::Rng, Duration) -> Plan) {
    let Some(mpich) = installed::mpich().filter(|_| kills() > 0) else { return };
    // Five programs with a third of the kills each: enough for a run, and it is run often.
    let wanted = kills().div_ceil(3);
    let mut random = random(test);
    let folder = tempfile::tempdir().unwrap();
    let stay = addresses_stay(&mpich);
    for (name, steps) in PROGRAMS.into_iter().filter(|(name, _)| stay || *name != "windows") {
        let program = mpich.compile_ours(name, folder.path());
        let (expected, mut length) = in_peace(&mpich, &program, steps);
        let (mut hit, mut killed) = (0, 0);
        for run in 0.. {
            if hit == wanted {
                eprintln!("{name}: {killed} ranks killed in {run} runs of {length:?}");
                break;
            }
            assert!(run < 20 * wanted, "{name}: only {hit} of {wanted} runs had kills in time");
            let plan = plan(&mut random, length);
            let started = Instant::now();
            let mut job = Job::begin(&mpich, &program, steps);
            let mut in_time = 0;
            for (pause, ranks) in &plan {
                std::thread::sleep(*pause);
                in_time += ranks.iter().filter(|&&rank| job.kill_soon(rank)).count();
            }
            let job = job.end();
            // Too late: all programs were over, and what is left is not done again.
            let is_late = job.err.contains("it is not restarted, since");
            if is_late || in_time == 0 {
                // It took longer at first, when others may have wanted the processors, too.
                length = length.min(started.elapsed());
            }
            if is_late {
                continue;
            }
            let told = format!("{name}, run {run}, kills {plan:?}");
            assert_eq!(job.status, Some(0), "{told}: {job:?}");
            assert_eq!(answers(&job), expected, "{told}: {job:?}");
            let all: usize = plan.iter().map(|(_, ranks)| ranks.len()).sum();
            hit += u32::from(in_time == all);
            killed += in_time;
        }
    }
}

fn in_peace(mpich: &Mpi, program: &Path, steps: u32) -> (BTreeSet<String>, Duration) {
    let started = Instant::now();
    let job = Job::begin(mpich, program, steps).end();
    assert_eq!((job.status, answers(&job).len()), (Some(0), 1), "{program:?}: {job:?}");
    (answers(&job), started.elapsed())
}

fn rank(random: &mut fastrand::Rng) -> u32 {
    random.u32(..RANKS.parse::<u32>().unwrap())
}

#[test]
fn a_rank_killed_at_any_moment_of_its_life_is_not_missed() {
    disturbed("a_rank_killed_at_any_moment_of_its_life_is_not_missed", |random, length| {
        vec![(length.mul_f64(random.f64()), vec![rank(random)])]
    });
}

#[test]
fn two_ranks_killed_at_once_are_not_missed() {
    disturbed("two_ranks_killed_at_once_are_not_missed", |random, length| {
        let spared = rank(random);
        let ranks = (0..RANKS.parse().unwrap()).filter(|&rank| rank != spared).collect();
        vec![(length.mul_f64(random.f64()), ranks)]
    });
}

/// Each process of the rank has less time than it needs.
#[test]
fn a_rank_killed_five_times_is_not_missed() {
    disturbed("a_rank_killed_five_times_is_not_missed", |random, length| {
        let victim = rank(random);
        (0..5).map(|_| (length.mul_f64(random.f64() * 0.4), vec![victim])).collect()
    });
}
