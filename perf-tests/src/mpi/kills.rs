//! The `mpi-kill` command: one kill of an MPI program at half time.

use super::installed::{Installed, Places};
use crate::launching::must_be_alone;
use crate::options;
use crate::outputs::Outputs;
use crate::peers::{compile, run_within};
use crate::progress::Progress;
use crate::recovery::{Cost, Life};
use crate::session::About;
use crate::stats::Spread;
use crate::table::{align, times};
use crate::verdict::{Bound, Verdict};
use crate::{Error, cpus, limits, progress, say};
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use taffrail::words::counted;

const SOURCE: &str =
    concat!(include_str!("../../peers/stay.h"), include_str!("../../peers/killed.c"));

/// Iterations by which it is found out how long one takes.
const TRIAL: u64 = 100_000;
/// So many times longer than it should a run may take, with a kill and where processors move apart.
const MAX_TIMES_SLOWER: u64 = 5;
/// At most so many times its time without a failure a run may take with one kill at half time.
const WHOLE: f64 = 1.6;
/// At least so many times faster than the first execution is a replay.
const REPLAY: f64 = 1.5;

/// What the ranks do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    /// Each gives both neighbours its border, all the time
    Borders,
    /// A token goes round: of two ranks one waits for the other
    Ring,
}

/// What the kill of a rank costs an MPI program that computes little: it is killed with SIGKILL when
/// half of its work is done, started again from the beginning, and replayed
///
/// Two ranks, each its own set, pessimistic logging. Every answer is compared with that of the run
/// without a kill before it.
#[derive(Clone, Debug, clap::Args)]
pub struct MpiKill {
    /// How often to measure; medians over the rounds are shown
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// How long a run without a kill takes, about
    #[arg(long, value_name = "TIME", default_value = "30",
          value_parser = options::seconds_in(1..=600))]
    pub seconds: u64,
    /// What the ranks do with each other
    #[arg(long, value_enum, default_value_t = Exchange::Borders)]
    pub program: Exchange,
    /// The size of a message: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(long, value_name = "SIZE", default_value = "64",
          value_parser = options::size_in::<u64>(1..=1 << 20))]
    pub size: u64,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub places: Places,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
}

/// A round of one MPI.
#[derive(Clone, Debug, Serialize)]
struct Row {
    mpi: String,
    iterations: u64,
    /// Without a kill, in milliseconds, with the start of processes.
    whole_ms: f64,
    /// The same with one.
    killed_ms: f64,
    /// What the killed process had worked, in milliseconds.
    original_ms: f64,
    /// In which time the next one was there, too, once it was connected.
    replay_ms: f64,
}

#[derive(Serialize)]
struct Written {
    program: Exchange,
    size: u64,
    targets: Vec<Verdict>,
}

impl MpiKill {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        must_be_alone("mpi-kill", "ranks")?;
        self.outputs.check()?;
        let taffrail = self.places.taffrail()?;
        let found = self.places.mpis()?;
        let between = cpus::pair()?;
        let handover = limits::introduce(between)?;
        let folder = tempfile::tempdir()
            .map_err(|source| Error::System { what: "making a temporary folder", source })?;
        let bar = progress::over(true, found.all.len() as u64 * u64::from(1 + 2 * self.rounds));
        let mut rows = Vec::new();
        for (place, mpi) in found.all.iter().enumerate() {
            let folder = folder.path().join(place.to_string());
            std::fs::create_dir(&folder).map_err(Error::file(&folder))?;
            let program = self.compile(mpi, &taffrail, &folder, between)?;
            bar.step(format!(
                "{}: {TRIAL} iterations, to know how long one takes",
                mpi.launcher.version
            ));
            let trial = program.run(TRIAL, None)?;
            // An MPI may take longer to start than for the trial.
            let (work_ms, trial_ms) =
                (self.seconds as f64 * 1e3 - trial.met_ms, trial.whole_ms - trial.met_ms);
            let iterations = ((TRIAL as f64 * work_ms / trial_ms) as u64).max(TRIAL);
            for round in 0..self.rounds {
                rows.push(program.round(iterations, round, &bar)?);
            }
        }
        drop(bar);
        say::line(format_args!(
            "Medians of {} (1st-99th percentile). Whole: all of a run.",
            counted(self.rounds, "round")
        ))?;
        say::text(table(&rows))?;
        let targets = judge(&rows);
        say::line("\nTargets:")?;
        say::lines("  ", &targets)?;
        say::lines("left out: ", &found.left_out)?;
        let (about, program) = (About::new(Some(handover)), self.program);
        let more = Written { program, size: self.size, targets };
        self.outputs.write(&about, &more, &rows, &[])?;
        Ok(ExitCode::SUCCESS)
    }

    #[expect(clippy::expect_used, reason = "no variant is hidden from the command line")]
    fn compile<'a>(
        &self,
        mpi: &'a Installed,
        taffrail: &'a Path,
        folder: &Path,
        cpus: (usize, usize),
    ) -> Result<Program<'a>, Error> {
        let path = compile(&mpi.mpicc, "killed", SOURCE, folder).map_err(Error::Usage)?;
        let (cpus, lives) = ([cpus.0, cpus.1].map(|cpu| cpu.to_string()), folder.join("lives"));
        let patience = Duration::from_secs(60 + MAX_TIMES_SLOWER * self.seconds);
        let exchange = self.program.to_possible_value().expect("each has a name");
        let (exchange, size) = (exchange.get_name().to_owned(), self.size.to_string());
        Ok(Program { mpi, taffrail, path, lives, cpus, exchange, size, patience })
    }
}

/// The program, compiled by an MPI.
struct Program<'a> {
    mpi: &'a Installed,
    taffrail: &'a Path,
    path: PathBuf,
    lives: PathBuf,
    cpus: [String; 2],
    exchange: String,
    size: String,
    patience: Duration,
}

impl Program<'_> {
    /// A run without a kill, and one with a kill at half time.
    fn round(&self, iterations: u64, round: u32, bar: &Progress) -> Result<Row, Error> {
        let name = &self.mpi.launcher.version;
        bar.step(format!("{name}: {iterations} iterations without a kill"));
        let calm = self.run(iterations, None)?;
        bar.step(format!("{name}: {iterations} iterations with a kill"));
        let killed = self.run(iterations, Some(round % 2))?;
        if killed.checksum != calm.checksum {
            return Err(Error::Invalid {
                what: "the answer of a run with a kill",
                expected: calm.checksum,
                got: killed.checksum,
            });
        }
        Ok(Row {
            mpi: self.mpi.launcher.version.clone(),
            iterations,
            whole_ms: calm.whole_ms,
            killed_ms: killed.whole_ms,
            original_ms: killed.original_ms.unwrap_or(f64::NAN),
            replay_ms: killed.replay_ms.iter().sum(),
        })
    }

    fn run(&self, iterations: u64, victim: Option<u32>) -> Result<Cost, Error> {
        let mut command = Command::new(self.taffrail);
        command.args(["mpi", "-n", "2", "--logging", "pessimistic", "--sets", "rank"]);
        command.arg(&self.path).args(&self.cpus).arg(&self.exchange);
        command.args([&iterations.to_string(), &self.size]).arg(&self.lives);
        if let Some(rank) = victim {
            command.args([rank.to_string(), (iterations / 2).to_string()]);
        }
        let nothing = std::fs::write(&self.lives, "");
        nothing.map_err(Error::file(&self.lives))?;
        run_within(self.patience, &mut command).map_err(Error::Usage)?;
        Cost::of(&Life::recorded(&self.lives)?, usize::from(victim.is_some()))
    }
}

/// What a row says, and in which unit.
type Column = (&'static str, fn(&Row) -> f64);

const SECONDS: [Column; 4] = [
    ("whole s", |row| row.whole_ms / 1e3),
    ("with a kill s", |row| row.killed_ms / 1e3),
    ("until the kill s", |row| row.original_ms / 1e3),
    ("replayed in s", |row| row.replay_ms / 1e3),
];

fn with_a_kill(row: &Row) -> f64 {
    row.killed_ms / row.whole_ms
}

fn faster(row: &Row) -> f64 {
    row.original_ms / row.replay_ms
}

/// The rows of each MPI.
fn by_mpi(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|one, next| one.mpi == next.mpi)
}

fn over(rows: &[Row], of: impl Fn(&Row) -> f64) -> Spread {
    Spread::of(&rows.iter().map(of).collect::<Vec<f64>>())
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![vec!["MPI".to_owned(), "iterations".into()]];
    lines[0].extend(SECONDS.map(|(name, _)| name.to_owned()));
    lines[0].extend(["with a kill / whole".into(), "replay faster".into()]);
    for rows in by_mpi(rows) {
        let mut line = vec![rows[0].mpi.clone(), rows[0].iterations.to_string()];
        line.extend(SECONDS.map(|(_, of)| times(over(rows, of))));
        line.extend([times(over(rows, with_a_kill)), times(over(rows, faster))]);
        lines.push(line);
    }
    align(&lines)
}

fn judge(rows: &[Row]) -> Vec<Verdict> {
    let of = |rows: &[Row]| {
        let name = &rows[0].mpi;
        let verdict = |what: &str, wanted, got: Spread| Verdict {
            target: format!("{name}: {what}"),
            unit: "x",
            wanted,
            got: Some(got.median),
        };
        [
            verdict("one kill / none", Bound::AtMost(WHOLE), over(rows, with_a_kill)),
            verdict("replay, times faster", Bound::AtLeast(REPLAY), over(rows, faster)),
        ]
    };
    by_mpi(rows).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mpi: &str, killed_ms: f64, replay_ms: f64) -> Row {
        Row {
            mpi: mpi.into(),
            iterations: 100,
            whole_ms: 1000.0,
            killed_ms,
            original_ms: 500.0,
            replay_ms,
        }
    }

    #[test]
    fn each_mpi_is_judged() {
        let rows = [row("a", 1500.0, 300.0), row("a", 1700.0, 400.0), row("b", 2000.0, 250.0)];
        let got: Vec<_> = judge(&rows).iter().map(|v| (v.target.clone(), v.met())).collect();
        let expected = [
            ("a: one kill / none", Some(true)),
            ("a: replay, times faster", Some(false)),
            ("b: one kill / none", Some(false)),
            ("b: replay, times faster", Some(true)),
        ];
        assert_eq!(got, expected.map(|(target, met)| (target.to_owned(), met)));
        let text = table(&rows);
        assert!(text.lines().count() == 3 && text.contains("1.60"), "{text}");
    }
}
