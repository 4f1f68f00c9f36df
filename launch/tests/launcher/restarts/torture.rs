//! Applications whose processes are killed and stopped at random moments: each comes to the answer of
//! a run in peace, and none waits for ever.
//!
//! `TAFFRAIL_KILLS` says how many ranks are to be killed in all, `TAFFRAIL_SEED` with which job to begin:
//! everything about a job but the timing of its processes follows from its number, and the next job has
//! the next.

mod case;
mod deeds;

use super::apps::{application, checksum, disturbed, in_peace};
use super::*;
use case::Case;
use deeds::{Hunter, Toll};
use std::collections::HashMap;

/// Ranks that are killed if nothing else is said.
const KILLS: u64 = 20;

#[test]
fn all_come_to_their_answers() {
    torture("all_come_to_their_answers", Case::draw);
}

/// The same with two to four nodes, whose agents are all on this host.
#[test]
fn all_come_to_their_answers_over_nodes() {
    torture("all_come_to_their_answers_over_nodes", |seed| Case::draw(seed).over_nodes());
}

fn torture(test: &str, case: impl Fn(u64) -> Case) {
    let command = |seed, kills| command(test, seed, kills);
    let kills = number("TAFFRAIL_KILLS").unwrap_or(KILLS);
    let first = number("TAFFRAIL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("again: {}", command(first, kills));
    let started = Instant::now();
    let (mut toll, mut jobs, mut late) = (Toll::default(), 0, 0);
    let mut peace = HashMap::new();
    for seed in first.. {
        let case = case(seed);
        let place = peace.entry((case.part, case.ranks));
        let (answer, took) = place.or_insert_with(|| in_peace(case.part, case.ranks));
        let (of_this, job) = case.run(*took);
        jobs += 1;
        let last = job.err.lines().last().unwrap_or_default();
        println!("{seed}: {case}: {of_this} in {:.1} s; {last}", job.took.as_secs_f64());
        let about = || {
            let again = command(seed, 1);
            format!("{case}: {of_this}\nagain: {again}\n{}\n{}", job.out, job.err)
        };
        if of_this.ranks > 0 && was_late(&job) {
            late += 1;
            assert!(late < 10 + jobs / 2, "nearly all are killed after the end: {}", about());
        } else {
            assert_eq!(job.status, 0, "{}", about());
            assert_eq!(checksum(&job), Some(&**answer), "{}", about());
            toll.add(&of_this);
        }
        if toll.ranks >= kills {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{toll} in {jobs} jobs, {late} of them killed when they were done and not counted");
    println!("{seconds:.0} s; again: {}", command(first, kills));
}

/// All ranks were done with each other, and one was killed before it had ended.
fn was_late(job: &Ended) -> bool {
    let not_restarted = job.err.contains("it is not restarted, since rank");
    let in_vain = job.err.contains("was done with all others when one of them was killed");
    (job.status == 128 + 9 && not_restarted) || (job.status == 1 && in_vain)
}

/// What does the same once more.
fn command(test: &str, seed: u64, kills: u64) -> String {
    format!(
        "TAFFRAIL_SEED={seed} TAFFRAIL_KILLS={kills} \
         cargo test -p taffrail-launch --test launcher -- --exact restarts::torture::{test} --nocapture"
    )
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, got {text:?}")))
}
