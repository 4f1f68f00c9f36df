//! What must hold after every step.

use super::world::World;
use crate::agent::State;

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
        self.check_spared()
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
