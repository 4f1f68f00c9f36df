//! What happens on nodes, for the state machine of ranks and for people.

use super::Job;
use crate::run::life::{self, Event};
use crate::run::nodes::{index, relay};
use crate::run::outlets::To;
use crate::run::say;
use taffrail::words::{numbered, spans};
use taffrail_agent::launcher::Report;
use taffrail_agent::wire::{End, Level, Stream};
use taffrail_agent::{NodeId, RankIncarnation};

/// The status of a job that ends because a node is lost: as if its ranks were killed.
const LOST: u8 = 128 + 9;

/// What listeners count, in this order.
const REFUSALS: [&str; 5] = ["wrong secret", "garbage", "truncated", "oversized", "half-open"];

impl Job<'_> {
    /// What a report means for ranks.
    pub(super) fn reported(&mut self, report: Report) -> Vec<Event> {
        match report {
            Report::NodeUp { node, hello } => {
                let name = &self.names[usize::from(node)];
                let (program, host, cpus) = (hello.program, hello.host, hello.cpus);
                tracing::debug!("node {name} is up: {program} on {host} with {cpus} processors");
            }
            Report::NodeCut { node, why, ranks, copy: Some(copy) } if !self.life.is_ending() => {
                self.say_cut(node, &why, &ranks, copy);
            }
            Report::NodeCut { node, why, ranks, .. } => return self.lost(node, &why, &ranks, None),
            Report::NodeEnded { node, why, lost, refused, copy } => {
                self.say_refused(node, refused);
                self.say_reliable(node, &why);
                return self.lost(node, &why, &lost, copy);
            }
            Report::Copying { node, to: Some(to) } => {
                let [name, to] = [node, to].map(|node| &self.names[usize::from(node)]);
                tracing::debug!("the events of ranks of node {name} are copied to node {to}");
            }
            Report::Copying { node, to: None } => crate::log::note(&format!(
                "the loss of node {} is not survived any more: no other node is left for a copy of its events",
                self.names[usize::from(node)]
            )),
            Report::Uncopied { node, why } => crate::log::note(&format!(
                "the events of node {} cannot be copied ({why}); they are copied to another node, if one is left",
                self.names[usize::from(node)]
            )),
            Report::Recovered { life, left } => {
                return vec![Event::recovered(index(life), left)];
            }
            Report::Left { life, known } => {
                return vec![Event::Left { rank: index(life), known }];
            }
            Report::Started { life, pid, .. } => {
                if life.rank == 0 {
                    self.input.connect();
                }
                let pid = i32::try_from(pid).unwrap_or(0);
                return vec![Event::Started { rank: index(life), pid }];
            }
            Report::Ended { life, end } => return self.ended(life, end),
            Report::Member { life, member } => return vec![relay::to_event(life, member)],
            Report::Output { life, node, stream, bytes } => self.output(life, node, stream, &bytes),
            Report::InputTaken { bytes, .. } => self.input.taken(bytes),
            Report::Stuck { waiting, gone } => {
                return vec![Event::Stuck { waiting: waiting as usize, gone: gone as usize }];
            }
            Report::Note { node, level, text } => {
                let line = format!("node {}: {text}", self.names[usize::from(node)]);
                match level {
                    Level::Error => say(&line),
                    Level::Note => crate::log::note(&line),
                    Level::Debug => tracing::debug!("{line}"),
                }
            }
            Report::Failed { status, why } => {
                return vec![Event::Trouble { status: low_byte(status as i32), why }];
            }
            Report::Done => self.done = true,
        }
        Vec::new()
    }

    fn output(&mut self, life: RankIncarnation, node: NodeId, stream: Stream, bytes: &[u8]) {
        let [out, err] = &mut self.lines[index(life)];
        match stream {
            Stream::Output => self.outlets.push(To::Out, out.take(bytes)),
            Stream::Error => self.outlets.push(To::Err, err.take(bytes)),
        }
        self.owed[usize::from(node)] += bytes.len() as u32;
    }

    /// A rank writes no more.
    pub(super) fn finish_lines(&mut self, rank: usize) {
        let [out, err] = &mut self.lines[rank];
        self.outlets.push(To::Out, out.finish());
        self.outlets.push(To::Err, err.finish());
    }

    fn ended(&mut self, life: RankIncarnation, end: End) -> Vec<Event> {
        let rank = index(life);
        let node = self.placed[rank].take();
        self.finish_lines(rank);
        let ended = |end| Event::Ended { rank, end };
        match end {
            End::Exited(status) => vec![ended(life::End::Exited(status))],
            End::Signal(signal) => vec![ended(life::End::Signal(signal))],
            End::NotStarted(status, why) => {
                let node = node.map_or("?", |node| &self.names[usize::from(node)]);
                let why = format!("node {node}: {why}");
                let status = low_byte(status);
                let trouble = Event::Trouble { status, why };
                vec![trouble, ended(life::End::Exited(status.into()))]
            }
        }
    }

    /// The host with all copies is lost.
    fn say_reliable(&self, node: NodeId, why: &str) {
        if self.plan.reliable == Some(node) && !self.life.is_ending() && self.finishing.is_none() {
            crate::log::note(&format!(
                "the reliable host {} is lost ({why}): events are copied to other nodes from now on",
                self.names[usize::from(node)]
            ));
        }
    }

    /// A node cannot be reached, and another one has a copy of the events of its ranks.
    fn say_cut(&self, node: NodeId, why: &str, ranks: &[RankIncarnation], copy: NodeId) {
        if !ranks.is_empty() {
            let ranks = named(ranks.iter().map(|life| index(*life)));
            let [name, copy] = [node, copy].map(|node| &self.names[usize::from(node)]);
            crate::log::note(&format!(
                "node {name} cannot be reached ({why}): when its lease has ended, {ranks} restart on node {copy}"
            ));
        }
    }

    /// A node is lost. Its ranks are started elsewhere, if there is a copy of their events; else the job ends.
    fn lost(
        &mut self,
        node: NodeId,
        why: &str,
        ranks: &[RankIncarnation],
        copy: Option<NodeId>,
    ) -> Vec<Event> {
        let ranks: Vec<usize> = ranks.iter().map(|life| index(*life)).collect();
        let lost: Vec<usize> =
            ranks.into_iter().filter(|rank| self.placed[*rank].is_some()).collect();
        if lost.is_empty() {
            return Vec::new();
        }
        for &rank in &lost {
            self.placed[rank] = None;
            self.finish_lines(rank);
        }
        let name = &self.names[usize::from(node)];
        let why = format!("node {name} lost ({why}): {}", named(lost.iter().copied()));
        let ended = |rank| Event::Ended { rank, end: life::End::Signal(libc::SIGKILL) };
        let trouble = match copy.filter(|_| !self.life.is_ending()) {
            Some(_) => {
                crate::log::note(&why);
                None
            }
            None => Some(Event::Trouble { status: LOST, why: why + self.not_survived }),
        };
        trouble.into_iter().chain(lost.into_iter().map(ended)).collect()
    }

    fn say_refused(&self, node: NodeId, refused: [u64; 5]) {
        let counts = refused.into_iter().zip(REFUSALS).filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, why)| format!("{count} {why}")).collect();
        if !counts.is_empty() {
            let name = &self.names[usize::from(node)];
            crate::log::note(&format!("node {name} refused connections: {}", counts.join(", ")));
        }
    }
}

/// Ranks, for people.
fn named(ranks: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<u32> = ranks.map(|rank| rank as u32).collect();
    match numbers.len() {
        1 => numbered("rank", &numbers),
        _ => format!("ranks {}", spans(numbers.into_iter().map(|rank| rank as usize))),
    }
}

fn low_byte(status: i32) -> u8 {
    crate::run::ranks::low_byte(status)
}
