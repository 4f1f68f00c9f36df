//! Running the comparison.

use super::results::{ByDistance, Results, What, rows};
use super::table::{ratios_table, times_table};
use super::targets::judge;
use crate::machine::Distance;
use crate::options;
use crate::outputs::Outputs;
use crate::peers::{self, Peer};
use crate::plot::Panel;
use crate::progress::Progress;
use crate::rounds::Named;
use crate::session::About;
use crate::settled::{Awake, MARKED};
use crate::table::bytes;
use crate::verdict::Verdict;
use crate::{Error, cpus, launching, limits, network, ours, progress, say};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use taffrail::words::counted;
use taffrail_launch::NodeOptions;

/// Bytes of the messages whose rate is compared.
const RATE_SIZE: usize = 8;

/// Taffrail, every other transport found here and the machine's limits, measured in turn
///
/// With --hosts between two hosts: Taffrail beside a plain socket, `fi_pingpong` over libfabric's tcp, Open MPI over
/// its btl/tcp and MPICH over the provider tcp of its libfabric, as far as they are here. Programs, MPIs and Taffrail
/// have to be under the same paths there, temporary files too (TMPDIR).
#[derive(Clone, Debug, clap::Args)]
pub struct Compare {
    /// How often to measure everything; medians over the rounds are shown
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Message sizes: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    /// [default: 8,64,256,4K,16K,64K,256K,1M,4M; with --hosts 8,1K,4K,16K,64K,1M]
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', value_parser = options::size::<u64>)]
    pub sizes: Vec<u64>,
    /// A first impression: two rounds of four sizes
    #[arg(long, conflicts_with_all = ["rounds", "sizes"])]
    pub quick: bool,
    /// Where an MPI is installed that is measured with --hosts, beside those in PATH
    #[arg(long, value_name = "DIR")]
    pub mpi_dir: Vec<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub nodes: NodeOptions,
}

/// Sizes inside a node.
const SIZES: [usize; 9] = [8, 64, 256, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// How everything here is scored.
const SCORING: &str = "Every figure of a round, of whatever it is, is the best mean of three runs, \
     as NetPIPE's is;\na round measures one thing after the other, size by size.";

/// What is written beside the figures.
#[derive(Serialize)]
struct Comparison {
    rounds: u32,
    distances: Vec<AtDistance>,
}

/// The same, of processors that are so far from each other.
#[derive(Serialize)]
struct AtDistance {
    distance: Distance,
    /// Messages of 8 bytes a second.
    rates: BTreeMap<&'static str, crate::stats::Spread>,
    targets: Vec<Verdict>,
    /// What is missing, and why.
    missing: BTreeMap<&'static str, String>,
}

impl Compare {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        launching::must_be_alone("compare", "ranks and other programs")?;
        self.outputs.check()?;
        let (rounds, sizes) = self.rounds_and_sizes(launching::over_nodes(&self.nodes)?);
        if self.nodes.is_over_nodes() {
            return network::compare(rounds, &sizes, &self.mpi_dir, &self.nodes, &self.outputs);
        }
        if !self.mpi_dir.is_empty() {
            let why = "--mpi-dir needs --hosts; inside a node `taffrail-perf mpi` measures it";
            return Err(Error::Usage(why.into()));
        }
        let between = cpus::pair()?;
        let handover = limits::introduce(between)?;
        let about = About::new(Some(handover));
        let mut awake = Awake::keep(between)?;
        let distances = distances(&mut awake)?;
        let mut results = ByDistance::default();
        let steps = sizes.len() * (4 + peers::ALL.len()) + 1 + peers::ALL.len();
        let steps = u64::from(rounds) * (distances.len() * steps) as u64;
        let bar = progress::over(true, steps);
        for _ in 0..rounds {
            results.begin_round();
            for &at in &distances {
                awake.place(at);
                for &size in &sizes {
                    times(results.at(at), &mut awake, between, size, &bar)?;
                }
                rates(results.at(at), &mut awake, &bar)?;
            }
        }
        drop(bar);
        drop(awake);
        self.report(about, &results, rounds)
    }

    fn rounds_and_sizes(&self, over_nodes: bool) -> (u32, Vec<usize>) {
        match (self.quick, &self.sizes[..], over_nodes) {
            (true, ..) => (2, vec![8, 4096, 65536, 1 << 20]),
            (_, [], true) => (self.rounds, network::SIZES.into()),
            (_, [], false) => (self.rounds, SIZES.into()),
            (_, sizes, _) => (self.rounds, sizes.iter().map(|&size| size as usize).collect()),
        }
    }

    fn report(&self, about: About, results: &ByDistance, rounds: u32) -> Result<ExitCode, Error> {
        say::line(format_args!("{SCORING}"))?;
        say::line(format_args!(
            "Medians of {} (1st-99th percentile). Figures in which the processors have moved",
            counted(rounds, "round")
        ))?;
        say::line("are taken again; where they can be both near and far, both are shown.")?;
        let (mut all, mut table, mut drawn) = (Vec::new(), Vec::new(), Vec::new());
        for (distance, results) in results.measured() {
            all.push(report_at(distance, results)?);
            table.extend(rows(distance, results));
            drawn.extend(panels(distance, results));
        }
        let more = Comparison { rounds, distances: all };
        self.outputs.write(&about, &more, &table, &drawn)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what was measured while the processors were so far from each other.
fn report_at(distance: Distance, results: &Results) -> Result<AtDistance, Error> {
    say::line(format_args!("\n{distance}"))?;
    say::text(format_args!("\n{}", times_table(results)))?;
    say::text(format_args!("\n{}\n", ratios_table(results)))?;
    let mut rates = BTreeMap::new();
    for what in [What::Taffrail, What::Peer(peers::UCX.name)] {
        if let Some(rate) = results.rate(what) {
            say::line(format_args!("{:8} {}", what.name(), results.rate_cell(what, RATE_SIZE)))?;
            rates.insert(what.name(), rate);
        }
    }
    if results.any_moved() {
        say::line(format_args!("{MARKED}"))?;
    }
    let targets = judge(distance, results);
    if !targets.is_empty() {
        say::line("Targets:")?;
    }
    say::lines("  ", &targets)?;
    for (what, reason) in &results.missing {
        say::line(format_args!("{}: not (always) measured: {reason}", what.name()))?;
    }
    let missing = results.missing.iter().map(|(what, why)| (what.name(), why.clone()));
    Ok(AtDistance { distance, rates, targets, missing: missing.collect() })
}

/// Where the processors can be to each other: near, and far if they can be brought there.
fn distances(awake: &mut Awake) -> Result<Vec<Distance>, Error> {
    let mut all = vec![awake.at()];
    if all[0] != Distance::Far && awake.bring(Distance::Far)? {
        all.push(Distance::Far);
    }
    Ok(all)
}

/// One size of one round: one thing after the other, since each needs both CPUs.
fn times(
    results: &mut Results,
    awake: &mut Awake,
    between: (usize, usize),
    size: usize,
    bar: &Progress,
) -> Result<(), Error> {
    let doing = |name: &str| {
        bar.step(format!("{}: {name}", bytes(size)));
    };
    results.add_time(size, What::Handover, awake.handover_us()?);
    let mut add = |what: What, time_us: &dyn Fn() -> Result<f64, String>| {
        results.add_time(size, what, awake.settled(time_us)?);
        Ok::<(), Error>(())
    };
    let fresh_copy_us = || match limits::best_fresh_copy(between, size) {
        Ok(seconds) => Ok(seconds * 1e6),
        Err(error) => Err(error.to_string()),
    };
    doing("limits");
    add(What::FreshCopy, &fresh_copy_us)?;
    for (what, memory) in
        [(What::Taffrail, &[][..]), (What::Allocated, &["--alloc"]), (What::Loaned, &["--loan"])]
    {
        doing(what.name());
        add(what, &|| ours::time_us(size, memory))?;
    }
    for Peer { name, time_us, .. } in peers::ALL {
        doing(name);
        add(What::Peer(name), &|| time_us(size))?;
    }
    Ok(())
}

/// The message rates of one round.
fn rates(results: &mut Results, awake: &mut Awake, bar: &Progress) -> Result<(), Error> {
    let mut add = |what: What, rate: &dyn Fn() -> Result<f64, String>| {
        results.add_rate(what, awake.settled(rate)?);
        Ok::<(), Error>(())
    };
    let doing = |name: &str| {
        bar.step(format!("message rate: {name}"));
    };
    doing(What::Taffrail.name());
    add(What::Taffrail, &|| ours::messages_a_second(RATE_SIZE, &[]))?;
    for Peer { name, rate, .. } in peers::ALL {
        doing(name);
        if let Some(rate) = rate {
            add(What::Peer(name), &|| ours::best_rate(|| rate(RATE_SIZE)))?;
        }
    }
    Ok(())
}

/// The handover comes last, and only with times, so that colours mean the same in both.
fn panels(distance: Distance, results: &Results) -> [Panel; 2] {
    let (limits, transports): (Vec<What>, Vec<What>) =
        results.measured().into_iter().partition(|&what| what == What::Handover);
    results.panels(&transports, &limits, &format!(", {distance}"))
}
