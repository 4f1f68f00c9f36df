//! The `rate` command: how many small messages a second, over one to several pairs.

use crate::limits::beside;
use crate::options;
use crate::outputs::Outputs;
use crate::pair::{DATA, Pair};
use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::session::{About, Member, Placement, Session};
use crate::stats::Spread;
use crate::{Error, launching, machine, say};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;
use taffrail::{Dest, Pattern, Request};
use taffrail_launch::FailureOptions;

/// Tag of the answer to a window.
const ANSWER: u64 = 5;
/// The rate is taken in this many parts of the run, to see how it spreads.
const PARTS: u64 = 50;
/// Windows sent to warm up and to find out how many make a part.
const WARM_UP: u64 = 200;

/// Messages a second: one side sends a window, the other has its receives posted and answers it
#[derive(Clone, Debug, clap::Args)]
pub struct Rate {
    /// The size of a message: bytes, or with a unit (64K, 1M; K is 1024 bytes)
    #[arg(long, value_name = "SIZE", default_value = "8", value_parser = options::size_in::<usize>(0..=1 << 40))]
    pub size: usize,
    /// How many pairs of ranks send at the same time; several numbers are measured one by one
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: Vec<u32>,
    /// Messages sent before an answer is awaited
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub window: u32,
    /// How long to measure, with each number of pairs (2, 500ms, 1m; seconds without a unit)
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = options::seconds)]
    pub seconds: f64,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub outputs: Outputs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub failures: FailureOptions,
}

/// What was measured with one number of pairs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Pairs sending at the same time.
    pub pairs: u32,
    /// Bytes of a message.
    pub size: usize,
    /// Messages before an answer.
    pub window: u32,
    /// Millions of messages a second, of all pairs together, over parts of the run.
    pub million_a_second: Spread,
    /// The same over the whole run.
    pub mean_million_a_second: f64,
    /// One cache line handed over, in nanoseconds, just before.
    pub handover_ns: Option<Spread>,
}

impl Rate {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        self.outputs.check()?;
        let &[pairs] = &self.pairs[..] else { return self.one_by_one() };
        match Session::start_logged(2 * pairs, Placement::Pinned, &self.failures)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member, pairs).map(|()| ExitCode::SUCCESS),
        }
    }

    fn one_by_one(&self) -> Result<ExitCode, Error> {
        if self.failures.log() {
            let reason = "--logging goes with one number of --pairs";
            return Err(Error::Usage(reason.into()));
        }
        let Rate { size, window, seconds, .. } = self;
        let rows: Vec<Row> = launching::measure_each(&self.pairs, |pairs| {
            format!("rate --size {size} --window {window} --seconds {seconds} --pairs {pairs}")
        })?;
        rows.iter().try_for_each(print)?;
        self.outputs.write(&About::new(None), &(), &rows, &[panel(&rows)])?;
        Ok(ExitCode::SUCCESS)
    }

    fn be_a_rank(&self, mut member: Member, pairs: u32) -> Result<(), Error> {
        let handover = member.handover()?;
        let first = member.job.rank() / 2 * 2;
        member.barrier()?;
        let mut rates = Vec::new();
        if first < 2 * pairs
            && let Some(mut pair) = Pair::of(&mut member.endpoint, first, first + 1)
        {
            let mut windows = Windows::new(&mut pair, self.size, self.window as usize);
            let warm_up = windows.part(WARM_UP)?;
            let part = self.seconds / PARTS as f64 / (warm_up / WARM_UP as f64);
            let repetitions = windows.pair.agree(part.ceil().max(1.0))? as u64;
            let messages = (repetitions * u64::from(self.window)) as f64;
            for _ in 0..PARTS {
                rates.push(messages / windows.part(repetitions)? / 1e6);
            }
        }
        if member.reports() {
            let rates = add_up(&mut member, pairs, rates)?;
            // All parts have the same number of messages.
            let mean = rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
            let row = Row {
                pairs,
                size: self.size,
                window: self.window,
                million_a_second: Spread::of(&rates),
                mean_million_a_second: mean,
                handover_ns: handover.map(|handover| handover.ns),
            };
            machine::warn_if_busy(handover.as_ref());
            print(&row)?;
            let rows = [row];
            self.outputs.write(&member.about(handover), &(), &rows, &[panel(&rows)])?;
        } else if first == member.job.rank() && first < 2 * pairs {
            let Member { endpoint, .. } = &mut member;
            if let Some(mut to_zero) = Pair::of(endpoint, first, 0) {
                to_zero.tell(&rates)?;
            }
        }
        member.barrier()
    }
}

/// The rates of all pairs, part by part. On rank 0.
fn add_up(member: &mut Member, pairs: u32, mut rates: Vec<f64>) -> Result<Vec<f64>, Error> {
    for sender in (1..pairs).map(|pair| 2 * pair) {
        if let Some(mut from_sender) = Pair::of(&mut member.endpoint, 0, sender) {
            let theirs = from_sender.hear(rates.len())?;
            rates.iter_mut().zip(theirs).for_each(|(sum, rate)| *sum += rate);
        }
    }
    Ok(rates)
}

/// The transmitter sends windows of messages, the receiver has receives posted for them.
struct Windows<'w, 'e> {
    pair: &'w mut Pair<'e>,
    size: usize,
    /// One piece of memory for each message of a window.
    memory: Vec<u8>,
    under_way: Vec<Request>,
    window: usize,
}

impl<'w, 'e> Windows<'w, 'e> {
    fn new(pair: &'w mut Pair<'e>, size: usize, window: usize) -> Self {
        let memory = vec![b'a'; size * window];
        Windows { pair, size, memory, under_way: Vec::with_capacity(window), window }
    }

    /// Exchanges `repetitions` windows; how many seconds it took.
    fn part(&mut self, repetitions: u64) -> Result<f64, Error> {
        self.pair.meet()?;
        let start = Instant::now();
        for _ in 0..repetitions {
            self.window()?;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn window(&mut self) -> Result<(), Error> {
        let peer = self.pair.peer;
        if self.pair.transmits() {
            self.start(|endpoint, start, size| {
                // SAFETY: `self.memory` is only freed after `finish` or `drop` waited.
                unsafe { endpoint.isend_raw(Dest::new(peer, DATA), start, size) }
            })?;
            self.finish()?;
            self.pair.endpoint.recv(Pattern::new(peer, ANSWER), &mut [])?;
        } else {
            self.start(|endpoint, start, size| {
                // SAFETY: as above, and no reference to the memory is made in between.
                unsafe { endpoint.irecv_raw(Pattern::new(peer, DATA), start, size) }
            })?;
            self.finish()?;
            self.pair.endpoint.send(Dest::new(peer, ANSWER), &[])?;
        }
        Ok(())
    }

    fn start(
        &mut self,
        operation: impl Fn(&mut taffrail::Endpoint, *mut u8, usize) -> Result<Request, taffrail::Error>,
    ) -> Result<(), Error> {
        let start = self.memory.as_mut_ptr();
        for message in 0..self.window {
            let place = start.wrapping_add(message * self.size);
            self.under_way.push(operation(self.pair.endpoint, place, self.size)?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        for request in self.under_way.drain(..) {
            self.pair.endpoint.wait(request)?;
        }
        Ok(())
    }
}

impl Drop for Windows<'_, '_> {
    fn drop(&mut self) {
        // Only after an error: nothing may be under way when the memory goes.
        for request in std::mem::take(&mut self.under_way) {
            if !matches!(self.pair.endpoint.cancel(request), Ok(true)) {
                let _ = self.pair.endpoint.wait(request);
            }
        }
    }
}

fn print(row: &Row) -> Result<(), Error> {
    let Spread { median, p1, p99, .. } = row.million_a_second;
    say::line(format_args!(
        "{:3} pairs, {} bytes, window {}: {median:8.2} million messages/s (p1 {p1:.2}, p99 \
         {p99:.2}){}",
        row.pairs,
        row.size,
        row.window,
        beside(row.handover_ns)
    ))
}

fn panel(rows: &[Row]) -> Panel {
    let points = rows.iter().map(|row| (f64::from(row.pairs), row.million_a_second.median * 1e6));
    Panel {
        title: "Messages a second".into(),
        x: Axis::new("pairs sending", Scale::Log(Unit::Number)),
        y: Axis::new("messages a second", Scale::Log(Unit::Number)),
        curves: vec![Curve {
            name: "Taffrail".into(),
            points: points.collect(),
            ..Curve::default()
        }],
    }
}
