//! The `match` command: what a message costs behind many others.

use crate::limits::beside;
use crate::outputs::Outputs;
use crate::pair::{DATA, Pair};
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::session::{Member, Placement, Session};
use crate::stats::Spread;
use crate::{Error, machine, progress, say};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;
use taffrail::{Dest, Pattern, Request};

/// Tags from here on belong to the messages and receives that only stand in the way.
const IN_THE_WAY: u64 = 1 << 32;
/// Bytes of a message.
const SIZE: usize = 8;
/// Ping-pongs of a depth: parts of so many each.
const PARTS: usize = 40;
const PART: usize = 250;

/// Cost of a message against the number of posted receives or unexpected messages
#[derive(Clone, Debug, clap::Args)]
pub struct Match {
    /// How many receives or messages are in the way
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "0,1,10,100,1000,10000"
    )]
    pub depths: Vec<usize>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
}

/// What stands in the way on both sides while two ranks ping-pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    /// Receives with other tags, all of a named source; the one that matches is posted last.
    NamedReceives,
    /// The same from any source, as is the receive that matches.
    AnySourceReceives,
    /// Messages that arrived and that no receive takes.
    UnexpectedMessages,
}

/// What was measured at one depth.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What was in the way.
    pub obstacle: Obstacle,
    /// How many of them.
    pub depth: usize,
    /// Half a round trip of 8 bytes, in nanoseconds.
    pub ns: Spread,
    /// One cache line handed over, in nanoseconds, just before.
    pub handover_ns: Option<Spread>,
}

impl Match {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        match Session::start(2, Placement::Pinned)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let handover = member.handover()?;
        let reports = member.reports();
        let bar = progress::over(reports, 3 * self.depths.len() as u64);
        if reports {
            machine::announce(handover.as_ref())?;
        }
        let mut rows: Vec<Row> = Vec::new();
        for obstacle in
            [Obstacle::NamedReceives, Obstacle::AnySourceReceives, Obstacle::UnexpectedMessages]
        {
            for &depth in &self.depths {
                let handover_ns = member.handover()?.map(|handover| handover.ns);
                bar.step(format!("{depth} in the way"));
                let Some(mut pair) = Pair::of(&mut member.endpoint, 0, 1) else { continue };
                let ns = measure(&mut pair, obstacle, depth)?;
                let row = Row { obstacle, depth, ns, handover_ns };
                if reports {
                    bar.print(|| print(&row))?;
                }
                rows.push(row);
            }
        }
        drop(bar);
        if reports {
            self.outputs.write(&member.about(handover), &(), &rows, &[panel(&rows)])?;
        }
        member.barrier()
    }
}

fn measure(pair: &mut Pair<'_>, obstacle: Obstacle, depth: usize) -> Result<Spread, Error> {
    let mut way = InTheWay { pair, memory: vec![0; depth * SIZE], receives: Vec::new() };
    match obstacle {
        Obstacle::UnexpectedMessages => way.send_messages(depth)?,
        _ => way.post_receives(obstacle, depth)?,
    }
    let pattern = match obstacle {
        Obstacle::AnySourceReceives => Pattern::any_source(DATA),
        _ => Pattern::new(way.pair.peer, DATA),
    };
    let seconds = ping_pongs(way.pair, pattern)?;
    way.pair.meet()?;
    match obstacle {
        Obstacle::UnexpectedMessages => way.receive_messages(depth)?,
        _ => way.withdraw_receives(),
    }
    Ok(Spread::of(&seconds).scaled(1e9))
}

/// Seconds of half a round trip, part by part.
fn ping_pongs(pair: &mut Pair<'_>, pattern: Pattern) -> Result<Vec<f64>, Error> {
    let dest = Dest::new(pair.peer, DATA);
    let mut message = [0; SIZE];
    let mut seconds = Vec::with_capacity(PARTS);
    pair.meet()?;
    // The first part warms up.
    for part in 0..=PARTS {
        let start = Instant::now();
        for _ in 0..PART {
            if pair.transmits() {
                pair.endpoint.send(dest, &message)?;
            }
            pair.endpoint.recv(pattern, &mut message)?;
            if !pair.transmits() {
                pair.endpoint.send(dest, &message)?;
            }
        }
        if part > 0 {
            seconds.push(start.elapsed().as_secs_f64() / (2 * PART) as f64);
        }
    }
    Ok(seconds)
}

/// The receives or messages in the way, and the memory they need.
struct InTheWay<'w, 'e> {
    pair: &'w mut Pair<'e>,
    memory: Vec<u8>,
    receives: Vec<Request>,
}

impl InTheWay<'_, '_> {
    fn post_receives(&mut self, obstacle: Obstacle, depth: usize) -> Result<(), Error> {
        let start = self.memory.as_mut_ptr();
        for number in 0..depth {
            let tag = IN_THE_WAY + number as u64;
            let pattern = match obstacle {
                Obstacle::AnySourceReceives => Pattern::any_source(tag),
                _ => Pattern::new(self.pair.peer, tag),
            };
            let place = start.wrapping_add(number * SIZE);
            // SAFETY: `self.memory` has room for `depth` messages and is freed after `drop` has
            // withdrawn the receives; nothing refers to it in between.
            self.receives.push(unsafe { self.pair.endpoint.irecv_raw(pattern, place, SIZE)? });
        }
        Ok(())
    }

    fn withdraw_receives(&mut self) {
        for request in std::mem::take(&mut self.receives) {
            let _ = self.pair.endpoint.cancel(request);
            // A withdrawn receive ends with an error that says so.
            let _ = self.pair.endpoint.wait(request);
        }
    }

    /// Both sides send, and take in what the other sent until they meet.
    fn send_messages(&mut self, depth: usize) -> Result<(), Error> {
        for number in 0..depth {
            let dest = Dest::new(self.pair.peer, IN_THE_WAY + number as u64);
            self.pair.endpoint.send(dest, &[0; SIZE])?;
            self.pair.endpoint.progress();
        }
        self.pair.meet()
    }

    fn receive_messages(&mut self, depth: usize) -> Result<(), Error> {
        for number in 0..depth {
            let pattern = Pattern::new(self.pair.peer, IN_THE_WAY + number as u64);
            self.pair.endpoint.recv(pattern, &mut [0; SIZE])?;
        }
        Ok(())
    }
}

impl Drop for InTheWay<'_, '_> {
    fn drop(&mut self) {
        self.withdraw_receives();
    }
}

fn print(row: &Row) -> Result<(), Error> {
    let what = match row.obstacle {
        Obstacle::NamedReceives => "named receives",
        Obstacle::AnySourceReceives => "any-source receives",
        Obstacle::UnexpectedMessages => "unexpected messages",
    };
    let Spread { median, p1, p99, .. } = row.ns;
    say::line(format_args!(
        "behind {:6} {what:20} {median:8.0} ns (p1 {p1:.0}, p99 {p99:.0}){}",
        row.depth,
        beside(row.handover_ns)
    ))
}

fn panel(rows: &[Row]) -> Panel {
    let curve = |name: &str, obstacle| Curve {
        name: name.into(),
        points: rows
            .iter()
            .filter(|row| row.obstacle == obstacle)
            .map(|row| (row.depth as f64, row.ns.median))
            .collect(),
        ..Curve::default()
    };
    Panel {
        title: "8 bytes behind others".into(),
        x: Axis::new("receives or messages in the way", Scale::FromZero),
        y: Axis::new("half a round trip", Scale::Log(Unit::Ns)),
        curves: vec![
            curve("receives of a named source", Obstacle::NamedReceives),
            curve("receives from any source", Obstacle::AnySourceReceives),
            curve("unexpected messages", Obstacle::UnexpectedMessages),
        ],
    }
}
