//! Which events each thing that leaves a rank depends on, with knowledge that no rank has: it is a violation when a frame
//! that lets a peer go on leaves its set before these are stable (*stable-before-escape*, *every-frame-that-frees*); when
//! an event of a set is stable and another one that it depends on is not (*a set is stable together*); and, in causal
//! logging, when a rank depends on an event that is not stable and that it does not hold (*determinant-before-effect*).
//!
//! What is noted of a frame is the least that it depends on, so that nothing is reported that is right: of a message,
//! the events at the beginning of the call that sends it; of an answer to a message, the event of its match, if there is
//! one, and so of a loan that is returned; of a FINALIZE or FINALIZE_NAK, the events at the end of the program.
//!
//! And a rank that starts again does what it did before, as far as anything depends on it that has left the set.

mod deaths;
mod elsewhere;
mod frames;
mod stops;

use super::paths::{Path, Paths};
use super::{Frames, Violation};
use crate::call::{Call, Outcome};
use crate::case::Case;
use crate::logger::Logger;
use std::collections::{HashMap, HashSet};
use taffrail_logging::{Event, LoggedEvent, MsgId, Position, Rank, Received, Restart};

/// Most ranks of a job.
const MAX_RANKS: usize = 8;

/// Of each rank, events up to a clock, and so many calls of its program.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    clocks: [u64; MAX_RANKS],
    calls: [usize; MAX_RANKS],
}

/// What the program of a rank was told.
#[derive(Default)]
struct History {
    calls: Vec<(Call, Outcome)>,
    /// Those of former incarnations.
    former: Vec<(Call, Outcome)>,
    /// So many of them something depends on that has left the set.
    must: usize,
    /// So many had been made at the last checkpoint.
    saved: usize,
}

/// A message that a program has asked for: its sender and receiver, its context and number.
type Name = (Rank, Rank, u16, u32);

/// Events of a rank that have waited for room in its ring since so many calls had been made; and how many when the last was
/// written, if one was.
type Late = (usize, Option<usize>);

/// What was seen of the present incarnations, for the paths that were reached.
#[derive(Default)]
struct Seen {
    /// Messages to another set that have left, and that have not.
    left: HashSet<Name>,
    stay: HashSet<Name>,
    /// Who has begun the restart exchange with whom.
    begun: HashSet<(Rank, Rank)>,
    /// The last checkpoint of which who was told by whom.
    told: HashMap<(Rank, Rank), Received>,
    /// Messages of the exchange of which a piece has left, and more follows.
    begun_restarts: HashMap<(usize, usize), Option<Restart>>,
    /// Ranks that repeat what they did.
    replays: Vec<bool>,
}

/// Knows everything.
pub(super) struct Oracle {
    set_of: Vec<usize>,
    causal: bool,
    /// Events that are not stable are lost with their rank.
    loses_rings: bool,
    /// Ranks that die are not started again.
    deaths: bool,
    histories: Vec<History>,
    /// What each rank depends on.
    past: Vec<Past>,
    /// What each event of each rank depends on.
    events: Vec<Vec<Past>>,
    /// What messages depend on: by sender, receiver, context and number.
    sends: HashMap<Name, Past>,
    /// Which message the sender has given a name, by sender, receiver and name.
    names: HashMap<(Rank, Rank, u64), MsgId>,
    /// Which message a loan is, by its owner, its borrower and its number.
    loans: HashMap<(Rank, Rank, u64), MsgId>,
    /// What the match of a message depends on, by its receiver.
    matches: HashMap<(Rank, MsgId), Past>,
    /// A rank cancels a receive: that it came too late is an event that names the message, and no answer to that depends on
    /// the event.
    pub(super) cancels: bool,
    /// Such events that had no room in their ring at once: their ranks and clocks.
    late_cancels: HashSet<(Rank, u64)>,
    /// Events that wait: polls that find nothing meanwhile come after them.
    late: Vec<Option<Late>>,
    /// What the end of the program of a rank depends on.
    ends: Vec<Option<Past>>,
    /// The incarnations whose programs have ended.
    ended: HashSet<(Rank, u32)>,
    /// What messages on the way bring.
    flights: HashMap<u64, Past>,
    /// The last checkpoint of each rank.
    pub(super) saved: Vec<Option<Position>>,
    /// Checkpoints are announced when they are on another node, and what is.
    copies: bool,
    elsewhere: Vec<elsewhere::Copied>,
    pub(super) frames: Frames,
    pub(super) paths: Paths,
    seen: Seen,
    stops: stops::Stops,
    /// How ranks have gone that are not started again.
    gone: Vec<Option<deaths::Gone>>,
    /// The first violation.
    pub(super) violation: Option<Violation>,
}

impl Oracle {
    pub(super) fn new(case: &Case) -> Self {
        let set_of: Vec<usize> = (0..case.ranks).map(|rank| case.set_of(rank)).collect();
        let (causal, loses_rings) = (case.causal, case.loses_rings());
        let count = set_of.len();
        Oracle {
            set_of,
            causal,
            past: vec![Past::default(); count],
            histories: (0..count).map(|_| History::default()).collect(),
            loses_rings,
            events: vec![Vec::new(); count],
            sends: HashMap::new(),
            names: HashMap::new(),
            loans: HashMap::new(),
            matches: HashMap::new(),
            cancels: false,
            late_cancels: HashSet::new(),
            late: vec![None; count],
            ends: vec![None; count],
            ended: HashSet::new(),
            flights: HashMap::new(),
            saved: vec![None; count],
            copies: case.copied,
            elsewhere: vec![elsewhere::Copied::default(); count],
            frames: Frames::default(),
            paths: Paths::default(),
            seen: Seen { replays: vec![false; count], ..Seen::default() },
            stops: stops::Stops::default(),
            gone: vec![None; count],
            deaths: case.deaths,
            violation: None,
        }
    }

    pub(super) fn violated(&mut self, invariant: &'static str, text: String) {
        self.violation.get_or_insert(Violation { invariant, text });
    }

    /// What the event logger has done after a death.
    pub(super) fn logger_has(&mut self, done: Result<(), String>) {
        if let Err(text) = done {
            self.violated("what is stable stays", text);
        }
    }

    /// A rank has died.
    pub(super) fn died(&mut self, rank: Rank) {
        self.stops.died(rank);
        if self.deaths {
            self.gone[rank as usize] = Some(deaths::Gone::Died);
            return;
        }
        let History { calls, former, must, .. } = &mut self.histories[rank as usize];
        if calls.len() > former.len() {
            *former = std::mem::take(calls);
        }
        calls.clear();
        if !self.loses_rings {
            former.truncate(*must);
        }
        self.past[rank as usize] = Past::default();
        self.late_cancels.retain(|(of, _)| *of != rank);
        self.late[rank as usize] = None;
        self.seen.left.retain(|name| name.0 != rank);
        self.seen.stay.retain(|name| name.0 != rank);
        self.seen.begun.retain(|(from, _)| *from != rank);
        if std::mem::take(&mut self.seen.replays[rank as usize]) {
            self.paths.reach(Path::DiedInReplay);
        }
    }

    /// The run has ended, and each message that its receiver had not has left.
    pub(super) fn ended(&mut self) {
        self.seen.stay.iter().for_each(|_| self.paths.reach(Path::Suppressed));
    }

    /// A rank whose ring was lost is about to start again: what no rank that lives depends on may become something else.
    pub(super) fn forgets(&mut self, rank: Rank, lives: impl Fn(Rank) -> bool) {
        let me = rank as usize;
        let alive = (0..self.past.len()).filter(|&other| other != me && lives(other as Rank));
        let must = alive.map(|other| self.past[other].calls[me]).max().unwrap_or(0);
        let history = &mut self.histories[me];
        history.must = must;
        history.former.truncate(must);
    }

    /// A call has come to this.
    pub(super) fn called(&mut self, rank: Rank, call: &Call, outcome: &Outcome) {
        self.frames.called(call, outcome);
        let History { calls, former, must, .. } = &mut self.histories[rank as usize];
        let at = calls.len();
        let now = (call.clone(), outcome.clone());
        let was = former.get(at).filter(|was| at < *must && **was != now);
        let text = was.map(|was| {
            format!(
                "rank {rank} has called as number {at} {was:x?}, something that has left depends on it, and now it \
                 calls {now:x?}"
            )
        });
        calls.push(now);
        self.past[rank as usize].calls[rank as usize] = at + 1;
        if let Some(text) = text {
            self.violated("the same history", text);
        }
    }

    /// A rank has a checkpoint: nothing from before it is done again, so all that it depends on is stable.
    pub(super) fn saved(&mut self, rank: Rank, position: Option<Position>, logger: &Logger) {
        let (needs, stable) = (self.past[rank as usize].clocks[rank as usize], logger.stable(rank));
        if needs > stable {
            let text = format!(
                "rank {rank} has a checkpoint behind its event {needs}, and event {stable} is the last that is stable"
            );
            self.violated("checkpoint-is-stable", text);
        }
        let history = &mut self.histories[rank as usize];
        history.saved = history.calls.len();
        history.must = history.must.max(history.saved);
        self.saved[rank as usize] = position;
    }

    /// Something depends on this.
    fn must_be_repeated(&mut self, past: &Past) {
        for (history, &calls) in self.histories.iter_mut().zip(&past.calls) {
            history.must = history.must.max(calls);
        }
    }

    /// A rank starts, from its checkpoint if it has one, and replays these events.
    pub(super) fn starts(&mut self, rank: Rank, events: &[LoggedEvent]) {
        let me = rank as usize;
        let History { calls, former, saved, .. } = &mut self.histories[me];
        *calls = former[..*saved].to_vec();
        let count = *saved;
        self.past[me] = Past::default();
        if self.causal
            && let Some(event) = events.last()
            && let Some(past) = self.events[me].get(event.clock as usize - 1)
        {
            self.past[me] = *past;
        }
        self.past[me].calls[me] = count;
        self.past[me].clocks[me] = events.last().map_or(0, |event| event.clock);
        self.ends[me] = None;
        self.matches.retain(|(by, _), _| *by != rank);
        self.seen.replays[me] = !events.is_empty();
        for LoggedEvent { clock, event } in events {
            let mut clocks = Past::default();
            clocks.clocks[me] = *clock;
            self.note_match(rank, event, clocks);
        }
    }

    /// A rank has written an event.
    pub(super) fn wrote(&mut self, rank: Rank, event: &Event, clock: u64) {
        let me = rank as usize;
        self.past[me].clocks[me] = clock;
        self.events[me].truncate(clock as usize - 1);
        self.events[me].push(self.past[me]);
        if std::mem::take(&mut self.seen.replays[me]) {
            self.paths.reach(Path::ReplayEnded);
        }
        let calls = self.since(me);
        if !self.cancels && !self.late_cancels.remove(&(rank, clock)) {
            let mut past = self.past[me];
            past.calls[me] = calls;
            self.note_match(rank, event, past);
        }
        if let Some((_, written)) = &mut self.late[me] {
            *written = Some(self.past[me].calls[me]);
        }
    }

    /// How many calls a rank had made before the event that it writes now: one that had no room may have waited.
    fn since(&mut self, me: usize) -> usize {
        let now = self.past[me].calls[me];
        let waits = |(_, written): &Late| written.is_none_or(|written| written == now);
        self.late[me] = self.late[me].filter(waits);
        self.late[me].map_or(now, |(calls, _)| calls)
    }

    /// There is no room for this event of a rank.
    pub(super) fn ring_is_full(&mut self, rank: Rank, clock: u64) {
        self.paths.reach(Path::RingFull);
        let calls = self.since(rank as usize);
        self.late[rank as usize] = Some((calls, None));
        if self.cancels {
            self.late_cancels.insert((rank, clock));
        }
    }

    fn note_match(&mut self, rank: Rank, event: &Event, clocks: Past) {
        if let Event::Matched { message, .. } | Event::Claimed { message, .. } = event {
            self.matches.insert((rank, *message), clocks);
        }
    }

    /// A rank is about to send a message.
    pub(super) fn sends(&mut self, rank: Rank, to: Rank, (context, seq): (u16, u32)) {
        let name = (rank, to, context, seq);
        self.sends.insert(name, self.past[rank as usize]);
        if self.set_of[rank as usize] != self.set_of[to as usize] {
            self.seen.stay.insert(name);
        }
    }

    /// The program of a rank has ended.
    pub(super) fn ends(&mut self, rank: Rank, incarnation: u32) {
        self.ends[rank as usize] = Some(self.past[rank as usize]);
        self.ended.insert((rank, incarnation));
    }

    /// A rank goes, and knows these incarnations of all: their programs have ended, or they need it still.
    pub(super) fn goes(&mut self, rank: Rank, known: &[u32]) {
        let needs = |(of, incarnation): &(Rank, u32)| {
            *of != rank && !self.ended.contains(&(*of, *incarnation))
        };
        let needed = (0..).zip(known.iter().copied()).find(needs);
        if let Some((of, incarnation)) = needed {
            let text =
                format!("rank {rank} goes, and the program of {of}.{incarnation} has not ended");
            self.violated("nobody goes early", text);
        }
    }

    /// Whether all that is stable depends on what is stable, in each of these groups.
    pub(super) fn fits_together(&mut self, groups: &[Vec<Rank>], logger: &Logger) {
        for members in groups {
            for &member in members {
                let Some(last) = logger.stable(member).checked_sub(1) else { continue };
                let Some(past) = self.events[member as usize].get(last as usize).copied() else {
                    continue;
                };
                for &other in members {
                    let (needs, has) = (past.clocks[other as usize], logger.stable(other));
                    if needs > has {
                        let text = format!(
                            "event {} of rank {member} is stable; it depends on event {needs} of rank {other}, of \
                             which event {has} is the last that is stable",
                            last + 1
                        );
                        self.violated("a set is stable together", text);
                    }
                }
            }
        }
    }

    /// Whether a rank holds all events that it depends on, or they are stable.
    pub(super) fn holds_all(
        &mut self,
        rank: Rank,
        logger: &Logger,
        knows: impl Fn(Rank, u64) -> bool,
    ) {
        let past = self.past[rank as usize];
        for of in 0..self.set_of.len() as u32 {
            let (needs, stable) = (past.clocks[of as usize], logger.stable(of));
            if needs > stable && !knows(of, needs) {
                let text = format!(
                    "rank {rank} depends on event {needs} of rank {of}, which it does not hold, and event {stable} \
                     is the last that is stable"
                );
                self.violated("determinant-before-effect", text);
            }
        }
    }
}
