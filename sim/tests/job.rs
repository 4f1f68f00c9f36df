//! Jobs of the product's engine, with failures.

use taffrail_sim::fabric::Coverage;
use taffrail_sim::job::{self, case};

/// How many lines of a trace are shown: of one seed that was asked for all.
fn shown() -> usize {
    std::env::var("TAFFRAIL_SEED").map_or(200, |_| usize::MAX)
}

fn seeds() -> std::ops::Range<u64> {
    let number =
        |name| std::env::var(name).ok().map(|text: String| text.parse().expect("a number"));
    match number("TAFFRAIL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TAFFRAIL_SEEDS").unwrap_or(1500),
    }
}

/// The results are those of a run without failures, whatever fails.
#[test]
fn jobs_end_as_without_failures() {
    let (mut faults, mut restarts, mut steps) = (0, 0, 0);
    let (mut checkpoints, mut restored) = (0, 0);
    let mut coverage = Coverage::default();
    for seed in seeds() {
        let case = case(seed);
        let expected = job::calm_results(&case).expect("nothing fails");
        let ended = match job::run(&case, false).0 {
            Ok(ended) => ended,
            Err(violation) => {
                let trace = job::run(&case, true).1;
                let end = trace.len().saturating_sub(shown());
                panic!(
                    "{}\nseed {seed}: {case}\n{violation:?}\nrepeat with TAFFRAIL_SEED={seed}",
                    trace[end..].join("\n")
                );
            }
        };
        assert_eq!(ended.results, expected, "repeat with TAFFRAIL_SEED={seed}: {case}");
        faults += ended.faults;
        restarts += ended.restarts;
        checkpoints += ended.checkpoints;
        restored += ended.restored;
        steps += ended.steps;
        coverage.add(&ended.coverage);
    }
    println!(
        "{steps} steps, {faults} faults, {restarts} restarts, {checkpoints} checkpoints, {restored} restored"
    );
    if std::env::var_os("TAFFRAIL_SEED").is_none() {
        assert!(restarts > 100 && faults > restarts, "{faults} faults, {restarts} restarts");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..8 {
        let runs = [(); 2].map(|()| job::run(&case(seed), false).0.expect("it passes"));
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}
