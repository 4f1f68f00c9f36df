//! Links between hosts that are cut, while both reach the launcher: ranks that log wait for each other, and report it.

use super::world::World;
use crate::RankIncarnation;
use crate::agent::Event;
use crate::wire::Frame;

impl World {
    /// Two hosts do not reach each other for this time.
    pub fn cut_link(&mut self, node: usize, other: usize, length: u64) {
        let until = self.now.saturating_add(length);
        for (one, other) in [(node, other), (other, node)] {
            self.hosts[one].faulty = true;
            self.hosts[one].cut_from.insert(other, until);
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
        self.hosts[node].cut_from.get(&other).is_some_and(|until| self.now < *until)
    }

    /// Whether a rank waits for one that it does not reach. What is new of that it reports.
    pub fn waits_for_link(&mut self, node: usize, life: RankIncarnation) -> bool {
        let cut = (0..self.hosts.len()).filter(|other| self.is_cut(node, *other));
        let far = cut.flat_map(|other| &self.hosts[other].processes);
        let unreached: Vec<_> = far.map(|(rank, process)| process.life(*rank)).collect();
        let known = self.hosts[node].links_down.iter().filter(|(of, _)| *of == life);
        let known: Vec<_> = known.map(|(_, peer)| *peer).collect();
        for peer in known.iter().filter(|peer| !unreached.contains(peer)) {
            self.hosts[node].links_down.remove(&(life, *peer));
            self.agent_event(node, Event::Say(Frame::Link { life, peer: *peer, down: None }));
        }
        for peer in unreached.iter().filter(|peer| !known.contains(peer)) {
            self.hosts[node].links_down.insert((life, *peer));
            let down = Some("a cut".to_owned());
            self.agent_event(node, Event::Say(Frame::Link { life, peer: *peer, down }));
        }
        !unreached.is_empty()
    }
}
