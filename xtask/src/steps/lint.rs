//! What can be said about the code without running it.

use crate::command::{cargo, run};
use crate::counts::Counts;
use crate::place::Place;
use crate::report::Outcome;
use crate::structure;

pub fn fmt(place: &Place) -> Outcome {
    let ours = run(&mut cargo(place, "fmt --all --check")).ok;
    let fuzz = run(&mut cargo(place, "fmt --manifest-path fuzz/Cargo.toml --check")).ok;
    let remedy = "type: cargo fmt --all; cargo fmt --manifest-path fuzz/Cargo.toml";
    Outcome::of_check(ours && fuzz, remedy)
}

pub fn clippy(place: &Place) -> Outcome {
    let line = "clippy --workspace --all-targets --features taffrail/pmix --locked -- -D warnings";
    Outcome::of_check(run(&mut cargo(place, line)).ok, "see the warnings above")
}

/// The rules of `xtask/structure.toml`, and those of `input_and_output`.
pub fn rules(place: &Place) -> Outcome {
    let faults = structure::check(place);
    println!("{}", faults.join("\n"));
    match input_and_output(place) {
        _ if !faults.is_empty() => Outcome::Failed(Counts::default(), faults.join("; ")),
        outcome => outcome,
    }
}

/// What tests, chores and the simulator may do and nothing that is installed: print where the reader may be
/// gone or the disk full, panic over what comes from outside, and read words that may not be UTF-8.
fn input_and_output(place: &Place) -> Outcome {
    let line = "clippy --workspace --lib --bins --exclude xtask --exclude taffrail-benches \
                --exclude taffrail-sim --features taffrail/pmix --locked -- -D clippy::print_stdout -D clippy::print_stderr \
                -D clippy::unwrap_used -D clippy::expect_used -D clippy::panic -D clippy::unreachable \
                -D clippy::todo -D clippy::unimplemented -D clippy::disallowed_methods";
    let remedy = "print through the helper of the crate that returns errors (say, print), give errors back \
                  in place of a panic or say why it cannot come: #[expect(clippy::.., reason = \"..\")], and \
                  see clippy.toml for methods";
    Outcome::of_check(run(&mut cargo(place, line)).ok, remedy)
}

pub fn doc(place: &Place) -> Outcome {
    let mut command = cargo(place, "doc --workspace --no-deps --locked");
    command.env("RUSTDOCFLAGS", "-D warnings");
    Outcome::of_check(run(&mut command).ok, "see the warnings above")
}
