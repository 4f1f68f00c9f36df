//! Random programs over random schedules, and an oracle that knows what each process was promised.
//!
//! A run is a function of its seed. What it does is in `world` and `reached`, what must hold in `witness` and `ledger`.

mod directed;
mod ledger;
mod memory;
mod reached;
mod witness;
mod world;

use taffrail_fabric::Reach;
use taffrail_sim::fabric::{Coverage, Mutant, Settings};
use world::World;

/// Seeds of a run without mutants.
const SEEDS: u64 = 2400;
/// Seeds within which a mutant must be found.
const MUTANT_SEEDS: u64 = 1200;
/// Calls and steps of a run.
const TURNS: usize = 400;

/// What a run has found, and what it has reached.
struct Ended {
    found: Option<String>,
    coverage: Coverage,
    trace: Vec<String>,
}

/// Settings that vary with the seed.
fn settings(seed: u64, mutant: Option<Mutant>, trace: bool) -> Settings {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5e77);
    let base = Settings::small();
    Settings {
        later_from: random.bool().then(|| random.usize(0..12)),
        in_place: random.u8(..4) == 0,
        holds: random.u8(..4) == 0,
        names_death: random.bool(),
        reach: (random.u8(..8) > 0).then_some(Reach::Device),
        maps: random.bool(),
        key_bytes: random.usize(Settings::KEY_MIN..=64),
        trace,
        mutant,
        ..base
    }
}

/// Runs a seed. Its lowest bits say which constants the fabrics have.
fn run(seed: u64, mutant: Option<Mutant>, trace: bool) -> Ended {
    let settings = settings(seed, mutant, trace);
    match seed % 8 {
        0 => World::<true, false, false>::run(seed, settings, TURNS),
        1 => World::<true, true, false>::run(seed, settings, TURNS),
        2 => World::<true, false, true>::run(seed, settings, TURNS),
        3 => World::<true, true, true>::run(seed, settings, TURNS),
        4 => World::<false, false, false>::run(seed, settings, TURNS),
        5 => World::<false, true, false>::run(seed, settings, TURNS),
        6 => World::<false, false, true>::run(seed, settings, TURNS),
        _ => World::<false, true, true>::run(seed, settings, TURNS),
    }
}

/// Panics with what was found, the end of the trace, and the command that repeats it.
fn must_pass(seed: u64) -> Coverage {
    let ended = run(seed, None, false);
    if let Some(found) = ended.found {
        let trace = run(seed, None, true).trace;
        let tail = trace[trace.len().saturating_sub(60)..].join("\n");
        panic!(
            "{tail}\n{found}\nto repeat it: TAFFRAIL_SEED={seed} cargo test -p taffrail-sim --test fabric_model schedules"
        );
    }
    ended.coverage
}

/// No schedule breaks a promise, and together they reach every situation.
#[test]
fn schedules() {
    if let Ok(seed) = std::env::var("TAFFRAIL_SEED") {
        must_pass(seed.parse().expect("TAFFRAIL_SEED is a number"));
        return;
    }
    let mut coverage = Coverage::default();
    (0..SEEDS).for_each(|seed| coverage.add(&must_pass(seed)));
    println!("{coverage}");
    assert!(coverage.missing().is_empty(), "never reached: {:?}", coverage.missing());
}

/// A run is a function of its seed.
#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..32 {
        let [one, other] = [(); 2].map(|()| run(seed, None, true));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(one.coverage, other.coverage, "seed {seed}");
        assert!(one.trace.len() > TURNS / 10, "seed {seed} has done next to nothing");
    }
}

/// Each way to get the fabric wrong is found, and for the reason that it is wrong.
#[test]
fn every_mutant_is_found() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let reasons = reasons(mutant);
        let found =
            (0..MUTANT_SEEDS).find_map(|seed| Some((seed, run(seed, Some(mutant), false).found?)));
        match found {
            Some((seed, found)) if reasons.iter().any(|reason| found.contains(reason)) => {
                println!("{mutant:?}: seed {seed}: {found}");
            }
            other => missed.push(format!("{mutant:?}: {other:?}, expected one of {reasons:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// What the oracle may say of a mutant.
fn reasons(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::MessageDoubled => &["twice", "in order"],
        Mutant::MessageLost => &["never arrived", "in order"],
        Mutant::MessageTorn => &["bytes of message"],
        Mutant::OrderIgnored => &["in order"],
        Mutant::NeverBusy => &["more than the capacity"],
        Mutant::SentWhenBusy => &["was refused"],
        Mutant::RoomLost => &["no room"],
        Mutant::SentNever => &["the end of a send"],
        Mutant::SentTwice => &["is not under way"],
        Mutant::SentEarly => &["source unchanged until sent"],
        Mutant::SegmentReused => &["kept-buffers"],
        Mutant::SegmentKept => &["no segment"],
        Mutant::ArrivesAfterEnd => &["without a link"],
        Mutant::OldIncarnation => &["of another link"],
        Mutant::EndBeforeMessages => &["without a link", "never arrived"],
        Mutant::ClosedEarly => &["never arrived"],
        Mutant::EndBeforeRest => &["before the rest"],
        Mutant::UpTwice => &["up already"],
        Mutant::RestInterrupted => &["before the rest", "in order"],
        Mutant::RestNever => &["before the rest"],
        Mutant::RestTooLong => &["beyond"],
        Mutant::LeaseReused => &["while it was kept"],
        Mutant::MovedTwice => &["is not under way"],
        Mutant::MovedEarly => &["bytes of a get", "bytes of a put"],
        Mutant::RegionLingers => &["deregistered"],
        Mutant::DrainedEarly => &["drained", "source unchanged until sent"],
        Mutant::VerdictByLink => &["one-verdict"],
    }
}
