//! The `pingpong` command.

use super::fi_pingpong;
use super::socket::Socket;
use super::way::{Endpoint, Way};
use crate::options;
use crate::outputs::Outputs;
use crate::pair::Pair;
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::provenance::DIVISOR;
use crate::session::{Member, Session};
use crate::stats::Spread;
use crate::table::{align, bytes, spread};
use crate::{Error, say};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use taffrail_launch::{FailureOptions, NodeOptions};

/// Bytes that are sent in each direction of one size, so that a log has room for them.
const BYTES: usize = (192 << 20) / DIVISOR;
/// Round trips of one size at the most, and in any case.
const TRIPS: usize = if DIVISOR > 1 { 100 } else { 4000 };
const TRIPS_MIN: usize = 20;
/// Round trips of one way before the next way has its turn.
const BLOCK: usize = 20;
/// Blocks of each way that warm up.
const WARM_UP: usize = 2;

/// Round trips timed one by one, over Taffrail and over a plain socket in turn
///
/// Both ways are between the same two processes, on the same address, and have a few round trips each before the next
/// has its turn, so that they see the same load. The socket has TCP_NODELAY, and who waits for it spins. With --hosts the
/// two ranks are on two hosts.
#[derive(Clone, Debug, clap::Args)]
pub struct Pingpong {
    /// Message sizes: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', default_value = "8,1K,64K,1M",
          value_parser = options::size_in::<usize>(1..=64 << 20))]
    pub sizes: Vec<usize>,
    /// What carries messages
    #[arg(
        long,
        value_name = "WAY,..",
        value_delimiter = ',',
        value_enum,
        default_value = "taffrail,socket"
    )]
    pub over: Vec<Over>,
    /// Receive from any source: where messages are logged, each reception is an event
    #[arg(short = 'z', long)]
    pub any_source: bool,
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

/// What carries messages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
pub enum Over {
    /// A plain socket.
    Socket,
    /// Taffrail: shared memory on one node, sockets between two.
    Taffrail,
    /// `fi_pingpong` of libfabric over sockets: the mean of all round trips.
    Libfabric,
}

impl Over {
    fn name(self) -> &'static str {
        match self {
            Over::Socket => "plain socket",
            Over::Taffrail => "Taffrail",
            Over::Libfabric => "libfabric tcp",
        }
    }
}

/// What was measured of one size over one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: usize,
    /// What carried it.
    pub over: Over,
    /// Half of each round trip, in microseconds.
    pub time_us: Spread,
}

impl Pingpong {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        match Session::start_pair(&self.failures, &self.nodes)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let handover = member.handover()?;
        if member.reports() {
            member.announce(handover.as_ref())?;
        }
        let rows = match Pair::of(&mut member.endpoint, 0, 1) {
            Some(mut pair) => self.measure(&mut pair)?,
            None => Vec::new(),
        };
        if member.reports() {
            say::text(table(&rows))?;
            self.outputs.write(&member.about(handover), &(), &rows, &panels(&rows))?;
        }
        member.barrier()
    }

    /// Rows, on the transmitter.
    fn measure(&self, pair: &mut Pair<'_>) -> Result<Vec<Row>, Error> {
        let mut socket = Socket::connect(pair)?;
        let mut rows = Vec::new();
        for &size in &self.sizes {
            let trips = (BYTES / size).clamp(TRIPS_MIN, TRIPS);
            let mut times = self.in_turn(pair, &mut socket, size, trips)?;
            if self.over.contains(&Over::Libfabric) {
                socket.meet(pair)?;
                let time_us = fi_pingpong::time_us(pair, size, trips)?;
                times.entry(Over::Libfabric).or_default().extend(time_us);
            }
            let row =
                |(over, times): (Over, Vec<f64>)| Row { size, over, time_us: Spread::of(&times) };
            rows.extend(times.into_iter().map(row));
        }
        socket.meet(pair)?;
        Ok(rows)
    }

    /// Half of each round trip in microseconds, of the ways that take turns.
    fn in_turn(
        &self,
        pair: &mut Pair<'_>,
        socket: &mut Socket,
        size: usize,
        trips: usize,
    ) -> Result<BTreeMap<Over, Vec<f64>>, Error> {
        let mut endpoint = Endpoint { any_source: self.any_source };
        let mut buffer = vec![1; size];
        let mut times: BTreeMap<Over, Vec<f64>> = BTreeMap::new();
        for block in 0..WARM_UP + trips.div_ceil(BLOCK) {
            for &over in self.over.iter().filter(|over| **over != Over::Libfabric) {
                let way: &mut dyn Way = match over {
                    Over::Taffrail => &mut endpoint,
                    _ => socket,
                };
                let some = a_block(pair, way, &mut buffer)?;
                if block >= WARM_UP {
                    times.entry(over).or_default().extend(some);
                }
                socket.meet(pair)?;
            }
        }
        Ok(times)
    }
}

/// So many round trips; half of each in microseconds.
fn a_block(
    pair: &mut Pair<'_>,
    way: &mut dyn Way,
    buffer: &mut [u8],
) -> Result<[f64; BLOCK], Error> {
    let mut times = [0.0; BLOCK];
    for time in &mut times {
        let start = Instant::now();
        if pair.transmits() {
            way.send(pair, buffer)?;
            way.receive(pair, buffer)?;
        } else {
            way.receive(pair, buffer)?;
            way.send(pair, buffer)?;
        }
        *time = start.elapsed().as_secs_f64() / 2.0 * 1e6;
    }
    Ok(times)
}

fn table(rows: &[Row]) -> String {
    let headings = ["size", "over", "us", "by socket", "round trips"];
    let mut lines = vec![headings.map(String::from).to_vec()];
    for row in rows {
        let socket = rows.iter().find(|other| other.size == row.size && other.over == Over::Socket);
        let ratio = socket.map(|socket| row.time_us.median / socket.time_us.median);
        lines.push(vec![
            bytes(row.size),
            row.over.name().into(),
            spread(row.time_us),
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            row.time_us.samples.to_string(),
        ]);
    }
    "Half a round trip, each timed alone: median (1st-99th percentile).\n".to_owned()
        + &align(&lines)
}

fn panels(rows: &[Row]) -> [Panel; 2] {
    let panel = |title: &str, y: &str, unit, of: fn(&Row) -> f64| {
        let curve = |over: Over| Curve {
            name: over.name().into(),
            points: rows
                .iter()
                .filter(|row| row.over == over)
                .map(|row| (row.size as f64, of(row)))
                .collect(),
            ..Curve::default()
        };
        let all = [Over::Taffrail, Over::Socket, Over::Libfabric].map(curve);
        Panel {
            title: title.into(),
            x: Axis::new("message size (bytes)", Scale::Bytes),
            y: Axis::new(y, Scale::Log(unit)),
            curves: all.into_iter().filter(|curve| !curve.points.is_empty()).collect(),
        }
    };
    [
        panel("Latency", "half a round trip, median", Unit::Us, |row| row.time_us.median),
        panel("Throughput", "throughput", Unit::BitsPerSecond, |row| {
            row.size as f64 * 8.0 / row.time_us.median * 1e6
        }),
    ]
}
