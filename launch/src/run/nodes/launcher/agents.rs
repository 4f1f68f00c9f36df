//! The agents of a launcher: their starters, and the channels through them.

use super::Job;
use crate::run::nodes::index;
use crate::run::nodes::options::AT_ONCE;
use crate::run::nodes::starter::Starter;
use taffrail_agent::NodeId;
use taffrail_agent::launcher;
use taffrail_agent::wire::{Frame, Item};

impl Job<'_> {
    pub(super) fn receive(&mut self, node: usize, events: &mut Vec<launcher::Event>) {
        let Some(starter) = &mut self.starters[node] else { return };
        let Some(channel) = &mut starter.channel else { return };
        let mut items = Vec::new();
        channel.flush();
        let received = channel.receive(&mut items);
        let number = node as NodeId;
        for item in items {
            match item {
                Item::Frame(frame) => events.push(launcher::Event::Frame { node: number, frame }),
                Item::Preamble(before) => {
                    starter.is_connected = true;
                    let text = String::from_utf8_lossy(&before);
                    let lines = text.lines().filter(|line| !line.trim().is_empty());
                    lines.for_each(|line| {
                        crate::log::note(&format!("{}: {line}", self.names[node]))
                    });
                }
            }
        }
        if let Err(why) = received {
            events.push(self.broken(node, &why));
        }
    }

    /// A channel has ended: why, with what its starter has said last.
    fn broken(&mut self, node: usize, why: &str) -> launcher::Event {
        self.read_lines(node);
        let starter = self.starters[node].as_mut();
        let last = starter.map_or(String::new(), |starter| {
            starter.close();
            starter.last_lines()
        });
        launcher::Event::Broken { node: node as NodeId, why: format!("{why}{last}") }
    }

    /// Agents that connect by themselves have their channel.
    pub(super) fn take_callers(&mut self, events: &mut Vec<launcher::Event>) {
        let Some(callers) = &mut self.callers else { return };
        for (node, channel) in callers.take() {
            let Some(Some(starter)) = self.starters.get_mut(usize::from(node)) else { continue };
            match channel {
                Ok(channel) => starter.connect(channel),
                Err(e) => events.push(self.broken(usize::from(node), &e.to_string())),
            }
        }
    }

    /// Passes on lines. If they have ended before there was a channel, there will be none.
    pub(super) fn take_lines(&mut self, node: usize) -> Option<launcher::Event> {
        self.read_lines(node);
        let failed = self.starters[node].as_ref()?.has_failed();
        failed.then(|| self.broken(node, "it has ended before its agent has connected"))
    }

    /// Passes on what a starter and its agent say to people.
    fn read_lines(&mut self, node: usize) {
        let Some(starter) = &mut self.starters[node] else { return };
        for line in starter.read_lines() {
            // Before there is an agent they explain why none comes, and are kept for that. Of one that is given up, or
            // is to leave, they explain nothing more.
            match starter.channel.is_some() && starter.is_connected {
                true => crate::log::note(&format!("{}: {line}", self.names[node])),
                false => tracing::debug!("{}: {line}", self.names[node]),
            }
        }
    }

    /// Starts agents, but not more than some at a time.
    pub(super) fn start_queued(&mut self) -> Vec<Vec<launcher::Event>> {
        let mut failed = Vec::new();
        let connecting = |starter: &&Starter| starter.is_connecting();
        while self.starters.iter().flatten().filter(connecting).count() < AT_ONCE
            && let Some(node) = self.queue.pop_front()
        {
            let at = usize::from(node);
            let (host, plan) = (&self.names[at], &self.plan);
            let started = match self.callers.as_ref().filter(|_| plan.calls(host)) {
                Some(callers) => Starter::invite(host, plan, &callers.invitation(node)),
                None => Starter::start(host, plan),
            };
            match started {
                Ok(starter) => self.starters[at] = Some(starter),
                Err(why) => failed.push(vec![launcher::Event::Broken { node, why }]),
            }
        }
        failed
    }

    pub(super) fn send(&mut self, node: NodeId, frame: &Frame) -> Option<launcher::Event> {
        if let Frame::Start { life, .. } = frame {
            self.placed[index(*life)] = Some(node);
        }
        let channel = self.starters[usize::from(node)].as_mut()?.channel.as_mut()?;
        let why = channel.send(frame).err()?;
        Some(self.broken(usize::from(node), &why))
    }

    pub(super) fn close(&mut self, node: NodeId) {
        self.queue.retain(|queued| *queued != node);
        if let Some(starter) = &mut self.starters[usize::from(node)] {
            starter.close();
        }
    }

    /// Starters that were closed have ended, or are killed.
    pub(super) fn check_starters(&mut self) {
        for starter in &mut self.starters {
            let is_over = |starter: &mut Starter| starter.due().is_some() && starter.check();
            starter.take_if(is_over);
        }
    }
}
