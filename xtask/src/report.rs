//! What a step came to, and the table at the end.

use crate::command;
use crate::counts::Counts;
use crate::failures::failures;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a step came to.
pub enum Outcome {
    /// All is well, with the tests that were counted.
    Passed(Counts),
    /// Something is not, with what to look for: a line for the table, and lines below it.
    Failed(Counts, String),
    /// Not run, and why.
    Skipped(String),
}

impl Outcome {
    /// The outcome of test runners: it fails when one says so, and when they found no test to run.
    pub fn of_tests(runs: &[command::Ended]) -> Self {
        let mut counts = Counts::default();
        for run in runs {
            counts += Counts::read(&run.output);
        }
        let why = match counts {
            Counts { failed: 1.., .. } => "tests failed",
            _ if runs.iter().any(|run| !run.ok) => "it did not build, or did not end well",
            _ => "",
        };
        Outcome::of_parts(counts, why.into()).with(runs)
    }

    /// The outcome of counted parts: they failed if there is something to say, and if there were none.
    pub fn of_parts(counts: Counts, why: String) -> Self {
        match counts {
            _ if !why.is_empty() => Outcome::Failed(counts, why),
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

    /// A failure has the lines of these runs that say why.
    pub fn with(self, runs: &[command::Ended]) -> Self {
        let Outcome::Failed(counts, mut why) = self else { return self };
        for line in runs.iter().filter(|run| !run.ok).flat_map(|run| failures(&run.output)) {
            why += "\n";
            why += line;
        }
        Outcome::Failed(counts, why)
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

/// Prints the table, what failed tests said and, last and alone on its line, how many tests passed and failed.
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
    for step in steps {
        let Outcome::Failed(_, why) = &step.outcome else { continue };
        if let Some((_, lines)) = why.split_once('\n') {
            println!("\n--- {}\n{lines}", step.name);
        }
    }
    println!("\n{} passed, {} failed", all.passed, all.failed);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn first(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn line(step: &Ended) -> String {
    let (word, text) = match &step.outcome {
        Outcome::Passed(Counts { passed: 0, .. }) => ("ok", String::new()),
        Outcome::Passed(counts) => ("ok", format!("{} passed", counts.passed)),
        Outcome::Failed(Counts { passed: 0, failed: 0 }, why) => ("FAILED", first(why).into()),
        Outcome::Failed(Counts { passed, failed }, why) => {
            ("FAILED", format!("{passed} passed, {failed} failed: {}", first(why)))
        }
        Outcome::Skipped(why) => ("skipped", why.clone()),
    };
    let line = format!("{:<14}{:>7.1} s  {word:<8}{text}", step.name, step.took.as_secs_f64());
    line.trim_end().to_owned()
}
