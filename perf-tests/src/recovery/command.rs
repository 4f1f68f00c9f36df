//! The `recovery` command.

use super::life::{Cost, Life};
use super::results::{APPLICATIONS, Experiment, OnTheWay, RING_ITERATIONS, Results, Row};
use super::table::{again_table, faults_table, started_line};
use super::targets::judge;
use crate::app::Name;
use crate::machine::{self, Machine};
use crate::options;
use crate::outputs::Outputs;
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::session::About;
use crate::table::bytes;
use crate::verdict::Verdict;
use crate::{Error, cpus, launching, limits, progress, say};
use serde::Serialize;
use std::process::ExitCode;
use taffrail::words::counted;
use taffrail_launch::NodeOptions;

/// Ranks of every run.
const RANKS: u32 = 3;
/// Bytes that a rank of the ring sends, so that its log finds room in memory.
const RING_BYTES: u32 = 256 << 20;

/// What failures cost: ranks are killed with SIGKILL, started again, and replayed
///
/// As figures 10 and 11 of Bouteiller et al., MPICH-V2 (SC'03): the time to execute a token ring again,
/// of which one rank is killed when its work is done, relative to the time of that work; and the time
/// of applications while more and more of their ranks are killed on the way, from the beginning and
/// with checkpoints. There are three ranks, each its own set. Every answer is compared with that of a
/// run without faults. With --hosts the ranks are on these hosts, which need a folder for temporary
/// files in common (TMPDIR), and events are copied to another node.
#[derive(Clone, Debug, clap::Args)]
pub struct Recovery {
    /// How often to measure everything; medians over the rounds are shown
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Sizes of the ring's token: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',',
          default_value = "1,64,1024,16384,65536,131072,262144,1048576",
          value_parser = options::size_in::<u32>(1..=u64::from(RING_BYTES)))]
    pub sizes: Vec<u32>,
    /// How many ranks are killed on the way; each other number is compared with 0
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "0,1,2,3,4,5,6,7,8,9,10",
          value_parser = clap::value_parser!(u32).range(..=100))]
    pub faults: Vec<u32>,
    /// Iterations of the ring at the most: fewer for ranks that share processors and send through sockets
    #[arg(long, value_name = "N", default_value_t = RING_ITERATIONS,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub ring_iterations: u32,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub nodes: NodeOptions,
}

/// What is written beside the figures.
#[derive(Serialize)]
struct Costs {
    rounds: u32,
    /// From SIGKILL until the next process ran, in milliseconds, of every kill.
    started_ms: Vec<f64>,
    targets: Vec<Verdict>,
    /// What is missing, and why.
    missing: Vec<String>,
}

impl Recovery {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        launching::must_be_alone("recovery", "ranks")?;
        self.outputs.check()?;
        let over_nodes = launching::over_nodes(&self.nodes)?;
        say::line(Machine::here())?;
        if over_nodes {
            say::line(format_args!("nodes: {}", launching::hosts(&self.nodes)))?;
        }
        let handover = cpus::pair().ok().map(limits::handover).transpose()?;
        machine::announce(handover.as_ref())?;
        let experiments = self.experiments();
        let bar = progress::over(true, u64::from(self.rounds) * experiments.len() as u64);
        let mut results = Results::default();
        for round in 0..self.rounds {
            results.begin_round();
            for &experiment in &experiments {
                let (arguments, kills) = command(experiment, round, self.ring_iterations);
                bar.step(arguments.clone());
                let cost = measure(&arguments, &self.nodes, kills).and_then(|cost| {
                    match results.checksum(experiment) {
                        Some(before) if before != cost.checksum => {
                            Err(format!("its answer is {}, and was {before}", cost.checksum))
                        }
                        _ => Ok(cost),
                    }
                });
                results.add(experiment, cost);
            }
        }
        drop(bar);
        say::line(format_args!(
            "Medians of {} (1st-99th percentile).",
            counted(self.rounds, "round")
        ))?;
        say::line(format_args!(
            "\nA ring of {RANKS} ranks, one of which is killed when its work is done. Work: until"
        ))?;
        say::line(
            "then. Again: from the begin of the next process until it was there, too. Started:",
        )?;
        say::line("from SIGKILL to that begin.")?;
        say::text(again_table(&results))?;
        say::line(format_args!(
            "\nApplications of {RANKS} ranks that are killed on the way, in turn. Every: iterations"
        ))?;
        say::line(
            "from one checkpoint to the next. Ratio: the whole but for SIGKILL until connected,",
        )?;
        say::line(
            "relative to no faults and no checkpoints; to same: to no faults and as many checkpoints.",
        )?;
        say::line("Again, started: all together.")?;
        say::text(faults_table(&results))?;
        let started_ms = results.started_ms();
        say::line(format_args!("\n{}", started_line(&started_ms)))?;
        let targets = judge(&results);
        say::line("\nTargets:")?;
        say::lines("  ", &targets)?;
        say::lines("not measured: ", &results.missing)?;
        let (about, missing) = (About::new(handover), results.missing.clone());
        let more = Costs { rounds: self.rounds, started_ms, targets, missing };
        self.outputs.write(&about, &more, &results.rows(), &panels(&results))?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is measured in each round.
    fn experiments(&self) -> Vec<Experiment> {
        let at_the_end = self.sizes.iter().map(|&size| Experiment::AtTheEnd(size));
        let series = (0..APPLICATIONS.len()).flat_map(|app| [(app, false), (app, true)]);
        let on_the_way = series.flat_map(|(app, checkpoints)| {
            let iterations = match APPLICATIONS[app] {
                (Name::Ring, ..) => self.ring_iterations,
                (.., iterations) => iterations,
            };
            let of = move |&faults| {
                Experiment::OnTheWay(OnTheWay { app, checkpoints, faults, iterations })
            };
            self.faults.iter().map(of)
        });
        at_the_end.chain(on_the_way).collect()
    }
}

/// The arguments of `taffrail-perf`, separated by blanks, and how many ranks they kill.
fn command(experiment: Experiment, round: u32, ring_iterations: u32) -> (String, usize) {
    let (name, size, iterations, every, kills) = match experiment {
        Experiment::AtTheEnd(size) => {
            let iterations = (RING_BYTES / size).min(ring_iterations);
            ("ring", size, iterations, None, vec![format!("{}@end", round % RANKS)])
        }
        Experiment::OnTheWay(what) => {
            let (OnTheWay { faults, iterations, .. }, every) = (what, what.checkpoint_every());
            let (_, name, size, _) = APPLICATIONS[what.app];
            let at =
                |fault: u32| u64::from(iterations) * u64::from(fault + 1) / u64::from(faults + 1);
            let kill = |fault| format!("{}@{}", (fault + round) % RANKS, at(fault).max(1));
            (name, size, iterations, every, (0..faults).map(kill).collect())
        }
    };
    let mut arguments = format!(
        "faults {name} -n {RANKS} --size {size} --iterations {iterations} --logging pessimistic \
         --sets rank"
    );
    if let Some(every) = every {
        arguments += &format!(" --checkpoint-every {every}");
    }
    if !kills.is_empty() {
        arguments += &format!(" --kill {}", kills.join(","));
    }
    (arguments, kills.len())
}

fn measure(arguments: &str, nodes: &NodeOptions, kills: usize) -> Result<Cost, String> {
    let words = nodes.words();
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    let arguments: Vec<String> = arguments.split(' ').map(String::from).chain(words).collect();
    let lives: Vec<Life> = launching::measure(&arguments).map_err(|e| e.to_string())?;
    Cost::of(&lives, kills).map_err(|e| e.to_string())
}

fn panels(results: &Results) -> [Panel; 2] {
    let rows = results.rows();
    let curve = |name: String, of: &dyn Fn(&Row) -> Option<(f64, f64)>| Curve {
        name,
        points: rows.iter().filter_map(of).collect(),
        ..Curve::default()
    };
    let again = ["work", "again"].map(|name| {
        curve(name.into(), &|row| {
            let ms = if name == "work" { row.time_ms } else { row.again_ms };
            (row.figure == "re-execution").then_some((f64::from(row.size), ms.median))
        })
    });
    let faults = APPLICATIONS.iter().flat_map(|&(_, name, size, _)| {
        let size = if name == "ring" { bytes(size as usize) } else { size.to_string() };
        [("", false), (", checkpoints", true)].map(|(more, checkpoints)| {
            curve(format!("{name}, {size}{more}"), &|row| {
                let shown = row.figure == "faults"
                    && row.application == name
                    && row.checkpoint_every.is_some() == checkpoints;
                shown.then_some((f64::from(row.faults), row.time_ms.median))
            })
        })
    });
    let panel = |title: &str, x: &str, scale, curves: Vec<Curve>| Panel {
        title: title.into(),
        x: Axis::new(x, scale),
        y: Axis::new("time", Scale::Log(Unit::Ms)),
        curves,
    };
    [
        panel(
            "A ring, and one rank of it again",
            "size of the token (bytes)",
            Scale::Bytes,
            again.into(),
        ),
        panel("Ranks killed on the way", "faults", Scale::FromZero, faults.collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::on_the_way;
    use super::*;
    use crate::provenance::DIVISOR;

    #[test]
    fn kills_are_spread_over_the_run_and_the_ranks() {
        let at = |of_ten: usize| of_ten * 100 / DIVISOR;
        let (arguments, kills) = command(on_the_way(1, false, 4), 1, 300);
        assert!(kills == 4 && !arguments.contains("--checkpoint-every"), "{arguments}");
        let spread = format!(" --kill 1@{},2@{},0@{},1@{}", at(2), at(4), at(6), at(8));
        assert!(arguments.ends_with(&spread), "{arguments}");
        let (arguments, kills) = command(on_the_way(0, true, 0), 1, 300);
        assert!(kills == 0 && !arguments.contains("--kill"), "{arguments}");
        let every = format!(" --checkpoint-every {}", 3000 / DIVISOR);
        assert!(arguments.ends_with(&every), "{arguments}");
        let (arguments, kills) = command(Experiment::AtTheEnd(1 << 20), 5, 300);
        assert!(kills == 1 && arguments.ends_with(" --kill 2@end"), "{arguments}");
        assert!(arguments.contains(" --iterations 256 "), "{arguments}");
        let (arguments, _) = command(Experiment::AtTheEnd(1), 0, 300);
        assert!(arguments.contains(" --iterations 300 "), "{arguments}");
    }
}
