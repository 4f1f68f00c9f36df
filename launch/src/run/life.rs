//! The life of every rank of a job, as a state machine (`docs/spec/rank-life.md`): events in, actions out,
//! without I/O and without a clock.

mod cause;
mod ending;
mod event;
mod rank;
mod restart;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use super::failures::OnFailure;
use super::recovery::RankGeneration;
use super::recovery_stats::RecoveryStats;
use super::sets::Sets;
use super::signals;
use cause::{Cause, signal_status};
pub use event::{Action, Checkpoint, Event};
pub use rank::{By, End, Process};
use rank::{Meaning, Membership, RankLife, State};
use restart::{Death, Recovering};
use std::time::Duration;
use taffrail::units::format_duration;
use taffrail::words::{counted, spans};

/// How long ranks have to end by themselves once asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How long a failure waits for another one that it may follow from, and a rank for one that is gone.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a direct child has to end when a member of its rank is gone.
const LOST: Duration = Duration::from_millis(100);

/// The status of a job that took too long, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Where killed ranks are started again.
pub struct Restarts {
    pub sets: Sets,
    /// How often, for all sets together.
    pub max: u32,
}

/// The lives of all ranks.
pub struct Life {
    now: Duration,
    actions: Vec<Action>,
    ranks: Vec<RankLife>,
    on_failure: OnFailure,
    restarts: Option<Restarts>,
    /// Of each rank.
    generations: Vec<RankGeneration>,
    /// Of each set.
    deaths: Vec<Option<Death>>,
    /// The restart that is under way.
    recovering: Option<Recovering>,
    /// Ranks that were killed during it.
    killed_meanwhile: Vec<(Cause, Option<i32>)>,
    pub stats: RecoveryStats,
    restarted_sets: u32,
    /// The first rank that has ended with status 0.
    done: Option<usize>,
    /// Ranks that have ended with status 0 without finalising, in the order of their ends.
    unfinalised: Vec<usize>,
    /// Since when a rank waits in vain for one that has ended, whose failure that is.
    in_vain: Option<(Duration, Cause)>,
    /// A failure that may follow from another one.
    held: Option<Held>,
    /// All programs are over, and were let go.
    released: bool,
    verdict: Option<u8>,
    /// Set once the ranks were asked to end.
    kill_at: Option<Duration>,
    kills: u32,
}

struct Held {
    cause: Cause,
    /// The rank that failed first, as far as was seen: its own end explains nothing.
    first: Option<usize>,
    until: Duration,
    /// Processes that were about to end when it was noticed; `None` until that is known.
    exiting: Option<Vec<Process>>,
}

impl Life {
    /// The state of this number of ranks before any is started. `restarts` where messages are logged.
    pub fn new(ranks: usize, on_failure: OnFailure, restarts: Option<Restarts>) -> Life {
        Life {
            now: Duration::ZERO,
            actions: Vec::new(),
            ranks: (0..ranks).map(RankLife::new).collect(),
            on_failure,
            restarts,
            generations: vec![RankGeneration::default(); ranks],
            deaths: vec![None; ranks],
            recovering: None,
            killed_meanwhile: Vec::new(),
            stats: RecoveryStats::default(),
            restarted_sets: 0,
            done: None,
            unfinalised: Vec::new(),
            in_vain: None,
            held: None,
            released: false,
            verdict: None,
            kill_at: None,
            kills: 0,
        }
    }

    /// Takes the events that were noticed together, and says what is to be done about them.
    pub fn handle(&mut self, now: Duration, mut batch: Vec<Event>) -> Vec<Action> {
        self.now = now;
        batch.sort_by_key(|event| self.order(event));
        let mut killed = Vec::new();
        for event in batch {
            self.take(event, &mut killed);
        }
        if !killed.is_empty() {
            self.killed(killed);
        }
        if self.recovering.is_none() && !self.killed_meanwhile.is_empty() {
            let killed = std::mem::take(&mut self.killed_meanwhile);
            self.killed(killed);
        }
        self.check_held();
        self.check_in_vain();
        self.check_lost();
        self.check_grace();
        self.check_programs();
        std::mem::take(&mut self.actions)
    }

    /// Whether the job goes on.
    pub fn goes_on(&self) -> bool {
        self.recovering.is_some() || self.ranks.iter().any(RankLife::runs)
    }

    /// Whether the ranks were asked to end.
    pub fn is_ending(&self) -> bool {
        self.kill_at.is_some()
    }

    /// How often all ranks were to be killed.
    pub fn kills(&self) -> u32 {
        self.kills
    }

    /// A job that is ending has until then for it.
    pub fn extend_grace(&mut self, until: Duration) {
        self.kill_at = self.kill_at.map(|_| until);
    }

    /// When it is to be handled next, if nothing happens before.
    pub fn due(&self) -> Option<Duration> {
        let held = self.held.as_ref().map(|held| held.until);
        let in_vain = self.in_vain.as_ref().filter(|_| !self.is_ending());
        let in_vain = in_vain.map(|(since, _)| *since + SETTLE);
        let lost = self.ranks.iter().filter_map(|rank| match rank.state {
            State::Lost { since, killed: false, .. } => Some(since + LOST),
            _ => None,
        });
        lost.chain(held).chain(in_vain).chain(self.kill_at).min()
    }

    /// The present life of every rank.
    pub fn generations(&self) -> &[RankGeneration] {
        &self.generations
    }

    /// The status of the job.
    pub fn status(&self) -> u8 {
        self.verdict.unwrap_or(0)
    }

    /// What is to be said of ranks when all is over.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let given_up = self.ranks_where(|rank| rank.state == State::GivenUp);
        if self.on_failure == OnFailure::ShrinkReport && !given_up.is_empty() {
            let (gone, all) = (given_up.len(), self.ranks.len());
            let ranks = spans(given_up.iter().copied());
            lines.push(format!(
                "{gone} of {} were killed, the others went on: {ranks}",
                counted(all, "rank")
            ));
        }
        let mut never = self.unfinalised.clone();
        never.retain(|&rank| self.ranks[rank].membership() == Membership::Joined);
        if self.verdict.is_none() && !never.is_empty() {
            never.sort_unstable();
            let s = if never.len() == 1 { "" } else { "s" };
            let ranks = spans(never.iter().copied());
            lines.push(format!(
                "rank{s} {ranks} ended without finalising (MPI_Finalize); no other rank waited for that"
            ));
        }
        lines
    }

    /// What is seen in one poll is taken in this order.
    fn order(&self, event: &Event) -> (u8, usize) {
        let by_itself = if self.restarts.is_some() { 0 } else { 1 };
        match event {
            Event::Signalled { .. } => (0, 0),
            Event::MemberGone { rank, .. } => (3, *rank),
            Event::Ended { rank, end: End::Exited(0) } => (7, *rank),
            Event::Ended { rank, end: End::Exited(_) } => (4 + 2 * by_itself, *rank),
            Event::Ended { rank, end: End::Signal(_) } => (5, *rank),
            Event::Tick => (9, 0),
            _ => (1, 0),
        }
    }

    fn take(&mut self, event: Event, killed: &mut Vec<(Cause, Option<i32>)>) {
        match event {
            Event::Started { rank, pid } => self.started(rank, pid),
            Event::Joined { rank, pid, by } => self.ranks[rank].join(pid, by),
            Event::Finalised { rank, pid, by } => self.ranks[rank].finalise(pid, by),
            Event::Exits { rank, pid, status } => self.ranks[rank].exits(pid, status),
            Event::ProgramOver { rank, pid } => self.ranks[rank].program_over(pid),
            Event::Aborted { rank, code, text } => {
                self.ranks[rank].aborted = true;
                self.fail(Cause::aborted(&self.ranks[rank], code, text));
            }
            Event::Stuck { waiting, gone } => self.fail(Cause::stuck(waiting, gone)),
            Event::MemberGone { rank, pid } => {
                self.ranks[rank].member_gone(pid, self.now);
            }
            Event::Ended { rank, end } => self.ended(rank, end, killed),
            Event::Left { rank, known } => self.ranks[rank].left = Some(known),
            Event::Recovered { rank, events, checkpoint } => {
                self.recovered(rank, events, checkpoint);
            }
            Event::Exiting { processes } => self.exiting(processes),
            Event::Overdue { rank, limit } => self.overdue(rank, limit),
            Event::Signalled { signal, to_ranks } => self.signalled(signal, to_ranks),
            Event::TimedOut { limit } => self.fail(Cause::of_launcher(
                TIMED_OUT,
                format!("the job did not end within {}", format_duration(limit)),
            )),
            Event::Trouble { status, why } => self.fail(Cause::of_launcher(status, why)),
            Event::Tick => {}
        }
    }

    fn ended(&mut self, rank: usize, end: End, killed: &mut Vec<(Cause, Option<i32>)>) {
        if matches!(self.ranks[rank].state, State::Restarting { .. }) {
            return self.stopped(rank, end);
        }
        if self.ranks[rank].aborted {
            self.ranks[rank].state = State::Failed;
            return self.leave(rank);
        }
        match self.ranks[rank].meaning(end) {
            Meaning::Well => self.ended_well(rank),
            Meaning::Failed(cause) => {
                self.ranks[rank].state = State::Failed;
                self.fail(cause);
                self.leave(rank);
            }
            Meaning::Killed(cause, signal) => {
                self.ranks[rank].state = State::Killed;
                killed.push((cause, signal));
            }
        }
    }

    fn ended_well(&mut self, rank: usize) {
        self.ranks[rank].state = State::Ended;
        self.done.get_or_insert(rank);
        if self.ranks[rank].membership() != Membership::Finalised {
            self.unfinalised.push(rank);
            // It may be what a failure follows from.
            self.blame_unfinalised();
        }
        self.check_left_early(rank);
        // After that: what waits for it in a barrier waits in vain, and that is named first.
        self.check_in_vain();
        self.leave(rank);
    }

    /// A rank has ended for good.
    fn leave(&mut self, rank: usize) {
        self.actions.push(Action::Leave(rank));
    }

    fn ranks_where(&self, what: impl Fn(&RankLife) -> bool) -> Vec<usize> {
        self.ranks.iter().filter(|rank| what(rank)).map(|rank| rank.rank).collect()
    }

    fn overdue(&mut self, rank: usize, limit: Duration) {
        if self.ranks[rank].runs() && !self.is_ending() {
            let limit = format_duration(limit);
            self.report(format!(
                "{} has not called the library for {limit}, or is stopped; killing it (--heartbeat)",
                self.ranks[rank].who()
            ));
            self.actions.push(Action::Kill(rank));
        }
    }

    fn report(&mut self, line: String) {
        self.actions.push(Action::Report(line));
    }

    /// The second signal is obeyed at once.
    fn signalled(&mut self, signal: i32, to_ranks: i32) {
        if self.is_ending() {
            self.kill_at = Some(self.now);
        } else {
            self.report(format!("signal {}: ending the job", signals::name(signal)));
            self.end(signal_status(signal), to_ranks);
        }
    }
}
