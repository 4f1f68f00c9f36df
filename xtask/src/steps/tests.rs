//! Test programs, as they are and instrumented.

use crate::command::{cargo, run, succeeds};
use crate::install::with_tests;
use crate::place::Place;
use crate::report::Outcome;
use crate::tools;
use std::ffi::OsStr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is worth a run under AddressSanitizer: the packages with unsafe code, and the engine against
/// peers that write nonsense.
const ASAN: [&str; 2] =
    ["-p taffrail-shm -p taffrail-matching", "-p taffrail --test faults hostile"];

/// What does not have to run there: fabrics that break their promises, which tests of all others are to find.
const NOT_ASAN: &str = "not binary(faulty_fabric)";

/// Tests of MPI programs, for nextest and for `cargo test`: step `mpi` runs them, with what it has installed.
pub const MPI: (&str, &str) = (
    "package(/^taffrail-(launch|perf)$/) & (binary(/^(mpi|faults)$/) | test(/^prterun::/))",
    "-p taffrail-launch -p taffrail-perf --test mpi --test faults",
);

/// What to do when the simulator finds something.
const SEE_THE_TRACE: &str = "see the trace above, and the command that repeats it";

pub fn all(place: &Place) -> Outcome {
    // With libraries that are not for Rust, which cargo makes for no test.
    let built = run(&mut with_tests(place, "--lib --tests")).ok;
    let mut tests = selected(place, "--workspace", &format!("not ({})", MPI.0), "--workspace");
    if std::env::var_os("NEXTEST_TEST_THREADS").is_none() {
        // Many wait for most of their time.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        tests.env("NEXTEST_TEST_THREADS", (processors + processors.div_ceil(2)).to_string());
    }
    if built {
        tests.env("TAFFRAIL_TEST_LIBRARY", place.build("debug").join("libtaffrail_ofi.so"));
    }
    counted(&mut tests)
}

pub fn doctests(place: &Place) -> Outcome {
    counted(&mut cargo(place, "test --workspace --doc --locked"))
}

pub fn loom(place: &Place) -> Outcome {
    let mut command = cargo(
        place,
        "test --release --locked -p taffrail-shm -p taffrail-logging -p taffrail-agent --lib loom_",
    );
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", place.build("loom"))
        // Models run for seconds; building them in full would take longer than that.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    counted(&mut command)
}

pub fn mutants(place: &Place) -> Outcome {
    // Of the engine all there is, of the log too; of the simulator what looks for mutants.
    let packages = "-p taffrail-engine -p taffrail-logging -p taffrail-sim";
    let filter = "not package(taffrail-sim) | binary(mutants)";
    let [nextest, test] = ["--cargo-profile", "--profile"].map(|of| format!("{of} sim {packages}"));
    let mut command = selected(place, &nextest, filter, &test);
    command.env("RUSTFLAGS", "--cfg mutants").env("CARGO_TARGET_DIR", place.build("mutants"));
    counted(&mut command)
}

/// Schedules for `seconds`, of seeds that no run before has had. The command that is printed has the first one.
pub fn some_schedules(place: &Place, seconds: u32) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Less than 1,000 schedules run in a second.
    let from = now.as_secs() * 1000;
    sim(place, &["--from", &from.to_string(), "--seconds", &seconds.to_string()])
}

/// Runs the simulator, optimised.
pub fn sim<S: AsRef<OsStr>>(place: &Place, arguments: &[S]) -> Outcome {
    let mut command = cargo(place, "run --profile sim --locked -p taffrail-sim --");
    command
        .args(arguments)
        // With mutants, of which `--mutant` selects one.
        .env("RUSTFLAGS", "--cfg mutants")
        .env("CARGO_TARGET_DIR", place.build("mutants"));
    let ended = run(&mut command);
    Outcome::of_check(ended.ok, SEE_THE_TRACE).with(&[ended])
}

pub fn asan(place: &Place) -> Outcome {
    if !tools::has_asan() {
        return Outcome::Skipped("this toolchain has no AddressSanitizer".into());
    }
    // `cfg(asan)` is for tests that it cannot run, such as those that limit the address space. With
    // a target named, build scripts and macros are left alone.
    let runs = ASAN.map(|part| {
        let arguments = format!("--target {} {part}", tools::host());
        let mut command = selected(place, &arguments, NOT_ASAN, &arguments);
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address --cfg asan")
            .env("CARGO_TARGET_DIR", place.build("asan"));
        run(&mut command)
    });
    Outcome::of_tests(&runs)
}

/// `cargo nextest run` or, where that is not installed, `cargo test`.
pub fn runner(place: &Place, arguments: &str) -> Command {
    selected(place, arguments, "all()", arguments)
}

/// `cargo nextest run` of the tests that a filter of its selects or, where it is not installed, `cargo test` with other
/// arguments.
pub fn selected(place: &Place, arguments: &str, filter: &str, otherwise: &str) -> Command {
    if succeeds(&mut cargo(place, "nextest --version")) {
        let mut command = cargo(place, &format!("nextest run --no-fail-fast --locked {arguments}"));
        command.args(["-E", filter]);
        return command;
    }
    println!("cargo-nextest is not installed; using cargo test, which runs one program at a time.");
    println!("To have it: cargo install cargo-nextest --locked");
    // All of them, unless one is named.
    let targets = match otherwise.contains("--test ") {
        true => "",
        false => "--lib --bins --tests --examples",
    };
    cargo(place, &format!("test --no-fail-fast --locked {targets} {otherwise}"))
}

fn counted(command: &mut Command) -> Outcome {
    Outcome::of_tests(&[run(command)])
}
