//! How a job comes to its end: the first cause of its failure, and its programs that are over.

use super::cause::{Cause, Kind};
use super::rank::{Process, RankLife, State};
use super::{Action, GRACE, Held, LOST, Life, SETTLE};

impl Life {
    /// Something has failed. What fails after the first failure follows from it.
    pub(super) fn fail(&mut self, cause: Cause) {
        if self.is_ending() {
            return;
        }
        let mut cause = self.blame(cause);
        if let (Kind::Launcher, Some(recovering)) = (cause.kind, &self.recovering) {
            cause.how = format!("{}; {}", recovering.how(), cause.how);
        }
        match &mut self.held {
            Some(held) => {
                if held.cause.follows_from(&cause) {
                    held.cause = cause;
                }
            }
            None if cause.kind >= Kind::Ended => {
                let until = self.now + SETTLE;
                self.held = Some(Held { first: cause.rank, cause, until, exiting: None });
                self.actions.push(Action::FindExiting);
            }
            None => self.end_with(&cause),
        }
    }

    /// Which processes are about to end while a failure is held.
    pub(super) fn exiting(&mut self, processes: Vec<Process>) {
        if let Some(held) = &mut self.held {
            held.exiting = Some(processes);
        }
    }

    pub(super) fn check_held(&mut self) {
        let is_over = |held: &Held| {
            let Some(exiting) = &held.exiting else { return self.now >= held.until };
            let mut others = self.ranks.iter().filter(|rank| Some(rank.rank) != held.first);
            self.now >= held.until || !others.any(|rank| rank.is_going(exiting))
        };
        if self.held.as_ref().is_some_and(is_over)
            && let Some(held) = self.held.take()
        {
            self.end_with(&held.cause);
        }
    }

    /// A failure that is held follows from a rank that has ended with status 0 and was not through.
    pub(super) fn blame_unfinalised(&mut self) {
        let Some(held) = &mut self.held else { return };
        let gone = self.unfinalised.last().map(|&rank| &self.ranks[rank]);
        let other = held.cause.rank.map(|rank| &self.ranks[rank]);
        if let (Some(gone), Some(other), Kind::Aborted) = (gone, other, held.cause.kind) {
            held.cause = Cause::in_vain(gone, other);
        }
    }

    /// The failure of a rank that has ended with status 0, but for which another one waits.
    fn whom_it_waits_for(&self) -> Option<Cause> {
        let mut waiting = self.ranks.iter().filter(|rank| rank.takes_part());
        if let Some(&gone) = self.unfinalised.first() {
            return Some(Cause::in_vain(&self.ranks[gone], waiting.next()?));
        }
        let behind = |waiting: &RankLife| {
            let mut ended = self.ranks.iter().filter(|rank| rank.state == State::Ended);
            let gone = ended.find(|gone| gone.programs() < waiting.programs())?;
            Some(Cause::in_vain(gone, waiting))
        };
        waiting.find_map(behind)
    }

    pub(super) fn check_in_vain(&mut self) {
        let Some(cause) = self.whom_it_waits_for() else {
            self.in_vain = None;
            return;
        };
        let (since, cause) = self.in_vain.get_or_insert((self.now, cause)).clone();
        if self.now >= since + SETTLE && !self.is_ending() {
            self.end_with(&cause);
        }
    }

    /// What fails while a rank waits in vain follows from that.
    pub(super) fn blame(&self, cause: Cause) -> Cause {
        match &self.in_vain {
            Some((_, in_vain)) if cause.kind != Kind::Launcher => in_vain.clone(),
            _ => cause,
        }
    }

    /// A direct child whose member is gone is killed if it does not end.
    pub(super) fn check_lost(&mut self) {
        for rank in &mut self.ranks {
            if let State::Lost { since, killed, .. } = &mut rank.state
                && !*killed
                && self.now >= *since + LOST
            {
                *killed = true;
                self.actions.push(Action::Kill(rank.rank));
            }
        }
    }

    pub(super) fn end_with(&mut self, cause: &Cause) {
        if !self.is_ending() {
            self.report(cause.line());
            self.end(cause.status, libc::SIGTERM);
        }
    }

    pub(super) fn end(&mut self, status: u8, signal: i32) {
        self.verdict.get_or_insert(status);
        self.held = None;
        self.abandon();
        self.kill_at = Some(self.now + GRACE);
        self.actions.push(Action::EndAll(signal));
    }

    pub(super) fn check_grace(&mut self) {
        if self.kill_at.is_some_and(|at| self.now >= at) {
            self.kill_at = Some(self.now + GRACE);
            self.kills += 1;
            self.actions.push(Action::KillAll);
        }
    }

    /// Lets all go, if no program goes on.
    pub(super) fn check_programs(&mut self) {
        let goes_on = |rank: &RankLife| rank.runs() && !rank.is_over();
        let any = self.ranks.iter().any(RankLife::is_over);
        if self.restarts.is_some()
            && !self.released
            && any
            && self.recovering.is_none()
            && !self.ranks.iter().any(goes_on)
        {
            self.released = true;
            self.actions.push(Action::Release);
        }
    }
}
