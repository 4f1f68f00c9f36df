//! Logs of ranks of lost hosts, which are brought to the hosts where these are to be started.

use super::case::LEASE;
use super::world::{Happening, World};
use crate::RankIncarnation;
use crate::agent::Event;
use crate::launcher::Config;
use crate::wire::BringOrder;
use std::collections::BTreeSet;

/// What is to be known of ranks that move.
pub struct Moves {
    /// The correlated set of each rank, where ranks fall back together.
    pub sets: Vec<usize>,
    /// Orders to copy, or to bring a log, of which the node has lost what has come by them.
    pub lost_logs: BTreeSet<u64>,
    /// The copy store that is asked for a log next ends.
    pub kill_asked: bool,
}

impl Moves {
    pub fn new(config: &Config) -> Moves {
        let sets = config.sets.clone().unwrap_or_default();
        Moves { sets, lost_logs: BTreeSet::new(), kill_asked: false }
    }
}

impl World {
    /// A host with a copy is to bring it to another one. Nothing more is taken by the order that has made the copy.
    pub fn bring_log(&mut self, node: usize, life: RankIncarnation, order: BringOrder) {
        self.check_handed_out(life);
        if self.moves.lost_logs.contains(&order.copy) {
            return self.lacks(node, life, order.copy);
        }
        if !self.hosts[node].copies.contains_key(&(order.copy, life.rank)) {
            self.violated = Some(format!(
                "copied: node {node} is to bring what order {} has copied of {life}, and has nothing",
                order.copy
            ));
        }
        self.hosts[node].closed.insert(order.copy);
        let soon = self.now + self.rng.u64(0..LEASE);
        self.at(soon, Happening::Brings(node, life, order));
    }

    /// It is there, if both hosts are. What a copy store has got is lost when that is killed; sometimes nobody says that it did not
    /// arrive.
    pub fn brings(&mut self, node: usize, life: RankIncarnation, order: &BringOrder) {
        let (to, epoch) = (usize::from(order.node), order.epoch);
        if self.moves.lost_logs.contains(&order.copy) {
            return self.lacks(node, life, order.copy);
        }
        let found = self.hosts[node].copies.get(&(order.copy, life.rank)).copied();
        let Some(found) = found.filter(|_| self.hosts[node].agent.is_some()) else { return };
        let chance = self.rng.u8(..);
        if chance < 32 {
            return;
        }
        let is_same = self.hosts[to].store == super::stores::of_address(&order.address);
        let reaches = self.hosts[to].agent.is_some() && !self.is_cut(node, to);
        let is_there = is_same && reaches && chance >= 48;
        if is_there {
            self.ended.brought += 1;
            match chance {
                48..64 => _ = self.moves.lost_logs.insert(epoch),
                _ => _ = self.hosts[to].copies.insert((epoch, life.rank), found),
            }
        }
        let why = if is_there { "" } else { "nobody answers" };
        self.agent_event(node, Event::Brought { life, epoch, why: why.to_owned() });
    }
}
