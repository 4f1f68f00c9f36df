//! `logging --hosts`: figures 5 and 6 of Bouteiller et al., MPICH-V2 (SC'03): bandwidth and latency of a ping-pong
//! between two nodes, with each reception logged on another node, relative to the same without logging.

use super::compare::{conclude, introduce, panels};
use super::measure::Nodes;
use super::results::{Results, What, rows};
use super::table::{levels_table, lows_table};
use super::targets::judge_logging;
use crate::outputs::Outputs;
use crate::session::About;
use crate::settled::Awake;
use crate::table::bytes;
use crate::verdict::Verdict;
use crate::{Error, cpus, launching, limits, progress, say, ways};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use taffrail_launch::NodeOptions;

/// Message sizes unless others are asked for.
pub const SIZES: [usize; 5] = [8, 1 << 10, 64 << 10, 256 << 10, 1 << 20];

/// How messages are logged, each as arguments of `pingpong`, in parts.
const WAYS: [(What, &[&[&str]]); 5] = [
    (What::Taffrail, &[]),
    (What::Named, &[ways::SET_PER_RANK]),
    (What::Reserved, &[ways::RESERVED]),
    (What::Every, &[ways::EVERY_RECEPTION, ways::COPIED]),
    (What::Causal, &[ways::CAUSAL, ways::COPIED]),
];

/// Receives from any source, with the shortest messages.
const ANY_SOURCE: [(What, &[&[&str]]); 2] =
    [(What::AnySource, &[&["-z"]]), (What::Gated, &[&["-z"], ways::SET_PER_RANK, ways::COPIED])];

/// What is written beside the figures.
#[derive(Serialize)]
struct Costs {
    rounds: u32,
    targets: Vec<Verdict>,
    /// What is missing, and why.
    missing: BTreeMap<&'static str, String>,
}

/// Runs the measurements.
pub fn logging(
    rounds: u32,
    sizes: &[usize],
    nodes: &NodeOptions,
    outputs: &Outputs,
) -> Result<ExitCode, Error> {
    let nodes = launching::one_rank_each(nodes)?;
    let between = cpus::pair()?;
    let handover = limits::introduce(between)?;
    let awake = Awake::keep(between)?;
    let mut results = Results::default();
    let mut on = Nodes::new(&nodes);
    let steps = sizes.len() * WAYS.len() + ANY_SOURCE.len();
    let bar = progress::over(true, u64::from(rounds) * steps as u64);
    for _ in 0..rounds {
        results.begin_round();
        for (place, &size) in sizes.iter().enumerate() {
            let any_source = ANY_SOURCE.iter().filter(|_| place == 0);
            for (what, way) in WAYS.iter().chain(any_source) {
                bar.step(format!("{}: {}", bytes(size), what.name()));
                on.taffrail(&mut results, size, *what, &way.concat());
            }
        }
    }
    drop(bar);
    drop(awake);
    introduce(rounds, &nodes, &on)?;
    say::line(
        "\nTaffrail: nothing is logged. Named receives: nondeterministic events only, of which there are none;",
    )?;
    say::line(
        "payload in memory that is new, or (reserved) that was had at the start. Every reception: each is an",
    )?;
    say::line(
        "event, and what is sent next waits until a logger of each node has it, as in figures 5 and 6 of",
    )?;
    say::line(
        "MPICH-V2. Causal: nothing waits, and each event travels with what is sent until it is there.",
    )?;
    say::line(
        "Gated: every reception, for receives from any source, relative to these without logging.",
    )?;
    say::line(
        "Ratio: to no logging, in the same round; behind /, of the two relative to the plain socket that",
    )?;
    say::line("took turns with each.")?;
    say::text(levels_table(&results))?;
    say::line("\nThe same of 1st percentiles:")?;
    say::text(lows_table(&results))?;
    let targets = judge_logging(&results);
    let missing = conclude(&results, &targets)?;
    let more = Costs { rounds, targets, missing };
    let about = About { network: on.network.clone(), ..About::new(Some(handover)) };
    outputs.write(&about, &more, &rows(&results), &panels(&results))?;
    Ok(ExitCode::SUCCESS)
}
