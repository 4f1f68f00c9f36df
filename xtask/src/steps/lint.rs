//! What can be said about the code without running it.

use crate::command::{cargo, run};
use crate::place::Place;
use crate::report::Outcome;

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

pub fn doc(place: &Place) -> Outcome {
    let mut command = cargo(place, "doc --workspace --no-deps --locked");
    command.env("RUSTDOCFLAGS", "-D warnings");
    Outcome::of_check(run(&mut command).ok, "see the warnings above")
}
