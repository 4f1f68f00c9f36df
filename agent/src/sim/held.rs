//! Causal logging: others depend on events that are not stable, and hold them.

use super::case::LEASE;
use super::world::{Happening, World};
use crate::RankIncarnation;
use crate::agent::{Event, State};
use crate::wire::Frame;

/// Bytes of an entry, as of a determinant.
const ENTRY: usize = 40;

impl World {
    /// A message that depends on the last event of a rank leaves for another host.
    pub fn say_event(&mut self, node: usize, rank: u32) {
        if !self.case.causal {
            return;
        }
        let to = self.rng.usize(0..self.hosts.len());
        let Some(process) = self.hosts[node].processes.get(&rank) else { return };
        let (life, event) = (process.life(rank), self.hosts[node].logs[&rank].events);
        // It may lie in a socket until the receiver's program calls the library again.
        let soon = self.now + self.rng.u64(0..2 * LEASE);
        self.at(soon, Happening::Depends(to, life, event));
    }

    /// It arrives. From the dead nothing is taken in once the roster says that they are.
    pub fn depends(&mut self, node: usize, life: RankIncarnation, event: u64) {
        let host = &mut self.hosts[node];
        let is_live = host
            .published
            .entry(life.rank)
            .is_some_and(|entry| entry.life == life && entry.state.lives());
        // What a rank of its own node says is in that rank's ring.
        let is_far =
            host.published.entry(life.rank).is_some_and(|entry| usize::from(entry.node) != node);
        if is_live && is_far && !host.processes.is_empty() {
            let held = host.held.entry(life.rank).or_default();
            *held = event.max(*held);
        }
    }

    /// An agent says what its ranks hold.
    pub fn answers(&mut self, node: usize, number: u64) {
        let entry = |(rank, event): (&u32, &u64)| {
            let mut bytes = vec![0; ENTRY];
            bytes[..4].copy_from_slice(&rank.to_le_bytes());
            bytes[8..16].copy_from_slice(&event.to_le_bytes());
            bytes
        };
        let parts: Vec<Vec<u8>> = self.hosts[node].held.iter().map(entry).collect();
        let last = (false, Vec::new());
        for (more, determinants) in parts.into_iter().map(|part| (true, part)).chain([last]) {
            self.agent_event(node, Event::Say(Frame::Held { number, more, determinants }));
        }
    }

    /// What survivors hold is there where ranks are recovered.
    pub fn others_hold(&mut self, node: usize, determinants: &[u8]) {
        for entry in determinants.as_chunks::<ENTRY>().0 {
            let rank = u32::from_le_bytes([0, 1, 2, 3].map(|k| entry[k]));
            let event = u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|k| entry[k]));
            let held = self.hosts[node].held_by_others.entry(rank).or_default();
            *held = event.max(*held);
        }
    }

    /// determinant-before-effect: a rank that is started again has all events that live ranks depend on.
    pub fn check_held(&mut self, node: usize, life: RankIncarnation, found: u64) {
        let lives = |state: State| state < State::Fenced;
        for (other, host) in self.hosts.iter().enumerate() {
            let held = host.held.get(&life.rank).copied().unwrap_or(0);
            let is_there = host.agent.as_ref().is_some_and(|agent| lives(agent.state()));
            if is_there && !host.crashed && held > found && life.incarnation.0 > 0 {
                self.violated = Some(format!(
                    "determinant-before-effect: {life} starts on node {node} with {found} events, and ranks of node {other} \
                     depend on {held}"
                ));
            }
        }
    }
}
