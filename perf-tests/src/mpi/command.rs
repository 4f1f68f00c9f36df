//! Running the measurements.

use super::installed::{Installed, Places};
use super::program::Program;
use super::results::{OVER_NODES, Results, Row, TRANSPORTS, What, rows};
use super::table::{rates_table, ratios_table, times_table};
use super::targets::{judge, judge_over_nodes};
use crate::held::Held;
use crate::limits::{self, Handover};
use crate::machine::Distance;
use crate::options;
use crate::outputs::Outputs;
use crate::plot::Panel;
use crate::progress::Progress;
use crate::rounds::Named;
use crate::session::About;
use crate::settled::{Awake, MARKED};
use crate::stats::Spread;
use crate::table::bytes;
use crate::verdict::Verdict;
use crate::{Error, cpus, launching, progress, say};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use taffrail::words::counted;
use taffrail_launch::NodeOptions;

/// An MPI program over its MPI's own transport and over Taffrail, also logged, measured in turn
///
/// Half a round trip of messages, and the rate of those of 8 bytes, of one program that each MPI
/// found here compiles with its mpicc, between two ranks that are bound to a CPU each. With --hosts they are on
/// two hosts, and the MPI's own transport is its sockets: Open MPI's btl/tcp, or the provider tcp of MPICH's
/// libfabric. Programs, MPIs and Taffrail have to be under the same paths there, temporary files too (TMPDIR).
#[derive(Clone, Debug, clap::Args)]
pub struct Mpi {
    /// How often to measure everything; medians over the rounds are shown
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Message sizes: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',',
          default_value = "8,64,256,4096,16384,65536,262144,1048576,4194304",
          value_parser = options::size_in::<u64>(1..=64 << 20))]
    pub sizes: Vec<u64>,
    /// Send out of another buffer than is received into: what is sent never changes
    #[arg(long)]
    pub apart: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub places: Places,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub nodes: NodeOptions,
}

/// What is written beside the figures.
#[derive(Serialize)]
struct Written<'a> {
    rounds: u32,
    /// How far the processors were to be from each other.
    distance: Distance,
    mpis: Vec<Rates<'a>>,
    targets: Vec<Verdict>,
    /// MPIs that are not measured, and why.
    left_out: &'a [String],
}

/// What else is known of an MPI.
#[derive(Serialize)]
struct Rates<'a> {
    name: &'a str,
    /// Messages of 8 bytes a second.
    rates: BTreeMap<&'static str, Spread>,
    /// In how many rounds the processors did not stay where they were to be, of which rates.
    rates_moved: BTreeMap<&'static str, usize>,
    /// What is missing, and why.
    missing: BTreeMap<&'static str, &'a str>,
}

/// An MPI with what is measured of it.
struct Measured<'a> {
    mpi: &'a Installed,
    program: Result<Program<'a>, String>,
    transports: &'static [What],
    results: Results,
}

impl Mpi {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        launching::must_be_alone("mpi", "ranks and other programs")?;
        self.outputs.check()?;
        let nodes = launching::one_rank_each(&self.nodes)?;
        if self.apart && nodes.is_over_nodes() {
            return Err(Error::Usage("--apart does not go with --hosts".into()));
        }
        let taffrail = self.places.taffrail()?;
        let found = self.places.mpis()?;
        let between = cpus::pair()?;
        let handover = limits::introduce(between)?;
        let mut awake = Awake::keep(between)?;
        let held = Held::keep();
        let folder = tempfile::tempdir()
            .map_err(|source| Error::System { what: "making a temporary folder", source })?;
        let prepare = |(place, mpi): (usize, _)| {
            Measured::new(mpi, &taffrail, &nodes, folder.path().join(place.to_string()))
        };
        let mut all =
            found.all.iter().enumerate().map(prepare).collect::<Result<Vec<_>, Error>>()?;
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        let runs: usize = all.iter().map(|of| of.transports.len()).sum();
        let steps = runs * (sizes.len() + 1);
        let bar = progress::over(true, u64::from(self.rounds) * steps as u64);
        for _ in 0..self.rounds {
            for of in &mut all {
                of.round(&mut awake, &held, between, &sizes, self.apart, &bar)?;
            }
        }
        drop(bar);
        self.report(&all, &found.left_out, handover, awake.at())
    }

    fn report(
        &self,
        all: &[Measured<'_>],
        left_out: &[String],
        handover: Handover,
        distance: Distance,
    ) -> Result<ExitCode, Error> {
        say::line(format_args!(
            "Medians of {} (1st-99th percentile); half a round trip.",
            counted(self.rounds, "round")
        ))?;
        let parts = if self.nodes.is_over_nodes() { "round trips" } else { "batches" };
        say::line(format_args!(
            "A figure of a round is the median of its {parts}; a round measures one transport after"
        ))?;
        say::line("the other, size by size.")?;
        match self.apart {
            true => say::line(
                "Messages are received into other memory than is sent, which never changes.",
            )?,
            false => {
                say::line("What has come is sent back out of the same memory, as NetPIPE does.")?
            }
        }
        say::line(format_args!("The processors are to be {distance}."))?;
        if self.nodes.is_over_nodes() {
            say::line(format_args!(
                "Nodes, with a rank on each of the first two: {}.",
                launching::hosts(&self.nodes)
            ))?;
            say::line("Own: Open MPI's btl/tcp, or the provider tcp of MPICH's libfabric.")?;
        }
        for of in all {
            say::line(format_args!("\n{}:", of.name()))?;
            say::text(times_table(&of.results))?;
            say::line("\nTimes relative to each other, in the same round:")?;
            say::text(ratios_table(&of.results))?;
            say::text(format_args!("\n{}", rates_table(&of.results)))?;
        }
        if all.iter().any(|of| of.results.any_moved()) {
            say::line(format_args!("\n{MARKED}"))?;
        }
        let judged = |of: &Measured<'_>| match self.nodes.is_over_nodes() {
            true => judge_over_nodes(of.name(), &of.results),
            false => judge(of.mpi.launcher.mpi, of.name(), &of.results),
        };
        let targets: Vec<Verdict> = all.iter().flat_map(judged).collect();
        say::line("\nTargets:")?;
        say::lines("  ", &targets)?;
        for of in all {
            for (what, reason) in &of.results.missing {
                say::line(format_args!(
                    "{}, {}: not (always) measured: {reason}",
                    of.name(),
                    what.name()
                ))?;
            }
        }
        say::lines("left out: ", left_out)?;
        let mpis = all.iter().map(Measured::rates).collect();
        let about = About::new(Some(handover));
        let more = Written { rounds: self.rounds, distance, mpis, targets, left_out };
        let rows: Vec<Row> = all.iter().flat_map(|of| rows(of.name(), &of.results)).collect();
        let panels: Vec<Panel> = all.iter().flat_map(Measured::panels).collect();
        self.outputs.write(&about, &more, &rows, &panels)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl<'a> Measured<'a> {
    /// Compiles the program in a folder of its own.
    fn new(
        mpi: &'a Installed,
        taffrail: &'a Path,
        nodes: &'a NodeOptions,
        folder: PathBuf,
    ) -> Result<Self, Error> {
        std::fs::create_dir(&folder).map_err(Error::file(&folder))?;
        let program = Program::new(mpi, taffrail, nodes, &folder);
        let transports = if nodes.is_over_nodes() { &OVER_NODES[..] } else { &TRANSPORTS };
        Ok(Measured { mpi, program, transports, results: Results::default() })
    }

    /// As it calls itself, with its version.
    fn name(&self) -> &'a str {
        &self.mpi.launcher.version
    }

    /// One thing after the other, since each needs both CPUs.
    fn round(
        &mut self,
        awake: &mut Awake,
        held: &Held,
        between: (usize, usize),
        sizes: &[usize],
        apart: bool,
        bar: &Progress,
    ) -> Result<(), Error> {
        let Measured { mpi, program, transports, .. } = self;
        let program = program.as_ref().map_err(String::clone);
        let doing = |what: &str, over: What| {
            bar.step(format!("{}: {what}: {}", mpi.launcher.version, over.name()));
        };
        self.results.begin_round();
        for &size in sizes {
            self.results.add_time(size, What::Handover, awake.handover_us()?);
            for &over in transports.iter() {
                doing(&bytes(size), over);
                let time_us = || match transports.contains(&What::Every) {
                    true => program.clone()?.trip_us(over, between, size),
                    false => program.clone()?.time_us(over, between, size, apart),
                };
                let time_us = awake.settled(|| held.lent(over.takes_memory(), time_us))?;
                self.results.add_time(size, over, time_us);
            }
        }
        for &over in transports.iter() {
            doing("message rate", over);
            let rate = || program.clone()?.rate(over, between);
            self.results.add_rate(over, awake.settled(rate)?);
        }
        Ok(())
    }

    fn rates(&self) -> Rates<'_> {
        let rate = |what: What| Some((what.name(), self.results.rate(what)?));
        let moved = self.results.rates_moved().iter();
        let missing = self.results.missing.iter();
        Rates {
            name: self.name(),
            rates: self.transports.iter().copied().filter_map(rate).collect(),
            rates_moved: moved.map(|(what, &rounds)| (what.name(), rounds)).collect(),
            missing: missing.map(|(what, why)| (what.name(), why.as_str())).collect(),
        }
    }

    /// The handover comes last, and only with times, so that colours mean the same in both.
    fn panels(&self) -> Vec<Panel> {
        let (limits, transports): (Vec<What>, Vec<What>) =
            self.results.measured().into_iter().partition(|&what| what == What::Handover);
        let titled =
            |panel: Panel| Panel { title: format!("{}: {}", self.name(), panel.title), ..panel };
        self.results.panels(&transports, &limits, "").map(titled).into()
    }
}
