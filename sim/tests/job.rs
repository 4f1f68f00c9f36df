//! Jobs of the product's engine, with failures.

use taffrail_sim::case::Less;
use taffrail_sim::fabric::Situation;
use taffrail_sim::job::check::{Wrong, check, check_all};

/// Situations of the network that jobs must reach: sends that end later, memory of others, ranks that close, and
/// receive buffers that messages keep.
const SITUATIONS: [Situation; 9] = [
    Situation::LaterCompletion,
    Situation::LaterFailed,
    Situation::TransferSplit,
    Situation::GetRefused,
    Situation::DiedMidTransfer,
    Situation::Mapped,
    Situation::Closed,
    Situation::LeaseKept,
    Situation::LeasesUsedUp,
];

/// Seeds from 0 on.
fn seeds() -> u64 {
    let seeds = std::env::var("TAFFRAIL_SEEDS");
    seeds.map_or(600, |text| text.parse().expect("a number"))
}

/// The results equal the results of a run without failures, whatever fails; and schedules reach all required paths.
#[test]
fn jobs_end_as_without_failures() {
    let seeds = 0..seeds();
    let expected = seeds.clone().count();
    let counts = match check_all(seeds, None, Wrong::default()) {
        Ok(counts) => counts,
        Err(failure) => panic!("{}", failure.shrink()),
    };
    println!("{counts:?}");
    assert_eq!(counts.runs, expected);
    assert!(counts.faults > expected / 2, "faults must happen: {counts:?}");
    // Ranks start again, checkpoints are taken, and ranks restart from them.
    let happened = [counts.restarts, counts.checkpoints, counts.restored];
    assert!(happened.iter().all(|&count| count > expected / 20), "{counts:?}");
    assert_eq!(
        counts.frames.missing(),
        [""; 0],
        "frames and outcomes that no schedule has reached"
    );
    let missed = SITUATIONS.iter().filter(|&&one| counts.coverage.of(one) == 0);
    assert_eq!(missed.map(|one| one.name()).collect::<Vec<_>>(), [""; 0], "of the network");
    assert_eq!(counts.paths.missing(), [""; 0], "paths that no schedule has reached");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..8 {
        let less = Less::default();
        let runs = [(); 2].map(|()| check(seed, &less, Wrong::default()).expect("it passes"));
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

/// A rank reads memory of a rank that was killed a moment before: to its program that is the failure of a peer, not memory that was
/// never there.
#[test]
fn memory_is_gone_with_a_killed_rank() {
    if let Err(failure) = check(1_795_834_569_380, &Less::default(), Wrong::default()) {
        panic!("{}", failure.shrink());
    }
}
