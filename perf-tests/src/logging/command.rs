//! Running the measurements.

use super::causal::{self, Figures};
use super::results::{Results, What, rows};
use super::table::{any_source_table, collected_table, costs_table, limits_table};
use super::targets::judge;
use crate::held::Held;
use crate::limits::{self, Handover};
use crate::options;
use crate::outputs::Outputs;
use crate::plot::Panel;
use crate::progress::Progress;
use crate::provenance::DIVISOR;
use crate::rounds::Named;
use crate::session::About;
use crate::settled::Awake;
use crate::stats::Spread;
use crate::table::{bytes, message_rate};
use crate::verdict::Verdict;
use crate::{Error, cpus, growth, launching, netpipe, network, ours, peers, progress, say, ways};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use taffrail::words::counted;
use taffrail_launch::NodeOptions;

/// Bytes of the messages whose rate is measured, and of those from any source.
const SHORT: usize = 8;

/// How messages are logged, each as arguments of a measurement.
const WAYS: [(What, &[&str]); 5] = [
    (What::Plain, &[]),
    (What::Elided, ways::ONE_SET),
    (What::SenderBased, ways::SET_PER_RANK),
    (What::Reserved, ways::RESERVED),
    (What::Collected, &COLLECTED),
];

/// As reserved, with a checkpoint of each rank whenever it has sent 1 MiB.
const COLLECTED: [&str; 8] = [
    "--logging",
    "pessimistic",
    "--sets",
    "rank",
    "--log-memory",
    "512M",
    "--checkpoint-every",
    "1048576",
];

/// Events are in the memory of two event loggers before anything depends on them.
const NODE: [&str; 4] = ["--durability", "node", "--copies", "2"];

/// Events are on a disk before; in a folder that is there as long as one measurement takes, since the
/// event files of one job are not another's.
const DISK: [&str; 4] = ["--durability", "disk", "--log-dir", "."];

/// Messages from any source, with causal logging.
const CAUSAL: [&str; 4] = ["--logging", "causal", "--sets", "rank"];

/// Bytes that a trial sends in each direction, so that three of them, and what is sent before, find
/// room in the memory that a log has.
const TRIAL: usize = (100 << 20) / DIVISOR;
/// Messages of a trial at the most.
const MESSAGES: usize = 200_000 / DIVISOR;
/// Messages of a trial where each waits for event loggers that have a copy each.
const NODE_MESSAGES: usize = 2000 / DIVISOR;
/// Messages of a trial where each waits for the disk.
const DISK_MESSAGES: usize = 20;

/// Bytes of a stream into memory that is there; more than caches hold.
const STREAM: usize = (256 << 20) / DIVISOR;
/// Bytes of a stream into fresh memory.
const FRESH_STREAM: usize = (64 << 20) / DIVISOR;

/// What logging messages costs, beside the same without and the machine's limits, measured in turn
///
/// Nothing of a log is freed meanwhile, it only grows; but where it is `collected`, each rank takes a
/// checkpoint whenever it has sent 1 MiB, and what was logged for it is dropped. Every figure is half
/// a round trip. Event files of the durability `disk` are in a folder made where temporary files are
/// (TMPDIR).
///
/// With --hosts as figures 5 and 6 of Bouteiller et al., MPICH-V2 (SC'03): the two ranks are on two hosts, and messages
/// are not logged, logged with nondeterministic events only, or every reception is an event of which another node has a
/// copy before anything depends on it. A third host has no rank, and these copies.
#[derive(Clone, Debug, clap::Args)]
pub struct Logging {
    /// How often to measure everything; medians over the rounds are shown
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Message sizes: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    /// [default: 8,64,4K,64K,256K,1M,4M; with --hosts 8,1K,64K,256K,1M]
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',',
          value_parser = options::size_in::<u64>(1..=8 << 20))]
    pub sizes: Vec<u64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub nodes: NodeOptions,
}

/// Sizes inside a node.
const SIZES: [usize; 7] = [8, 64, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// What is written beside the figures.
#[derive(Serialize)]
struct Costs {
    rounds: u32,
    /// Messages of 8 bytes a second.
    rates: BTreeMap<&'static str, Spread>,
    /// What causal logging sends with the messages of applications.
    causal: Vec<Figures>,
    /// The memory that a log takes.
    growth: BTreeMap<&'static str, Vec<growth::Row>>,
    targets: Vec<Verdict>,
    /// What is missing, and why.
    missing: BTreeMap<&'static str, String>,
}

impl Logging {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        launching::must_be_alone("logging", "ranks and other programs")?;
        self.outputs.check()?;
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        if launching::over_nodes(&self.nodes)? {
            let sizes = if sizes.is_empty() { &network::LOGGING_SIZES[..] } else { &sizes };
            return network::logging(self.rounds, sizes, &self.nodes, &self.outputs);
        }
        let sizes = if sizes.is_empty() { SIZES.into() } else { sizes };
        let between = cpus::pair()?;
        let handover = limits::introduce(between)?;
        let mut awake = Awake::keep(between)?;
        let held = Held::keep();
        let steps = sizes.len() * (2 + WAYS.len()) + 6 + 3 + causal::APPLICATIONS.len();
        let bar = progress::over(true, u64::from(self.rounds) * steps as u64 + 2);
        let mut results = Results::default();
        let mut applications = causal::none();
        for _ in 0..self.rounds {
            results.begin_round();
            for &size in &sizes {
                times(&mut results, &mut awake, &held, between, size, &bar)?;
            }
            from_any_source(&mut results, &mut awake, &bar)?;
            for (what, way) in &WAYS[..3] {
                bar.step(format!("message rate: {}", what.name()));
                let rate = awake.settled(|| ours::messages_a_second(SHORT, way))?;
                results.add_rate(*what, rate);
            }
            for (place, (name, ..)) in causal::APPLICATIONS.iter().enumerate() {
                bar.step(format!("with determinants: {name}"));
                if let Err(reason) = causal::measure(&mut applications, place) {
                    results.missing.entry(What::AnySourceCausal).or_insert(reason);
                }
            }
        }
        let growth = grown(&mut results, &bar);
        drop(bar);
        self.report(&results, applications, growth, handover)
    }

    fn report(
        &self,
        results: &Results,
        causal: Vec<Figures>,
        growth: BTreeMap<&'static str, Vec<growth::Row>>,
        handover: Handover,
    ) -> Result<ExitCode, Error> {
        say::line(format_args!(
            "Medians of {} (1st-99th percentile); half a round trip.",
            counted(self.rounds, "round")
        ))?;
        say::line(
            "\nLimits: a cache line handed over; the bytes stored once, in memory that is there",
        )?;
        say::line("and in fresh shared memory. Beside them Open MPI, which logs nothing.")?;
        say::text(limits_table(results))?;
        say::line(
            "\nElided, ratio: to no logging, in the same round. Limit: the rate relative to that",
        )?;
        say::line(
            "of stores, in fresh memory (sender-based) or in memory that is there (reserved).",
        )?;
        say::text(costs_table(results))?;
        say::line(
            "\nCollected: as reserved, with a checkpoint of each rank whenever it sent 1 MiB.",
        )?;
        say::text(collected_table(results))?;
        say::line(
            "\nFrom any source, each reception an event: alone in one set, with payload else; with",
        )?;
        say::line("durability node two copies of each:")?;
        say::line(any_source_table(results))?;
        say::line(
            "Applications of 4 ranks, each its own set, each reception an event: time without",
        )?;
        say::line(
            "logging; with the gate (pessimistic) and causal relative to it; and for each rank",
        )?;
        say::line("and iteration messages, determinants created and sent with messages.")?;
        say::line(causal::table(&causal))?;
        let mut rates = BTreeMap::new();
        for (what, _) in &WAYS[..3] {
            let Some(rate) = results.rate(*what) else { continue };
            let ratio = results.rate_ratio(*what, What::Plain).map_or(0.0, |ratio| ratio.median);
            say::line(format_args!(
                "{:13} {}, {ratio:.2}x",
                what.name(),
                message_rate(rate, SHORT)
            ))?;
            rates.insert(what.name(), rate);
        }
        for (what, rows) in &growth {
            say::line(format_args!("\nMemory that the log takes, {what}:"))?;
            say::lines("", rows.iter().map(growth::line))?;
        }
        let targets = judge(results);
        say::line("\nTargets:")?;
        say::lines("  ", &targets)?;
        for (what, reason) in &results.missing {
            say::line(format_args!("{}: not (always) measured: {reason}", what.name()))?;
        }
        let missing = results.missing.iter().map(|(what, why)| (what.name(), why.clone()));
        let (missing, about) = (missing.collect(), About::new(Some(handover)));
        let more = Costs { rounds: self.rounds, rates, causal, growth, targets, missing };
        self.outputs.write(&about, &more, &rows(results), &panels(results))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// One size of one round: one thing after the other, since each needs both CPUs.
fn times(
    results: &mut Results,
    awake: &mut Awake,
    held: &Held,
    between: (usize, usize),
    size: usize,
    bar: &Progress,
) -> Result<(), Error> {
    bar.step(format!("{}: limits", bytes(size)));
    results.add_time(size, What::Handover, awake.handover_us()?);
    let stored_us = |a_second: f64| Ok(size as f64 / a_second * 1e6);
    let faulted = cpus::on(between.0, || limits::store_stream(STREAM, netpipe::TRIALS))??;
    let best = faulted.into_iter().fold(0.0, f64::max);
    results.add_time(size, What::Stored, stored_us(best));
    let fresh = || {
        (0..netpipe::TRIALS).try_fold(0.0_f64, |best, _| -> Result<f64, Error> {
            Ok(best.max(limits::store_fresh(FRESH_STREAM)?))
        })
    };
    results.add_time(size, What::StoredFresh, stored_us(cpus::on(between.0, fresh)??));
    let messages = (TRIAL / size).clamp(1, MESSAGES).to_string();
    for (what, way) in WAYS {
        bar.step(format!("{}: {}", bytes(size), what.name()));
        let arguments = [&["-n", messages.as_str()], way].concat();
        let time_us = || ours::time_us(size, &arguments);
        let time_us = awake.settled(|| held.lent(what.takes_memory(), time_us))?;
        results.add_time(size, what, time_us);
    }
    bar.step(format!("{}: {}", bytes(size), What::OpenMpi.name()));
    let time_us = awake.settled(|| (peers::OPEN_MPI.time_us)(size))?;
    results.add_time(size, What::OpenMpi, time_us);
    Ok(())
}

/// The receptions from any source of one round, each of which is an event.
fn from_any_source(results: &mut Results, awake: &mut Awake, bar: &Progress) -> Result<(), Error> {
    let [_, (_, elided), (_, sender_based), ..] = WAYS;
    for (what, way, durability, messages) in [
        (What::AnySource, &[][..], &[][..], MESSAGES),
        (What::AnySourceEvents, elided, &[], MESSAGES),
        (What::AnySourceProcess, sender_based, &[], MESSAGES),
        (What::AnySourceNode, sender_based, &NODE, NODE_MESSAGES),
        (What::AnySourceDisk, sender_based, &DISK, DISK_MESSAGES),
        (What::AnySourceCausal, &CAUSAL, &[], MESSAGES),
    ] {
        bar.step(what.name());
        let messages = messages.to_string();
        let arguments = [&["-z", "-n", &messages], way, durability].concat();
        results.add_time(SHORT, what, awake.settled(|| ours::time_us(SHORT, &arguments))?);
    }
    Ok(())
}

/// The memory that a log takes, once: it does not depend on time.
fn grown(results: &mut Results, bar: &Progress) -> BTreeMap<&'static str, Vec<growth::Row>> {
    let mut all = BTreeMap::new();
    for (what, way) in &WAYS[1..3] {
        bar.step(format!("memory: {}", what.name()));
        match ours::measure(&["growth"], way) {
            Ok(rows) => _ = all.insert(what.name(), rows),
            Err(reason) => _ = results.missing.entry(*what).or_insert(reason),
        }
    }
    all
}

/// The handover comes last, and only with times, so that colours mean the same in both.
fn panels(results: &Results) -> [Panel; 2] {
    let measured = results.measured().into_iter().filter(|what| !what.is_from_any_source());
    let (limits, others): (Vec<What>, Vec<What>) =
        measured.partition(|&what| what == What::Handover);
    results.panels(&others, &limits, "")
}
