//! Starting the ranks of a measurement, and being one of them.

use crate::limits::{self, Handover};
use crate::machine;
use crate::pair::Pair;
use crate::provenance::Provenance;
use crate::stats::Spread;
use crate::{Error, cpus, launching};
use serde::Serialize;
use std::process::ExitCode;
use taffrail::{Dest, Endpoint, Job, Pattern, Settings};
use taffrail_launch::FailureOptions;

/// Tag of the message with a rank's CPU.
const CPU: u64 = 4;

/// Where ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each on a CPU of its own, as far as they go.
    Pinned,
    /// Wherever the system puts them among the CPUs allowed.
    Free,
}

/// This process's part of a measurement.
pub enum Session {
    /// It started the ranks, and they have ended.
    Done(ExitCode),
    /// It is one of them.
    Rank(Box<Member>),
}

/// A rank of a measurement.
pub struct Member {
    /// Its job.
    pub job: Job,
    /// Its endpoint, collectively opened.
    pub endpoint: Endpoint,
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
}

/// What figures were measured with; written beside them.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// The command, the build, the machine and the moment.
    #[serde(flatten)]
    pub from: Provenance,
    /// One cache line between the CPUs of ranks 0 and 1, in nanoseconds; measured in the same run.
    pub handover_ns: Option<Spread>,
    /// What the endpoint uses for each peer.
    pub explain: Option<String>,
}

impl Session {
    /// Joins the job this process was started in; without one, starts this very command as
    /// `ranks` ranks of a job, and waits for them.
    pub fn start(ranks: u32, placement: Placement) -> Result<Session, Error> {
        Session::start_logged(ranks, placement, &FailureOptions::default())
    }

    /// As [`start`](Self::start); if it starts ranks, this is what is done about those that fail.
    pub fn start_logged(
        ranks: u32,
        placement: Placement,
        failures: &FailureOptions,
    ) -> Result<Session, Error> {
        if !launching::in_a_job() {
            return Ok(Session::Done(launching::this_command(ranks, failures, &[])?));
        }
        Session::join(ranks, placement, Settings::from_env()?)
    }

    /// As [`start`](Self::start), with settings of its own.
    pub fn start_with(
        ranks: u32,
        placement: Placement,
        settings: Settings,
    ) -> Result<Session, Error> {
        if !launching::in_a_job() {
            let code = launching::this_command(ranks, &FailureOptions::default(), &[])?;
            return Ok(Session::Done(code));
        }
        Session::join(ranks, placement, settings)
    }

    fn join(ranks: u32, placement: Placement, settings: Settings) -> Result<Session, Error> {
        let mut job = Job::from_env()?;
        if job.size() < ranks {
            return Err(Error::JobSize { needs: ranks.to_string(), got: job.size() });
        }
        let cpu = match placement {
            Placement::Pinned => Some(cpus::pin_rank(job.rank())?),
            Placement::Free => None,
        };
        let endpoint = job.endpoint_with(settings)?;
        Ok(Session::Rank(Box::new(Member { job, endpoint, cpu })))
    }
}

impl Member {
    /// Whether this rank prints and writes the results.
    pub fn reports(&self) -> bool {
        self.job.rank() == 0
    }

    /// The handover of one cache line between the CPUs of ranks 0 and 1, or if they are not pinned
    /// between the first two CPUs allowed; measured on rank 0 while all others wait without
    /// spinning. Collective; `None` on the others, and if there is only one CPU.
    pub fn handover(&mut self) -> Result<Option<Handover>, Error> {
        let mut measured = None;
        let none = u64::MAX;
        let own = self.cpu.map_or(none, |cpu| cpu as u64);
        match self.job.rank() {
            0 => {
                let mut word = [0; 8];
                self.endpoint.recv(Pattern::new(1, CPU), &mut word)?;
                let other = u64::from_le_bytes(word);
                let between = match own == none || other == none {
                    true => cpus::pair().ok(),
                    false => (own != other).then_some((own as usize, other as usize)),
                };
                measured = between.map(limits::handover).transpose()?;
            }
            1 => self.endpoint.send(Dest::new(0, CPU), &own.to_le_bytes())?,
            _ => {}
        }
        self.job.barrier()?;
        Ok(measured)
    }

    /// A number of rank 0's that rank 1 goes by too.
    pub fn agree(&mut self, number: usize) -> Result<usize, Error> {
        match Pair::of(&mut self.endpoint, 0, 1) {
            Some(mut pair) => Ok(pair.agree(number as f64)? as usize),
            None => Ok(number),
        }
    }

    /// What is written beside the figures.
    pub fn about(&self, handover: Option<Handover>) -> About {
        About { explain: Some(self.endpoint.explain()), ..About::new(handover) }
    }
}

impl About {
    /// This command, on this machine, now.
    pub fn new(handover: Option<Handover>) -> About {
        About {
            from: Provenance { busy: machine::busy(handover.as_ref()), ..Provenance::here() },
            handover_ns: handover.map(|handover| handover.ns),
            explain: None,
        }
    }
}
