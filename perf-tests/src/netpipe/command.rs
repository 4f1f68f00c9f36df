//! The `netpipe` command.

use super::format::MEGABIT;
use super::run::{self, Mode};
use super::*;
use crate::files::{Existing, OutFile};
use crate::options;
use crate::outputs::Outputs;
use crate::pair::Pair;
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::progress;
use crate::session::{Member, Session};
use crate::stats::Spread;
use crate::{Error, limits, say};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use taffrail::Endpoint;
use taffrail::words::counted;
use taffrail_launch::{FailureOptions, NodeOptions};

/// File that NetPIPE writes by default.
const NP_OUT: &str = "np.out";

/// Ping-pong over a range of message sizes, with NetPIPE's options, sizes and output
#[derive(Clone, Debug, clap::Args)]
pub struct Netpipe {
    /// The least message size: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(short = 'l', value_name = "SIZE", default_value = "1", value_parser = options::size::<usize>)]
    pub lower: usize,
    /// The greatest message size; a message that takes a second is the last in any case
    #[arg(short = 'u', value_name = "SIZE", default_value = "10000000", value_parser = options::size::<usize>)]
    pub upper: usize,
    /// Measure each size also so much below and above; 0: only the size itself
    #[arg(short = 'p', value_name = "SIZE", default_value = "3", value_parser = options::size_in::<usize>(0..=1 << 40))]
    pub perturbation: usize,
    /// Repeat each size this often, instead of for a tenth of a second
    #[arg(short = 'n', value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..))]
    pub repetitions: Option<u64>,
    /// Stream messages in one direction (says nothing of latency: they may be bundled)
    #[arg(short = 's', conflicts_with = "bidirectional")]
    pub streaming: bool,
    /// Send in both directions at once; figures are for both together, receives are preposted
    #[arg(short = '2')]
    pub bidirectional: bool,
    /// Invalidate the cache: walk through memory larger than it
    #[arg(short = 'I')]
    pub invalidate: bool,
    /// Check that messages arrive unchanged, instead of measuring
    #[arg(short = 'i', conflicts_with = "streaming")]
    pub integrity: bool,
    /// Synchronous sends: each ends when its message was matched
    #[arg(short = 'S')]
    pub synchronous: bool,
    /// Asynchronous receives, posted before the message is sent
    #[arg(short = 'a')]
    pub preposted: bool,
    /// Receive from any source
    #[arg(short = 'z')]
    pub any_source: bool,
    /// Buffers in the endpoint's own memory, which peers reach, instead of plain memory
    #[arg(long, conflicts_with = "invalidate", help_heading = "Beyond NetPIPE")]
    pub alloc: bool,
    /// Give each message away and receive it as a view: no byte of it is copied (or touched)
    #[arg(long, help_heading = "Beyond NetPIPE",
          conflicts_with_all = ["alloc", "invalidate", "preposted", "bidirectional", "synchronous"])]
    pub loan: bool,
    /// Take a checkpoint of a rank whenever messages of so many bytes have gone in one direction; each
    /// counts at least 64 [default: never]
    #[arg(long, value_name = "SIZE", help_heading = "Beyond NetPIPE",
          conflicts_with = "preposted", value_parser = options::size::<u64>)]
    pub checkpoint_every: Option<u64>,
    /// NetPIPE's output file: bytes, Mbps and seconds [default: np.out; one of an earlier run is kept as
    /// np.out.1, np.out.2, ...]
    #[arg(short = 'o', value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print the spread of each size's time after NetPIPE's figures
    #[arg(long, help_heading = "Output")]
    pub spread: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub nodes: NodeOptions,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub failures: FailureOptions,
}

/// What was measured of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: usize,
    /// Bytes of the size that it lies about, up to a perturbation.
    pub nominal: usize,
    /// Times it was sent there (and back) in each trial.
    pub repetitions: u64,
    /// NetPIPE's figure: the least trial's time of a message, in microseconds.
    pub time_us: f64,
    /// NetPIPE's figure: megabits (2^20) a second, of both directions together.
    pub mbps: f64,
    /// How the time lies over all parts of all trials, in microseconds.
    pub spread_us: Spread,
    /// Each trial's time, in microseconds.
    pub trials_us: Vec<f64>,
}

impl Netpipe {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        if self.lower > self.upper {
            let (lower, upper) = (self.lower, self.upper);
            return Err(Error::Usage(format!("-l {lower} is above -u {upper}; swap them")));
        }
        self.outputs.check_with(Some(self.np_out()))?;
        match Session::start_pair(&self.failures, &self.nodes)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    /// NetPIPE's own file. It has one name in every run, so the one before it is kept under another; one
    /// that the user named is not touched unless he says so.
    fn np_out(&self) -> OutFile<'_> {
        match &self.output {
            Some(path) => self.outputs.file(path),
            None if self.outputs.force => self.outputs.file(Path::new(NP_OUT)),
            None => OutFile { path: Path::new(NP_OUT), existing: Existing::Keep },
        }
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        if member.endpoint.restored().is_some() {
            let reason = "`netpipe` does not go on from a checkpoint: it measures what they cost";
            return Err(Error::Usage(reason.into()));
        }
        let before = member.handover()?;
        if member.reports() {
            member.announce(before.as_ref())?;
        }
        let last = member.job.size() - 1;
        let rows = match Pair::of(&mut member.endpoint, 0, last) {
            Some(mut pair) => self.sweep(&mut pair)?,
            None => Vec::new(),
        };
        let after = member.handover()?;
        if let Some(handover) = after {
            say::line(format_args!("{handover} at the end"))?;
        }
        if member.reports() {
            self.outputs.write(&member.about(before), &(), &rows, &panels(&rows, before))?;
        }
        member.barrier()
    }

    fn sweep(&self, pair: &mut Pair<'_>) -> Result<Vec<Row>, Error> {
        let mode = self.mode();
        let sizes = Sizes::new(self.lower, self.upper, self.perturbation);
        let bar = progress::over(pair.transmits(), sizes.clone().count() as u64);
        let mut last_size = self.lower.max(1);
        let mut checkpoints = Checkpoints::every(self.checkpoint_every);
        let mut seconds = self.estimate(pair, last_size, &mut checkpoints)?;
        let (mut rows, mut lines) = (Vec::new(), String::new());
        for (index, point) in sizes.enumerate() {
            // What takes this long once takes much longer in three trials.
            if seconds >= STOP_SECONDS {
                break;
            }
            let Point { size, step, .. } = point;
            let wanted = self.repetitions.unwrap_or_else(|| repetitions(last_size, step, seconds));
            let times = pair.agree(wanted as f64)? as u64;
            bar.step(counted(size, "byte"));
            let mut buffers = self.buffers(pair.endpoint, size)?;
            let trials = run::measure(pair, mode, &mut buffers, &mut checkpoints, times)?;
            // A clock too coarse for a few messages may say 0.
            seconds = pair.agree(trials.least().max(1e-9))?;
            last_size = size;
            let row = self.row(point, times, seconds, &trials);
            if pair.transmits() {
                bar.print(|| say::line(self.terminal_line(index, &row, seconds)))?;
                lines += &(self.file_line(&row, seconds) + "\n");
            }
            rows.push(row);
        }
        drop(bar);
        if pair.transmits() {
            self.np_out().write(lines.as_bytes())?;
        }
        Ok(rows)
    }

    fn mode(&self) -> Mode {
        Mode {
            streaming: self.streaming,
            bidirectional: self.bidirectional,
            preposted: self.preposted,
            synchronous: self.synchronous,
            any_source: self.any_source,
            integrity: self.integrity,
            loan: self.loan,
        }
    }

    fn estimate(
        &self,
        pair: &mut Pair<'_>,
        size: usize,
        checkpoints: &mut Checkpoints,
    ) -> Result<f64, Error> {
        let mut buffers = self.buffers(pair.endpoint, size)?;
        run::estimate(pair, self.mode(), &mut buffers, checkpoints)
    }

    fn buffers(&self, endpoint: &mut Endpoint, size: usize) -> Result<Buffers, Error> {
        Ok(match (self.invalidate, self.bidirectional) {
            _ if self.alloc => Buffers::allocated(endpoint, size, self.bidirectional)?,
            (true, _) => Buffers::pools(size),
            (false, true) => Buffers::two(size),
            (false, false) => Buffers::one(size),
        })
    }

    fn row(&self, point: Point, repetitions: u64, seconds: f64, trials: &Trials) -> Row {
        let Point { size, nominal, .. } = point;
        let bits = (self.bytes_counted(size) * 8) as f64;
        Row {
            size,
            nominal,
            repetitions,
            time_us: seconds * 1e6,
            mbps: bits / (seconds * MEGABIT),
            spread_us: Spread::of(&trials.parts).scaled(1e6),
            trials_us: trials.trials.iter().map(|seconds| seconds * 1e6).collect(),
        }
    }

    fn bytes_counted(&self, size: usize) -> usize {
        if self.bidirectional { 2 * size } else { size }
    }

    fn terminal_line(&self, index: usize, row: &Row, seconds: f64) -> String {
        let mut line = line_start(index, row.size, row.repetitions);
        line += &match self.integrity {
            true => " Integrity check passed".into(),
            false => line_end(row.mbps, seconds),
        };
        if self.spread {
            let Spread { median, p1, p99, .. } = row.spread_us;
            line += &format!("   median {median:.3} (p1 {p1:.3}, p99 {p99:.3})");
        }
        line
    }

    fn file_line(&self, row: &Row, seconds: f64) -> String {
        let bytes = self.bytes_counted(row.size);
        match self.integrity {
            true => integrity_file_line(bytes, row.repetitions),
            false => file_line(bytes, row.mbps, seconds),
        }
    }
}

fn panels(rows: &[Row], handover: Option<limits::Handover>) -> [Panel; 2] {
    let curve = |name: &str, y: fn(&Row) -> f64| {
        let point = |row: &Row| (row.size as f64, y(row));
        let (nominal, perturbed): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.size == row.nominal);
        Curve {
            name: name.into(),
            points: nominal.into_iter().map(point).collect(),
            beside: perturbed.into_iter().map(point).collect(),
        }
    };
    let mut times = vec![
        curve("least trial (NetPIPE)", |row| row.time_us),
        curve("median", |row| row.spread_us.median),
        curve("99th percentile", |row| row.spread_us.p99),
    ];
    if let Some(handover) = handover {
        let us = handover.ns.median / 1e3;
        let points = curve("", |_| 0.0).points.into_iter().map(|(size, _)| (size, us)).collect();
        let name = "one cache line handed over".into();
        times.push(Curve { name, points, ..Curve::default() });
    }
    let panel = |title: &str, y: &str, unit, curves| Panel {
        title: title.into(),
        x: Axis::new("message size (bytes)", Scale::Bytes),
        y: Axis::new(y, Scale::Log(unit)),
        curves,
    };
    [
        panel("Latency", "time of a message", Unit::Us, times),
        panel(
            "Throughput",
            "throughput",
            Unit::BitsPerSecond,
            vec![curve("Taffrail", |row| row.mbps * MEGABIT)],
        ),
    ]
}
