//! Events of ranks, and their copies on other hosts. An event is stable when all that are to have it do.

use super::case::LEASE;
use super::world::{Happening, World};
use crate::RankIncarnation;
use crate::agent::Event;
use crate::wire::{CopyOrder, Frame, LeftBehind};

impl World {
    /// An agent is to copy the events of its ranks.
    pub fn copy_to(&mut self, node: usize, order: &CopyOrder) {
        self.hosts[node].target = Some((order.epoch, usize::from(order.node)));
        self.hosts[node].is_copied = false;
        self.begin_copy(node);
    }

    /// Where ranks were started and an order is known, it is carried out after a while.
    pub fn begin_copy(&mut self, node: usize) {
        let host = &self.hosts[node];
        let Some((epoch, _)) = host.target.filter(|_| !host.events.is_empty()) else { return };
        let soon = self.now + self.rng.u64(0..LEASE / 2);
        self.at(soon, Happening::Copies(node, epoch));
    }

    /// It is carried out, if the other host can be reached.
    pub fn copies(&mut self, node: usize, epoch: u64) {
        let host = &self.hosts[node];
        let Some((last, to)) = host.target.filter(|_| host.agent.is_some()) else { return };
        if last != epoch {
            return;
        }
        if to != node && self.hosts[to].agent.is_none() {
            let why = "nobody answers".to_owned();
            return self.agent_event(node, Event::Say(Frame::Uncopied { epoch, why }));
        }
        self.hosts[node].is_copied = true;
        let ranks: Vec<u32> = self.hosts[node].events.keys().copied().collect();
        ranks.into_iter().for_each(|rank| self.make_stable(node, rank));
        self.agent_event(node, Event::Copied { epoch });
    }

    /// A rank has an event.
    pub fn new_event(&mut self, node: usize, rank: u32) {
        *self.hosts[node].events.entry(rank).or_default() += 1;
        self.make_stable(node, rank);
    }

    fn make_stable(&mut self, node: usize, rank: u32) {
        let events = self.hosts[node].events[&rank];
        if self.case.copies {
            let Some((epoch, to)) = self.hosts[node].target else { return };
            let is_there = to == node || self.hosts[to].agent.is_some();
            if !self.hosts[node].is_copied || !is_there {
                return;
            }
            self.hosts[to].copies.insert((epoch, rank), events);
        }
        self.stable[rank as usize] = self.stable[rank as usize].max(events);
    }

    /// What a rank leaves is found out after a while.
    pub fn recover(&mut self, node: usize, life: RankIncarnation, copy: u64) {
        if let Some(on) = self.hosts.iter().position(|host| host.processes.contains_key(&life.rank))
        {
            self.violated = Some(format!(
                "with-its-log: the log of {life} is handed out while it is written on node {on}"
            ));
        }
        let host = &self.hosts[node];
        let found = match copy {
            0 => host.events.get(&life.rank).copied(),
            _ => host.copies.get(&(copy, life.rank)).copied(),
        };
        let Some(events) = found else {
            self.violated = Some(format!(
                "copied: node {node} is asked for what order {copy} has copied of {life}, and has nothing"
            ));
            return;
        };
        self.ended.from_copies += u32::from(copy > 0);
        self.hosts[node].recovered.insert(life.rank, events);
        let soon = self.now + self.rng.u64(0..LEASE);
        self.at(soon, Happening::Recovered(node, life, LeftBehind { events, checkpoint: None }));
    }

    /// with-its-log: a rank is started again where its log is, with all events that were stable.
    pub fn check_log(&mut self, node: usize, life: RankIncarnation) {
        let stable = self.stable[life.rank as usize];
        let found = self.hosts[node].recovered.remove(&life.rank);
        if life.incarnation.0 > 0 && found.is_none_or(|events| events < stable) {
            self.violated = Some(format!(
                "with-its-log: {life} starts on node {node} with {found:?} events, and {stable} were stable"
            ));
        }
        let is_first = self.hosts[node].events.is_empty();
        self.hosts[node].events.insert(life.rank, found.unwrap_or_default());
        if is_first {
            self.begin_copy(node);
        }
    }
}
