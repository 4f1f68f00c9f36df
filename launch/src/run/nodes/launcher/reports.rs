//! What happens on nodes, for the state machine of ranks and for people.

use super::Job;
use crate::run::life::{self, Event};
use crate::run::nodes::{index, relay};
use crate::run::outlets::To;
use crate::run::say;
use taffrail::words::{counted, numbered, spans};
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
            Report::Network(network) => {
                tracing::debug!("ranks use {network} between nodes, where each has an address");
            }
            Report::NodeUp { node, hello } => {
                let name = &self.names[usize::from(node)];
                let (program, host, cpus) = (hello.program, hello.host, hello.cpus);
                tracing::debug!("node {name} is up: {program} on {host} with {cpus} processors");
            }
            Report::NodeCut { node, why, ranks, copy: Some(copy) } if !self.life.is_ending() => {
                self.say_cut(node, &why, &ranks, copy);
            }
            Report::NodeCut { node, why, ranks, .. } => return self.lost(node, &why, &ranks, None),
            Report::NodeRevoked { node, why, ranks, copy } => {
                self.say_revoked(node, &why, &ranks, copy);
            }
            Report::NodeEnded { node, why, lost, refused, copy } => {
                say_refused(&format!("node {}", self.names[usize::from(node)]), refused);
                self.say_reliable(node, &why);
                return self.lost(node, &why, &lost, copy);
            }
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
            of_copies => self.copies_reported(of_copies),
        }
        Vec::new()
    }

    /// What becomes of copies of events, for people.
    fn copies_reported(&mut self, report: Report) {
        match report {
            Report::Copying { node, to: Some(to), nodes, .. } => {
                let known = &mut self.copies[usize::from(node)];
                *known = nodes.max(*known);
                let [name, to] = [node, to].map(|node| &self.names[usize::from(node)]);
                tracing::debug!("the events of ranks of node {name} are copied to node {to}");
            }
            Report::Copying { node, to: None, nodes, .. } => self.say_fewer_copies(node, nodes),
            Report::Uncopied { node, why } => crate::log::note(&format!(
                "the events of node {} cannot be copied ({why}); they are copied to another node, if one is left",
                self.names[usize::from(node)]
            )),
            Report::Moving { life, from, to } => {
                let [from, to] = [from, to].map(|node| &self.names[usize::from(node)]);
                tracing::debug!(
                    "rank {} restarts on node {to}: its log goes there from node {from}",
                    life.rank
                );
            }
            Report::NotMoved { life, to, why } => crate::log::note(&format!(
                "the log of rank {} could not be brought to node {} ({why}): it restarts on another one",
                life.rank,
                self.names[usize::from(to)]
            )),
            Report::NoCopy { life, node, why } => crate::log::note(&format!(
                "node {} has no copy of the events of rank {} any more ({why}): another copy is used, if there is one",
                self.names[usize::from(node)],
                life.rank
            )),
            _ => {}
        }
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

    /// No node is left for one of the copies of another one.
    fn say_fewer_copies(&mut self, node: NodeId, nodes: u32) {
        let known = &mut self.copies[usize::from(node)];
        let is_said = nodes >= std::mem::replace(known, nodes);
        let name = &self.names[usize::from(node)];
        match nodes {
            _ if is_said => {}
            0 => crate::log::note(&format!(
                "the loss of node {name} is not survived any more: no other node is left for a copy of its events"
            )),
            _ => crate::log::note(&format!(
                "copies of the events of node {name} are on {} now: no more are left",
                counted(nodes, "other node")
            )),
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
            let name = &self.names[usize::from(node)];
            let restart = self.restart_on(ranks, copy);
            crate::log::note(&format!(
                "node {name} cannot be reached ({why}): when its lease has ended, {restart}"
            ));
        }
    }

    /// A node is ended, since another one cannot reach it.
    fn say_revoked(&self, node: NodeId, why: &str, ranks: &[RankIncarnation], copy: NodeId) {
        let name = &self.names[usize::from(node)];
        let restart = self.restart_on(ranks, copy);
        crate::log::note(&format!("{why}: node {name} is ended, and {restart}"));
    }

    fn restart_on(&self, ranks: &[RankIncarnation], node: NodeId) -> String {
        let restart = if ranks.len() == 1 { "restarts" } else { "restart" };
        // Of those that need not be together it is said later.
        let stay = ranks.iter().all(|life| self.launcher.stays_with_others(life.rank));
        let there = if stay { "on" } else { "from the copy on" };
        let ranks = named(ranks.iter().map(|life| index(*life)));
        format!("{ranks} {restart} {there} node {}", self.names[usize::from(node)])
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
}

/// Says how many connections the listeners of a node, or of the launcher, have refused, and why. Truncated ones alone are no
/// news: a rank that is killed while it connects leaves one.
pub(super) fn say_refused(who: &str, refused: [u64; 5]) {
    let counts = refused.into_iter().zip(REFUSALS).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, why)| format!("{count} {why}")).collect();
    let line = format!("{who} refused connections: {}", counts.join(", "));
    match refused {
        [0, 0, 0, 0, 0] => {}
        [0, 0, _, 0, 0] => tracing::debug!("{line}"),
        _ => crate::log::note(&line),
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
