//! The job: who takes part, and how addresses are exchanged at the start.

use crate::{Endpoint, Error, Settings};

/// A process's membership of a job.
pub struct Job {}

impl Job {
    /// Joins the job that the launcher described in the environment (PMI-1); without a launcher,
    /// a job of one rank.
    pub fn from_env() -> Result<Job, Error> {
        todo!()
    }
    /// A job of `n` ranks inside this process, one for each thread that takes one.
    pub fn local(_n: u32) -> Vec<Job> {
        todo!()
    }
    /// This process's rank.
    pub fn rank(&self) -> u32 {
        todo!()
    }
    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        todo!()
    }
    /// Opens an endpoint. Collective: every rank opens its endpoints in the same order.
    pub fn endpoint(&mut self) -> Result<Endpoint, Error> {
        self.endpoint_with(Settings::from_env()?)
    }
    /// As `endpoint`, with settings.
    pub fn endpoint_with(&mut self, _settings: Settings) -> Result<Endpoint, Error> {
        todo!()
    }
    /// Waits until every rank is here.
    pub fn barrier(&mut self) -> Result<(), Error> {
        todo!()
    }
}
