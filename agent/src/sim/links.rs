//! Links between hosts that are cut, while both reach the launcher: ranks that log wait for each other, and report it.

use super::case::{LEASE, LINK_TIMEOUT, What};
use super::node::Cut;
use super::world::World;
use crate::agent::Event;
use crate::wire::Frame;
use crate::{NodeId, RankIncarnation};

impl World {
    /// Two hosts do not reach each other for this time.
    pub fn cut_link(&mut self, node: usize, other: usize, length: u64) {
        let until = self.now.saturating_add(length);
        for (one, other) in [(node, other), (other, node)] {
            self.hosts[one].faulty = true;
            let since = match self.hosts[one].cut_from.get(&other) {
                Some(cut) if self.now < cut.until => cut.since,
                _ => self.now,
            };
            self.hosts[one].cut_from.insert(other, Cut { since, until });
            // Its event loggers notice after a while.
            let loggers: Vec<u32> = self.hosts[one].targets.keys().copied().collect();
            for logger in loggers {
                let target = self.hosts[one].targets.get_mut(&logger);
                if let Some(target) = target.filter(|target| target.to == other) {
                    target.is_copied = false;
                    self.begin_copy(one, logger);
                }
            }
        }
    }

    pub fn is_cut(&self, node: usize, other: usize) -> bool {
        self.hosts[node].cut_from.get(&other).is_some_and(|cut| self.now < cut.until)
    }

    /// Whether a rank waits for one that it does not reach. That it reports with every step, and once that it does again.
    pub fn waits_for_link(&mut self, node: usize, life: RankIncarnation) -> bool {
        let cut = (0..self.hosts.len()).filter(|other| self.is_cut(node, *other));
        let far = cut.flat_map(|other| &self.hosts[other].processes);
        let mut unreached: Vec<_> = far.map(|(rank, process)| process.life(*rank)).collect();
        let known = self.hosts[node].links_down.iter().filter(|(of, _)| *of == life);
        let known: Vec<_> = known.map(|(_, peer)| *peer).collect();
        // Its last attempt failed long ago, and it learns that now.
        let computed = self.hosts[node].computed.get_mut(&life).is_some_and(std::mem::take);
        let is_late = computed && self.rng.bool();
        for peer in known.into_iter().filter(|peer| !unreached.contains(peer)).collect::<Vec<_>>() {
            if is_late {
                unreached.push(peer);
                continue;
            }
            self.hosts[node].links_down.remove(&(life, peer));
            self.agent_event(node, Event::Say(Frame::Link { life, peer, down: None }));
        }
        for &peer in &unreached {
            self.hosts[node].links_down.insert((life, peer));
            let down = Some("a cut".to_owned());
            self.agent_event(node, Event::Say(Frame::Link { life, peer, down }));
        }
        !unreached.is_empty()
    }

    /// For how long a rank that waits for a link does not poll, once, if it gets elsewhere what it waits for.
    pub fn computes(&mut self, node: usize, life: RankIncarnation) -> Option<u64> {
        if self.hosts[node].computed.contains_key(&life) || self.rng.u8(..4) > 0 {
            return None;
        }
        self.hosts[node].computed.insert(life, true);
        Some(self.rng.u64(LEASE..3 * LINK_TIMEOUT))
    }

    /// costs-time: a node is ended only if a link of it was down for the whole time, less what a step takes.
    pub fn check_parted(&self, node: NodeId) -> Result<(), String> {
        let delays = |what: &What| {
            matches!(
                what,
                What::Cut { .. }
                    | What::CutUp { .. }
                    | What::CutDown { .. }
                    | What::Break
                    | What::Pause { .. }
                    | What::PauseLauncher { .. }
            )
        };
        let is_long =
            |cut: &Cut| cut.until.min(self.now).saturating_sub(cut.since) >= LINK_TIMEOUT * 7 / 10;
        let is_parted = self.hosts[usize::from(node)].cut_from.values().any(is_long);
        match is_parted || self.case.faults.iter().any(|fault| delays(&fault.what)) {
            true => Ok(()),
            false => Err(format!(
                "costs-time: node {node} is ended, and its links were not down for long"
            )),
        }
    }
}
