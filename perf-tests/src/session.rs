//! Starting the ranks of a measurement, and being one of them.

use crate::limits::{self, Handover};
use crate::stats::Spread;
use crate::{Error, cpus, launching};
use serde::Serialize;
use std::process::ExitCode;
use taffrail::{Dest, Endpoint, Job, Pattern};

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
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Version of `taffrail-perf`.
    pub version: &'static str,
    /// The machine's name.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// Seconds since 1970.
    pub time: u64,
    /// One cache line between the CPUs of ranks 0 and 1, in nanoseconds; measured in the same run.
    pub handover_ns: Option<Spread>,
    /// What the endpoint uses for each peer.
    pub explain: Option<String>,
}

impl Session {
    /// Joins the job this process was started in; without one, starts this very command as
    /// `ranks` ranks of a job, and waits for them.
    pub fn start(ranks: u32, placement: Placement) -> Result<Session, Error> {
        if !launching::in_a_job() {
            return Ok(Session::Done(launching::this_command(ranks)?));
        }
        let mut job = Job::from_env()?;
        if job.size() < ranks {
            return Err(Error::JobSize { needs: ranks.to_string(), got: job.size() });
        }
        let cpu = match placement {
            Placement::Pinned => Some(cpus::pin_rank(job.rank())?),
            Placement::Free => None,
        };
        let endpoint = job.endpoint()?;
        Ok(Session::Rank(Box::new(Member { job, endpoint, cpu })))
    }
}

impl Member {
    /// Whether this rank prints and writes the results.
    pub fn reports(&self) -> bool {
        self.job.rank() == 0
    }

    /// The handover of one cache line between the CPUs of ranks 0 and 1, measured on rank 0 while
    /// all others wait without spinning. Collective; `None` on the others, and if the two are not
    /// pinned to CPUs of their own.
    pub fn handover(&mut self) -> Result<Option<Handover>, Error> {
        let mut measured = None;
        let none = u64::MAX;
        let own = self.cpu.map_or(none, |cpu| cpu as u64);
        match self.job.rank() {
            0 => {
                let mut word = [0; 8];
                self.endpoint.recv(Pattern::new(1, CPU), &mut word)?;
                let other = u64::from_le_bytes(word);
                if own != none && other != none && own != other {
                    measured = Some(limits::handover((own as usize, other as usize))?);
                }
            }
            1 => self.endpoint.send(Dest::new(0, CPU), &own.to_le_bytes())?,
            _ => {}
        }
        self.job.barrier()?;
        Ok(measured)
    }

    /// What is written beside the figures.
    pub fn about(&self, handover: Option<Handover>) -> About {
        About { explain: Some(self.endpoint.explain()), ..About::new(handover) }
    }
}

impl About {
    /// This command, on this machine, now.
    pub fn new(handover: Option<Handover>) -> About {
        let uname = rustix::system::uname();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        About {
            command: std::env::args().collect(),
            version: env!("CARGO_PKG_VERSION"),
            host: uname.nodename().to_string_lossy().into_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
            time: now.map_or(0, |since| since.as_secs()),
            handover_ns: handover.map(|handover| handover.ns),
            explain: None,
        }
    }
}
