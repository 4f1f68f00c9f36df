//! `compare --hosts`.

use super::measure::Nodes;
use super::programs::{Mpis, launcher};
use super::results::{Figure, Part, Results, What, add, rows};
use super::table::{ratios_table, times_table};
use super::targets::judge_comparison;
use crate::outputs::Outputs;
use crate::rounds::Named;
use crate::session::About;
use crate::settled::Awake;
use crate::table::bytes;
use crate::verdict::Verdict;
use crate::{Error, cpus, launching, limits, progress, say};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use taffrail::words::counted;
use taffrail_launch::NodeOptions;

/// Message sizes unless others are asked for.
pub const SIZES: [usize; 6] = [8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20];

/// What is written beside the figures.
#[derive(Serialize)]
struct Comparison {
    rounds: u32,
    mpis: Vec<String>,
    targets: Vec<Verdict>,
    /// What is missing, and why.
    missing: BTreeMap<&'static str, String>,
}

/// Runs the comparison.
pub fn compare(
    rounds: u32,
    sizes: &[usize],
    mpi_dir: &[PathBuf],
    nodes: &NodeOptions,
    outputs: &Outputs,
) -> Result<ExitCode, Error> {
    let nodes = launching::one_rank_each(nodes)?;
    let between = cpus::pair()?;
    let handover = limits::introduce(between)?;
    let awake = Awake::keep(between)?;
    let folder = tempfile::tempdir()
        .map_err(|source| Error::System { what: "making a temporary folder", source })?;
    let (mpis, taffrail) = (Mpis::find(mpi_dir), launcher());
    let programs = mpis.compile(&taffrail, &nodes, folder.path());
    let mut results = Results::default();
    let mut on = Nodes::new(&nodes);
    let bar = progress::over(true, u64::from(rounds) * sizes.len() as u64 * 4);
    for _ in 0..rounds {
        results.begin_round();
        for &size in sizes {
            bar.step(format!("{}: Taffrail and a plain socket in turn", bytes(size)));
            on.taffrail(&mut results, size, What::Taffrail, &[]);
            bar.step(format!("{}: {}", bytes(size), What::Libfabric.name()));
            let time_us = on.libfabric(size);
            add(&mut results, size, What::Libfabric, time_us);
            for what in programs.all() {
                bar.step(format!("{}: {}", bytes(size), what.name()));
                add(&mut results, size, what, programs.each_us(what, between, size));
            }
        }
    }
    drop(bar);
    drop(awake);
    introduce(rounds, &nodes, &on)?;
    say::line(
        "Taffrail and the plain socket take turns, in one job; each of the others has a job of its own",
    )?;
    say::line(format_args!("in the same round. MPIs: {}.", mpis.versions().join(", ")))?;
    say::text(format_args!("\n{}", times_table(&results)))?;
    say::text(format_args!("\n{}", ratios_table(&results)))?;
    let targets = judge_comparison(&results);
    let missing = conclude(&results, &targets)?;
    let more = Comparison { rounds, mpis: mpis.versions(), targets, missing };
    let about = About { network: on.network.clone(), ..About::new(Some(handover)) };
    outputs.write(&about, &more, &rows(&results), &panels(&results))?;
    Ok(ExitCode::SUCCESS)
}

/// Says where and how everything was measured.
pub fn introduce(rounds: u32, nodes: &NodeOptions, on: &Nodes<'_>) -> Result<(), Error> {
    say::line(format_args!("{}", launching::hosts(nodes)))?;
    if let Some(network) = &on.network {
        say::line(network)?;
    }
    say::line(format_args!(
        "Half a round trip, each timed alone. Medians of {} (1st-99th percentile) of the median of a",
        counted(rounds, "round")
    ))?;
    say::line("round, and of its 1st percentile (low).")
}

/// Says whether targets are met, and what is missing, which is returned.
pub fn conclude(
    results: &Results,
    targets: &[Verdict],
) -> Result<BTreeMap<&'static str, String>, Error> {
    say::line("\nTargets:")?;
    say::lines("  ", targets)?;
    for (what, reason) in &results.missing {
        say::line(format_args!("{}: not (always) measured: {reason}", what.name()))?;
    }
    Ok(results.missing.iter().map(|(what, why)| (what.name(), why.clone())).collect())
}

/// Medians.
pub fn panels(results: &Results) -> [crate::plot::Panel; 2] {
    let all = results.measured();
    let medians: Vec<Figure> = all.into_iter().filter(|of| of.1 == Part::Median).collect();
    results.panels(&medians, &[], ", between two nodes")
}
