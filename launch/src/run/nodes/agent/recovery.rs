//! What an agent keeps of ranks whose messages are logged: their events, their logs, their checkpoints.

use super::Source;
use super::Watched;
use super::copies::Copies;
use super::job::Job;
use crate::eventlog::{CopyNews, Download, Elsewhere};
use crate::run::failures::Logged;
use crate::run::logger::Beyond;
use crate::run::nodes::{index, logging};
use crate::run::rank_files::{SPILL, spill_folder_of};
use crate::run::ranks::RankEnv;
use crate::run::recovery::Recovery;
use crate::run::{Failure, in_words};
use rustix::event::PollFlags;
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use taffrail_agent::RankIncarnation;
use taffrail_agent::agent::Event;
use taffrail_agent::roster::job_digest;
use taffrail_agent::wire::{Frame, LeftBehind, Logging};

/// It is looked for checkpoints as often as this.
const CHECKPOINTS: Duration = Duration::from_millis(200);

/// The logs of the ranks of a node.
#[derive(Default)]
pub struct NodeLogs {
    /// As the launcher has said. The logger is started with the first rank: then it is known which ranks are here.
    logging: Option<Logging>,
    /// Those of the ranks that began here, and, of each set that was moved here, its own.
    kept: Vec<Recovery>,
    /// Ranks of lost nodes that are about to be started here: their next incarnations, and their events.
    moved: BTreeMap<u32, (u32, Download)>,
    /// What concerns other nodes.
    pub(super) copies: Copies,
    /// Ranks that have left, as the launcher knows.
    left: BTreeMap<u32, RankIncarnation>,
    /// Ranks that have taken checkpoints, as the launcher knows.
    with_checkpoint: BTreeSet<u32>,
    /// When it is looked for others.
    look_at: Option<Instant>,
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
        let store = self.copies.store.iter().filter_map(|store| store.socket());
        watched.extend(store.map(|fd| (Source::CopyStore, fd, PollFlags::IN)));
    }

    /// The processes of loggers and of the copy store.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        let store = self.copies.store.iter().map(|store| store.pid());
        self.kept.iter().flat_map(|kept| kept.logger.pids()).chain(store)
    }

    /// When it is to be looked for checkpoints: ranks write them without a word.
    pub fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// Ranks among these that have taken their first checkpoint since the last look.
    pub fn new_checkpoints(&mut self, lives: impl Iterator<Item = RankIncarnation>) -> Vec<Event> {
        let now = Instant::now();
        if self.copies.store.is_none() || self.look_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        self.look_at = Some(now + CHECKPOINTS);
        let mut events = Vec::new();
        for life in
            lives.filter(|life| !self.with_checkpoint.contains(&life.rank)).collect::<Vec<_>>()
        {
            let last = self.of(index(life)).and_then(|kept| kept.last_checkpoint(index(life)));
            if let Some(number) = last {
                self.with_checkpoint.insert(life.rank);
                events.push(Event::Say(Frame::Checkpoint { life, number }));
            }
        }
        events
    }

    /// The ranks that share memory with this one: those that began here do, those that came later share it with nobody.
    pub fn near(&self, rank: usize) -> Option<Vec<usize>> {
        let kept = self.of(rank)?;
        Some(if kept.began_elsewhere { vec![rank] } else { kept.ranks.clone() })
    }

    fn of(&self, rank: usize) -> Option<&Recovery> {
        self.kept.iter().find(|kept| kept.ranks.contains(&rank))
    }

    fn of_mut(&mut self, rank: usize) -> Option<&mut Recovery> {
        self.kept.iter_mut().find(|kept| kept.ranks.contains(&rank))
    }

    /// The ranks among these that are done with all others, if the launcher does not know that.
    fn left(&mut self, lives: &[RankIncarnation]) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        for &life in lives {
            let Some(kept) = self.of(index(life)) else { continue };
            if let Some(known) = kept.logger.left(index(life))?
                && self.left.insert(life.rank, life) != Some(life)
            {
                events.push(Event::Say(Frame::Left { life, known }));
            }
        }
        Ok(events)
    }
}

pub(super) fn failed(failure: Failure) -> Event {
    Event::Say(Frame::Failed { status: failure.status.into(), why: failure.why })
}

impl Job {
    /// Of ranks whose ends are about to be reported: those that have left before.
    pub fn left(&mut self, lives: &[RankIncarnation]) -> Vec<Event> {
        self.logs.left(lives).unwrap_or_else(|failure| vec![failed(failure)])
    }

    /// A logger has said something, or is gone.
    pub fn check_logger(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, kept) in self.logs.kept.iter_mut().enumerate() {
            match kept.logger.look(&self.guard) {
                Ok(news) => {
                    let all = news.into_iter();
                    events.extend(all.filter_map(|news| self.logs.copies.hear(number, news)));
                }
                Err(failure) => events.push(failed(failure)),
            }
        }
        events.extend(self.logs.copies.check(self.logs.kept.len()));
        events
    }

    /// The events of all ranks of this node are copied there from now on.
    pub fn copy_to(&mut self, order: taffrail_agent::wire::CopyOrder) -> Vec<Event> {
        let target = self.logs.copies.order(order);
        let mut events = Vec::new();
        for kept in &mut self.logs.kept {
            events.extend(kept.logger.copy_to(target.clone(), &self.guard).err().map(failed));
        }
        events
    }

    /// The processes of loggers end with the job, and not by its guard.
    pub fn forget_loggers(&self) {
        self.logs.pids().for_each(|pid| self.guard.forget(pid));
    }

    /// What a rank that has ended leaves for its next incarnation: here, or, by an order to copy, on another node.
    pub fn recover(&mut self, life: RankIncarnation, copy: u64) -> Event {
        let left = match copy {
            0 => self.try_to_recover(index(life)),
            _ => self.try_to_take_over(life, copy),
        };
        match left {
            Ok(left) => Event::Recovered { life, left },
            Err(failure) => failed(failure),
        }
    }

    fn try_to_recover(&mut self, rank: usize) -> Result<LeftBehind, Failure> {
        if let Some((_, download)) = self.logs.moved.get(&(rank as u32)) {
            return Ok(LeftBehind { events: download.count, checkpoint: None });
        }
        let unknown = || Failure::new(format!("rank {rank} was not started on this node"));
        let kept = self.logs.of_mut(rank).ok_or_else(unknown)?;
        kept.recover(rank, &self.guard)
    }

    fn try_to_take_over(
        &mut self,
        life: RankIncarnation,
        copy: u64,
    ) -> Result<LeftBehind, Failure> {
        let download = self.logs.copies.fetch(life.rank, copy)?;
        let events = download.count;
        self.logs.moved.insert(life.rank, (life.incarnation.0 + 1, download));
        // It begins from the beginning: checkpoints were on the node that is lost.
        Ok(LeftBehind { events, checkpoint: None })
    }

    /// What a rank is given so that it logs, and its events to replay.
    pub fn log_env(
        &mut self,
        life: RankIncarnation,
        app: u32,
        generations: &[u32],
    ) -> Result<RankEnv, Failure> {
        let Some(logging) = &self.logs.logging else { return Ok(RankEnv::default()) };
        let rank = index(life);
        if self.logs.of(rank).is_none() {
            let logged = logging::of_wire(logging);
            let kept = self.keep(logged, life.rank, app)?;
            self.logs.kept.push(kept);
        }
        let Some(kept) = self.logs.of_mut(rank) else { return Ok(RankEnv::default()) };
        let replay = kept.take_replay(rank);
        kept.env(rank, life.incarnation.0, replay, generations.iter().copied())
    }

    /// Makes what outlives the processes of the ranks that began on this node, or of a set that was moved here.
    fn keep(&mut self, logged: Logged, rank: u32, app: u32) -> Result<Recovery, Failure> {
        let here = (0..).zip(&self.nodes).filter(|(_, node)| **node == self.about.node);
        let here = here.map(|(rank, _)| rank);
        let has_moved = self.logs.moved.contains_key(&rank);
        let set = logged.sets.of(rank as usize);
        let ranks: Vec<u32> = match has_moved {
            true => here.filter(|rank| logged.sets.of(*rank as usize) == set).collect(),
            false => here.collect(),
        };
        let mut moved = Vec::new();
        for rank in ranks.iter().filter(|_| has_moved) {
            let apart = || Failure::new(format!("rank {rank} was not moved with its set"));
            let (incarnation, download) = self.logs.moved.remove(rank).ok_or_else(apart)?;
            moved.push((*rank, incarnation, download.file));
        }
        let variables = self.programs.get(&app).map(|program| &program.variables[..]);
        let mut variables = variables.unwrap_or_default().iter().rev();
        let spill = variables.find(|(name, _)| name == SPILL).map(|(_, folder)| folder.clone());
        let spill = spill_folder_of(spill);
        let job = job_digest(&self.about.name);
        let target = self.logs.copies.target();
        let beyond = Beyond { elsewhere: self.elsewhere()?, target, moved };
        let mut kept = Recovery::new(logged, &ranks, job, (&spill, None), beyond, &self.guard)?;
        kept.began_elsewhere = has_moved;
        Ok(kept)
    }

    /// Who this node is to others that keep copies, where there are to be some.
    pub(super) fn elsewhere(&self) -> Result<Option<Elsewhere>, Failure> {
        let copies = self.logs.logging.as_ref().is_some_and(logging::copies_elsewhere);
        if !copies || self.about.nodes < 2 {
            return Ok(None);
        }
        let secret = self.secret.try_clone().map_err(|e| Failure::new(in_words(&e)))?;
        let (node, nodes) = (self.about.node.into(), self.about.nodes);
        Ok(Some(Elsewhere { secret, node, nodes }))
    }
}

/// Orders that all loggers of a node have carried out.
#[derive(Default)]
pub(super) struct Done {
    by: BTreeSet<usize>,
    epoch: u64,
    said: bool,
}

impl Done {
    /// A logger has carried out an order.
    pub fn add(&mut self, logger: usize, news: &CopyNews) {
        if let CopyNews::Copied { epoch } = news
            && *epoch == self.epoch
        {
            self.by.insert(logger);
        }
    }

    /// Another order counts.
    pub fn order(&mut self, epoch: u64) {
        *self = Done { epoch, ..Done::default() };
    }

    /// The order, once all of this many loggers have carried it out.
    pub fn check(&mut self, loggers: usize) -> Option<u64> {
        let is_done = loggers > 0 && self.by.len() == loggers && !self.said;
        self.said |= is_done;
        is_done.then_some(self.epoch)
    }
}
