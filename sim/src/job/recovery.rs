//! How processes start, for the first time or again: with their events, their checkpoint, and, in causal logging where the
//! events of a rank that dies are lost, with what survivors hold of them.
//!
//! Each survivor is asked by itself, while the others go on. When it says what it holds, nothing comes to it any more
//! from the dead. When another one dies before all have answered, all are asked again, since that one may have told
//! something to one that had answered already.

use super::host::{Member, SimEvents, SimHost, Vault};
use super::paths::Path;
use super::process::{Mark, OnFailure, Process};
use super::{Job, failed, now};
use crate::broken::Broken;
use crate::case::Case;
use crate::copies::CopyLoggers;
use crate::fabric::SimFabric;
use crate::profile::Habits;
use crate::violation::{Checked, Violation, violation};
use crate::workload::Place;
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use taffrail_engine::log::Logging;
use taffrail_engine::log::host::vectors::{ReplayedVec, SpillMap};
use taffrail_engine::log::host::{LogParts, LoggingConfig, RestartPoint};
use taffrail_engine::policy::Policy;
use taffrail_engine::{Clock, Engine, NotNow, Sizes};
use taffrail_fabric::{Fabric, PeerId, SendMemory};
use taffrail_logging::causal::{DETERMINANT, HeldStore};
use taffrail_logging::store::{Durability, HeldTable, Owner, create_held, read_held};
use taffrail_logging::{Causal, LoggedEvent, Position, Rank};

/// Of all held tables, which are in no file.
const OWNER: Owner = Owner { rank: 0, job: 0 };

impl<const S: bool, const L: bool> Job<'_, S, L> {
    /// A rank starts, with the events that its predecessors have left.
    pub(super) fn start(&mut self, rank: Rank, fabric: SimFabric<true, S, L>) -> Checked {
        let (case, me) = (self.case, rank as usize);
        let incarnation = self.incarnations[me];
        let held = self.held();
        let events = self.events(rank, &held)?;
        let table = case.loses_rings().then(|| self.hold(rank, &held));
        self.net.say(|| format!("       rank {rank} starts with {events:x?}"));
        let config = LoggingConfig {
            causal: case.causal,
            all_events: case.all_events,
            sets: self.set_of.iter().map(|&set| set as u32).collect(),
            incarnation,
            memory: case.habits.segments * fabric.segment_len(),
            page_runs: case.habits.page_runs,
        };
        let saved = self.outside.borrow().vault[me].clone();
        let restart = saved.as_ref().map(|saved| RestartPoint {
            number: saved.number,
            position: Position::decode(&saved.position, case.ranks).expect("it was saved whole"),
            state: saved.state.clone(),
            previous: self.left[me].clone(),
        });
        let mut spill = SpillMap::default();
        (spill.at_once, spill.ends_by_hand) = (2, true);
        let spill = Rc::new(RefCell::new(spill));
        let alone = case.sets[self.set_of[me]].len() == 1;
        let vault = Vault { me: rank, outside: self.outside.clone() };
        let parts = LogParts::<SimHost> {
            events: self.event_ring(rank),
            gated: case.durability != Durability::Process && !case.causal,
            replayed: ReplayedVec(events.into()),
            held: table.map(|table| Box::new(table) as Box<dyn HeldStore>),
            spill: spill.clone(),
            checkpoints: (alone && !case.causal).then_some(vault),
            restart,
        };
        let log = Logging::open(&config, parts, rank, fabric.segment_len())
            .or_else(|error| failed(rank, &error))?;
        let log = case.logged.then(|| Box::new(log));
        let clock = Clock::new(now);
        let mut engine = Engine::new(fabric, log, case.ranks, sizes(&case.habits), clock);
        if case.roster {
            engine.set_membership(Box::new(self.net.roster(me)));
        }
        loop {
            match engine.resume() {
                Ok(()) => break,
                Err(NotNow::Failed(error)) => return failed(rank, &error),
                // It does nothing else meanwhile.
                Err(NotNow::Waits) => _ = spill.borrow_mut().end(0),
            }
        }
        // Links within a node come up by themselves, which begins the exchange; between nodes a rank asks for them.
        if incarnation == 0 || case.roster {
            engine.begin_exchange();
        }
        let mark = match engine.core.policy.take_restored() {
            Some(_) => self.outside.borrow().marks[me].clone(),
            None => Mark::default(),
        };
        self.restored += usize::from(saved.is_some());
        let program = case.workload.start(self.place(rank));
        let shared = (self.outside.clone(), spill);
        let mut process = Process::new(engine, program, (mark, incarnation), shared);
        process.on_failure = OnFailure::of(case);
        self.ranks[me] = Some(process);
        self.answers[me] = None;
        self.holds_all(rank);
        Ok(())
    }

    /// Where a rank writes its events.
    fn event_ring(&self, rank: Rank) -> SimEvents {
        let case = self.case;
        // In causal logging a rank sees the rings of its node.
        let all: Vec<Rank> = (0..case.ranks).collect();
        let set = match case.causal && !case.roster {
            true => &all,
            false => &case.sets[self.set_of[rank as usize]],
        };
        let member = |&rank: &Rank| Member { rank, outside: self.outside.clone() };
        SimEvents {
            me: rank,
            outside: self.outside.clone(),
            capacity: case.habits.ring,
            members: set.iter().filter(|&&other| other != rank).map(member).collect(),
        }
    }

    /// The place of a rank, which may reach the memory of those of its set, where no events travel with messages.
    fn place(&self, me: Rank) -> Place {
        let Case { ranks, rounds, variant, causal, .. } = *self.case;
        let members = &self.case.sets[self.set_of[me as usize]];
        let reached = if causal { 0 } else { members.iter().map(|member| 1 << member).sum() };
        Place { me, ranks, rounds, variant, reached }
    }

    /// The events of a rank that starts, as the logger and survivors have them. It writes again what the logger has
    /// not.
    fn events(&mut self, rank: Rank, held: &[Vec<u8>]) -> Result<Vec<LoggedEvent>, Violation> {
        let mut outside = self.outside.borrow_mut();
        let outside = &mut *outside;
        if let Some(copies) = &mut outside.logger.copies {
            let written = &outside.rings[rank as usize];
            let events = of_copies(copies, rank, written)
                .map_err(|text| Violation { invariant: "every-copy", text })?;
            outside.oracle.starts(rank, &events);
            return Ok(events);
        }
        let stable = outside.logger.stable(rank);
        let mut events = outside.logger.download(rank).map_err(refused)?;
        if !self.case.causal && events.last().is_some_and(|event| event.clock > stable) {
            let text = format!("rank {rank} replays {events:x?}, of which {stable} are stable");
            violation("a set is stable together", text)?;
        }
        if self.case.loses_rings() {
            let mut causal = Causal::new(rank, self.case.ranks, 1 << 20);
            causal.stable(rank, stable);
            let unstable = events.iter().filter(|event| event.clock > stable);
            unstable.for_each(|event| causal.restore(event));
            held.iter().try_for_each(|bytes| causal.adopt(bytes)).map_err(|error| Violation {
                invariant: "survivors agree",
                text: error.to_string(),
            })?;
            let last = events.last().map_or(0, |event| event.clock);
            let more = causal.held_of(rank).filter(|determinant| determinant.clock > last);
            events.extend(more.map(|determinant| LoggedEvent {
                clock: determinant.clock,
                event: determinant.event(),
            }));
        }
        outside.rings[rank as usize] = events.clone();
        if self.case.loses_rings() {
            outside.oracle.forgets(rank, |rank| self.ranks[rank as usize].is_some());
        }
        outside.oracle.starts(rank, &events);
        if self.case.loses_rings() {
            outside.logger.comes_back(rank).map_err(refused)?;
            for event in events.iter().filter(|event| event.clock > stable) {
                if let Err(text) = outside.logger.write(rank, *event) {
                    violation("a log has no gaps", text)?;
                }
            }
        }
        Ok(events)
    }

    /// A rank is started again: of its ring the logger has taken what there is, before any rank of the set looks at it.
    pub(super) fn settle_ring(&self, rank: Rank) -> Checked {
        let outside = &mut *self.outside.borrow_mut();
        if outside.logger.copies.is_none() {
            let left = outside.logger.download(rank).map_err(refused)?.len();
            outside.rings[rank as usize].truncate(left);
        }
        Ok(())
    }

    pub(super) fn is_dead(&self, rank: Rank) -> bool {
        let at = rank as usize;
        self.ranks[at].is_none() && self.opening[at].is_none() && self.closed[at].is_none()
    }

    /// Whether a rank that is dead may start, or one that connects may go on.
    pub(super) fn may_start(&self, rank: Rank) -> bool {
        let outside = self.outside.borrow();
        if self.case.deaths {
            return false;
        }
        if outside.logger.copies.is_some() {
            return true;
        }
        if self.case.causal {
            let asked = (0..self.case.ranks).all(|other| !self.is_to_answer(other));
            return outside.logger.is_settled(rank) && asked;
        }
        let waits = |rank: Rank| self.ranks[rank as usize].is_none();
        outside.logger.can_download(self.set_of[rank as usize], waits)
    }

    /// Whether a rank lives that has to say what it holds.
    pub(super) fn is_to_answer(&self, rank: Rank) -> bool {
        self.case.loses_rings()
            && self.ranks[rank as usize].is_some()
            && self.answers[rank as usize].is_none()
            && self.ranks.iter().any(Option::is_none)
    }

    /// Whether nothing can come to a rank any more from those that have died: it has given up its connections with them, or
    /// its roster says that they are dead (*closed-door*).
    pub(super) fn has_given_up_the_dead(&self, rank: Rank) -> bool {
        let Some(process) = &self.ranks[rank as usize] else { return false };
        let waits = (0..self.case.ranks).filter(|&other| self.ranks[other as usize].is_none());
        self.case.broken == Some(Broken::DeadStillBelieved)
            || waits.into_iter().all(|other| {
                if self.case.roster {
                    return self.net.has_roster_of(rank as usize, other as usize);
                }
                let met = self.opening[other as usize].is_some()
                    && self.net.is_linked(rank as usize, other as usize, true)
                    && process.engine.fabric.incarnation(PeerId(other)).0
                        == self.incarnations[other as usize];
                // A new link, of which it was not told yet, may still bring something.
                let is_linked = self.net.is_linked(rank as usize, other as usize, false);
                met || !is_linked && process.engine.core.peers[other as usize].is_away()
            })
    }

    /// What a survivor holds of others is read out of its table, and what it has written itself is in its ring.
    pub(super) fn ask(&mut self, rank: Rank) {
        let me = rank as usize;
        let process = self.ranks[me].as_ref();
        let own = process.and_then(|live| live.engine.core.policy.as_ref()).map(|log| log.held());
        let table = self.held_tables[me].as_ref();
        let of_others =
            table.map(|file| read_held(file.as_fd(), OWNER, true).expect("it is whole"));
        let of_others =
            of_others.map(|bytes| bytes.expect("no turn is under way between two steps"));
        let own = own.map(|bytes| of_rank(&bytes, rank));
        self.answers[me] = of_others.zip(own).map(|(of_others, own)| [of_others, own].concat());
        self.reach(Path::SurvivorAsked);
    }

    /// A new held table of a rank that starts, with what survivors hold: the node of the one before is lost with it.
    fn hold(&mut self, rank: Rank, held: &[Vec<u8>]) -> HeldTable {
        let file = create_held(OWNER).expect("there is memory");
        let mut table = HeldTable::attach(file.try_clone().expect("a descriptor"), OWNER)
            .expect("it was just made");
        for bytes in held.iter().filter(|bytes| !bytes.is_empty()) {
            table.add(bytes, &|| held.concat()).expect("there is memory");
        }
        self.held_tables[rank as usize] = Some(file);
        table
    }

    /// What all survivors hold.
    fn held(&self) -> Vec<Vec<u8>> {
        match self.case.broken {
            Some(Broken::SurvivorsNotAsked) => Vec::new(),
            _ => self.answers.iter().flatten().cloned().collect(),
        }
    }

    /// Some ranks have died, in causal logging.
    pub(super) fn died(&mut self, members: &[Rank]) {
        if self.answers.iter().any(Option::is_some) {
            self.reach(Path::AskedAgain);
        }
        if self.case.broken != Some(Broken::SurvivorsNotAskedAgain) {
            self.answers.fill(None);
        }
        for &rank in members {
            self.answers[rank as usize] = None;
            if self.case.loses_rings() {
                let outside = &mut *self.outside.borrow_mut();
                outside.oracle.logger_has(outside.logger.lost(rank));
            }
        }
    }

    /// A rank is about to be killed: its payload log stays if its last checkpoint refers to it.
    pub(super) fn keep_log(&mut self, rank: Rank) {
        if let Some(log) = self.log_of_checkpoint(rank) {
            self.left[rank as usize] = log;
        }
    }

    /// Whether a rank may begin a checkpoint.
    pub(super) fn may_save(&self, rank: Rank) -> bool {
        let alone = self.case.sets[self.set_of[rank as usize]].len() == 1;
        alone
            && !self.case.causal
            && self.checkpoints < self.case.checkpoints as usize
            && self.met[rank as usize]
            && self.ranks[rank as usize].as_ref().is_some_and(Process::may_save)
    }

    pub(super) fn begin_to_save(&mut self, rank: Rank) -> Checked {
        let Some(process) = &mut self.ranks[rank as usize] else { return Ok(()) };
        let begun = process.begin_to_save().or_else(|error| failed(rank, &error))?;
        self.checkpoints += usize::from(begun);
        Ok(())
    }

    /// What a rank depends on it holds, or it is stable.
    pub(super) fn holds_all(&mut self, rank: Rank) {
        let Some(process) = &self.ranks[rank as usize] else { return };
        // Where rings stay, all that was written is there.
        if self.case.loses_rings() {
            let mut outside = self.outside.borrow_mut();
            let outside = &mut *outside;
            let log = process.engine.core.policy.as_ref();
            let knows = |of, clock| log.is_some_and(|log| log.knows(of, clock));
            outside.oracle.holds_all(rank, &outside.logger, knows);
        }
    }

    /// What is stable depends on what is stable.
    pub(super) fn fits_together(&mut self) -> Checked {
        if !self.case.causal || self.case.loses_rings() {
            let mut outside = self.outside.borrow_mut();
            let outside = &mut *outside;
            outside.oracle.fits_together(&self.case.groups(), &outside.logger);
        }
        self.check()
    }
}

/// The events of a rank that starts again where loggers have copies: all that it has written, since its ring is there still.
fn of_copies(
    copies: &mut CopyLoggers,
    rank: Rank,
    written: &[LoggedEvent],
) -> Result<Vec<LoggedEvent>, String> {
    let fetched = copies.fetch(rank)?.ok_or("no event logger has the events")?;
    let events: Vec<LoggedEvent> = fetched.collect();
    if events != written {
        return Err(format!("rank {rank} has written {written:x?}, and is handed {events:x?}"));
    }
    copies.starts(rank)?;
    Ok(events)
}

/// The determinants of a rank among these.
fn of_rank(bytes: &[u8], rank: Rank) -> Vec<u8> {
    let all = bytes.as_chunks::<DETERMINANT>().0.iter();
    all.filter(|determinant| determinant[..4] == rank.to_le_bytes()).flatten().copied().collect()
}

/// The event logger does not serve a rank, or not with what was stable.
pub(super) fn refused(text: String) -> Violation {
    Violation { invariant: "what is stable stays", text }
}

/// Small ones, so that short programs reach every way to send.
fn sizes(habits: &Habits) -> Sizes {
    Sizes {
        fragment: habits.fragment,
        rndv_fragment: 80,
        by_peer: false,
        logged_fragment: 80,
        eager_max: habits.eager_max,
        way: None,
        unexpected: habits.unexpected,
        unexpected_max: habits.unexpected_max,
    }
}
