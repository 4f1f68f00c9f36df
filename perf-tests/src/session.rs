//! Starting the ranks of a measurement, and being one of them.

use crate::limits::{self, Handover};
use crate::machine;
use crate::pair::Pair;
use crate::provenance::Provenance;
use crate::stats::Spread;
use crate::whereabouts::{Between, Network, Spot};
use crate::{Error, cpus, launching, say};
use serde::Serialize;
use std::process::ExitCode;
use taffrail::{Endpoint, Job, Settings};
use taffrail_launch::{FailureOptions, NodeOptions};

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
    /// Where ranks 0 and 1 are, after [`handover`](Self::handover).
    pub network: Option<Network>,
}

/// What figures were measured with; written beside them.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// The command, the build, the machine and the moment.
    #[serde(flatten)]
    pub from: Provenance,
    /// One cache line between the CPUs of ranks 0 and 1, in nanoseconds; measured in the same run.
    pub handover_ns: Option<Spread>,
    /// Where the two ranks were, and what was between them.
    pub network: Option<Network>,
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
        Session::start_on(ranks, placement, failures, &NodeOptions::default())
    }

    /// As [`start_logged`](Self::start_logged); where hosts are named, ranks are started there.
    pub fn start_on(
        ranks: u32,
        placement: Placement,
        failures: &FailureOptions,
        nodes: &NodeOptions,
    ) -> Result<Session, Error> {
        if !launching::in_a_job() {
            return Ok(Session::Done(launching::this_command(ranks, failures, nodes, &[])?));
        }
        Session::join(ranks, placement, Settings::from_env()?)
    }

    /// As [`start_logged`](Self::start_logged), of two ranks that are on two different hosts if any are named.
    pub fn start_pair(failures: &FailureOptions, nodes: &NodeOptions) -> Result<Session, Error> {
        let nodes = match launching::in_a_job() {
            true => nodes.clone(),
            false => launching::one_rank_each(nodes)?,
        };
        Session::start_on(2, Placement::Pinned, failures, &nodes)
    }

    /// As [`start`](Self::start), with settings of its own.
    pub fn start_with(
        ranks: u32,
        placement: Placement,
        settings: Settings,
    ) -> Result<Session, Error> {
        if !launching::in_a_job() {
            let code =
                launching::this_command(ranks, &Default::default(), &Default::default(), &[])?;
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
        Ok(Session::Rank(Box::new(Member { job, endpoint, cpu, network: None })))
    }
}

impl Member {
    /// Whether this rank prints and writes the results.
    pub fn reports(&self) -> bool {
        self.job.rank() == 0
    }

    /// The handover of one cache line between the CPUs of ranks 0 and 1, or if they are not pinned
    /// between the first two CPUs allowed; measured on rank 0 while all others wait without
    /// spinning. Collective; `None` on the others, if there is only one CPU, and between two machines.
    pub fn handover(&mut self) -> Result<Option<Handover>, Error> {
        let mut measured = None;
        self.barrier()?;
        if self.network.is_none() {
            let spots = self.job.exchange("spot", &Spot::here(self.cpu).to_text())?;
            let spot = |rank: usize| spots.get(rank).map(|text| Spot::from_text(text));
            let two = spot(0).zip(spot(1));
            self.network = two.map(|(first, second)| Network::between(&first, &second));
        }
        if let (0, Some(network)) = (self.job.rank(), &self.network) {
            let pinned = network.cpus.iter().all(Option::is_some);
            let between = match pinned || network.between == Between::Network {
                true => network.pair(),
                false => cpus::pair().ok(),
            };
            measured = between.map(limits::handover).transpose()?;
        }
        self.barrier()?;
        Ok(measured)
    }

    /// Waits until every rank is here. A message that has to wait for its event or for a connection leaves meanwhile.
    pub fn barrier(&mut self) -> Result<(), Error> {
        Ok(self.job.barrier_with(&mut self.endpoint)?)
    }

    /// Prints where the two ranks are, if that is not one node, and the handover between them; warns if the machine is
    /// busy.
    pub fn announce(&self, handover: Option<&Handover>) -> Result<(), Error> {
        if let Some(network) =
            self.network.as_ref().filter(|at| at.between != Between::SharedMemory)
        {
            say::line(network)?;
        }
        machine::announce(handover)
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
        About {
            explain: Some(self.endpoint.explain()),
            network: self.network.clone(),
            ..About::new(handover)
        }
    }
}

impl About {
    /// This command, on this machine, now.
    pub fn new(handover: Option<Handover>) -> About {
        About {
            from: Provenance { busy: machine::busy(handover.as_ref()), ..Provenance::here() },
            handover_ns: handover.map(|handover| handover.ns),
            network: None,
            explain: None,
        }
    }
}
