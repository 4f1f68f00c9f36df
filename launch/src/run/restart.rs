//! What the state machine of ranks' lives (`life.rs`) decides is carried out here.

use super::event_loop::Job;
use super::life::{Action, End, Event, Process};
use super::recovery::Recovery;
use super::{Failure, in_words, ranks, say};
use crate::log::note;
use rustix::process::Signal;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

impl Job<'_> {
    /// Does what was decided. What comes of it.
    pub(super) fn carry_out(&mut self, action: Action) -> Vec<Event> {
        match action {
            Action::Report(line) if self.life.is_ending() => say(&line),
            Action::Report(line) => note(&line),
            Action::FindExiting => {
                let children = self.ranks.iter().enumerate().filter(|(_, rank)| rank.is_exiting());
                let children =
                    children.map(|(rank, child)| Process { rank, pid: child.pid().as_raw_pid() });
                let processes = children.chain(self.members.exiting()).collect();
                return vec![Event::Exiting { processes }];
            }
            Action::Stop(ranks) => {
                ranks.iter().for_each(|&rank| self.ranks[rank].signal(Signal::KILL));
                return self.reap(&ranks);
            }
            Action::Recover(ranks) => return self.answer(|job| job.recover(&ranks)),
            Action::Start(ranks) => return self.answer(|job| job.start_again(&ranks)),
            Action::Leave(rank) => {
                let actions = self.server.gone(rank).into_iter();
                return actions.filter_map(|action| self.act(rank, action)).collect();
            }
            Action::Kill(rank) => self.ranks[rank].signal(Signal::KILL),
            Action::EndAll(signal) => {
                self.signal_all(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
                // A stopped process ends only when it goes on.
                self.signal_all(Signal::CONT);
            }
            Action::KillAll => self.signal_all(Signal::KILL),
            Action::Release => self.members.release(),
        }
        Vec::new()
    }

    fn answer(
        &mut self,
        what: impl FnOnce(&mut Self) -> Result<Vec<Event>, Failure>,
    ) -> Vec<Event> {
        what(self).unwrap_or_else(|Failure { status, why }| vec![Event::Trouble { status, why }])
    }

    /// Reaps direct children that have ended, or were killed.
    pub(super) fn reap(&mut self, ended: &[usize]) -> Vec<Event> {
        let mut events = Vec::new();
        for &rank in ended {
            let who = self.who(rank);
            match self.ranks[rank].reap(&self.guard) {
                Ok(status) => events.push(Event::Ended { rank, end: end(status) }),
                Err(e) => {
                    let why = format!("{who}: its end cannot be seen (wait4): {}", in_words(&e));
                    events.push(Event::Trouble { status: 1, why });
                    events.push(Event::Ended { rank, end: End::Signal(Signal::KILL.as_raw()) });
                }
            }
            self.members.forget(rank);
        }
        // After their ends, so that none leaves between.
        let left = if ended.is_empty() { Vec::new() } else { self.answer(|job| job.left()) };
        left.into_iter().chain(events).collect()
    }

    /// Which ranks are done with all others.
    fn left(&self) -> Result<Vec<Event>, Failure> {
        let Some(recovery) = &self.recovery else { return Ok(Vec::new()) };
        let mut left = Vec::new();
        for rank in 0..self.ranks.len() {
            let known = recovery.logger.left(rank)?;
            left.extend(known.map(|known| Event::Left { rank, known }));
        }
        Ok(left)
    }

    /// All members of the sets of these ranks are dead: what they have written is one cut.
    fn recover(&mut self, ranks: &[usize]) -> Result<Vec<Event>, Failure> {
        let Some(recovery) = &mut self.recovery else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        for &rank in ranks {
            // Its loggers are waited for.
            let left = recovery.recover(rank, &self.guard)?;
            events.extend(left.map(|left| Event::recovered(rank, left)));
        }
        Ok(events)
    }

    fn start_again(&mut self, ranks: &[usize]) -> Result<Vec<Event>, Failure> {
        self.recovery.as_ref().map_or(Ok(()), Recovery::check_provider)?;
        for &rank in ranks {
            self.server.restarted(rank);
            self.finish_output(rank);
        }
        if ranks.contains(&0) {
            self.keyboard.rewind()?;
        }
        // Where messages are logged, an MPI takes each rank for a node.
        crate::mpi::remove_left_behind(&self.name, ranks.iter().copied());
        let mut events = Vec::new();
        for &rank in ranks {
            let replay: Option<OwnedFd> =
                self.recovery.as_mut().and_then(|recovery| recovery.take_replay(rank));
            self.ranks[rank] = self.start(rank, replay)?;
            events.push(Event::Started { rank, pid: self.ranks[rank].pid().as_raw_pid() });
        }
        if let Some(recovery) = &self.recovery {
            let running = self.ranks.iter().filter(|rank| rank.runs()).map(ranks::Rank::pid);
            self.guard.replace_if_dead(running.chain(recovery.logger.pids()))?;
        }
        Ok(events)
    }

    /// The event logger has said something, or is gone.
    pub(super) fn check_logger(&mut self) -> Option<Event> {
        let failed = self.recovery.as_mut()?.logger.look(&self.guard).err()?;
        Some(Event::Trouble { status: failed.status, why: failed.why })
    }

    /// What is to be said of failures when all is over.
    pub(super) fn report_failures(&self) {
        self.life.summary().iter().for_each(|line| say(line));
        if let Some(recovery) = &self.recovery {
            self.life.stats.text(recovery.logger.deaths()).iter().for_each(|text| note(text));
            if let Ok(Some(sent)) = recovery.sent() {
                note(&format!("causal logging: {sent}"));
            }
        }
    }
}

/// How a direct child has ended.
fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (_, Some(signal)) => End::Signal(signal),
        // A process that was waited for has one of both.
        _ => End::Exited(1),
    }
}
