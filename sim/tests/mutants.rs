//! Mistakes made on purpose in the product and beside it: the jobs of the simulator find them.
#![cfg(mutants)]

use clap::ValueEnum;
use std::sync::Mutex;
use taffrail_logging::mutants::Mutant;
use taffrail_sim::broken::Broken;
use taffrail_sim::job::check::{Failure, Wrong, check, check_all};
use taffrail_sim::profile::Profile;

/// Seeds within which a mutant is found.
fn seeds() -> u64 {
    let seeds = std::env::var("TAFFRAIL_SEEDS");
    seeds.map_or(700, |text| text.parse().expect("a number"))
}

/// Of which profile the jobs are that are to find a mutant. `None`: of all.
fn profile(mutant: Mutant) -> Option<Profile> {
    match mutant {
        Mutant::NothingNotLogged | Mutant::PollsBeforeMatchForgotten => Some(Profile::Polls),
        Mutant::CheckpointBeforeStable
        | Mutant::FinalizeBeforeHeld
        | Mutant::CommitDoesNotAnswer
        | Mutant::DrainedAcrossCheckpoint
        | Mutant::ProbesBeforeAllIsHere
        | Mutant::SerialNotRestored
        | Mutant::PagesNotInCheckpoint => Some(Profile::Checkpoints),
        Mutant::CompletionNotLogged | Mutant::FinalizeNakUngated | Mutant::RtsUngated => {
            Some(Profile::Calls)
        }
        Mutant::LoanReturnUngated => Some(Profile::Loans),
        Mutant::DeterminantsDroppedEarly
        | Mutant::OnlyOwnAdopted
        | Mutant::HeldNotNoted
        | Mutant::DoorOpen => Some(Profile::Survivors),
        Mutant::LostForgotten => Some(Profile::CausalLinks),
        Mutant::LostLinkNotSettled | Mutant::FinalizingEarly | Mutant::CallerNotSuspended => {
            Some(Profile::Links)
        }
        Mutant::EventPassed => Some(Profile::Rings),
        Mutant::LoggerBelievesTornCut => Some(Profile::Logger),
        Mutant::StopNotLifted | Mutant::StopIgnored | Mutant::AnswersWithheld => {
            Some(Profile::Flow)
        }
        Mutant::ReplayStops => Some(Profile::LoggedFlow),
        Mutant::SilenceKept => Some(Profile::Even),
        Mutant::EndsWhileLent => Some(Profile::Unlogged),
        Mutant::RtsAwaitsDead
        | Mutant::ReceiveAwaitsDead
        | Mutant::WholeMessageDropped
        | Mutant::AnySourceEndsEarly => Some(Profile::Deaths),
        _ => None,
    }
}

fn profile_beside(broken: Broken) -> Option<Profile> {
    match broken {
        Broken::DownloadsUnstable => Some(Profile::Nodes),
        Broken::StaleFinalizing => Some(Profile::Victim),
        Broken::FinalizingKept => Some(Profile::Links),
        Broken::SurvivorsNotAskedAgain | Broken::DeadStillBelieved => Some(Profile::Survivors),
        _ => None,
    }
}

/// The mutants that no job finds: `docs/spec/simulator.md`, section 4, names what does.
const NOT_FOUND: &[Mutant] = &[
    Mutant::OldIncarnationBelieved,
    Mutant::StaleAnswersKept,
    Mutant::AnswerToDeadGated,
    Mutant::StaleNamesKept,
    Mutant::FormerNameBelieved,
    Mutant::FormerTokenBelieved,
    Mutant::EndsWhileWritten,
    Mutant::FormerRestBelieved,
    Mutant::ThrottleKept,
    Mutant::GarbageSurvived,
    Mutant::DroppedNotMissed,
    Mutant::LinkTakenForVerdict,
    Mutant::FinishedUnknown,
    Mutant::LoanTakenBackEarly,
    Mutant::MissingCollected,
    Mutant::NoCallsBeforeAllIsHere,
    Mutant::CheckpointInReplay,
    Mutant::OldIncarnationMet,
    Mutant::CommittedNotRepeated,
    Mutant::LeaseNotReturned,
    Mutant::SendNotBegunAgain,
    Mutant::LateCallerNotAnswered,
];

/// Says which of them are not found, by a thread for each processor.
fn missed<T: Copy + Send + std::fmt::Debug>(
    all: impl Iterator<Item = T> + Send,
    found: impl Fn(T) -> Result<(), Box<Failure>> + Sync,
) -> Vec<T> {
    // Many of the findings are panics of what is simulated; these are nobody else's business.
    std::panic::set_hook(Box::new(|_| {}));
    let (all, missed) = (Mutex::new(all), Mutex::new(Vec::new()));
    let next = || all.lock().expect("an iterator does not panic").next();
    let work = || {
        while let Some(one) = next() {
            match found(one) {
                Err(failure) => {
                    println!("{one:?}: seed {}, {}", failure.seed, failure.violation.invariant);
                }
                Ok(()) => {
                    println!("{one:?}: NOT FOUND");
                    missed.lock().expect("nobody panics").push(one);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    missed.into_inner().expect("nobody panics")
}

#[test]
fn mutants_are_found() {
    let all = Mutant::ALL.iter().copied().filter(|mutant| !NOT_FOUND.contains(mutant));
    let found = |mutant| {
        let wrong = Wrong { mutant: Some(mutant), broken: None };
        check_all(0..seeds(), profile(mutant), wrong).map(drop)
    };
    assert_eq!(missed(all, found), []);
}

#[test]
fn whatever_is_wrong_beside_the_product_is_found() {
    let found = |broken| {
        let wrong = Wrong { mutant: None, broken: Some(broken) };
        check_all(0..seeds(), profile_beside(broken), wrong).map(drop)
    };
    assert_eq!(missed(Broken::value_variants().iter().copied(), found), []);
}

#[test]
fn what_fails_is_made_smaller_and_can_be_run_again() {
    let wrong = Wrong { mutant: Some(Mutant::GateIgnored), broken: None };
    let failure = check_all(0..seeds(), None, wrong).expect_err("it is found");
    let small = failure.clone().shrink();
    let steps = small.less.steps.as_ref().expect("steps are left out").0.len();
    assert!(steps < 300, "{steps} steps are left");
    let again = check(small.seed, &small.less, small.wrong).expect_err("it fails again");
    assert_eq!(again.violation, small.violation);
    let text = small.to_string();
    assert!(text.contains(&format!("cargo xtask sim --seed {}", small.seed)), "{text}");
    assert!(text.ends_with("--mutant gate-ignored"), "{text}");
    assert!(text.contains("stable-before-escape"), "{text}");
}
