//! What an agent keeps of ranks whose messages are logged: their events, their logs, their checkpoints.

use super::Source;
use super::Watched;
use super::copies::Copies;
use super::held::HeldTables;
use super::job::Job;
use crate::eventlog::{CheckpointCopier, CopiedCheckpoint, Download, Elsewhere, Patience};
use crate::run::failures::Logged;
use crate::run::logger::Beyond;
use crate::run::nodes::{index, logging};
use crate::run::rank_files::{SPILL, spill_folder_of};
use crate::run::ranks::RankEnv;
use crate::run::recovery::{Recovery, last_checkpoint};
use crate::run::{Failure, in_words};
use rustix::event::PollFlags;
use rustix::process::Pid;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::time::Instant;
use taffrail_agent::agent::Event;
use taffrail_agent::roster::job_digest;
use taffrail_agent::wire::{Frame, LeftBehind, Logging};
use taffrail_agent::{NodeId, RankIncarnation};
use taffrail_logging::store::Owner;

/// The logs of the ranks of a node.
#[derive(Default)]
pub struct NodeLogs {
    /// As the launcher has said. The logger is started with the first rank: then it is known which ranks are here.
    logging: Option<Logging>,
    /// Those of the ranks that began here, and, of each set that was moved here, its own.
    kept: Vec<Recovery>,
    /// Ranks of lost nodes that are about to be started here.
    moved: BTreeMap<u32, Moved>,
    /// In causal logging, what ranks hold of others.
    pub(super) held: HeldTables,
    /// What concerns other nodes.
    pub(super) copies: Copies,
    /// Ranks that have left, as the launcher knows.
    left: BTreeMap<u32, RankIncarnation>,
}

/// What a rank of a lost node begins with here.
struct Moved {
    /// Its next incarnation.
    incarnation: u32,
    left: LeftBehind,
    events: OwnedFd,
    checkpoint: Option<CopiedCheckpoint>,
}

impl NodeLogs {
    pub fn log(&mut self, logging: Logging) {
        self.logging = Some(logging);
    }

    /// Whether messages are logged.
    pub fn are_kept(&self) -> bool {
        self.logging.is_some()
    }

    /// How many event loggers copy to other nodes, where there are some.
    pub fn loggers_that_copy(&self) -> usize {
        self.logging.as_ref().map_or(0, logging::copies_elsewhere) as usize
    }

    fn are_causal(&self) -> bool {
        self.logging.as_ref().is_some_and(Logging::is_causal)
    }

    /// Where loggers have something to say.
    pub fn watch<'a>(&'a self, watched: &mut Watched<'a>) {
        let sockets = self.kept.iter().flat_map(|kept| kept.logger.sockets());
        watched.extend(sockets.map(|fd| (Source::Logger, fd, PollFlags::IN)));
        let store = self.copies.store.iter().filter_map(|store| store.socket());
        watched.extend(store.map(|fd| (Source::CopyStore, fd, PollFlags::IN)));
        let copier = self.copies.copiers().map(CheckpointCopier::bell);
        watched.extend(copier.map(|fd| (Source::Logger, fd, PollFlags::IN)));
    }

    /// Whether loggers do not serve yet, or the copy store does not listen yet.
    pub fn are_starting(&self) -> bool {
        let mut stores = self.copies.store.iter();
        self.kept.iter().any(|kept| kept.logger.is_starting())
            || stores.any(|store| store.address().is_empty())
    }

    /// The processes of loggers and of the copy store.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        let store = self.copies.store.iter().map(|store| store.pid());
        self.kept.iter().flat_map(|kept| kept.logger.pids()).chain(store)
    }

    /// When something is to be done if nothing happens before.
    pub fn due(&self) -> Option<Instant> {
        self.held.due()
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

    /// An event logger copies the events of all ranks of this node there from now on.
    pub fn copy_to(&mut self, order: taffrail_agent::wire::CopyOrder) -> Vec<Event> {
        let Some((logger, target)) = self.logs.copies.order(order) else { return Vec::new() };
        let mut events = Vec::new();
        for kept in &mut self.logs.kept {
            let ordered = kept.logger.copy_to(logger, target.clone(), &self.guard);
            events.extend(ordered.err().map(failed));
        }
        events
    }

    /// A rank is on this node, or on another one: what it was to begin with here is not needed then.
    pub(super) fn place(&mut self, life: RankIncarnation, node: NodeId) {
        self.nodes[index(life)] = node;
        if node != self.about.node {
            let is_former = |moved: &Moved| moved.incarnation <= life.incarnation.0;
            self.waiting.placed_elsewhere(life);
            self.logs.moved.retain(|rank, moved| *rank != life.rank || !is_former(moved));
        }
    }

    /// The processes of loggers end with the job, and not by its guard.
    pub fn forget_loggers(&self) {
        self.logs.pids().for_each(|pid| self.guard.forget(pid));
    }

    /// What a rank of this node leaves; none if that is not known yet.
    pub(super) fn try_to_recover(&mut self, rank: usize) -> Result<Option<LeftBehind>, Failure> {
        if let Some(moved) = self.logs.moved.get(&(rank as u32)) {
            return Ok(Some(moved.left));
        }
        let unknown = || Failure::new(format!("rank {rank} was not started on this node"));
        let kept = self.logs.of_mut(rank).ok_or_else(unknown)?;
        kept.recover(rank, &self.guard)
    }

    /// What a rank of another node leaves, of which this one has a copy; none if it is not there yet.
    pub(super) fn try_to_take_over(
        &mut self,
        life: RankIncarnation,
        copy: u64,
    ) -> Result<Option<LeftBehind>, Failure> {
        let owner = Owner { rank: life.rank, job: job_digest(&self.about.name) };
        let fetched = self.logs.copies.fetch(life.rank, copy)?;
        let Some((mut download, checkpoint)) = fetched else { return Ok(None) };
        if self.logs.are_causal() {
            download = self.logs.held.complete(owner, self.about.ranks, download)?;
        }
        let Download { file: events, count } = download;
        let last = checkpoint.as_ref().map(|copied| copied.summary(owner)).transpose();
        let last = last.map_err(|e| Failure::new(e.to_string()))?.flatten();
        let left = LeftBehind { events: count, checkpoint: last.map(last_checkpoint) };
        let incarnation = life.incarnation.0 + 1;
        self.logs.moved.insert(life.rank, Moved { incarnation, left, events, checkpoint });
        Ok(Some(left))
    }

    /// What a rank is given so that it logs, and its events to replay; none as long as its event logger has not begun.
    pub fn log_env(
        &mut self,
        life: RankIncarnation,
        app: u32,
        generations: &[u32],
    ) -> Result<Option<RankEnv>, Failure> {
        let without = || Ok(Some(RankEnv::default()));
        let Some(logging) = &self.logs.logging else { return without() };
        let rank = index(life);
        if self.logs.of(rank).is_none() {
            let logged = logging::of_wire(logging);
            let kept = self.keep(logged, life.rank, app)?;
            self.logs.kept.push(kept);
        }
        let guard = &self.guard;
        let Some(kept) = self.logs.of_mut(rank) else { return without() };
        if !kept.logger.has_begun(guard)? {
            return Ok(None);
        }
        let Some(kept) = self.logs.of(rank) else { return without() };
        for copier in self.logs.copies.copiers() {
            kept.checkpoint_source(rank)?.into_iter().for_each(|source| copier.add(source));
        }
        let Some(kept) = self.logs.of_mut(rank) else { return without() };
        let replay = kept.take_replay(rank);
        let mut env = kept.env(rank, life.incarnation.0, replay, generations.iter().copied())?;
        let has_moved = kept.began_elsewhere;
        if self.logs.are_causal() && self.about.nodes > 1 {
            let owner = Owner { rank: life.rank, job: job_digest(&self.about.name) };
            let table = env.inherit(&self.logs.held.of(owner, has_moved)?)?;
            env.tell("TAFFRAIL_HELD", &[table]);
        }
        Ok(Some(env))
    }

    /// Makes what outlives the processes of the ranks that began on this node, or of a set that was moved here.
    fn keep(&mut self, logged: Logged, rank: u32, app: u32) -> Result<Recovery, Failure> {
        let here = (0..).zip(&self.nodes).filter(|(_, node)| **node == self.about.node);
        let here = here.map(|(rank, _)| rank);
        let has_moved = self.logs.moved.contains_key(&rank);
        let set = logged.sets.of(rank as usize);
        let ranks: Vec<u32> = match has_moved {
            // What they replay depends on events of each other: one event logger cuts all of them.
            true if logged.causal => {
                here.filter(|rank| self.logs.moved.contains_key(rank)).collect()
            }
            true => here.filter(|rank| logged.sets.of(*rank as usize) == set).collect(),
            false => here.collect(),
        };
        let (mut moved, mut checkpoints) = (Vec::new(), HashMap::new());
        for rank in ranks.iter().filter(|_| has_moved) {
            let apart = || Failure::new(format!("rank {rank} was not moved with its set"));
            let Moved { incarnation, events, checkpoint, .. } =
                self.logs.moved.remove(rank).ok_or_else(apart)?;
            moved.push((*rank, incarnation, events));
            checkpoints.extend(checkpoint.map(|checkpoint| (*rank, checkpoint)));
        }
        let variables = self.programs.get(&app).map(|program| &program.variables[..]);
        let mut variables = variables.unwrap_or_default().iter().rev();
        let spill = variables.find(|(name, _)| name == SPILL).map(|(_, folder)| folder.clone());
        let spill = spill_folder_of(spill);
        let job = job_digest(&self.about.name);
        let targets = self.logs.copies.targets();
        let (elsewhere, patience) = (self.elsewhere()?, Some(Patience::of_agent(self.about.lease)));
        let beyond = Beyond { elsewhere, targets, moved, checkpoints, patience };
        let mut kept = Recovery::new(logged, &ranks, job, (&spill, None), beyond, &self.guard)?;
        kept.began_elsewhere = has_moved;
        Ok(kept)
    }

    /// Who this node is to others that keep copies, where there are to be some.
    pub(super) fn elsewhere(&self) -> Result<Option<Elsewhere>, Failure> {
        if self.logs.loggers_that_copy() == 0 || self.about.nodes < 2 {
            return Ok(None);
        }
        let copy = |file: &OwnedFd| file.try_clone().map_err(|e| Failure::new(in_words(&e)));
        let (secret, refused) = (copy(&self.secret)?, copy(&self.refused.1)?);
        let (node, nodes) = (self.about.node.into(), self.about.nodes);
        Ok(Some(Elsewhere { secret, refused, node, nodes }))
    }
}
