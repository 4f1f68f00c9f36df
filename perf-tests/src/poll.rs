//! The `poll` command: whether peers that say nothing cost anything.

use crate::limits::beside;
use crate::netpipe::{Buffers, Checkpoints, Mode, measure};
use crate::outputs::Outputs;
use crate::pair::{DATA, Pair};
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::provenance::DIVISOR;
use crate::session::{About, Member, Placement, Session};
use crate::stats::Spread;
use crate::{Error, launching, machine, say};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use taffrail::{Dest, Pattern};

/// Bytes of a message.
const SIZE: usize = 8;
/// Messages of one trial.
const MESSAGES: u64 = 100_000 / DIVISOR as u64;

/// Latency of 8 bytes against the number of idle peers
#[derive(Clone, Debug, clap::Args)]
pub struct Poll {
    /// How many ranks have said something once and now sleep
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "0,1,2,4,8,16,32,62")]
    pub idle: Vec<u32>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
}

/// What was measured with one number of idle peers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Idle peers of both ranks that ping-pong.
    pub idle: u32,
    /// Half a round trip, in nanoseconds.
    pub ns: Spread,
    /// One cache line handed over, in nanoseconds, just before.
    pub handover_ns: Option<Spread>,
}

impl Poll {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        let &[idle] = &self.idle[..] else { return self.one_by_one() };
        match Session::start(2 + idle, Placement::Pinned)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    fn one_by_one(&self) -> Result<ExitCode, Error> {
        let rows: Vec<Row> =
            launching::measure_each(&self.idle, |idle| format!("poll --idle {idle}"))?;
        rows.iter().try_for_each(print)?;
        self.outputs.write(&About::new(None), &(), &rows, &[panel(&rows)])?;
        Ok(ExitCode::SUCCESS)
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let idle = member.job.size() - 2;
        greet(&mut member)?;
        let handover = member.handover()?;
        let mut parts = Vec::new();
        if let Some(mut pair) = Pair::of(&mut member.endpoint, 0, 1) {
            let (mut buffers, mut never) = (Buffers::one(SIZE), Checkpoints::every(None));
            let times = measure(&mut pair, Mode::default(), &mut buffers, &mut never, MESSAGES)?;
            parts = times.parts;
        }
        if member.reports() {
            machine::warn_if_busy(handover.as_ref());
            let handover_ns = handover.map(|handover| handover.ns);
            let row = Row { idle, ns: Spread::of(&parts).scaled(1e9), handover_ns };
            print(&row)?;
            let rows = [row];
            self.outputs.write(&member.about(handover), &(), &rows, &[panel(&rows)])?;
        }
        // Here the idle ranks have been waiting all along, without polling.
        Ok(member.job.barrier()?)
    }
}

/// Every idle rank exchanges a few messages with both that will ping-pong, so that they know it.
fn greet(member: &mut Member) -> Result<(), Error> {
    const MESSAGES: u32 = 100;
    let (rank, size) = (member.job.rank(), member.job.size());
    let peers = if rank < 2 { 2..size } else { 0..2 };
    for peer in peers {
        for _ in 0..MESSAGES {
            let (dest, pattern) = (Dest::new(peer, DATA), Pattern::new(peer, DATA));
            member.endpoint.sendrecv(dest, &[0; SIZE], pattern, &mut [0; SIZE])?;
        }
    }
    member.barrier()
}

fn print(row: &Row) -> Result<(), Error> {
    let Spread { median, p1, p99, .. } = row.ns;
    say::line(format_args!(
        "{:4} idle peers: {median:6.0} ns (p1 {p1:.0}, p99 {p99:.0}){}",
        row.idle,
        beside(row.handover_ns)
    ))
}

fn panel(rows: &[Row]) -> Panel {
    let curve = |name: &str, y: fn(&Spread) -> f64| Curve {
        name: name.into(),
        points: rows.iter().map(|row| (f64::from(row.idle), y(&row.ns))).collect(),
        ..Curve::default()
    };
    Panel {
        title: "8 bytes beside idle peers".into(),
        x: Axis::new("idle peers", Scale::FromZero),
        y: Axis::new("half a round trip", Scale::Log(Unit::Ns)),
        curves: vec![curve("median", |ns| ns.median), curve("99th percentile", |ns| ns.p99)],
    }
}
