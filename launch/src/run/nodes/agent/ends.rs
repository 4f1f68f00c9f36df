//! How the ranks of a node end.

use super::Source;
use super::job::Job;
use super::rank::NodeRank;
use crate::run::life::Event::Overdue;
use crate::run::output::TURN;
use std::time::Instant;
use taffrail::words::counted;
use taffrail_agent::agent::{Event, State};
use taffrail_agent::wire::{End, Frame, Level};
use taffrail_agent::{Agent, RankIncarnation};

impl Job {
    /// Ranks that have ended are reaped.
    pub fn reap(&mut self, events: &mut Vec<Event>) {
        let all = self.ranks.iter().filter(|(_, rank)| rank.process.has_ended());
        let ended: Vec<usize> = all.map(|(number, _)| *number).collect();
        if !ended.is_empty() {
            let lives: Vec<RankIncarnation> = self.ranks.values().map(|rank| rank.life).collect();
            events.extend(self.left(&lives));
        }
        for number in ended {
            // What it said before it ended is heard first.
            events.extend(self.listen(number));
            self.handle(Source::Members(number), events);
            if let Some(rank) = self.ranks.get_mut(&number) {
                rank.reap(&self.guard);
            }
            self.members.forget(number);
        }
    }

    /// Ranks that have not called the library for too long, or were stopped.
    pub fn overdue(&mut self, events: &mut Vec<Event>) {
        let Some(heartbeats) = &mut self.heartbeats else { return };
        let limit = heartbeats.limit();
        let ranks = &self.ranks;
        let is_stopped = |rank| ranks.get(&rank).is_some_and(|rank| rank.process.is_stopped());
        let overdue = heartbeats.overdue(is_stopped).into_iter();
        let reports = overdue.filter_map(|rank| self.member(rank, Overdue { rank, limit }));
        events.extend(reports);
    }

    /// Ranks whose processes have ended are over when the launcher has taken their output.
    pub fn drain(&mut self, state: &Agent, events: &mut Vec<Event>) {
        events.extend(self.answer_held());
        let is_late = self.delivery.is_some_and(|at| Instant::now() >= at);
        let is_lost = state.state() >= State::Leaving;
        let ended: Vec<usize> =
            self.ranks.iter().filter(|(_, rank)| rank.has_ended()).map(|(rank, _)| *rank).collect();
        for number in ended {
            let unread = |job: &Job| job.ranks.get(&number).and_then(NodeRank::unread);
            while let Some(to) = unread(self).filter(|_| self.room >= TURN && !is_lost) {
                events.extend(self.read(number, to));
            }
            if unread(self).is_some() && !is_late && !is_lost {
                continue;
            }
            let Some(rank) = self.ranks.remove(&number) else { continue };
            let lost = rank.unread_bytes();
            if lost > 0 {
                let who = rank.process.name(number);
                let bytes = counted(lost, "byte");
                let text = format!("nobody reads the output of {who}; lost: the last {bytes}");
                events.push(Event::Say(Frame::Note { level: Level::Error, text }));
            }
            let end = rank.end();
            // One that was killed may be restarted: who waits for its values waits for those of the next incarnation.
            let comes_back = self.logs.are_kept() && matches!(end, Some(End::Signal(_)));
            events.extend(end.map(|end| Event::Ended { life: rank.life, end }));
            self.over.push(rank.process);
            if !comes_back {
                let answers = self.server.gone(number);
                events.extend(self.answer(answers));
            }
        }
    }
}
