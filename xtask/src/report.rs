//! What a step came to, and the table at the end.

use crate::counts::Counts;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a step came to.
pub enum Outcome {
    /// All is well, with the tests that were counted.
    Passed(Counts),
    /// Something is not, with what to look for.
    Failed(Counts, String),
    /// Not run, and why.
    Skipped(String),
}

impl Outcome {
    /// The outcome of a test runner: it fails when it says so, and when it found no test to run.
    pub fn of_tests(ok: bool, counts: Counts) -> Self {
        match counts {
            Counts { failed: 1.., .. } => Outcome::Failed(counts, "tests failed".into()),
            _ if !ok => Outcome::Failed(counts, "it did not build, or did not end well".into()),
            Counts { passed: 0, .. } => Outcome::Failed(counts, "it found no test to run".into()),
            _ => Outcome::Passed(counts),
        }
    }

    /// The outcome of a check that counts no tests.
    pub fn of_check(ok: bool, remedy: &str) -> Self {
        match ok {
            true => Outcome::Passed(Counts::default()),
            false => Outcome::Failed(Counts::default(), remedy.into()),
        }
    }
}

/// A step that is over.
pub struct Ended {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs a step under its name.
pub fn timed(name: &'static str, step: impl FnOnce() -> Outcome) -> Ended {
    println!("\n=== {name}");
    let start = Instant::now();
    let outcome = step();
    let ended = Ended { name, outcome, took: start.elapsed() };
    println!("=== {}", line(&ended));
    ended
}

/// Prints the table and, last and alone on its line, how many tests passed and failed.
pub fn print(steps: &[Ended]) -> ExitCode {
    println!();
    let mut all = Counts::default();
    let mut good = true;
    for step in steps {
        println!("{}", line(step));
        match step.outcome {
            Outcome::Passed(counts) => all += counts,
            Outcome::Failed(counts, _) => {
                good = false;
                // A step that failed as a whole, a formatter say, is one failure.
                all += Counts { failed: counts.failed.max(1), ..counts };
            }
            Outcome::Skipped(_) => {}
        }
    }
    println!("\n{} passed, {} failed", all.passed, all.failed);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(step: &Ended) -> String {
    let (word, text) = match &step.outcome {
        Outcome::Passed(Counts { passed: 0, .. }) => ("ok", String::new()),
        Outcome::Passed(counts) => ("ok", format!("{} passed", counts.passed)),
        Outcome::Failed(Counts { passed: 0, failed: 0 }, why) => ("FAILED", why.clone()),
        Outcome::Failed(Counts { passed, failed }, why) => {
            ("FAILED", format!("{passed} passed, {failed} failed: {why}"))
        }
        Outcome::Skipped(why) => ("skipped", why.clone()),
    };
    let line = format!("{:<14}{:>7.1} s  {word:<8}{text}", step.name, step.took.as_secs_f64());
    line.trim_end().to_owned()
}
