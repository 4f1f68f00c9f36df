//! Rules about the sources that no compiler checks: which crates are pure, which names stay where they belong, how
//! long files and functions are, which files import each other, and that every dependency is used. `xtask/structure.toml` has the exceptions, each
//! with its reason.

mod circles;
mod limits;
mod packages;
mod pure;
mod sources;
mod words;

use crate::place::Place;
use serde::Deserialize;
use std::path::Path;

/// The file of rules.
const FILE: &str = "xtask/structure.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    pure: pure::Pure,
    limits: limits::Limits,
    word: Vec<words::Rule>,
    circles: Vec<circles::Rule>,
}

/// What breaks a rule, a line each.
pub fn check(place: &Place) -> Vec<String> {
    try_check(place).unwrap_or_else(|why| vec![why])
}

fn try_check(place: &Place) -> Result<Vec<String>, String> {
    let rules = read(&place.root.join(FILE))?;
    let sources =
        sources::find(&place.root).map_err(|error| format!("{}: {error}", place.root.display()))?;
    let mut faults = rules.limits.check(&sources);
    faults.extend(rules.word.iter().flat_map(|rule| rule.check(&sources)));
    faults.extend(rules.circles.iter().flat_map(|rule| rule.check(&sources)));
    faults.extend(packages::check(place, &sources)?);
    faults.extend(rules.pure.check(place)?);
    Ok(faults)
}

fn read(path: &Path) -> Result<Rules, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{FILE}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
}
