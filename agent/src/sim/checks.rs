//! What must hold after every step.

use super::case::{Fault, What};
use super::world::World;
use crate::agent::State;
use std::collections::BTreeMap;

/// Barriers of a program.
pub const BARRIERS: u64 = 2;

impl World {
    pub fn check(&self) -> Result<(), String> {
        if let Some(violated) = &self.violated {
            return Err(violated.clone());
        }
        self.check_one_acts()?;
        self.check_roster()?;
        self.check_barriers()?;
        self.check_finalizing()?;
        self.check_sets()?;
        self.check_spared()
    }

    /// with-its-log: a job without faults but killed ranks, copy stores and event loggers, and hosts that are lost at once, survives as
    /// many as copies count.
    pub fn check_survived(&mut self) -> Result<(), String> {
        let is_small = |fault: &Fault| {
            let is_keeper =
                matches!(fault.what, What::KillStore | What::KillAsked | What::KillLogger { .. });
            is_keeper || matches!(fault.what, What::KillRank(_) | What::CrashAll { .. })
        };
        let has_copies = self.case.logs && self.case.copies > 0 && !self.case.causal;
        if !has_copies || self.copying.exceeded || !self.case.faults.iter().all(is_small) {
            return Ok(());
        }
        match self.ended.failed {
            0 => {
                self.ended.together += u32::from(self.copying.together);
                Ok(())
            }
            _ => Err("with-its-log: the job ends, and copies of all events were left".to_owned()),
        }
    }

    /// one-acts: no rank has two live incarnations.
    fn check_one_acts(&self) -> Result<(), String> {
        let mut places = vec![None; self.case.ranks as usize];
        for (node, host) in self.hosts.iter().enumerate() {
            for (rank, process) in &host.processes {
                let here = (node, process.incarnation.0);
                if let Some(before) = places[*rank as usize].replace(here) {
                    return Err(format!(
                        "one-acts: rank {rank} lives on node {} as incarnation {} and on node {} as incarnation {}",
                        before.0, before.1, here.0, here.1
                    ));
                }
            }
        }
        Ok(())
    }

    /// together: the first START is sent when the nodes of all ranks are up.
    pub fn check_beginning(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            let map = self.launcher.map();
            if let Some(node) = map.iter().find(|node| !self.hosts[usize::from(**node)].was_up) {
                self.violated =
                    Some(format!("together: ranks start, and node {node} was never up"));
            }
        }
    }

    /// roster-before-start: where ranks live, the roster has the present incarnation of every live rank.
    fn check_roster(&self) -> Result<(), String> {
        for (node, host) in self.hosts.iter().enumerate() {
            for (rank, process) in &host.processes {
                for (other, there) in self.hosts.iter().enumerate() {
                    let entry = there.published.entry(*rank).ok_or("no entry")?;
                    let same = (entry.life.incarnation, usize::from(entry.node));
                    if !there.processes.is_empty() && same != (process.incarnation, node) {
                        return Err(format!(
                            "roster-before-start: rank {rank} lives on node {node} as incarnation {}, and node {other} \
                             has {entry:?}",
                            process.incarnation.0
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// barriers: no agent takes a barrier for complete before every rank has entered it.
    fn check_barriers(&self) -> Result<(), String> {
        let all = self.entered.iter().min().copied().unwrap_or(0);
        let wrong = self.hosts.iter().position(|host| host.barriers > all);
        match wrong {
            Some(node) => Err(format!(
                "barriers: node {node} has passed {}, and ranks have entered {:?}",
                self.hosts[node].barriers, self.entered
            )),
            None => Ok(()),
        }
    }

    /// a set is stable together: one event logger cuts the events of all its ranks.
    fn check_sets(&self) -> Result<(), String> {
        let mut places = BTreeMap::new();
        for (node, host) in self.hosts.iter().enumerate() {
            for &rank in host.processes.keys().filter(|_| self.case.logs) {
                let Some(&set) = self.moves.sets.get(rank as usize) else { continue };
                let other = *places.entry(set).or_insert(node);
                if other != node {
                    return Err(format!("sets: set {set} has ranks on nodes {other} and {node}"));
                }
            }
        }
        Ok(())
    }

    /// spared: an agent without a fault is not fenced.
    fn check_spared(&self) -> Result<(), String> {
        let fenced = |state: Option<State>| state == Some(State::Fenced);
        for (node, host) in self.hosts.iter().enumerate() {
            let state = host.agent.as_ref().map(|agent| agent.state());
            if !host.faulty && !self.launcher_was_paused && fenced(state) {
                return Err(format!("spared: node {node} had no fault and is fenced"));
            }
        }
        Ok(())
    }
}
