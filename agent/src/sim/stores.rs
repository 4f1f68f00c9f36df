//! Copy stores and event loggers that end by themselves.

use super::case::{Fault, LEASE, What};
use super::node::Host;
use super::world::{Happening, World};
use crate::RankIncarnation;
use crate::agent::Event;
use crate::wire::Frame;

/// Which copy store of its host listens at an address.
pub fn of_address(address: &str) -> u64 {
    address.rsplit_once(':').map_or(0, |(_, store)| store.parse().expect("a number"))
}

impl World {
    /// A host reports its copy store.
    pub fn stores(&mut self, node: usize) {
        let address = format!("n{node}:{}", self.hosts[node].store);
        self.agent_event(node, Event::Say(Frame::Store { address }));
    }

    /// What the copy store of a host has is gone. What it is asked for meanwhile is answered before the next one is reported, or
    /// behind that.
    pub fn kill_store(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        if host.agent.is_none() || !host.was_up {
            return;
        }
        let lost = std::mem::take(&mut host.copies).into_keys().map(|(epoch, _)| epoch);
        self.moves.lost_logs.extend(lost);
        host.store += 1;
        let to_it = |host: &Host| {
            let targets = host.targets.values().filter(|target| target.to == node);
            targets.map(|target| target.epoch).collect::<Vec<_>>()
        };
        let orders: Vec<u64> = self.hosts.iter().flat_map(to_it).collect();
        self.moves.lost_logs.extend(orders);
        let soon = self.now + self.rng.u64(0..LEASE / 10);
        self.at(soon, Happening::Stores(node));
    }

    /// A host is asked for a log of which it has a copy, by this order. That is damaged, or its copy store ends before it is asked, or
    /// behind it.
    pub fn asks_store(&mut self, node: usize, copy: u64) {
        if !std::mem::take(&mut self.moves.kill_asked) {
            return;
        }
        if self.rng.u8(..) < 64 {
            self.moves.lost_logs.insert(copy);
        } else {
            let soon = self.now + self.rng.u64(0..=2 * self.case.delay);
            let fault = Fault { at: soon, node, what: What::KillStore };
            self.at(soon, Happening::Fault(fault));
        }
    }

    /// The host does not have what this order was to bring there.
    pub fn lacks(&mut self, node: usize, life: RankIncarnation, epoch: u64) {
        let why = "it is there no more".to_owned();
        self.agent_event(node, Event::Brought { life, epoch, why });
    }

    /// Another event logger copies everything again by the same order. What was copied before is still there.
    pub fn kill_logger(&mut self, node: usize, logger: u32) {
        if let Some(target) = self.hosts[node].targets.get_mut(&logger) {
            target.is_copied = false;
            self.begin_copy(node, logger);
        }
    }
}
