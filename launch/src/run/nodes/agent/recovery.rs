//! What an agent keeps of ranks whose messages are logged: their events, their logs, their checkpoints.

use super::Source;
use super::Watched;
use super::job::Job;
use crate::run::Failure;
use crate::run::failures::Logged;
use crate::run::nodes::{index, logging};
use crate::run::rank_files::{SPILL, spill_folder_of};
use crate::run::ranks::RankEnv;
use crate::run::recovery::Recovery;
use rustix::event::PollFlags;
use rustix::process::Pid;
use std::collections::BTreeMap;
use taffrail_agent::RankIncarnation;
use taffrail_agent::agent::Event;
use taffrail_agent::roster::job_digest;
use taffrail_agent::wire::{Frame, LeftBehind, Logging};

/// The logs of the ranks of a node.
#[derive(Default)]
pub struct NodeLogs {
    /// As the launcher has said. The logger is started with the first rank: then it is known which ranks are here.
    logging: Option<Logging>,
    kept: Option<Recovery>,
    /// Ranks that have left, as the launcher knows.
    left: BTreeMap<u32, RankIncarnation>,
}

impl NodeLogs {
    pub fn log(&mut self, logging: Logging) {
        self.logging = Some(logging);
    }

    /// Whether messages are logged.
    pub fn are_kept(&self) -> bool {
        self.logging.is_some()
    }

    /// Where loggers have something to say.
    pub fn watch<'a>(&'a self, watched: &mut Watched<'a>) {
        let sockets = self.kept.iter().flat_map(|kept| kept.logger.sockets());
        watched.extend(sockets.map(|fd| (Source::Logger, fd, PollFlags::IN)));
    }

    /// The processes of loggers.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.kept.iter().flat_map(|kept| kept.logger.pids())
    }

    /// The ranks among these that are done with all others, if the launcher does not know that.
    fn left(&mut self, lives: &[RankIncarnation]) -> Result<Vec<Event>, Failure> {
        let Some(kept) = &self.kept else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        for &life in lives {
            if let Some(known) = kept.logger.left(index(life))?
                && self.left.insert(life.rank, life) != Some(life)
            {
                events.push(Event::Say(Frame::Left { life, known }));
            }
        }
        Ok(events)
    }
}

fn failed(failure: Failure) -> Event {
    Event::Say(Frame::Failed { status: failure.status.into(), why: failure.why })
}

impl Job {
    /// Of ranks whose ends are about to be reported: those that have left before.
    pub fn left(&mut self, lives: &[RankIncarnation]) -> Vec<Event> {
        self.logs.left(lives).unwrap_or_else(|failure| vec![failed(failure)])
    }

    /// A logger has said something, or is gone.
    pub fn check_logger(&mut self) -> Option<Event> {
        self.logs.kept.as_mut()?.logger.look(&self.guard).err().map(failed)
    }

    /// The processes of loggers end with the job, and not by its guard.
    pub fn forget_loggers(&self) {
        if let Some(kept) = &self.logs.kept {
            kept.logger.forget(&self.guard);
        }
    }

    /// What a rank that has ended leaves for its next incarnation.
    pub fn recover(&mut self, life: RankIncarnation) -> Event {
        match self.try_to_recover(index(life)) {
            Ok(left) => Event::Recovered { life, left },
            Err(failure) => failed(failure),
        }
    }

    fn try_to_recover(&mut self, rank: usize) -> Result<LeftBehind, Failure> {
        let unknown = || Failure::new(format!("rank {rank} was not started on this node"));
        let kept = self.logs.kept.as_mut().ok_or_else(unknown)?;
        kept.recover(rank, &self.guard)
    }

    /// What a rank is given so that it logs, and its events to replay.
    pub fn log_env(
        &mut self,
        life: RankIncarnation,
        app: u32,
        generations: &[u32],
    ) -> Result<RankEnv, Failure> {
        let Some(logging) = &self.logs.logging else { return Ok(RankEnv::default()) };
        if self.logs.kept.is_none() {
            let logged = logging::of_wire(logging);
            self.logs.kept = Some(self.keep(logged, app)?);
        }
        let Some(kept) = &mut self.logs.kept else { return Ok(RankEnv::default()) };
        let rank = index(life);
        let replay = kept.take_replay(rank);
        kept.env(rank, life.incarnation.0, replay, generations.iter().copied())
    }

    /// Makes what outlives the processes of the ranks of this node.
    fn keep(&self, logged: Logged, app: u32) -> Result<Recovery, Failure> {
        let here = (0..).zip(&self.nodes).filter(|(_, node)| **node == self.about.node);
        let ranks: Vec<u32> = here.map(|(rank, _)| rank).collect();
        let variables = self.programs.get(&app).map(|program| &program.variables[..]);
        let mut variables = variables.unwrap_or_default().iter().rev();
        let spill = variables.find(|(name, _)| name == SPILL).map(|(_, folder)| folder.clone());
        let spill = spill_folder_of(spill);
        let job = job_digest(&self.about.name);
        Recovery::new(logged, &ranks, job, (&spill, None), &self.guard)
    }
}
