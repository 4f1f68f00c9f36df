//! Which steps there are, which one is done, and how.

use super::paths::Path;
use super::process::{Process, drop_view};
use super::recovery::refused;
use super::{Job, failed};
use crate::copies::CopyLoggers;
use crate::fabric::Step as NetStep;
use crate::profile::Kind;
use crate::violation::{Checked, violation};
use taffrail_logging::Rank;

/// Something that can be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A process takes its program's call as far as it gets.
    Run(Rank),
    /// A process makes progress; it also looks after its peers.
    RestartPhase(Rank, bool),
    /// Something happens in the network.
    Net(NetStep),
    /// A process begins a checkpoint.
    Save(Rank),
    /// The last checkpoint of a rank has come to another node.
    Copy(Rank),
    /// A survivor says what it holds.
    Ask(Rank),
    /// A view is dropped that has outlived its process.
    DropView,
    /// A rank starts again, and connects; it goes on when it is connected with all.
    Start(Rank),
    Open(Rank),
    /// The logger begins a cut of a set; goes on with it.
    BeginCut(usize),
    EndCut(usize),
    /// One of several loggers takes what is new; the starter of them replaces those that are gone.
    Turn(usize),
    Replace,
    /// The logger starts again; a rank writes again what it does not have.
    StartLogger,
    WriteAgain(Rank),
    /// A read or write of the payload log of a rank ends.
    Disk(Rank),
}

impl Step {
    /// Of which kind it is, and whose: whose program, or to whom something comes.
    fn kind(self) -> (Kind, Option<Rank>) {
        match self {
            Step::Run(rank) => (Kind::Run, Some(rank)),
            Step::RestartPhase(rank, _) => (Kind::Progress, Some(rank)),
            Step::Net(NetStep::Carry { to, .. } | NetStep::More { to, .. }) => {
                (Kind::Carry, Some(to as Rank))
            }
            Step::Net(NetStep::Notice { rank, .. }) => (Kind::Notice, Some(rank as Rank)),
            Step::Net(NetStep::Connect(..)) => (Kind::Connect, None),
            Step::Net(_) => (Kind::OtherNet, None),
            Step::Save(_) | Step::Copy(_) => (Kind::Save, None),
            Step::Ask(rank) => (Kind::Ask, Some(rank)),
            Step::Start(rank) => (Kind::Start, Some(rank)),
            Step::Open(rank) => (Kind::Open, Some(rank)),
            Step::BeginCut(_) => (Kind::BeginCut, None),
            // Each of them is as slow as a rank that is not there.
            Step::Turn(copy) => (Kind::BeginCut, Some(FIRST_COPY + copy as Rank)),
            Step::EndCut(_) => (Kind::EndCut, None),
            Step::StartLogger | Step::Replace => (Kind::StartLogger, None),
            Step::DropView | Step::Disk(_) => (Kind::OtherNet, None),
            Step::WriteAgain(_) => (Kind::WriteAgain, None),
        }
    }
}

/// Beside the habits of ranks those of loggers with copies.
const FIRST_COPY: Rank = 5;

/// How often a step that is slow is put off.
const PUT_OFF: usize = 4;

impl<const S: bool, const L: bool> Job<'_, S, L> {
    /// One of the things that can be done, by chance; those that are slow in this run more rarely.
    pub(super) fn choose(&mut self) -> Step {
        let mut possible = None;
        let mut chosen = self.draw(&mut possible);
        for _ in 0..PUT_OFF {
            let (kind, rank) = chosen.kind();
            let habits = &self.case.habits;
            let slow = rank.map_or(0, |rank| habits.ranks[rank as usize]);
            if self.chance.u8(..) >= slow.max(habits.kinds[kind as usize]) {
                break;
            }
            chosen = self.draw(&mut possible);
        }
        chosen
    }

    /// One of the things that can be done, by chance: first of which kind. What is possible in the network is listed once.
    fn draw(&mut self, possible: &mut Option<Vec<NetStep>>) -> Step {
        let ranks = 0..self.case.ranks;
        for _ in 0..64 {
            let rank = self.chance.u32(ranks.clone());
            let process = self.ranks[rank as usize].as_ref();
            let (kind, looks) = (self.chance.u8(0..32), self.chance.u8(0..8) == 0);
            match kind {
                0..8 if process.is_some_and(Process::has_turn) => {
                    if self.has_met_all(rank) {
                        return Step::Run(rank);
                    }
                }

                8..20 if process.is_some() => return Step::RestartPhase(rank, looks),
                20..29 => {
                    let possible = possible.get_or_insert_with(|| self.net.calm());
                    if !possible.is_empty() {
                        return Step::Net(possible[self.chance.usize(0..possible.len())]);
                    }
                }
                _ => {
                    let others = self.others(rank);
                    if !others.is_empty() {
                        return others[self.chance.usize(0..others.len())];
                    }
                }
            }
        }
        let alive = ranks.clone().find(|&rank| self.ranks[rank as usize].is_some());
        Step::RestartPhase(alive.unwrap_or(0), true)
    }

    /// Whether a step of another schedule can be done. What the network cannot do it leaves undone.
    pub(super) fn is_possible(&mut self, step: Step) -> bool {
        match step {
            Step::Run(rank) => {
                let process = self.ranks[rank as usize].as_ref();
                process.is_some_and(Process::has_turn) && self.has_met_all(rank)
            }
            Step::RestartPhase(rank, _) => self.ranks[rank as usize].is_some(),
            Step::Net(_) => true,
            step => (0..self.case.ranks).any(|rank| self.others(rank).contains(&step)),
        }
    }

    /// The others on the node of a rank, with which it is connected from the beginning.
    fn near(&self, rank: usize) -> impl Iterator<Item = usize> {
        let all = 0..self.case.ranks as usize;
        all.filter(move |&peer| peer != rank && !self.net.are_far(rank, peer))
    }

    /// Whether a rank has links with all others on its node.
    fn is_connected(&self, rank: Rank) -> bool {
        let rank = rank as usize;
        self.near(rank).all(|peer| {
            self.net.is_linked(rank, peer, false) && self.net.is_linked(peer, rank, false)
        })
    }

    /// Whether the engine of a rank has heard of these links, once.
    fn has_met_all(&mut self, rank: Rank) -> bool {
        let rank = rank as usize;
        self.met[rank] |= !self.case.logged;
        let has_met = self.near(rank).all(|peer| self.net.is_linked(rank, peer, true));
        self.met[rank] |= has_met;
        self.met[rank]
    }

    /// What the logger can do, and a rank that is dead.
    fn others(&self, rank: Rank) -> Vec<Step> {
        let outside = self.outside.borrow();
        let logger = &outside.logger;
        let mut steps = Vec::new();
        let dead = |rank: Rank| self.is_dead(rank);
        if !self.outlived.is_empty() {
            steps.push(Step::DropView);
        }
        let process = self.ranks[rank as usize].as_ref();
        if process.is_some_and(|process| process.spill.borrow().under_way() > 0) {
            steps.push(Step::Disk(rank));
        }
        if self.may_save(rank) {
            steps.push(Step::Save(rank));
        }
        if self.lacks_copy(rank) {
            steps.push(Step::Copy(rank));
        }
        if self.is_to_answer(rank) && self.has_given_up_the_dead(rank) {
            steps.push(Step::Ask(rank));
        }
        let opens = self.opening[rank as usize].is_some();
        if opens && self.is_connected(rank) && self.may_start(rank) {
            steps.push(Step::Open(rank));
        }
        if dead(rank) && self.may_start(rank) {
            steps.push(Step::Start(rank));
        }
        // A ring that was lost is there again when its rank goes on.
        let has_ring = self.ranks[rank as usize].is_some() || !self.case.loses_rings();
        if !dead(rank) && has_ring && logger.awaits(rank) {
            steps.push(Step::WriteAgain(rank));
        }
        for set in 0..self.case.groups().len() {
            if logger.can_cut(set) {
                steps.push(Step::BeginCut(set));
            }
            if logger.can_sync(set) {
                steps.push(Step::EndCut(set));
            }
        }
        if let Some(copies) = &logger.copies {
            let turns = (0..copies.count()).filter(|&copy| copies.has_news(copy));
            steps.extend(turns.map(Step::Turn));
            if copies.is_to_go_on() {
                steps.push(Step::Replace);
            }
        }
        if !logger.runs {
            steps.push(Step::StartLogger);
        }
        steps
    }

    pub(super) fn perform(&mut self, step: Step) -> Checked {
        match step {
            Step::Run(rank) => self.run_program(rank),
            Step::RestartPhase(rank, looks) => {
                if let Some(process) = &mut self.ranks[rank as usize] {
                    process.progress(looks).or_else(|error| failed(rank, &error))?;
                }
                self.holds_all(rank);
                self.check()
            }
            Step::Net(step) => {
                self.see_end(step);
                self.net.step(step);
                Ok(())
            }
            Step::Save(rank) => self.begin_to_save(rank),
            Step::Copy(rank) => {
                self.copy(rank);
                Ok(())
            }
            Step::Ask(rank) => {
                self.ask(rank);
                Ok(())
            }
            Step::DropView => {
                self.outlived.pop().into_iter().for_each(drop_view);
                Ok(())
            }
            Step::Start(rank) => {
                self.incarnations[rank as usize] += 1;
                self.restarts += 1;
                self.settle_ring(rank)?;
                self.net.step(NetStep::Restart(rank as usize));
                self.opening[rank as usize] = Some(self.net.open(rank as usize));
                Ok(())
            }
            Step::Open(rank) => match self.opening[rank as usize].take() {
                Some(fabric) => self.start(rank, fabric).and_then(|()| self.check()),
                None => Ok(()),
            },
            Step::BeginCut(set) => {
                let chance = self.random.usize(0..8);
                self.outside.borrow_mut().logger.cut(set, chance).map_err(refused)
            }
            Step::EndCut(set) => {
                self.outside.borrow_mut().logger.sync(set).map_err(refused)?;
                self.fits_together()
            }
            Step::Turn(copy) => {
                self.with_copies(|copies| copies.turn(copy))?;
                self.fits_together()
            }
            Step::Replace => {
                let mut whole = false;
                self.with_copies(|copies| copies.go_on().map(|replaced| whole = replaced))?;
                if whole {
                    self.reach(Path::CopyReplaced);
                }
                Ok(())
            }
            Step::StartLogger => self.start_logger(),
            Step::WriteAgain(rank) => self.write_again(rank),
            Step::Disk(rank) => {
                self.end_on_disk(rank);
                Ok(())
            }
        }
    }

    /// Notes whether a rank is about to hear that a program is over with whose rank it has no link.
    fn see_end(&self, step: NetStep) {
        if let NetStep::Verdict { to, of, .. } = step
            && self.net.is_to_hear_of_an_end(to, of)
        {
            self.reach(Path::EndedUnlinked);
        }
    }

    fn start_logger(&mut self) -> Checked {
        let opening = self.opening.iter().map(Option::is_some);
        let alive: Vec<bool> = (self.ranks.iter().map(Option::is_some).zip(opening))
            .map(|(lives, opens)| lives || opens)
            .collect();
        let restarted = self.outside.borrow_mut().logger.restart(|rank| alive[rank as usize]);
        if restarted.map_err(refused)? {
            self.reach(Path::CutTorn);
        }
        self.fits_together()
    }

    /// Lets loggers with copies do something, after which what is stable is in all of them.
    fn with_copies(&self, what: impl FnOnce(&mut CopyLoggers) -> Result<(), String>) -> Checked {
        let mut outside = self.outside.borrow_mut();
        let Some(copies) = &mut outside.logger.copies else { return Ok(()) };
        let done = what(copies).and_then(|()| copies.check());
        done.or_else(|text| violation("every-copy", text))
    }

    /// Takes the call of a program as far as it gets.
    fn run_program(&mut self, rank: Rank) -> Checked {
        let Some(process) = &mut self.ranks[rank as usize] else { return Ok(()) };
        let call = process.call().filter(|_| self.traced).cloned();
        let has_left = process.has_left();
        let outcome = process.run().or_else(|error| {
            self.net.say(|| format!("       {call:x?} -> {error}"));
            failed(rank, &error)
        })?;
        if self.net.note_finalizing(rank as usize) && self.case.logged {
            let mut outside = self.outside.borrow_mut();
            let outside = &mut *outside;
            outside.oracle.publishes_finalizing(rank, &outside.logger);
        }
        self.net.say(|| format!("       {call:x?} -> {outcome:x?}"));
        if process.has_left() && !has_left {
            self.left(rank)?;
        }
        let Some(process) = &self.ranks[rank as usize] else { return Ok(()) };
        let ends_with_peer = process.ends_with_peer();
        if ends_with_peer {
            self.kill(rank);
        }
        self.close(rank);
        self.holds_all(rank);
        self.check()
    }

    /// A rank has left. It has read its roster, and knows of all restarts there.
    fn left(&self, rank: Rank) -> Checked {
        let known = self.outside.borrow().left[rank as usize];
        let heard = self.net.heard_incarnations(rank as usize);
        let is_early =
            !self.net.has_read_roster(rank as usize) || known.is_some_and(|known| known < heard);
        if self.case.roster && self.case.logged && is_early {
            let text =
                format!("rank {rank} goes with {known:?} restarts, and its roster has {heard}");
            violation("nobody goes early", text)?;
        }
        Ok(())
    }

    /// One of the reads and writes of a payload log ends: any.
    fn end_on_disk(&mut self, rank: Rank) {
        let Some(process) = &self.ranks[rank as usize] else { return };
        let mut spill = process.spill.borrow_mut();
        let which = self.random.usize(0..spill.under_way());
        if spill.end(which) {
            self.reach(Path::ReadFromDisk);
        }
    }

    /// A rank writes again what the logger lacks.
    fn write_again(&self, rank: Rank) -> Checked {
        let mut outside = self.outside.borrow_mut();
        if outside.logger.comes_back(rank).map_err(refused)? {
            outside.oracle.paths.reach(Path::CutTorn);
        }
        let stable = outside.logger.stable(rank) as usize;
        let again = outside.rings[rank as usize][stable..].to_vec();
        let mut written = again.into_iter().map(|event| outside.logger.write(rank, event));
        let failed = written.find_map(Result::err);
        failed.map_or(Ok(()), |text| violation("a log has no gaps", text))
    }
}
