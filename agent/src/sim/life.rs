//! What the launcher's user decides: killed ranks are started again, and the job is over when all have finished. And
//! what the program does.

use super::case::LEASE;
use super::checks::BARRIERS;
use super::world::{Happening, World};
use crate::agent;
use crate::launcher::{Event, Report};
use crate::wire::{End, Frame};
use crate::{NodeId, RankIncarnation};

impl World {
    /// What follows from a report.
    pub fn reported(&mut self, report: Report) -> Result<Vec<Event>, String> {
        self.note(format!("launcher: {report:?}"));
        match report {
            Report::Ended { life, end: End::Exited(0) } => {
                self.finished[life.rank as usize] = true;
                if self.finished.iter().all(|finished| *finished) {
                    self.ended.finished = 1;
                    let others = &self.hosts[..self.hosts.len() - 1];
                    let is_alone = self.case.reliable && others.iter().all(|host| host.crashed);
                    self.ended.alone = is_alone.into();
                    return Ok(vec![Event::Finish]);
                }
                Ok(Vec::new())
            }
            Report::Ended { life, .. } if self.case.logs => {
                Ok(vec![Event::Recover(vec![life.rank])])
            }
            Report::Recovered { life, .. } => {
                self.ended.recovered += 1;
                let soon = self.now + self.rng.u64(0..LEASE);
                self.at(soon, Happening::Restarts(life.rank));
                Ok(Vec::new())
            }
            Report::Ended { life, .. } => Ok(self.restart(vec![life.rank])),
            Report::NodeEnded { lost, copy, .. } => {
                self.ended.nodes_lost += u32::from(!lost.is_empty());
                if self.case.logs && copy.is_some() {
                    let ranks: Vec<u32> = lost.iter().map(|life| life.rank).collect();
                    return Ok(vec![Event::Recover(ranks)]);
                }
                if self.case.logs && !lost.is_empty() {
                    // Their logs are lost with them.
                    self.ended.failed = 1;
                    return Ok(vec![Event::Finish]);
                }
                let ranks: Vec<u32> = lost.iter().map(|life| life.rank).collect();
                if ranks.is_empty() { Ok(Vec::new()) } else { Ok(self.restart(ranks)) }
            }
            Report::Failed { .. } => {
                self.ended.failed = 1;
                Ok(vec![Event::Finish])
            }
            Report::NodeRevoked { node, .. } => {
                self.ended.revoked += 1;
                self.check_parted(node)?;
                Ok(Vec::new())
            }
            Report::NotMoved { .. } => {
                self.ended.brought_again += 1;
                Ok(Vec::new())
            }
            Report::NoCopy { .. } => {
                self.ended.lacking += 1;
                Ok(Vec::new())
            }
            Report::Copying { node, logger, to, .. } => {
                self.copying.ordered.insert((node, logger), to);
                // The first event logger chooses first.
                if logger == 1 { self.check_reliable(node, to) } else { Ok(Vec::new()) }
            }
            Report::Stuck { waiting, gone } => Err(format!("rank {waiting} waits for {gone}")),
            Report::Done => {
                self.done = true;
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// reliable: events are copied to the reliable host, if that is there.
    fn check_reliable(&self, node: NodeId, to: Option<NodeId>) -> Result<Vec<Event>, String> {
        let reliable = self.hosts.len() - 1;
        let mut of_node = self.copying.ordered.iter().filter(|((of, _), _)| *of == node);
        let right = usize::from(node) == reliable
            || of_node.any(|(_, to)| to.map(usize::from) == Some(reliable));
        let was_cut = !self.hosts[reliable].cut_from.is_empty();
        let is_there = self.hosts[reliable].agent.is_some() && !was_cut;
        match self.case.reliable && !right && is_there {
            true if !self.launcher_was_paused => {
                Err(format!("reliable: the events of node {node} are copied to {to:?}"))
            }
            _ => Ok(Vec::new()),
        }
    }

    pub fn restart(&mut self, ranks: Vec<u32>) -> Vec<Event> {
        if self.ended.failed > 0 {
            return Vec::new();
        }
        self.ended.restarts += ranks.len() as u32;
        for &rank in &ranks {
            // A rank of a lost node may have finished, unheard.
            self.finished[rank as usize] = false;
        }
        vec![Event::Restart { ranks, generation: self.ended.restarts }]
    }

    /// The process of a rank begins.
    pub fn spawn(&mut self, node: usize, life: RankIncarnation) {
        let RankIncarnation { rank, incarnation } = life;
        let process = super::node::Process { incarnation, entered: 0, passed: 0, killed: false };
        if let Some(before) = self.hosts[node].processes.insert(rank, process) {
            let before = before.life(rank);
            self.violated = Some(format!("one-acts: {before} still lives where {life} starts"));
        }
        let before = self.last_node[rank as usize].replace(node);
        if self.case.logs {
            self.check_log(node, life);
        }
        self.ended.moved += u32::from(before.is_some_and(|before| before != node));
        self.entered[rank as usize] = self.entered[rank as usize].min(self.passed);
        self.agent_event(node, agent::Event::Started { life, pid: rank + 1 });
        self.goes_on(node, life);
    }

    /// A process ends.
    pub fn dies(&mut self, node: usize, life: RankIncarnation, signal: Option<i32>) {
        let process = self.hosts[node].processes.get(&life.rank);
        let is_it = process.is_some_and(|process| process.incarnation == life.incarnation);
        if is_it {
            self.hosts[node].processes.remove(&life.rank);
            self.note(format!("{life} on node {node} ends: {signal:?}"));
            let soon = self.now + self.rng.u64(0..1000);
            self.at(soon, Happening::Reaped(node, life, signal));
        }
    }

    /// A process does its next step after a while.
    pub fn goes_on(&mut self, node: usize, life: RankIncarnation) {
        let soon = self.now + self.rng.u64(0..LEASE / 2);
        self.at(soon, Happening::Steps(node, life));
    }

    /// A step of a program: it puts a value, enters its barriers one after the other, and exits.
    pub fn step(&mut self, node: usize, life: RankIncarnation) -> Result<(), String> {
        let rank = life.rank;
        let barriers = self.hosts[node].barriers;
        let Some(&process) = self.hosts[node].processes.get(&rank) else { return Ok(()) };
        if process.incarnation != life.incarnation {
            return Ok(());
        }
        if self.case.logs && self.waits_for_link(node, life) {
            match self.computes(node, life) {
                Some(length) => self.at(self.now + length, Happening::Steps(node, life)),
                None => self.goes_on(node, life),
            }
            return Ok(());
        }
        if self.case.logs && process.passed == BARRIERS {
            self.stays(node, life);
            return Ok(());
        }
        if self.case.logs {
            self.new_event(node, rank);
        }
        let Some(process) = self.hosts[node].processes.get_mut(&rank) else { return Ok(()) };
        if process.entered > process.passed {
            if barriers <= process.passed {
                // It is woken when the barrier is complete.
                self.goes_on(node, life);
                return Ok(());
            }
            process.passed += 1;
            if process.passed == 1 {
                self.all_values(node, life)?;
            }
            self.goes_on(node, life);
            return Ok(());
        }
        if process.passed == BARRIERS {
            self.at(self.now, Happening::Dies(node, life, None));
            return Ok(());
        }
        process.entered += 1;
        let barrier = process.entered;
        if barrier == 1 {
            let (key, value) = (format!("key-{rank}"), format!("value of {life}"));
            self.hosts[node].values.insert(key.clone(), value.clone());
            self.agent_event(node, agent::Event::Say(Frame::Put { life, key, value }));
        }
        // Those that are complete are open to it.
        if barrier > self.hosts[node].barriers {
            self.entered[rank as usize] = self.entered[rank as usize].max(barrier);
            self.agent_event(node, agent::Event::Say(Frame::Enter { life, barrier }));
        }
        self.goes_on(node, life);
        Ok(())
    }

    /// Behind the first barrier there is a value of every rank.
    fn all_values(&self, node: usize, life: RankIncarnation) -> Result<(), String> {
        let values = &self.hosts[node].values;
        let missing =
            (0..self.case.ranks).find(|rank| !values.contains_key(&format!("key-{rank}")));
        match missing {
            Some(missing) => {
                Err(format!("{life} has passed a barrier without the value of {missing}"))
            }
            None => Ok(()),
        }
    }
}
