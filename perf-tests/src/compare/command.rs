//! Running the comparison.

use super::results::{Results, What, rows};
use super::table::{ratios_table, times_table};
use super::targets::judge;
use crate::limits::Handover;
use crate::outputs::Outputs;
use crate::peers::{self, Peer};
use crate::plot::Panel;
use crate::rounds::Named;
use crate::session::About;
use crate::table::{bytes, message_rate};
use crate::verdict::Verdict;
use crate::{Error, cpus, launching, limits, ours, progress};
use indicatif::ProgressBar;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Bytes of the messages whose rate is compared.
const RATE_SIZE: usize = 8;

/// Taffrail, every other transport found here and the machine's limits, measured in turn
#[derive(Clone, Debug, clap::Args)]
pub struct Compare {
    /// How often to measure everything; medians over the rounds are shown
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Message sizes in bytes
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',',
          default_value = "8,64,256,4096,16384,65536,262144,1048576,4194304",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub sizes: Vec<u64>,
    /// A first impression: two rounds of four sizes
    #[arg(long, conflicts_with_all = ["rounds", "sizes"])]
    pub quick: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
}

/// How everything here is scored.
const SCORING: &str = "Every figure of a round, of whatever it is, is the best mean of three runs, \
     as NetPIPE's is;\na round measures one thing after the other, size by size.";

/// What is written beside the figures.
#[derive(Serialize)]
struct Comparison {
    #[serde(flatten)]
    about: About,
    rounds: u32,
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
        let (rounds, sizes) = match self.quick {
            true => (2, vec![8, 4096, 65536, 1 << 20]),
            false => (self.rounds, self.sizes.iter().map(|&size| size as usize).collect()),
        };
        let between = cpus::pair()?;
        let handover = limits::introduce(between)?;
        let mut results = Results::default();
        let steps = sizes.len() * (4 + peers::ALL.len()) + 1 + peers::ALL.len();
        let steps = u64::from(rounds) * steps as u64;
        let bar = progress::bar(true, steps);
        for _ in 0..rounds {
            results.begin_round();
            for &size in &sizes {
                times(&mut results, between, size, &bar)?;
            }
            rates(&mut results, &bar);
        }
        bar.finish_and_clear();
        self.report(&results, rounds, handover)
    }

    fn report(
        &self,
        results: &Results,
        rounds: u32,
        handover: Handover,
    ) -> Result<ExitCode, Error> {
        println!("{SCORING}");
        println!("Medians of {rounds} rounds (1st-99th percentile).");
        print!("\n{}", times_table(results));
        print!("\n{}\n", ratios_table(results));
        let mut rates = BTreeMap::new();
        for what in [What::Taffrail, What::Peer(peers::UCX.name)] {
            if let Some(rate) = results.rate(what) {
                println!("{:8} {}", what.name(), message_rate(rate, RATE_SIZE));
                rates.insert(what.name(), rate);
            }
        }
        let targets = judge(results);
        println!("Targets:");
        targets.iter().for_each(|verdict| println!("  {verdict}"));
        for (what, reason) in &results.missing {
            println!("{}: not (always) measured: {reason}", what.name());
        }
        let missing = results.missing.iter().map(|(what, why)| (what.name(), why.clone()));
        let missing = missing.collect();
        let about =
            Comparison { about: About::new(Some(handover)), rounds, rates, targets, missing };
        self.outputs.write(&about, &rows(results), &panels(results))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// One size of one round: one thing after the other, since each needs both CPUs.
fn times(
    results: &mut Results,
    between: (usize, usize),
    size: usize,
    bar: &ProgressBar,
) -> Result<(), Error> {
    let doing = |name: &str| {
        bar.inc(1);
        bar.set_message(format!("{}: {name}", bytes(size)));
    };
    doing("limits");
    results.add_time(size, What::Handover, Ok(limits::best_handover(between)? * 1e6));
    results.add_time(size, What::FreshCopy, Ok(limits::best_fresh_copy(between, size)? * 1e6));
    for (what, memory) in
        [(What::Taffrail, &[][..]), (What::Allocated, &["--alloc"]), (What::Loaned, &["--loan"])]
    {
        doing(what.name());
        results.add_time(size, what, ours::time_us(size, memory));
    }
    for Peer { name, time_us, .. } in peers::ALL {
        doing(name);
        results.add_time(size, What::Peer(name), time_us(size));
    }
    Ok(())
}

/// The message rates of one round.
fn rates(results: &mut Results, bar: &ProgressBar) {
    let doing = |name: &str| {
        bar.inc(1);
        bar.set_message(format!("message rate: {name}"));
    };
    doing(What::Taffrail.name());
    results.add_rate(What::Taffrail, ours::messages_a_second(RATE_SIZE, &[]));
    for Peer { name, rate, .. } in peers::ALL {
        doing(name);
        if let Some(rate) = rate {
            results.add_rate(What::Peer(name), ours::best_rate(|| rate(RATE_SIZE)));
        }
    }
}

/// The handover comes last, and only with times, so that colours mean the same in both.
fn panels(results: &Results) -> [Panel; 2] {
    let (limits, transports): (Vec<What>, Vec<What>) =
        results.measured().into_iter().partition(|&what| what == What::Handover);
    results.panels(&transports, &limits)
}
