//! Instructions for each message, counted by callgrind: they say the same on every machine and at
//! every load, which times do not.

use crate::command::{by_twos, cargo, run, run_beside};
use crate::counts::Counts;
use crate::install;
use crate::place::Place;
use crate::report::Outcome;
use crate::tools;
use serde::Deserialize;
use std::io::Error;
use std::path::Path;
use std::process::Command;

/// The file of limits.
const FILE: &str = "xtask/instructions.toml";

/// Where those in Rust are.
#[cfg(test)]
const PATHS: &str = "benches/src/bin";

/// Where the C programs are.
const PROGRAMS: &str = "xtask/instructions";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    workload: Vec<Workload>,
}

/// A program that moves as many messages as it is told.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    name: String,
    program: Program,
    messages: u64,
    /// The most instructions for one message.
    limit: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum Program {
    /// A program in Rust, which moves `messages` by itself. Its start and its end are included.
    Path(String),
    /// One that is started as the only rank of a job whose messages are logged.
    Logged(String),
    /// A C program over the libfabric provider. Its argument is the number of round trips.
    Provider(String),
    /// A C program over the C library. Its argument is the number of round trips.
    Library(String),
}

pub fn step(place: &Place) -> Outcome {
    if tools::find("valgrind").is_none() {
        return Outcome::Skipped(
            "valgrind is not installed; type: apt-get install valgrind".into(),
        );
    }
    let baseline = match read(&place.root.join(FILE)) {
        Ok(baseline) => baseline,
        Err(why) => return Outcome::Failed(Counts::default(), why),
    };
    if let Err(why) = build(place) {
        return Outcome::Failed(Counts::default(), why);
    }
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    let mut lines = Vec::new();
    // Processes that share a machine do not change each other's instructions.
    let results = by_twos(&baseline.workload, |workload| measure(place, workload));
    for (workload, result) in baseline.workload.iter().zip(results) {
        let limit = workload.limit;
        counts += Counts::one(result.as_ref().is_ok_and(|&cost| cost <= limit));
        let name = &workload.name;
        match result {
            Ok(cost) => {
                lines.push(format!("{name}: {cost:.1} instructions a message, at most {limit}"));
                if cost > limit {
                    failures.push(format!("{name}: {cost:.1} instructions, limit {limit}"));
                }
            }
            Err(why) => failures.push(format!("{name}: {why}")),
        }
    }
    println!("{}", lines.join("\n"));
    Outcome::of_parts(counts, failures.join("; "))
}

fn read(path: &Path) -> Result<Baseline, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{FILE}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
}

/// Builds all that is measured, as it is installed: at once, so that what the programs and libraries share is built once.
/// The linker optimises each of them on one processor.
fn build(place: &Place) -> Result<(), String> {
    let measured = "build --release --locked --bins -p taffrail-benches --lib -p taffrail-ofi -p taffrail-c-static";
    // The launcher is not measured, and so is the one that tests use.
    let launcher = install::with_tests(place, "--test launcher");
    match [cargo(place, measured), launcher].iter_mut().all(|build| run(build).ok) {
        true => Ok(()),
        false => Err("what is measured does not build".into()),
    }
}

/// Instructions for each message.
fn measure(place: &Place, workload: &Workload) -> Result<f64, String> {
    let messages = workload.messages;
    let built = |name: &str| place.build("release").join(name);
    let collected = match &workload.program {
        Program::Path(name) => count(place, &[], &built(name), &[], ""),
        Program::Logged(name) => logged(place, &built(name), messages),
        Program::Provider(name) => provider(place, name, messages),
        Program::Library(name) => library(place, name, messages),
    };
    collected.map(|count| count as f64 / messages as f64)
}

fn logged(place: &Place, program: &Path, messages: u64) -> Result<u64, String> {
    let launcher = place.build("debug").join("taffrail").to_string_lossy().into_owned();
    let launcher = [&launcher, "run", "-n", "1", "--logging", "pessimistic"];
    count(place, &launcher, program, &[], &messages.to_string())
}

fn provider(place: &Place, name: &str, messages: u64) -> Result<u64, String> {
    let folder = folder(place).map_err(said)?;
    let built = place.build("release").join("libtaffrail_ofi.so");
    std::fs::copy(built, folder.join("libtaffrail-fi.so")).map_err(said)?;
    compile(place, name, &["-lfabric"])?;
    let found = ("FI_PROVIDER_PATH", folder.as_path());
    // Others would only be loaded.
    let alone = ("FI_PROVIDER", Path::new("taffrail"));
    round_trips(place, &folder.join(name), &[found, alone], messages)
}

fn library(place: &Place, name: &str, messages: u64) -> Result<u64, String> {
    let folder = folder(place).map_err(said)?;
    let package = place.root.join("embed/c");
    let (shared, include) = (folder.join("libtaffrail.so.0"), package.join("include"));
    install::link_c_library(&package, &place.build("release"), &shared).map_err(said)?;
    let include = format!("-I{}", include.display());
    compile(place, name, &[&include, &shared.to_string_lossy()])?;
    round_trips(place, &folder.join(name), &[("LD_LIBRARY_PATH", &folder)], messages)
}

/// Where programs and libraries are put.
fn folder(place: &Place) -> Result<std::path::PathBuf, Error> {
    let folder = place.build("release").join("instructions");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn compile(place: &Place, name: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    command.arg(place.build("release").join("instructions").join(name));
    command.arg(place.root.join(PROGRAMS).join(format!("{name}.c"))).args(arguments);
    if run(&mut command).ok { Ok(()) } else { Err(format!("{name}.c does not compile")) }
}

/// Instructions of so many messages, two a round trip, without the program's start and end: those of a
/// run with as many, less those of one without any.
fn round_trips(
    place: &Place,
    program: &Path,
    environment: &[(&str, &Path)],
    messages: u64,
) -> Result<u64, String> {
    let none = count(place, &[], program, environment, "0")?;
    let all = count(place, &[], program, environment, &(messages / 2).to_string())?;
    Ok(all.saturating_sub(none))
}

/// Instructions of a program, which perhaps a launcher starts.
fn count(
    place: &Place,
    launcher: &[&str],
    program: &Path,
    environment: &[(&str, &Path)],
    argument: &str,
) -> Result<u64, String> {
    let words = [launcher, &["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]];
    let words = words.concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(program);
    command.args((!argument.is_empty()).then_some(argument)).current_dir(&place.root);
    let ended = run_beside(command.envs(environment.iter().copied()));
    // `==pid== Collected : <instructions>`
    let collected = ended.output.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected :")?;
        count.trim().parse::<u64>().ok()
    });
    match collected {
        Some(count) if ended.ok => Ok(count),
        _ => Err("the program failed under callgrind; see above".into()),
    }
}

fn said(error: Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_can_be_read_and_their_programs_are_there() {
        let root = Place::find().root;
        let baseline = read(&root.join(FILE)).unwrap();
        for workload in baseline.workload {
            let source = match workload.program {
                Program::Path(name) | Program::Logged(name) => format!("{PATHS}/{name}.rs"),
                Program::Provider(name) | Program::Library(name) => format!("{PROGRAMS}/{name}.c"),
            };
            assert!(root.join(&source).is_file(), "{source}");
        }
    }
}
