//! Fuzzing with libFuzzer on a stable toolchain, without cargo-fuzz.

use crate::command::{Ended, by_twos, cargo, run, run_beside};
use crate::counts::Counts;
use crate::place::Place;
use crate::report::Outcome;
use crate::tools;
use std::path::Path;
use std::process::Command;

/// Coverage as libFuzzer reads it, and errors in memory as errors.
const FLAGS: &str = "--cfg fuzzing \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 \
    -Cdebug-assertions \
    -Zsanitizer=address";

/// Runs every target, two at a time, for `seconds` together.
pub fn step(place: &Place, seconds: u32) -> Outcome {
    let each = 2 * seconds / targets(place).len().max(1) as u32;
    // 0 would be for ever.
    chore(place, None, each.max(1), None)
}

/// Builds every target and runs one or all: for `seconds`, or with a single input.
pub fn chore(place: &Place, only: Option<&str>, seconds: u32, input: Option<&Path>) -> Outcome {
    if !tools::has_asan() {
        return Outcome::Skipped("this toolchain has no AddressSanitizer".into());
    }
    if tools::find("c++").is_none() {
        return Outcome::Skipped("there is no C++ compiler for libFuzzer; install g++".into());
    }
    let names = targets(place);
    if let Some(name) = only.filter(|name| !names.iter().any(|known| known == name)) {
        let why = format!("no fuzz target {name}; there are {}", names.join(", "));
        return Outcome::Failed(Counts::default(), why);
    }
    let host = tools::host();
    let build = place.build("fuzz");
    let mut command = cargo(place, "build --release --manifest-path fuzz/Cargo.toml");
    command
        .args(["--target", &host])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &build);
    if !run(&mut command).ok {
        return Outcome::Failed(Counts::default(), "the fuzz targets do not build".into());
    }
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    let wanted: Vec<_> =
        names.iter().filter(|&name| only.is_none_or(|only| only == name)).collect();
    // One alone is seen while it looks.
    let how = if wanted.len() == 1 { run } else { run_beside };
    let results = by_twos(&wanted, |name| {
        let program = build.join(&host).join("release").join(name);
        match input {
            Some(input) => once(&program, input),
            None => search(place, name, &program, seconds, how),
        }
    });
    for result in results {
        counts += Counts::one(result.is_ok());
        failures.extend(result.err());
    }
    Outcome::of_parts(counts, failures.join("; "))
}

/// The names of all targets.
fn targets(place: &Place) -> Vec<String> {
    let folder = place.root.join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(&folder).expect("fuzz/fuzz_targets is part of the project");
    let mut names: Vec<String> = files
        .map(|file| file.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

fn once(program: &Path, input: &Path) -> Result<(), String> {
    match run(Command::new(program).arg(input)).ok {
        true => Ok(()),
        false => Err(format!("{} still fails", input.display())),
    }
}

/// Looks for failing inputs. What is found to be interesting is kept for the next time.
fn search(
    place: &Place,
    name: &str,
    program: &Path,
    seconds: u32,
    how: fn(&mut Command) -> Ended,
) -> Result<(), String> {
    let seeds = place.root.join("fuzz/seeds").join(name);
    let corpus = place.build("fuzz").join("corpus").join(name);
    let artefacts = place.build("fuzz").join("artefacts").join(name);
    if !seeds.is_dir() {
        return Err(format!("{name} has no seeds; put a few valid inputs into fuzz/seeds/{name}"));
    }
    for folder in [&corpus, &artefacts] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let ended = how(Command::new(program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-seed={}", std::process::id()))
        .arg(format!("-artifact_prefix={}/", artefacts.display()))
        .args(["-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0"])
        // Inputs are lists of steps: short ones say little.
        .arg("-len_control=0")
        .args([&corpus, &seeds])
        .current_dir(&place.root));
    if ended.ok {
        return Ok(());
    }
    // libFuzzer's own words: `...; Test unit written to <path>`.
    let artefact = ended.output.lines().find_map(|line| line.split_once("unit written to "));
    match artefact {
        Some((_, path)) => Err(format!(
            "{name} fails with {path}; repeat with: cargo xtask fuzz {name} --input {path}"
        )),
        None => Err(format!("{name} failed without an input to show for it; see above")),
    }
}
