//! Which steps are possible, and doing one.

use super::state::{Net, State};
use super::{Amount, Mutant, Step};
use taffrail_fabric::{Fault, Incarnation};

const AMOUNTS: [Amount; 3] = [Amount::Head, Amount::Part, Amount::All];

impl Net {
    /// All that can happen next, in a fixed order; or only that by which nothing fails.
    pub(super) fn possible(&self, calm: bool) -> Vec<Step> {
        let mut steps = Vec::with_capacity(64);
        let mut list = |step: Step| {
            if self.allows(step) {
                steps.push(step);
            }
        };
        for from in 0..self.count() {
            for to in 0..self.count() {
                self.list_between((from, to), calm, &mut list);
            }
            if !calm {
                [false, true]
                    .into_iter()
                    .for_each(|lingers| list(Step::Kill { rank: from, lingers }));
                list(Step::Restart(from));
            }
        }
        self.sends.keys().for_each(|&number| list(Step::Sent(number)));
        for &number in self.operations.keys() {
            list(Step::Moved(number));
            AMOUNTS.into_iter().for_each(|amount| list(Step::Move(number, amount)));
        }
        steps
    }

    /// The steps between two processes that may be possible.
    fn list_between(&self, (from, to): (usize, usize), calm: bool, list: &mut impl FnMut(Step)) {
        let ordered = self.kinds.ordered && !self.has(Mutant::OrderIgnored);
        let most = if ordered { 1 } else { usize::MAX };
        let channel = self.channel(from, to);
        let flight = channel.flight.len().min(most);
        let has_part = self.has_part(from, to);
        let splits = self.kinds.streams && !self.settings.in_place;
        for amount in AMOUNTS {
            if splits || amount == Amount::All {
                (0..flight).for_each(|at| list(Step::Carry { from, to, at, amount }));
            }
            if has_part {
                list(Step::More { from, to, amount });
            }
        }
        if self.end(from, to).ended.is_some() {
            list(Step::Notice { rank: from, peer: to });
        }
        if self.processes[from].heard[to] < self.lives[to].len() {
            for newest in [false, true] {
                list(Step::Verdict { to: from, of: to, newest });
            }
        }
        match channel.is_jammed {
            true => list(Step::Free { from, to }),
            false if !calm => list(Step::Jam { from, to }),
            false => {}
        }
        if from < to && !calm {
            list(Step::Break(from, to));
        }
        if from < to && !self.end(from, to).is_up() {
            list(Step::Connect(from, to));
        }
    }

    /// Whether a step is possible now.
    pub(super) fn allows(&self, step: Step) -> bool {
        let count = self.count();
        match step {
            Step::Carry { from, to, at, amount } => {
                from < count && to < count && self.allows_carry((from, to), at, amount)
            }
            Step::More { from, to, amount } => {
                from < count && to < count && amount != Amount::Head && self.has_part(from, to)
            }
            Step::Sent(number) => self.sends.get(&number).is_some_and(|send| send.result.is_some()),
            Step::Move(number, amount) => {
                let open = self.operations.get(&number);
                amount != Amount::Head
                    && open.is_some_and(|one| !one.is_stopped && one.done < one.len)
            }
            Step::Moved(number) => self
                .operations
                .get(&number)
                .is_some_and(|one| one.fault.is_some() || one.done == one.len || one.is_orphan),
            Step::Notice { rank, peer } => {
                rank < count && peer < count && self.allows_notice(rank, peer)
            }
            Step::Connect(a, b) => a < b && b < count && self.allows_connect(a, b),
            Step::Verdict { to, of, newest } => {
                let may = to < count && of < count && to != of && self.lives(to);
                may && self.processes[to].heard[of] + usize::from(newest) < self.lives[of].len()
            }
            Step::Jam { from, to } => {
                let may = from < count && to < count && from != to && self.lives(from);
                may && !self.channel(from, to).is_jammed
            }
            Step::Free { from, to } => {
                from < count && to < count && self.channel(from, to).is_jammed
            }
            Step::Break(a, b) => {
                let intact = |a, b| {
                    let end = self.end(a, b);
                    self.lives(a) && end.is_up() && end.ended.is_none()
                };
                a < b && b < count && intact(a, b) && intact(b, a) && self.was_linked(a, b)
            }
            Step::Kill { rank, .. } => rank < count && self.lives(rank),
            Step::Restart(rank) => rank < count && self.processes[rank].state == State::Dead,
        }
    }

    fn allows_carry(&self, (from, to): (usize, usize), at: usize, amount: Amount) -> bool {
        let Some(message) = self.channel(from, to).flight.get(at) else { return false };
        let listens = self.end(to, from).is_up() || self.has(Mutant::ArrivesAfterEnd);
        if !self.lives(to) || !listens {
            return false;
        }
        let ordered = self.kinds.ordered && !self.has(Mutant::OrderIgnored);
        if ordered && at > 0 {
            return false;
        }
        let has_part = self.has_part(from, to);
        match amount {
            Amount::All => !self.kinds.ordered || !has_part,
            // What is read in place is there or not.
            Amount::Head | Amount::Part => {
                self.kinds.streams && !has_part && message.len > 1 && !self.settings.in_place
            }
        }
    }

    fn allows_notice(&self, rank: usize, peer: usize) -> bool {
        let Some(fault) = &self.end(rank, peer).ended else { return false };
        let is_empty = || {
            self.channel(peer, rank).flight.is_empty() && !self.has_part(peer, rank)
                || self.has(Mutant::ClosedEarly)
        };
        self.lives(rank) && (*fault != Fault::Closed || is_empty())
    }

    /// Whether one of two processes on different nodes has asked for a link with the other, or has lost one with it.
    fn is_wanted(&self, a: usize, b: usize) -> bool {
        let present = |peer: usize| self.processes[peer].incarnation;
        let mut ends = [(a, b), (b, a)].into_iter();
        let is_asked = ends.any(|(rank, peer)| self.end(rank, peer).asked == Some(present(peer)));
        let knows = |rank, peer| {
            self.was_linked(rank, peer) && self.end(rank, peer).incarnation == present(peer)
        };
        is_asked || knows(a, b) && knows(b, a)
    }

    fn allows_connect(&self, a: usize, b: usize) -> bool {
        let are_far = self.are_far(a, b);
        let may = |(rank, peer): (usize, usize)| {
            let end = self.end(rank, peer);
            let verdicts = &self.processes[rank].verdicts;
            // A process takes calls from other nodes in its polls, before which it opens its roster.
            self.lives(rank)
                && (!are_far || verdicts.is_open())
                && (!self.settings.accepts_in_polls || verdicts.are_heard())
                && !end.is_up()
                && end.cut != Some(Incarnation(self.processes[peer].incarnation))
        };
        (!are_far || self.is_wanted(a, b)) && [(a, b), (b, a)].into_iter().all(may)
    }

    /// Does a step that is possible.
    pub(super) fn perform(&mut self, step: Step) {
        self.steps += 1;
        self.say(|| step.to_string());
        match step {
            Step::Carry { from, to, at, amount } => self.carry((from, to), at, amount),
            Step::More { from, to, amount } => self.more((from, to), amount),
            Step::Sent(number) => self.sent(number),
            Step::Move(number, amount) => self.move_bytes(number, amount),
            Step::Moved(number) => self.moved(number),
            Step::Notice { rank, peer } => self.notice(rank, peer),
            Step::Connect(a, b) => self.connect(a, b),
            Step::Verdict { to, of, newest } => self.verdict(to, of, newest),
            Step::Jam { from, to } => self.channel_mut(from, to).is_jammed = true,
            Step::Free { from, to } => self.channel_mut(from, to).is_jammed = false,
            Step::Break(a, b) => self.break_link(a, b),
            Step::Kill { rank, lingers } => self.kill(rank, lingers),
            Step::Restart(rank) => self.restart(rank),
        }
    }
}
