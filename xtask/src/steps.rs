//! The steps of `cargo xtask test`.

pub mod deny;
pub mod fuzz;
pub mod instructions;
pub mod lint;
pub mod mpi;
pub mod tests;

use crate::header;
use crate::place::Place;
use crate::report::{Ended, Outcome, timed};
use crate::tools;
use clap::ValueEnum;
use std::cell::Cell;

/// The steps, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Installs what the others need.
    Tools,
    /// Formatting.
    Fmt,
    /// Lints of every target; a warning is an error.
    Clippy,
    /// Rules of ours: what crates depend on and may do, how long files are, what may print or unwrap.
    Lint,
    /// Documentation; a warning is an error.
    Doc,
    /// The C header against the sources that it is written from.
    Header,
    /// Whether nodes may be network namespaces here: tests in these do nothing where they may not.
    Namespaces,
    /// All tests of all packages, but those of MPI programs.
    Nextest,
    /// Examples in the documentation.
    Doctest,
    /// Tests of MPI programs over what is installed, with real MPIs.
    Mpi,
    /// All interleavings of small models of the lock-free parts.
    Loom,
    /// Tests of the engine and its log, built with mutants of which none is selected; and that jobs of the simulator find
    /// those that are.
    Mutants,
    /// Schedules of ranks that fail and are replayed.
    Sim,
    /// Tests of the packages with unsafe code, under AddressSanitizer.
    Asan,
    /// Every fuzz target for a short time.
    Fuzz,
    /// Instructions for each message against their limits.
    Instructions,
    /// Licences and sources of what we depend on.
    Deny,
}

/// Seconds of random schedules of the simulator as part of the tests, by default.
pub const SCHEDULES: u32 = 150;

/// For how long fuzz targets run as part of the tests, all of them together.
const FUZZ_SECONDS: u32 = 60;

/// Runs the steps in `only`, or all.
pub fn run(place: &Place, only: &[Step], schedules: u32) -> Vec<Ended> {
    let wanted = |step: &Step| only.is_empty() || only.contains(step);
    std::thread::scope(|scope| {
        let deny = wanted(&Step::Deny).then(|| scope.spawn(|| deny::program(place)));
        let deny = Cell::new(deny);
        // Its program has been built meanwhile.
        let deny = |place: &Place| {
            let program = deny.take().map(|built| built.join().expect("building does not panic"));
            deny::step(place, program.flatten())
        };
        let steps = Step::value_variants().iter().copied().filter(wanted);
        steps.map(|step| one(place, step, schedules, &deny)).collect()
    })
}

fn one(place: &Place, step: Step, schedules: u32, deny: &dyn Fn(&Place) -> Outcome) -> Ended {
    let sim = |place: &Place| tests::some_schedules(place, schedules);
    let (name, run): (&'static str, &dyn Fn(&Place) -> Outcome) = match step {
        Step::Tools => ("tools", &tools::step),
        Step::Fmt => ("fmt", &lint::fmt),
        Step::Clippy => ("clippy", &lint::clippy),
        Step::Lint => ("lint", &lint::rules),
        Step::Doc => ("doc", &lint::doc),
        Step::Header => ("header", &header::step),
        Step::Namespaces => ("namespaces", &|_| tools::namespaces()),
        Step::Nextest => ("nextest", &tests::all),
        Step::Doctest => ("doctest", &tests::doctests),
        Step::Mpi => ("mpi", &mpi::step),
        Step::Loom => ("loom", &tests::loom),
        Step::Mutants => ("mutants", &tests::mutants),
        Step::Sim => ("sim", &sim),
        Step::Asan => ("asan", &tests::asan),
        Step::Fuzz => ("fuzz", &|place: &Place| fuzz::step(place, FUZZ_SECONDS)),
        Step::Instructions => ("instructions", &instructions::step),
        Step::Deny => ("deny", deny),
    };
    timed(name, || run(place))
}
