//! Mistakes made on purpose in the product: the jobs of the simulator find them.
#![cfg(mutants)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use taffrail_logging::mutants::{Mutant, select};
use taffrail_sim::job::{self, case};

/// The results of the job of a seed if nothing fails, and nothing is wrong.
fn expected(seed: u64) -> Vec<u64> {
    select(None).expect("built with mutants");
    job::calm_results(&case(seed)).expect("nothing fails")
}

/// Which invariant the job of a seed violates, with a mutant.
fn fails(mutant: Mutant, seed: u64, expected: &[u64]) -> Option<String> {
    let case = case(seed);
    select(Some(mutant)).expect("built with mutants");
    match catch_unwind(AssertUnwindSafe(|| job::run(&case, false).0)) {
        Err(_) => Some("no panic".into()),
        Ok(Err(violation)) => Some(violation.invariant.into()),
        Ok(Ok(ended)) if ended.results != expected => Some("the same results".into()),
        Ok(Ok(_)) => None,
    }
}

/// The mutants that jobs of pessimistic logging without checkpoints find. The others of the list need what jobs do not have
/// yet (causal logging, checkpoints, loans, completion queues), or an oracle of the gate: `sim/src/broken.rs` has them
/// until then.
const FOUND: [Mutant; 29] = [
    Mutant::SuppressedNotLogged,
    Mutant::SynchronousSuppressed,
    Mutant::HeldIsSent,
    Mutant::HeldIsForgotten,
    Mutant::HoldDropped,
    Mutant::NotLowered,
    Mutant::DiscardedEarly,
    Mutant::NotAskedAgain,
    Mutant::SpillReadElsewhere,
    Mutant::FrameSentTwice,
    Mutant::DuplicatesDelivered,
    Mutant::NotReserved,
    Mutant::ReplayedNotCounted,
    Mutant::MissingNotTold,
    Mutant::RefillAppended,
    Mutant::PartialForgotten,
    Mutant::InflowForgotten,
    Mutant::AnnouncementOfDeadKept,
    Mutant::LostRestDelivered,
    Mutant::OldIncarnationBelieved,
    Mutant::BacklogKept,
    Mutant::SendNotBegunAgain,
    Mutant::FateIgnored,
    Mutant::PollsNotReplayed,
    Mutant::MatchNotLogged,
    Mutant::WaitAnyNotLogged,
    Mutant::ProbeNotLogged,
    Mutant::ClaimNotLogged,
    Mutant::LateCancelNotLogged,
];

#[test]
fn each_is_found() {
    // Many of the findings are panics of what is simulated; these are nobody else's business.
    std::panic::set_hook(Box::new(|_| {}));
    let expected: Vec<_> = (0..400).map(|seed| (seed, expected(seed))).collect();
    let mut missed = Vec::new();
    for mutant in FOUND {
        let found = expected
            .iter()
            .find_map(|(seed, results)| Some((seed, fails(mutant, *seed, results)?)));
        match found {
            Some((seed, invariant)) => println!("{}: seed {seed}, {invariant}", mutant.name()),
            None => missed.push(mutant.name()),
        }
    }
    assert_eq!(missed, [""; 0]);
}
