//! The `limits` command.

use super::measure::{Handover, fresh_copy, handover};
use super::store::{store_fresh, store_stream};
use crate::machine::{self, Machine};
use crate::options;
use crate::outputs::Outputs;
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::session::About;
use crate::stats::Spread;
use crate::{Error, cpus, say};
use serde::Serialize;
use std::process::ExitCode;

/// Bytes of a stream that is in no cache.
const STREAM: usize = 256 << 20;
/// How often one is stored.
const STREAMS: usize = 5;

/// The machine's own limits: handing over one cache line, copying fresh data, storing a stream
#[derive(Clone, Debug, clap::Args)]
pub struct Limits {
    /// Bytes that are copied
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',',
          default_value = "64,256,4096,16384,65536,262144,1048576,4194304",
          value_parser = options::size::<u64>)]
    pub sizes: Vec<u64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
}

/// The limit of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Bytes copied.
    pub size: usize,
    /// One copy of what the other CPU has just written, and the handover, in microseconds.
    pub copy_us: Spread,
    /// The same in bytes a second, of the median.
    pub bytes_a_second: f64,
}

/// Says on which machine what follows is measured, and how long a handover between these CPUs takes,
/// which it returns.
///
/// # Errors
/// When a thread cannot be bound to one of them.
pub fn introduce(between: (usize, usize)) -> Result<Handover, Error> {
    say::line(Machine::here())?;
    let handover = handover(between)?;
    machine::announce(Some(&handover))?;
    Ok(handover)
}

impl Limits {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        let between = cpus::pair()?;
        let handover = handover(between)?;
        say::line(Machine::here())?;
        say::line(format_args!("one cache line between CPUs {} and {}:", between.0, between.1))?;
        machine::announce(Some(&handover))?;
        let mut rows = Vec::new();
        for size in self.sizes.iter().map(|&size| size as usize) {
            let copy_us = fresh_copy(between, size)?.scaled(1e6);
            let bytes_a_second = size as f64 / (copy_us.median / 1e6);
            let Spread { median, p1, p99, .. } = copy_us;
            say::line(format_args!(
                "{size:9} bytes written there, copied here: {median:10.3} us (p1 {p1:.3}, p99 \
                 {p99:.3}), {:6.2} GB/s",
                bytes_a_second / 1e9
            ))?;
            rows.push(Row { size, copy_us, bytes_a_second });
        }
        let faulted = store_stream(STREAM, STREAMS)?;
        let fresh: Vec<f64> =
            (0..STREAMS).map(|_| store_fresh(STREAM)).collect::<Result<_, _>>()?;
        for (what, rates) in [("memory that is there", faulted), ("fresh shared memory", fresh)] {
            let Spread { median, p1, p99, .. } = Spread::of(&rates).scaled(1e-9);
            say::line(format_args!(
                "storing a stream in {what}: {median:.2} GB/s (p1 {p1:.2}, p99 {p99:.2})"
            ))?;
        }
        self.outputs.write(&About::new(Some(handover)), &(), &rows, &[panel(&rows)])?;
        Ok(ExitCode::SUCCESS)
    }
}

fn panel(rows: &[Row]) -> Panel {
    let points = rows.iter().map(|row| (row.size as f64, row.copy_us.median));
    Panel {
        title: "One copy of what another CPU has just written".into(),
        x: Axis::new("bytes copied", Scale::Bytes),
        y: Axis::new("time", Scale::Log(Unit::Us)),
        curves: vec![Curve {
            name: "copy and handover".into(),
            points: points.collect(),
            ..Curve::default()
        }],
    }
}
