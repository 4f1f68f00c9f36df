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

/// The mutants that jobs do not find within these seeds: what is still missing in jobs for each is said in
/// `docs/spec/simulator.md`, section 4.
const NOT_FOUND: &[Mutant] = &[
    Mutant::SuppressedIsSent,
    Mutant::PageSkipped,
    Mutant::RtsUngated,
    Mutant::FinalizeNakUngated,
    Mutant::LoanReturnUngated,
    Mutant::NothingNotLogged,
    Mutant::PollsBeforeAnswerNotLogged,
    Mutant::OldIncarnationBelieved,
    Mutant::StaleAnswersKept,
    Mutant::AnswerToDeadGated,
    Mutant::StaleNamesKept,
    Mutant::FormerNameBelieved,
    Mutant::FormerTokenBelieved,
    Mutant::SendNotBegunAgain,
    Mutant::ThrottleKept,
    Mutant::SilenceKept,
    Mutant::LinkTakenForVerdict,
    Mutant::LoanTakenBackEarly,
    Mutant::PollsBeforeMatchForgotten,
    Mutant::CompletionNotLogged,
    Mutant::DeterminantsDroppedEarly,
    Mutant::LostForgotten,
    Mutant::OnlyOwnAdopted,
    Mutant::MissingCollected,
    Mutant::PageDroppedEarly,
    Mutant::ProbesBeforeAllIsHere,
    Mutant::NoCallsBeforeAllIsHere,
    Mutant::CheckpointInReplay,
    Mutant::PollsAcrossCheckpoint,
    Mutant::DrainedAcrossCheckpoint,
    Mutant::PagesNotInCheckpoint,
    Mutant::CommitDoesNotAnswer,
    Mutant::SerialNotRestored,
];

#[test]
fn each_is_found() {
    // Many of the findings are panics of what is simulated; these are nobody else's business.
    std::panic::set_hook(Box::new(|_| {}));
    let expected: Vec<_> = (0..400).map(|seed| (seed, expected(seed))).collect();
    let mut missed = Vec::new();
    for &mutant in Mutant::ALL.iter().filter(|mutant| !NOT_FOUND.contains(mutant)) {
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
