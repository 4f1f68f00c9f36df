//! Schedules, and that the simulator would see if something were wrong.

use clap::ValueEnum;
use taffrail_sim::broken::Broken;
use taffrail_sim::case::Less;
use taffrail_sim::check::{check, check_all};

/// Seeds after which what is broken must have been found.
const SEEDS: u64 = 8000;

/// Where to begin: two ways to be broken are so rarely seen that it would take too long from seed 0 on.
fn first(broken: Broken) -> u64 {
    match broken {
        Broken::ProbesBeforeAllIsHere => 41_000,
        Broken::NoCallsBeforeAllIsHere => 24_000,
        _ => 0,
    }
}

#[test]
fn no_schedule_violates_anything() {
    let seeds = 0..5000;
    let expected = seeds.clone().count();
    let counts = match check_all(seeds, None) {
        Ok(counts) => counts,
        Err(failure) => panic!("{}", failure.shrink()),
    };
    assert_eq!(counts.runs, expected);
    assert!(counts.faults > expected, "faults must happen, these did: {counts:?}");
    // Checkpoints are taken, ranks go on from them, and logs get smaller.
    let happened = [counts.checkpoints, counts.restored, counts.collected];
    assert!(happened.iter().all(|&count| count > expected / 10), "{counts:?}");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..50 {
        let runs = [(); 2].map(|()| check(seed, &Less::default(), None).expect("it passes"));
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

#[test]
fn whatever_is_broken_is_found() {
    // Many of the findings are panics of what is simulated; these are nobody else's business.
    std::panic::set_hook(Box::new(|_| {}));
    let found = |broken: &Broken| {
        let first = first(*broken);
        check_all(first..first + SEEDS, Some(*broken)).err()
    };
    let mut missed = Vec::new();
    for broken in Broken::value_variants() {
        match found(broken) {
            Some(failure) => {
                println!("{broken:?}: seed {}, {}", failure.seed, failure.violation.invariant);
            }
            None => missed.push(broken),
        }
    }
    // What its receiver has may be sent and is dropped: the one thing in the list that is only slow.
    assert_eq!(missed, [&Broken::SuppressedIsSent]);
}

#[test]
fn what_fails_is_made_smaller_and_can_be_run_again() {
    let failure = check_all(0..SEEDS, Some(Broken::GateIgnored)).expect_err("it is found");
    let small = failure.clone().shrink();
    let again = check(small.seed, &small.less, small.broken).expect_err("it fails again");
    assert_eq!(again.violation, small.violation);
    let text = small.to_string();
    assert!(text.contains(&format!("the model, seed {}", small.seed)), "{text}");
    assert!(text.ends_with("--broken gate-ignored"), "{text}");
    assert!(text.contains("stable-before-escape"), "{text}");
}
