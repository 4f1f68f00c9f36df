//! Ranks that were killed: whether they are started again, and how.

use super::cause::Cause;
use super::rank::{End, Meaning, RankLife, State};
use super::{Action, Checkpoint, Life};
use crate::run::failures::OnFailure;
use crate::run::signals;
use std::collections::BTreeSet;
use std::time::Duration;
use taffrail::words::{counted, spans};

/// What it means when a rank is killed after all were done with each other.
const NOT_DONE: &str = "all messages were done with; what it had still to do by itself, such as to write its results, is not done";

/// Signals by which a process ends that does the same again: with the same limits, and the same output.
const REPEATED: [i32; 3] = [libc::SIGPIPE, libc::SIGXCPU, libc::SIGXFSZ];

/// Signals that programs bring upon themselves.
const OWN: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// How a set died the last time, and how far it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    signal: i32,
    events: u64,
    checkpoints: u64,
}

/// A restart that is under way.
#[derive(Debug)]
pub struct Recovering {
    noticed: Duration,
    failed: Vec<(Cause, Option<i32>)>,
    sets: BTreeSet<usize>,
    /// All members of the sets.
    ranks: Vec<usize>,
    /// Of each of them that is known: its events and its checkpoint.
    recovered: Vec<(usize, u64, Option<Checkpoint>)>,
    /// Those that were started.
    started: usize,
}

impl Recovering {
    /// What has happened, in one clause.
    pub(super) fn how(&self) -> String {
        clauses(&self.failed)
    }

    fn events(&self) -> u64 {
        let of_one = |(_, events, checkpoint): &(usize, u64, Option<Checkpoint>)| {
            events.saturating_sub(checkpoint.map_or(0, |checkpoint| checkpoint.events))
        };
        self.recovered.iter().map(of_one).sum()
    }

    fn checkpoints(&self) -> Vec<u64> {
        self.recovered.iter().filter_map(|(_, _, last)| Some((*last)?.number)).collect()
    }
}

fn clauses(failed: &[(Cause, Option<i32>)]) -> String {
    failed.iter().map(|(cause, _)| cause.clause()).collect::<Vec<_>>().join(", ")
}

impl Life {
    /// Ranks were killed. What is done about one may depend on the others: those that died together are
    /// started again knowing of each other.
    pub(super) fn killed(&mut self, mut failed: Vec<(Cause, Option<i32>)>) {
        failed.retain(|(cause, _)| {
            let rank = cause.rank.unwrap_or_default();
            let is_through = self.released && self.ranks[rank].child_is_over();
            if is_through {
                self.through(cause);
            }
            !is_through
        });
        if failed.is_empty() {
            return;
        }
        // One restart after the other: ranks of other nodes die while what others leave is found out.
        if self.recovering.is_some() && !self.is_ending() {
            self.killed_meanwhile.extend(failed);
            return;
        }
        // A rank that can be started again is no reason for the others to fail.
        let restarts = self.on_failure == OnFailure::Restart && self.restarts.is_some();
        if restarts && !self.is_ending() && self.held.is_none() {
            self.stats.failures += failed.len() as u32;
            return self.restart(failed);
        }
        let shrinks = self.on_failure == OnFailure::ShrinkReport && !self.is_ending();
        for (cause, _) in failed {
            let rank = cause.rank.unwrap_or_default();
            self.ranks[rank].state = State::GivenUp;
            if shrinks {
                self.report(format!("{}; the others go on without it", cause.clause()));
                self.verdict.get_or_insert(cause.status);
            } else if !restarts {
                self.fail(cause);
            }
            self.leave(rank);
        }
    }

    /// A rank was killed when its program was over, its output was written, and it was let go.
    fn through(&mut self, cause: &Cause) {
        let rank = cause.rank.unwrap_or_default();
        self.ranks[rank].state = State::Ended;
        if !self.is_ending() {
            let clause = cause.clause();
            self.report(format!("{clause} as it ended: its program was over, and nothing is lost"));
        }
        self.leave(rank);
    }

    fn restart(&mut self, failed: Vec<(Cause, Option<i32>)>) {
        let sets: BTreeSet<usize> = {
            let Some(restarts) = &self.restarts else { return };
            failed.iter().filter_map(|(cause, _)| Some(restarts.sets.of(cause.rank?))).collect()
        };
        if let Some(why) = self.why_not(&failed, sets.len() as u32) {
            return self.give_up(failed, &why);
        }
        let Some(restarts) = &self.restarts else { return };
        let ranks: Vec<usize> = sets.iter().flat_map(|&set| restarts.sets.members(set)).collect();
        let running: Vec<usize> =
            ranks.iter().copied().filter(|&rank| self.ranks[rank].runs()).collect();
        for &rank in &ranks {
            let reaped = !self.ranks[rank].runs();
            self.ranks[rank].state = State::Restarting { reaped };
        }
        let (noticed, recovered) = (self.now, Vec::new());
        self.recovering = Some(Recovering { noticed, failed, sets, ranks, recovered, started: 0 });
        match running.is_empty() {
            true => self.recover(),
            false => self.actions.push(Action::Stop(running)),
        }
    }

    /// Why ranks are not started again.
    fn why_not(&self, failed: &[(Cause, Option<i32>)], sets: u32) -> Option<String> {
        let repeated = failed.iter().filter_map(|(_, signal)| *signal);
        if let Some(signal) = repeated.into_iter().find(|signal| REPEATED.contains(signal)) {
            let why = match signal {
                libc::SIGPIPE => "it wrote to a pipe or a socket that nobody reads",
                libc::SIGXCPU => "its limit of processor time (ulimit -t) stays",
                _ => "its limit of the size of files (ulimit -f) stays",
            };
            return Some(format!("it is not restarted, since it would do the same again: {why}"));
        }
        if self.released {
            return Some(format!("it is not restarted, since all programs were over: {NOT_DONE}"));
        }
        if let Some(done) = self.who_is_done() {
            return Some(all_were_done(done));
        }
        let max = self.restarts.as_ref().map_or(0, |restarts| restarts.max);
        let left = max.saturating_sub(self.restarted_sets);
        (sets > left)
            .then(|| format!("it is not restarted: --max-restarts is {max}, and {left} are left"))
    }

    /// The first rank that is done with all others, if any is: it takes nobody in any more, so nobody is to
    /// be started again.
    fn who_is_done(&self) -> Option<usize> {
        self.done.or_else(|| self.ranks.iter().position(|rank| rank.left.is_some()))
    }

    /// A member of a set that is started again has ended.
    pub(super) fn stopped(&mut self, rank: usize, end: End) {
        self.ranks[rank].state = State::Restarting { reaped: true };
        // As if it were killed for another reason: it may have been faster.
        match self.ranks[rank].meaning(end) {
            Meaning::Killed(..) => {}
            Meaning::Well => {
                self.done.get_or_insert(rank);
            }
            Meaning::Failed(cause) => return self.stop_recovering(Some(cause), ""),
        }
        let waits = |rank: &RankLife| rank.state == State::Restarting { reaped: false };
        if !self.ranks.iter().any(waits) {
            match self.who_is_done() {
                Some(done) => self.stop_recovering(None, &all_were_done(done)),
                None => self.recover(),
            }
        }
    }

    fn recover(&mut self) {
        let ranks = self.recovering.iter().flat_map(|recovering| recovering.ranks.clone());
        let ranks = ranks.collect();
        self.actions.push(Action::Recover(ranks));
    }

    pub(super) fn recovered(&mut self, rank: usize, events: u64, checkpoint: Option<Checkpoint>) {
        let Some(recovering) = &mut self.recovering else { return };
        recovering.recovered.push((rank, events, checkpoint));
        if recovering.recovered.len() < recovering.ranks.len() {
            return;
        }
        if let Some(signal) = self.dies_again() {
            let why = format!(
                "it is not restarted: the life before died by signal {}, too, and this one came no \
                 further",
                signals::name(signal)
            );
            return self.stop_recovering(None, &why);
        }
        let Some(recovering) = &self.recovering else { return };
        for _ in &recovering.sets {
            self.restarted_sets += 1;
        }
        for &rank in &recovering.ranks {
            let generation = &mut self.generations[rank];
            generation.incarnation += 1;
            generation.generation = self.restarted_sets;
        }
        self.actions.push(Action::Start(recovering.ranks.clone()));
    }

    /// The signal by which a set dies again where it has died before. Remembers this death of each set.
    fn dies_again(&mut self) -> Option<i32> {
        let (recovering, restarts) = (self.recovering.as_ref()?, self.restarts.as_ref()?);
        let mut again = None;
        for &set in &recovering.sets {
            let of_set = |rank: usize| restarts.sets.of(rank) == set;
            let all = recovering.recovered.iter().filter(|(rank, ..)| of_set(*rank));
            let (mut events, mut checkpoints) = (0, 0);
            for (_, logged, checkpoint) in all {
                events += logged;
                checkpoints += checkpoint.map_or(0, |last| last.number);
            }
            let failed = recovering.failed.iter();
            let of_this = failed.filter(|(cause, _)| cause.rank.is_some_and(of_set));
            let signal = of_this.filter_map(|(_, signal)| *signal).find(|s| OWN.contains(s));
            let before = self.deaths[set].take();
            let Some(signal) = signal else { continue };
            let death = Death { signal, events, checkpoints };
            let no_further = |before: Death| {
                before.signal == signal
                    && events <= before.events
                    && checkpoints <= before.checkpoints
            };
            if before.is_some_and(no_further) {
                again = Some(signal);
            }
            self.deaths[set] = Some(death);
        }
        again
    }

    pub(super) fn started(&mut self, rank: usize, pid: i32) {
        // From another node that may be heard when the process is to be stopped already.
        if self.ranks[rank].state == (State::Restarting { reaped: false }) {
            self.ranks[rank].pid = pid;
            return;
        }
        self.ranks[rank].start(pid);
        let of_recovering = |recovering: &&mut Recovering| recovering.ranks.contains(&rank);
        let Some(recovering) = self.recovering.as_mut().filter(of_recovering) else { return };
        recovering.started += 1;
        if recovering.started < recovering.ranks.len() {
            return;
        }
        let Some(done) = self.recovering.take() else { return };
        let (events, checkpoints) = (done.events(), done.checkpoints());
        self.stats.restarts.push(self.now.saturating_sub(done.noticed));
        self.stats.successors += done.ranks.len() as u32;
        self.stats.events += events;
        self.stats.checkpoints += checkpoints.len() as u32;
        let what = match done.ranks[..] {
            [rank] => format!("it as incarnation {}", self.generations[rank].incarnation),
            _ => format!("ranks {}", spans(done.ranks.iter().copied())),
        };
        let from = match checkpoints[..] {
            [] => String::new(),
            [last] => format!(" from checkpoint {last}"),
            ref several => format!(", {} from checkpoints", several.len()),
        };
        self.report(format!(
            "{}; restarting {what}{from} ({} to replay)",
            done.how(),
            counted(events, "event")
        ));
    }

    /// The restart that is under way comes to nothing: by a failure of its own, or as `why` says.
    fn stop_recovering(&mut self, cause: Option<Cause>, why: &str) {
        let Some(failed) = self.abandon() else { return };
        match cause {
            Some(cause) => self.end_with(&cause),
            None => self.give_up(failed, why),
        }
    }

    /// Gives up the restart that is under way: those whose failure it began with.
    pub(super) fn abandon(&mut self) -> Option<Vec<(Cause, Option<i32>)>> {
        let Recovering { failed, .. } = self.recovering.take()?;
        for rank in &mut self.ranks {
            match rank.state {
                State::Restarting { reaped: true } => rank.state = State::GivenUp,
                // It ends with the job.
                State::Restarting { reaped: false } => rank.state = State::Running,
                _ => {}
            }
        }
        Some(failed)
    }

    fn give_up(&mut self, failed: Vec<(Cause, Option<i32>)>, why: &str) {
        let how = clauses(&failed);
        let status = failed.first().map_or(1, |(cause, _)| cause.status);
        for rank in failed.iter().filter_map(|(cause, _)| cause.rank) {
            self.ranks[rank].state = State::GivenUp;
            self.leave(rank);
        }
        let line = format!("{how}; {why}");
        let cause = match &self.in_vain {
            Some((_, in_vain)) => in_vain.clone(),
            None => Cause::of_launcher(status, line),
        };
        self.end_with(&cause);
    }

    /// A rank has ended with success; was that after all restarts?
    pub(super) fn check_left_early(&mut self, rank: usize) {
        let present = self.generations.iter().map(|life| u64::from(life.incarnation)).sum::<u64>();
        if self.ranks[rank].left.is_some_and(|known| known < present) {
            let who = self.ranks[rank].who();
            self.end_with(&Cause::of_launcher(
                1,
                format!(
                    "{who} was done with all others when one of them was killed, whose successor \
                     waits for it in vain; {NOT_DONE}"
                ),
            ));
        }
    }
}

fn all_were_done(rank: usize) -> String {
    format!("it is not restarted, since rank {rank} is done with all others: {NOT_DONE}")
}
