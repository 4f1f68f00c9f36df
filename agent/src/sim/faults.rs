//! What a fault does to the world.

use super::case::{Fault, KILL, LEASE, What};
use super::world::{Happening, Side, World};
use crate::NodeId;
use crate::launcher::Event;

impl World {
    pub fn fault(&mut self, fault: Fault) -> Result<(), String> {
        let Fault { node, what, .. } = fault;
        self.note(format!("fault on node {node}: {what:?}"));
        if let What::KillRank(rank) = what {
            let on = (0..self.hosts.len()).find(|&at| self.hosts[at].processes.contains_key(&rank));
            if let Some(on) = on {
                self.kill(on, rank, true);
            }
            return Ok(());
        }
        if let What::Kill(rank) = what {
            return self.launcher_events(vec![Event::Kill(rank)]);
        }
        if let What::PauseLauncher { length } = what {
            self.launcher_paused_until = self.launcher_paused_until.max(self.now + length);
            self.launcher_was_paused = true;
            self.at(self.launcher_paused_until, Happening::WakeLauncher);
            return Ok(());
        }
        match what {
            What::KillStore => self.kill_store(node),
            What::KillAsked => self.moves.kill_asked = true,
            What::KillLogger { logger } => self.kill_logger(node, logger),
            What::CrashAll { nodes } => self.crash_all(nodes),
            What::CutLink { other, length } => self.cut_link(node, other, length),
            _ => self.fault_of_node(node, what),
        }
        Ok(())
    }

    /// One that concerns a host and its agent.
    fn fault_of_node(&mut self, node: usize, what: What) {
        self.hosts[node].faulty = true;
        let until = |length| self.now + length;
        match what {
            What::Cut { length, breaks } => {
                let until = until(length);
                self.hosts[node].up.cut(until);
                self.hosts[node].down.cut(until);
                if breaks {
                    self.break_channel(node);
                }
            }
            What::CutUp { length } => self.hosts[node].up.cut(until(length)),
            What::CutDown { length } => self.hosts[node].down.cut(until(length)),
            What::Break => self.break_channel(node),
            What::Pause { length } => {
                let until = until(length);
                let host = &mut self.hosts[node];
                host.paused_until = host.paused_until.max(until);
                self.at(until, Happening::WakeAgent(node));
            }
            What::KillAgent => self.end_agent(node),
            What::Crash => self.crash(node),
            What::KillRank(_)
            | What::Kill(_)
            | What::PauseLauncher { .. }
            | What::KillStore
            | What::KillAsked
            | What::KillLogger { .. }
            | What::CrashAll { .. }
            | What::CutLink { .. } => {}
        }
    }

    /// The hosts of these bits are gone at the same moment.
    fn crash_all(&mut self, nodes: u32) {
        let is_new = |node: &usize| nodes & (1 << *node) != 0 && !self.hosts[*node].crashed;
        let lost: Vec<usize> = (0..self.hosts.len()).filter(is_new).collect();
        self.copying.together |= lost.len() > 1;
        lost.into_iter().for_each(|node| self.crash(node));
        // What a copy store has that ends sooner or later does not count.
        let ends = |fault: &&Fault| matches!(fault.what, What::KillStore | What::KillAsked);
        let stores = self.case.faults.iter().filter(ends).count();
        let gone = (0..self.hosts.len()).filter(|node| self.hosts[*node].crashed);
        let gone: Vec<NodeId> = gone.map(|node| node as NodeId).collect();
        self.copying.exceeded |= !self.launcher.survives(&gone, stores);
    }

    /// A host is gone.
    fn crash(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        (host.faulty, host.crashed) = (true, true);
        (host.agent, host.guard) = (None, None);
        host.copies.clear();
        host.processes.clear();
        self.break_channel(node);
    }

    /// A channel is lost. Each end notices when it likes, or, if it only listens, not at all.
    pub fn break_channel(&mut self, node: usize) {
        for side in [Side::Launcher, Side::Agent] {
            let late = match self.rng.u8(..4) {
                0 => 0,
                1 => self.rng.u64(0..LEASE / 10),
                2 => self.rng.u64(0..3 * LEASE),
                _ => continue,
            };
            self.at(self.now + late, Happening::NoticesBreak(node, side));
        }
        self.hosts[node].up.break_off();
        self.hosts[node].down.break_off();
    }

    /// The launcher closes its end: what it has sent still arrives, and then the agent may notice.
    pub fn close(&mut self, node: usize) {
        self.hosts[node].up.break_off();
        if !self.hosts[node].down.is_broken() && self.rng.bool() {
            let late = self.now + self.rng.u64(0..3 * LEASE);
            self.at(late, Happening::NoticesBreak(node, Side::Agent));
        }
    }

    /// The process of an agent ends: its ranks are killed by the kernel, its channel ends.
    pub fn end_agent(&mut self, node: usize) {
        self.hosts[node].agent = None;
        self.hosts[node].guard = None;
        self.hosts[node].copies.clear();
        self.kill_all(node);
        let soon = self.now + self.rng.u64(0..LEASE / 10);
        self.at(soon, Happening::NoticesBreak(node, Side::Launcher));
    }

    /// SIGKILL to everything on a node.
    pub fn kill_all(&mut self, node: usize) {
        let ranks: Vec<u32> = self.hosts[node].processes.keys().copied().collect();
        for rank in ranks {
            self.kill(node, rank, false);
        }
    }

    /// SIGKILL to the process of a rank, which takes its time to end: A2 of the specification.
    pub fn kill(&mut self, node: usize, rank: u32, at_once: bool) {
        let most = if at_once { 1 } else { KILL * 99 / 100 };
        let late = match self.rng.u8(..3) {
            0 => 0,
            1 => most,
            _ => self.rng.u64(0..=most),
        };
        let Some(process) = self.hosts[node].processes.get_mut(&rank) else { return };
        if !std::mem::replace(&mut process.killed, true) {
            let life = process.life(rank);
            self.at(self.now + late, Happening::Dies(node, life, Some(9)));
        }
    }
}
