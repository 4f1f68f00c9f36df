//! Events and checkpoints of ranks, and their copies on other hosts. An event is stable when all that are to have it do; a
//! checkpoint is announced then.

use super::case::LEASE;
use super::node::{Host, RankLog, Target};
use super::world::{Happening, World};
use crate::agent::Event;
use crate::roster::Change;
use crate::wire::{CopyOrder, Frame, LastCheckpoint, LeftBehind};
use crate::{NodeId, RankIncarnation};
use std::collections::BTreeMap;

/// A rank takes a checkpoint each time it has written this number of events.
const EVERY: u64 = 3;

/// What a job's copies have come to.
#[derive(Default)]
pub struct Copying {
    /// Where events are to be copied, by host and event logger.
    pub ordered: BTreeMap<(NodeId, u32), Option<NodeId>>,
    /// Hosts were lost at once that were more than copies allow.
    pub exceeded: bool,
    /// Several hosts were lost at once.
    pub together: bool,
}

impl World {
    /// An event logger of a host is to copy the events of its ranks.
    pub fn copy_to(&mut self, node: usize, order: &CopyOrder) {
        let CopyOrder { epoch, logger, node: to, ref address } = *order;
        let (to, store) = (usize::from(to), super::stores::of_address(address));
        let target = Target { epoch, to, store, is_copied: false };
        self.hosts[node].targets.insert(logger, target);
        self.begin_copy(node, logger);
    }

    /// Where ranks were started and an order is known, it is carried out after a while.
    pub fn begin_copy(&mut self, node: usize, logger: u32) {
        let host = &self.hosts[node];
        let target = host.targets.get(&logger).filter(|_| !host.logs.is_empty());
        let Some(&Target { epoch, .. }) = target else { return };
        let soon = self.now + self.rng.u64(0..LEASE / 2);
        self.at(soon, Happening::Copies(node, logger, epoch));
    }

    /// It is carried out, if the other host can be reached.
    pub fn copies(&mut self, node: usize, logger: u32, epoch: u64) {
        let host = &self.hosts[node];
        let Some(target) = host.targets.get(&logger).filter(|_| host.agent.is_some()) else {
            return;
        };
        let to = target.to;
        if target.epoch != epoch {
            return;
        }
        if to != node && (self.hosts[to].agent.is_none() || self.is_cut(node, to)) {
            let why = "nobody answers".to_owned();
            return self.agent_event(node, Event::Say(Frame::Uncopied { epoch, why }));
        }
        // The next order is on its way, or will be.
        if to != node && self.hosts[to].store != target.store {
            return;
        }
        let copied = Target { is_copied: true, ..*target };
        let host = &mut self.hosts[node];
        host.targets.insert(logger, copied);
        // An event logger has all ranks that are to begin on its node, also those that were not started yet.
        let here = |entry: &&Change| usize::from(entry.node) == node;
        for entry in host.published.entries().iter().filter(here) {
            host.logs.entry(entry.life.rank).or_default();
        }
        let logs: Vec<(u32, RankLog)> = host.logs.iter().map(|(rank, log)| (*rank, *log)).collect();
        for &(rank, log) in &logs {
            if let Some(Some(copy)) = self.copy(node, logger, rank) {
                *copy = log;
            }
        }
        for (rank, _) in logs {
            self.make_stable(node, rank);
            self.copy_checkpoint(node, rank);
        }
        self.agent_event(node, Event::Copied { epoch });
    }

    /// A rank has an event.
    pub fn new_event(&mut self, node: usize, rank: u32) {
        let log = self.hosts[node].logs.entry(rank).or_default();
        log.events += 1;
        let events = log.events;
        // Where nobody waits for copies they lag behind.
        if !self.case.causal || self.rng.u8(..) < 16 {
            self.make_stable(node, rank);
        }
        self.say_event(node, rank);
        // events-before-checkpoint; with causal logging there are none.
        let is_stable = self.stable[rank as usize] == events;
        if !self.case.causal && events.is_multiple_of(EVERY) && is_stable {
            self.hosts[node].logs.entry(rank).or_default().checkpoint = events;
            if mutant!(AnnouncedBeforeElsewhere) {
                self.announced[rank as usize] = events;
            }
            let soon = self.now + self.rng.u64(0..LEASE / 4);
            self.at(soon, Happening::CopiesCheckpoint(node, rank));
        }
    }

    /// The copy of a rank by an event logger, as far as all of it has come there: none where that copies to nobody.
    fn copy(&mut self, node: usize, logger: u32, rank: u32) -> Option<Option<&mut RankLog>> {
        let host = &self.hosts[node];
        let Target { epoch, to, store, is_copied } = *host.targets.get(&logger)?;
        if !is_copied || host.agent.is_none() {
            return None;
        }
        let is_there = self.hosts[to].agent.is_some()
            && self.hosts[to].store == store
            && !self.hosts[to].closed.contains(&epoch)
            && !self.is_cut(node, to);
        match is_there {
            _ if to == node => Some(None),
            true => Some(Some(self.hosts[to].copies.entry((epoch, rank)).or_default())),
            false => None,
        }
    }

    /// Brings something of a rank to all copies, but for those that take longer. Whether all have it; with a broken rule, whether
    /// the first has.
    fn bring(
        &mut self,
        node: usize,
        rank: u32,
        what: fn(&mut RankLog, RankLog),
        only_first: bool,
    ) -> bool {
        let log = self.hosts[node].logs.get(&rank).copied().unwrap_or_default();
        let mut all = true;
        for logger in 1..self.case.copies.max(1) {
            let is_late = self.case.copies > 2 && self.rng.u8(..) < 32;
            let copy = if is_late { None } else { self.copy(node, logger, rank) };
            let is_there = copy.is_some();
            if let Some(Some(copy)) = copy {
                what(copy, log);
            }
            all &= is_there || only_first && logger > 1;
        }
        all
    }

    fn make_stable(&mut self, node: usize, rank: u32) {
        let bring = |copy: &mut RankLog, log: RankLog| copy.events = log.events;
        if self.bring(node, rank, bring, mutant!(FirstCopyAwaited)) {
            let events = self.hosts[node].logs[&rank].events;
            self.stable[rank as usize] = self.stable[rank as usize].max(events);
        }
    }

    /// The last checkpoint of a rank is where its events are to be: it is announced.
    pub fn copy_checkpoint(&mut self, node: usize, rank: u32) {
        let Some(&RankLog { checkpoint, .. }) = self.hosts[node].logs.get(&rank) else { return };
        let bring = |copy: &mut RankLog, log: RankLog| copy.checkpoint = log.checkpoint;
        if self.bring(node, rank, bring, mutant!(AnnouncedWithFirstCopy)) {
            self.announced[rank as usize] = self.announced[rank as usize].max(checkpoint);
        }
    }

    /// What a rank leaves is found out after a while.
    pub fn recover(&mut self, node: usize, life: RankIncarnation, copy: u64) {
        self.check_handed_out(life);
        if self.moves.lost_logs.contains(&copy) {
            return self.lacks(node, life, copy);
        }
        let host = &mut self.hosts[node];
        let found = match copy {
            0 => host.logs.get(&life.rank).copied(),
            _ => host.copies.get(&(copy, life.rank)).copied(),
        };
        let Some(found) = found else {
            self.violated = Some(format!(
                "copied: node {node} is asked for what order {copy} has copied of {life}, and has nothing"
            ));
            return;
        };
        let held = host.held_by_others.get(&life.rank).copied().unwrap_or(0);
        let mut found = found;
        if copy > 0 {
            host.closed.insert(copy);
            self.ended.from_copies += 1;
            self.ended.from_survivors += u32::from(held > found.events);
            self.ended.from_checkpoints += u32::from(found.checkpoint > 0);
            found.events = found.events.max(held);
        }
        host.recovered.insert(life.rank, found);
        let RankLog { events, checkpoint: number } = found;
        let checkpoint = (number > 0).then_some(LastCheckpoint { number, events: number });
        let soon = self.now + self.rng.u64(0..LEASE);
        self.at(soon, Happening::Recovered(node, life, LeftBehind { events, checkpoint }));
    }

    /// with-its-log: nobody writes what is handed out.
    pub fn check_handed_out(&mut self, life: RankIncarnation) {
        let writes = |host: &Host| host.processes.contains_key(&life.rank);
        if let Some(on) = self.hosts.iter().position(writes) {
            self.violated = Some(format!(
                "with-its-log: the log of {life} is handed out while it is written on node {on}"
            ));
        }
    }

    /// with-its-log: a rank is started again where its log is, with all events that were stable, and from a checkpoint that is
    /// not before the last one that was announced.
    pub fn check_log(&mut self, node: usize, life: RankIncarnation) {
        let (stable, announced) =
            (self.stable[life.rank as usize], self.announced[life.rank as usize]);
        let found = self.hosts[node].recovered.remove(&life.rank);
        let is_enough = |found: RankLog| found.events >= stable && found.checkpoint >= announced;
        if life.incarnation.0 > 0 && !found.is_some_and(is_enough) {
            self.violated = Some(format!(
                "with-its-log: {life} starts on node {node} with {found:?}, {stable} events were stable, and peers have dropped what \
                 its checkpoint {announced} covers"
            ));
        }
        self.check_held(node, life, found.unwrap_or_default().events);
        let is_first = self.hosts[node].logs.is_empty();
        self.hosts[node].logs.insert(life.rank, found.unwrap_or_default());
        let loggers: Vec<u32> = self.hosts[node].targets.keys().copied().collect();
        match is_first {
            true => loggers.into_iter().for_each(|logger| self.begin_copy(node, logger)),
            // A copy names all ranks.
            false => self.make_stable(node, life.rank),
        }
    }
}
