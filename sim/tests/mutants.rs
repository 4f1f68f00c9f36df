//! Mistakes made on purpose in the product and beside it: the jobs of the simulator find them.
#![cfg(mutants)]

use taffrail_logging::mutants::Mutant;
use taffrail_sim::broken::Broken;
use taffrail_sim::job::check::{Failure, Wrong, check, check_all};

/// Seeds within which most mutants are found.
fn seeds() -> u64 {
    let seeds = std::env::var("TAFFRAIL_SEEDS");
    seeds.map_or(600, |text| text.parse().expect("a number"))
}

/// The mutants that jobs do not find within these seeds: `docs/spec/simulator.md`, section 4, says of each why.
const NOT_FOUND: &[Mutant] = &[
    Mutant::SuppressedIsSent,
    Mutant::PageSkipped,
    Mutant::RtsUngated,
    Mutant::FinalizeNakUngated,
    Mutant::LoanReturnUngated,
    Mutant::NothingNotLogged,
    Mutant::OldIncarnationBelieved,
    Mutant::StaleAnswersKept,
    Mutant::AnswerToDeadGated,
    Mutant::StaleNamesKept,
    Mutant::FormerNameBelieved,
    Mutant::FormerTokenBelieved,
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
    Mutant::CheckpointBeforeStable,
    Mutant::CheckpointInReplay,
    Mutant::DrainedAcrossCheckpoint,
    Mutant::PagesNotInCheckpoint,
    Mutant::CommitDoesNotAnswer,
    Mutant::SerialNotRestored,
    Mutant::EventPassed,
    Mutant::OldIncarnationMet,
    Mutant::CommittedNotRepeated,
    Mutant::LostLinkNotSettled,
];

/// What can be wrong beside the product, and is found within these seeds.
const BESIDE: [Broken; 5] = [
    Broken::LoggerCutsEachRank,
    Broken::LoggerDoesNotWait,
    Broken::LoggerPromises,
    Broken::LoggerSealsFirst,
    Broken::SurvivorsNotAsked,
];

fn found(wrong: Wrong) -> Option<Failure> {
    check_all(0..seeds(), wrong).err()
}

/// Says which of them are not found.
fn missed<T: Copy + std::fmt::Debug>(
    all: impl Iterator<Item = T>,
    found: impl Fn(T) -> Option<Failure>,
) -> Vec<T> {
    // Many of the findings are panics of what is simulated; these are nobody else's business.
    std::panic::set_hook(Box::new(|_| {}));
    let is_missed = |one: &T| match found(*one) {
        Some(Failure { seed, violation, .. }) => {
            println!("{one:?}: seed {seed}, {}", violation.invariant);
            false
        }
        None => {
            println!("{one:?}: NOT FOUND");
            true
        }
    };
    all.filter(is_missed).collect()
}

#[test]
fn mutants_of_the_product_are_found() {
    let all = Mutant::ALL.iter().copied().filter(|mutant| !NOT_FOUND.contains(mutant));
    let wrong = |mutant| Wrong { mutant: Some(mutant), broken: None };
    assert_eq!(missed(all, |mutant| found(wrong(mutant))), []);
}

#[test]
fn whatever_is_wrong_beside_the_product_is_found() {
    let wrong = |broken| Wrong { mutant: None, broken: Some(broken) };
    assert_eq!(missed(BESIDE.into_iter(), |broken| found(wrong(broken))), []);
}

#[test]
fn what_fails_is_made_smaller_and_can_be_run_again() {
    let wrong = Wrong { mutant: Some(Mutant::GateIgnored), broken: None };
    let failure = check_all(0..seeds(), wrong).expect_err("it is found");
    let small = failure.clone().shrink();
    let again = check(small.seed, &small.less, small.wrong).expect_err("it fails again");
    assert_eq!(again.violation, small.violation);
    let text = small.to_string();
    assert!(text.contains(&format!("cargo xtask sim --seed {}", small.seed)), "{text}");
    assert!(text.ends_with("--mutant gate-ignored"), "{text}");
    assert!(text.contains("stable-before-escape"), "{text}");
}
