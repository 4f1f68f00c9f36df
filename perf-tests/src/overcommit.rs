//! The `overcommit` command: whether more ranks than CPUs still get on.

use crate::limits::{Handover, beside};
use crate::options;
use crate::outputs::Outputs;
use crate::pair::DATA;
use crate::peers::open_mpi_ring;
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::session::{About, Member, Placement, Session};
use crate::stats::Spread;
use crate::{Error, cpus, launching, limits, machine, say};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use taffrail::{Dest, Pattern};

/// Laps in this time warm up.
const WARM_UP: Duration = Duration::from_millis(200);

/// A token round a ring of more ranks than CPUs: its rate, and its longest stall
#[derive(Clone, Debug, clap::Args)]
pub struct Overcommit {
    /// How many ranks are in the ring; several numbers are measured one by one
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "4,8",
          value_parser = clap::value_parser!(u32).range(2..))]
    pub ranks: Vec<u32>,
    /// How many CPUs they share
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub cpus: usize,
    /// How long to measure, with each number of ranks (2, 500ms, 1m; seconds without a unit)
    #[arg(long, value_name = "TIME", default_value = "2", value_parser = options::seconds)]
    pub seconds: f64,
    /// Run the same ring under Open MPI (mpicc and mpirun are needed), which then yields
    #[arg(long)]
    pub open_mpi: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
}

/// What was measured with one number of ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What passed the token.
    pub transport: String,
    /// Ranks in the ring.
    pub ranks: u32,
    /// CPUs they shared.
    pub cpus: usize,
    /// Hops of the token a second, all in all.
    pub hops_a_second: f64,
    /// A lap's time divided by its hops, in microseconds.
    pub hop_us: Spread,
    /// The longest lap, in microseconds.
    pub longest_lap_us: f64,
    /// One cache line handed over between two of the CPUs, in nanoseconds, just before.
    pub handover_ns: Option<Spread>,
}

impl Overcommit {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        if !launching::in_a_job() {
            self.share_cpus()?;
        }
        match &self.ranks[..] {
            &[ranks] if !self.open_mpi => match Session::start(ranks, Placement::Free)? {
                Session::Done(code) => Ok(code),
                Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
            },
            _ => self.one_by_one(),
        }
    }

    /// Keeps this process, and so the ranks it starts, to as many CPUs as asked for.
    fn share_cpus(&self) -> Result<(), Error> {
        let allowed = cpus::allowed()?;
        match allowed.get(..self.cpus) {
            Some(shared) if !shared.is_empty() => cpus::stay_on(shared),
            _ => Err(Error::Usage(format!(
                "--cpus {} of the {} allowed are not to be had; ask for 1 to {0}",
                self.cpus,
                allowed.len()
            ))),
        }
    }

    fn one_by_one(&self) -> Result<ExitCode, Error> {
        let Overcommit { cpus, seconds, .. } = self;
        let mut rows: Vec<Row> = launching::measure_each(&self.ranks, |ranks| {
            format!("overcommit --cpus {cpus} --seconds {seconds} --ranks {ranks}")
        })?;
        let mut failure = None;
        if self.open_mpi {
            for &ranks in &self.ranks {
                let handover = cpus::pair().ok().map(limits::handover).transpose()?;
                match open_mpi_ring(ranks, self.seconds) {
                    Ok(laps_us) => rows.push(self.row("Open MPI", ranks, &laps_us, handover)),
                    Err(reason) => failure = Some(reason),
                }
            }
        }
        rows.iter().try_for_each(print)?;
        if let Some(reason) = failure {
            say::line(format_args!("Open MPI: not measured: {reason}"))?;
        }
        self.outputs.write(&About::new(None), &(), &rows, &[panel(&rows)])?;
        Ok(ExitCode::SUCCESS)
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let handover = member.handover()?;
        let laps_us = ring(&mut member, Duration::from_secs_f64(self.seconds))?;
        if member.reports() {
            let row = self.row("Taffrail", member.job.size(), &laps_us, handover);
            machine::warn_if_busy(handover.as_ref());
            print(&row)?;
            let rows = [row];
            self.outputs.write(&member.about(handover), &(), &rows, &[panel(&rows)])?;
        }
        member.barrier()
    }

    fn row(&self, transport: &str, ranks: u32, laps_us: &[f64], handover: Option<Handover>) -> Row {
        let hops = f64::from(ranks);
        Row {
            transport: transport.into(),
            ranks,
            cpus: self.cpus,
            hops_a_second: hops * laps_us.len() as f64 / (laps_us.iter().sum::<f64>() / 1e6),
            hop_us: Spread::of(laps_us).scaled(1.0 / hops),
            longest_lap_us: laps_us.iter().copied().fold(0.0, f64::max),
            handover_ns: handover.map(|handover| handover.ns),
        }
    }
}

/// Passes the token round; on rank 0, the time of each lap in microseconds.
fn ring(member: &mut Member, run: Duration) -> Result<Vec<f64>, Error> {
    let (rank, size) = (member.job.rank(), member.job.size());
    let next = Dest::new((rank + 1) % size, DATA);
    let previous = Pattern::new((rank + size - 1) % size, DATA);
    let endpoint = &mut member.endpoint;
    let mut more = 1_u64.to_le_bytes();
    if rank != 0 {
        while more != [0; 8] {
            endpoint.recv(previous, &mut more)?;
            endpoint.send(next, &more)?;
        }
        return Ok(Vec::new());
    }
    let mut laps_us = Vec::new();
    let begin = Instant::now();
    let mut before = begin;
    while before - begin < WARM_UP + run {
        endpoint.send(next, &more)?;
        endpoint.recv(previous, &mut more)?;
        let now = Instant::now();
        if now - begin > WARM_UP {
            laps_us.push((now - before).as_secs_f64() * 1e6);
        }
        before = now;
    }
    endpoint.send(next, &[0; 8])?;
    endpoint.recv(previous, &mut more)?;
    Ok(laps_us)
}

fn print(row: &Row) -> Result<(), Error> {
    let Spread { median, p1, p99, .. } = row.hop_us;
    say::line(format_args!(
        "{:9} {:3} ranks on {} CPUs: {:10.0} hops/s, hop {median:.2} us (p1 {p1:.2}, p99 \
         {p99:.2}), longest lap {:.0} us{}",
        row.transport,
        row.ranks,
        row.cpus,
        row.hops_a_second,
        row.longest_lap_us,
        beside(row.handover_ns)
    ))
}

fn panel(rows: &[Row]) -> Panel {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let point = (f64::from(row.ranks), row.hops_a_second);
        match curves.iter_mut().find(|curve| curve.name == row.transport) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name: row.transport.clone(),
                points: vec![point],
                ..Curve::default()
            }),
        }
    }
    Panel {
        title: "A token round a ring of more ranks than CPUs".into(),
        x: Axis::new("ranks", Scale::Log(Unit::Number)),
        y: Axis::new("hops a second", Scale::Log(Unit::Number)),
        curves,
    }
}
