//! The `determinants` command: an application, and what causal logging sends with its messages.

use crate::app::{self, App};
use crate::outputs::JsonOutput;
use crate::session::{Member, Placement, Session};
use crate::{Error, say};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;
use taffrail::words::counted;
use taffrail::{Counters, collectives};

/// An application: its time, and with --logging causal the determinants that its messages carry, as
/// in table 1 of the fast message-logging paper
#[derive(Clone, Debug, clap::Args)]
pub struct Determinants {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub app: App,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub output: JsonOutput,
}

/// What one run came to: of all ranks together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Which application.
    pub application: String,
    /// Ranks of it.
    pub ranks: u32,
    /// Its size.
    pub size: u32,
    /// Its iterations.
    pub iterations: u32,
    /// Seconds that these took.
    pub seconds: f64,
    /// Messages sent from one rank to another; 0 where logging is not causal.
    pub messages: u64,
    /// Determinants created: events.
    pub created: u64,
    /// Determinants sent with messages.
    pub piggybacked: u64,
    /// Of these for each message.
    pub per_message: f64,
}

impl Determinants {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        if self.app.checkpoint_every > 0 {
            let reason = "--checkpoint-every: causal logging, which makes determinants, has no \
                          checkpoints; leave it out";
            return Err(Error::Usage(reason.into()));
        }
        self.output.outputs().check()?;
        let least = if crate::launching::in_a_job() { 1 } else { self.app.ranks_to_start()? };
        match Session::start_logged(least, Placement::Free, &self.app.failures)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let App { name, .. } = self.app;
        let (size, iterations) = (self.app.size(), self.app.iterations());
        let endpoint = &mut member.endpoint;
        collectives::barrier(endpoint)?;
        let before = endpoint.determinants().unwrap_or_default();
        let begin = Instant::now();
        app::run(name, endpoint, size, iterations, 0, |_| {})?;
        let seconds = begin.elapsed().as_secs_f64();
        let after = endpoint.determinants().unwrap_or_default();
        let mut sums = [
            after.messages - before.messages,
            after.created - before.created,
            after.piggybacked - before.piggybacked,
        ];
        collectives::reduce(endpoint, 0, &mut sums, collectives::sum)?;
        if member.reports() {
            let [messages, created, piggybacked] = sums;
            let all = Counters { messages, created, piggybacked };
            let name = name.to_possible_value().map(|value| value.get_name().to_owned());
            let row = Row {
                application: name.unwrap_or_default(),
                ranks: member.job.size(),
                size,
                iterations,
                seconds,
                messages,
                created,
                piggybacked,
                per_message: all.per_message(),
            };
            say::line(line(&row))?;
            self.output.outputs().write(&member.about(None), &(), &[row], &[])?;
        }
        member.barrier()
    }
}

/// A row in words.
fn line(row: &Row) -> String {
    let Row { application, ranks, size, iterations, seconds, messages, .. } = row;
    let text = format!(
        "{application}, size {size}, {} on {}: {seconds:.3} s",
        counted(*iterations, "iteration"),
        counted(*ranks, "rank")
    );
    if *messages == 0 {
        return text;
    }
    let each = |count: u64| count as f64 / f64::from(row.ranks) / f64::from(row.iterations);
    format!(
        "{text}; for each rank and iteration {:.2} messages, {:.2} determinants created, {:.2} sent: \
         {:.2} with each message",
        each(*messages),
        each(row.created),
        each(row.piggybacked),
        row.per_message
    )
}
