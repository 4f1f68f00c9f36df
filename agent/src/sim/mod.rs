//! A launcher and agents in virtual time, with faults. `docs/spec/agent.md`, section 13.
//!
//! `TAFFRAIL_SEED=<seed>` runs one seed and prints its trace, `TAFFRAIL_SEEDS=<number>` as many as that.

mod case;
mod channel;
mod checks;
mod copies;
mod ended;
mod faults;
mod finalizing;
mod held;
mod life;
mod links;
mod moves;
mod node;
mod stores;
mod world;

use crate::mutant::{self, Mutant};
use case::Case;
use ended::Ended;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// Runs a case. What it came to, or what was violated, with the trace.
fn run(case: &Case, broken: Option<Mutant>) -> Result<Ended, (String, Vec<String>)> {
    mutant::set(broken);
    let mut world = World::new(case);
    // A panic of what is simulated is a finding like others.
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    mutant::set(None);
    let violated = match ended {
        Ok(Ok(ended)) => return Ok(ended),
        Ok(Err(violated)) => violated,
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or("a panic".to_owned()),
    };
    Err((violated, world.trace))
}

/// The case of a seed without those of its faults that are not needed for it to fail.
fn smallest(seed: u64, broken: Option<Mutant>) -> (Case, String, Vec<String>) {
    let mut case = Case::new(seed);
    let mut found = run(&case, broken).expect_err("a case that fails");
    let mut at = 0;
    while at < case.faults.len() {
        let mut less = case.clone();
        less.faults.remove(at);
        match run(&less, broken) {
            Err(again) => (case, found) = (less, again),
            Ok(_) => at += 1,
        }
    }
    (case, found.0, found.1)
}

fn report(seed: u64, broken: Option<Mutant>) -> String {
    let (case, violated, trace) = smallest(seed, broken);
    let trace = trace.join("\n");
    format!(
        "{trace}\nseed {seed}, {case:?}\n{violated}\nRepeat with: TAFFRAIL_SEED={seed} cargo test -p taffrail-agent \
         --lib sim:: -- --nocapture"
    )
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    Some(text.to_str()?.parse().expect("a number"))
}

#[test]
fn two_incarnations_of_a_rank_never_both_act() {
    if let Some(seed) = number("TAFFRAIL_SEED") {
        match run(&Case::new(seed), None) {
            Ok(ended) => println!("{:?}: {ended:?}", Case::new(seed)),
            Err(_) => panic!("{}", report(seed, None)),
        }
        return;
    }
    let seeds = number("TAFFRAIL_SEEDS").unwrap_or(3000);
    let mut all = Ended::default();
    for seed in 0..seeds {
        match run(&Case::new(seed), None) {
            Ok(ended) => all.add(&ended),
            Err(_) => panic!("{}", report(seed, None)),
        }
    }
    println!("{seeds} runs: {all:?}");
    // Faults that change nothing would prove nothing.
    let share = |part: u32, of: u64| u64::from(part) * 100 / of;
    assert!(share(all.finished, seeds) > 50, "most jobs finish: {all:?}");
    assert!(all.restarts > all.finished, "ranks are started again: {all:?}");
    assert!(share(all.nodes_lost, seeds) > 20, "nodes are lost: {all:?}");
    assert!(share(all.fenced, seeds) > 20, "agents lose their leases: {all:?}");
    assert!(all.recovered > 100, "logs are handed over: {all:?}");
    assert!(all.from_copies > 100, "copies of lost nodes are used: {all:?}");
    assert!(all.from_survivors > 10, "survivors hand over what they hold: {all:?}");
    assert!(all.from_checkpoints > 100, "checkpoints of lost nodes are used: {all:?}");
    assert!(all.brought > 30, "logs are brought to other nodes: {all:?}");
    assert!(all.lacking > 20, "other copies are used where one is gone: {all:?}");
    assert!(all.brought_again > 10, "they are brought elsewhere when that fails: {all:?}");
    assert!(all.revoked > 50, "nodes are ended that others do not reach: {all:?}");
    assert!(all.together > 50, "jobs finish after several nodes were lost at once: {all:?}");
    assert!(all.alone > 20, "jobs finish on the reliable host alone: {all:?}");
    assert!(all.finalizing_again > 100, "completed ranks learn of restarts: {all:?}");
    assert!(share(all.moved, seeds) > 20, "ranks start on other nodes: {all:?}");
}

/// The first seed in which a way to break the protocol is found.
fn finds(broken: Mutant) {
    let seeds = number("TAFFRAIL_SEEDS").unwrap_or(3000);
    let found = (0..seeds).find(|&seed| run(&Case::new(seed), Some(broken)).is_err());
    let seed = found.unwrap_or_else(|| panic!("{broken:?} is not found in {seeds} seeds"));
    let violated = smallest(seed, Some(broken)).1;
    println!("{broken:?}: found with seed {seed}: {violated}");
}

macro_rules! mutants {
    ($($name:ident: $mutant:ident,)*) => {
        $(
            #[test]
            fn $name() {
                finds(Mutant::$mutant);
            }
        )*
    };
}

mod mutants {
    use super::*;

    mutants! {
        lease_from_receipt: LeaseFromReceipt,
        deadline_ignored: DeadlineIgnored,
        guard_not_armed: GuardNotArmed,
        check_after_act: CheckAfterAct,
        no_margin: NoMargin,
        ended_when_broken: EndedWhenBroken,
        ended_when_revoked: EndedWhenRevoked,
        links_awaited: LinksAwaited,
        silence_counts: SilenceCounts,
        late_believed: LateBelieved,
        acks_not_awaited: AcksNotAwaited,
        acks_of_cut_not_awaited: AcksOfCutNotAwaited,
        late_node_without_roster: LateNodeWithoutRoster,
        late_node_without_values: LateNodeWithoutValues,
        late_node_without_barriers: LateNodeWithoutBarriers,
        ended_at_kill: EndedAtKill,
        goodbye_at_kill: GoodbyeAtKill,
        entered_by_the_dead: EnteredByTheDead,
        begins_early: BeginsEarly,
        not_placed_anew: NotPlacedAnew,
        restarted_without_log: RestartedWithoutLog,
        lost_answer_awaited: LostAnswerAwaited,
        copied_when_ordered: CopiedWhenOrdered,
        announced_before_elsewhere: AnnouncedBeforeElsewhere,
        former_copy_counts: FormerCopyCounts,
        arrivals_not_copied: ArrivalsNotCopied,
        two_on_one_node: TwoOnOneNode,
        first_copy_alone: FirstCopyAlone,
        first_copy_awaited: FirstCopyAwaited,
        announced_with_first_copy: AnnouncedWithFirstCopy,
        reliable_passed_over: ReliablePassedOver,
        one_answer_is_enough: OneAnswerIsEnough,
        bring_not_awaited: BringNotAwaited,
        bring_awaited: BringAwaited,
        former_log_used: FormerLogUsed,
        sets_spread: SetsSpread,
        lost_copy_counts: LostCopyCounts,
        stale_finalizing_believed: StaleFinalizingBelieved,
        finalizing_kept: FinalizingKept,
    }
}
