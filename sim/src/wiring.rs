//! How an engine puts the match engine and the state machines of logging together.
//!
//! No I/O, no clock, no thread: calls of the program, frames that arrive and changes of connections
//! go in; outcomes, frames that may leave and events to be written come out. This is the part that
//! an engine has to have as well. From the top:
//!
//! - `calls`: what the program asks, and what chance decides of it;
//! - `arrival`: what comes from a peer;
//! - `departure`: what leaves for a peer, and when it may;
//! - `causal`: events that go before it, in place of the gate;
//! - `synchronous`: sends that wait until their messages are matched;
//! - `checkpoint`: where a rank goes on that starts again.

mod arrival;
mod calls;
mod causal;
mod checkpoint;
mod departure;
mod synchronous;

use crate::broken::Broken;
use crate::call::{Body, Req};
pub use checkpoint::Checkpoint;
use departure::Line;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use synchronous::SyncSend;
pub use synchronous::{SendName, SyncAnswer};
use taffrail_logging::{
    Answer, Causal, CausalError, Event, Gate, Inbound, LoggedEvent, MsgId, Numbers, Outbound,
    Payload, PositionError, Rank, Received, Recorder, Replay, ReplayError, Restart, Run,
};
use taffrail_matching::{Envelope, Matcher, PostId};

/// The contexts of a job.
pub const CONTEXTS: [u16; 2] = [0, 1];

/// A frame on a connection.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// RESTART1 or RESTART2, as bytes.
    Restart(Vec<u8>),
    /// Events that what follows may depend on, as bytes.
    Determinants(Vec<u8>),
    /// A synchronous message is matched.
    Answer(SyncAnswer),
    /// A piece of a message.
    Piece(Piece),
}

/// As one wants to read it in a trace.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Restart(bytes) => match Restart::decode(bytes) {
                Ok(restart) => write!(f, "{restart:?}"),
                Err(_) => write!(f, "{bytes:?}"),
            },
            Frame::Determinants(bytes) => causal::show(bytes, f),
            Frame::Answer(answer) => write!(f, "{answer:?}"),
            Frame::Piece(Piece {
                context,
                seq,
                tag,
                index,
                body: Body { words, pieces },
                sync,
            }) => {
                let piece = index + 1;
                write!(
                    f,
                    "message {seq} (context {context}, tag {tag}), piece {piece} of {pieces}: {words:x?}, \
                     synchronous: {sync:?}"
                )
            }
        }
    }
}

/// A piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The context.
    pub context: u16,
    /// The number in the channel.
    pub seq: u32,
    /// The tag.
    pub tag: u64,
    /// Which piece, from 0.
    pub index: u8,
    /// The words of this piece; 0 in the place of others.
    pub body: Body,
    /// In the first piece: the send that waits until the message is matched.
    pub sync: Option<SendName>,
}

/// A message in the payload log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its tag.
    pub tag: u64,
    /// What it carries.
    pub body: Body,
    /// It is synchronous.
    pub sync: bool,
}

impl Payload for Content {
    /// Here a message is nowhere.
    fn distance(&self, other: &Content) -> Option<u64> {
        (self == other).then_some(0)
    }

    fn behind(&self, _: u64) -> Content {
        *self
    }
}

/// What must not happen, whatever fails.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The program does not do what its log says it did.
    #[error("the replay answers {answer:?}, and the program calls {call}")]
    Diverged {
        /// The next of the log.
        answer: Answer,
        /// What the program asks.
        call: String,
    },
    /// A connection is not in order.
    #[error("message {name:?} came {ahead} too early: the connection is not in order")]
    Early {
        /// What has come.
        name: MsgId,
        /// How many before it have not.
        ahead: u32,
    },
    /// As [`Trouble::Early`], inside of a message.
    #[error("{name:?} has piece {got} where piece {expected} was expected")]
    Piece {
        /// The message.
        name: MsgId,
        /// The piece that was due.
        expected: u8,
        /// The one that has come.
        got: u8,
    },
    /// RESTART1 or RESTART2 is not what it should be.
    #[error(transparent)]
    Restart(#[from] taffrail_logging::RestartError),
    /// The log is not one.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Determinants are not what they should be.
    #[error(transparent)]
    Causal(#[from] CausalError),
    /// A checkpoint is not one of this job.
    #[error(transparent)]
    Checkpoint(#[from] PositionError),
}

/// Who a rank is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number.
    pub me: Rank,
    /// How many ranks there are.
    pub ranks: u32,
    /// How often it was started before.
    pub incarnation: u32,
    /// Its correlated set, itself included.
    pub set: Vec<Rank>,
    /// Whether every reception is an event, not only those that chance has decided.
    pub all_events: bool,
    /// Whether events travel with messages, in place of the gate.
    pub causal: bool,
    /// What is wrong with it, on purpose.
    pub broken: Option<Broken>,
}

/// A rank between its program and its connections.
pub struct Wiring {
    who: Identity,
    /// Our place in the set.
    place: usize,
    matcher: Matcher<Req, ()>,
    recorder: Recorder,
    replay: Replay<std::vec::IntoIter<LoggedEvent>>,
    /// What the replay has answered to the poll that waits now.
    asked: Option<Answer>,
    outbound: Outbound<Content>,
    inbound: Inbound,
    numbers: Numbers,
    gate: Gate,
    causal: Option<Causal>,
    requests: Vec<Request>,
    /// How many of them the program was told the end of.
    handed: usize,
    /// How many messages have left the log.
    collected: usize,
    /// Messages that have come and were not handed over, whole or not.
    stored: BTreeMap<MsgId, Stored>,
    /// Synchronous sends, by their names.
    syncs: Vec<SyncSend>,
    /// Answers that were made, for the oracle.
    answers: Vec<(Rank, SyncAnswer)>,
    lines: Vec<Line>,
    /// Events that are not stable: to be written again if the event logger fails.
    unstable: VecDeque<LoggedEvent>,
    /// Events to be written now, before anything leaves.
    to_write: Vec<LoggedEvent>,
}

/// A receive or a claim.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The number of the receive; none for a claim.
    post: Option<u32>,
    /// Whether chance decides what it gets, so that this is an event.
    by_chance: bool,
    /// Whether what it got is an event already.
    logged: bool,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Posted; no message yet.
    Waits(PostId),
    /// It has this message, or, by the log, will have it.
    Has(MsgId),
    /// Cancelled; or, by the log, about to be.
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    envelope: Envelope,
    words: [u64; 3],
    /// Pieces here.
    got: u8,
    pieces: u8,
    /// The send that waits until this is matched.
    sync: Option<SendName>,
}

impl Stored {
    fn is_whole(&self) -> bool {
        self.got == self.pieces
    }
}

impl Wiring {
    /// A rank that starts: for the first time, connected with all others, or again, with the events
    /// that are left and no connection. In causal logging `stable` of them are stable, and survivors hold
    /// these determinants. With a checkpoint it goes on from there, and what was before is not replayed.
    ///
    /// # Errors
    /// When the events are not those of one execution.
    pub fn start(
        who: Identity,
        mut events: Vec<(u64, Event)>,
        stable: u64,
        held: &[Vec<u8>],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Self, Trouble> {
        let first = who.incarnation == 0;
        let causal =
            if who.causal { Some(causal::open(&who, &mut events, stable, held)?) } else { None };
        let unstable = causal.iter().flat_map(|causal| causal.held_of(who.me));
        let unstable = unstable.map(|d| LoggedEvent { clock: d.clock, event: d.event() }).collect();
        let after = match checkpoint {
            Some(checkpoint) => checkpoint.position(who.ranks)?.clock,
            None => 0,
        };
        let events = events.into_iter().filter(|(clock, _)| *clock > after);
        let events = events.map(|(clock, event)| LoggedEvent { clock, event });
        let replay = Replay::new(after, events.collect::<Vec<_>>())?;
        let mut outbound = Outbound::new(who.ranks, first);
        for &fellow in who.set.iter().filter(|_| !first) {
            // It has started again with us and has nothing: what we send to it just waits for it.
            let again = outbound.restarted(fellow, Received::default()).count();
            debug_assert_eq!(again, 0, "nothing was sent yet");
        }
        let place = who.set.iter().position(|&rank| rank == who.me).expect("it is in its own set");
        let mut gate = Gate::new(who.set.len());
        gate.stable(place, replay.clock());
        let mut wiring = Wiring {
            place,
            matcher: Matcher::with_seed(7),
            recorder: Recorder::after(replay.clock()),
            replay,
            asked: None,
            outbound,
            inbound: Inbound::new(who.ranks),
            numbers: Numbers::new(who.ranks),
            gate,
            causal,
            requests: Vec::new(),
            handed: 0,
            collected: 0,
            stored: BTreeMap::new(),
            syncs: Vec::new(),
            answers: Vec::new(),
            lines: (0..who.ranks).map(|_| Line::new(first)).collect(),
            unstable,
            to_write: Vec::new(),
            who,
        };
        if let Some(checkpoint) = checkpoint {
            wiring.go_on_from(checkpoint)?;
        }
        Ok(wiring)
    }

    /// A member of the set has written its events up to this clock. Looked up before every call.
    pub fn written(&mut self, member: usize, clock: u64) {
        if !self.is(Broken::GateOfOwnEvents) || member == self.place {
            self.gate.written(member, clock);
        }
    }

    /// The events of a member of the set are stable up to this clock.
    pub fn stable(&mut self, member: usize, clock: u64) {
        self.gate.stable(member, clock);
        if let Some(causal) = &mut self.causal {
            causal.stable(self.who.set[member], clock);
        }
        if member == self.place {
            while self.unstable.front().is_some_and(|event| event.clock <= clock) {
                self.unstable.pop_front();
            }
        }
    }

    /// The correlated set.
    pub fn set(&self) -> &[Rank] {
        &self.who.set
    }

    /// The clock of the last event, for the other members of the set to see.
    pub fn clock(&self) -> u64 {
        self.recorder.clock()
    }

    /// The events to be written to the event logger, now.
    pub fn take_events(&mut self) -> std::vec::Drain<'_, LoggedEvent> {
        self.to_write.drain(..)
    }

    /// The event logger has started again and has our events up to this clock: the others, to be
    /// written again.
    pub fn write_again(&self, from: u64) -> impl Iterator<Item = LoggedEvent> {
        self.unstable.iter().copied().filter(move |event| event.clock > from)
    }

    /// The payload log of messages to a peer.
    pub fn log_to(&self, peer: Rank) -> impl Iterator<Item = (u16, u32)> {
        let all = self.outbound.log(peer).flat_map(Run::entries);
        all.map(|entry| (entry.context, entry.seq))
    }

    /// What waits, for a report.
    pub fn report(&self) -> String {
        let waits = self.requests.iter().enumerate().filter(|(_, request)| match request.state {
            State::Has(name) => self.stored.get(&name).is_none_or(|stored| !stored.is_whole()),
            State::Waits(_) => true,
            State::Cancelled => false,
        });
        let waits: Vec<String> =
            waits.map(|(req, Request { state, .. })| format!("{req}: {state:?}")).collect();
        let lines: Vec<String> = (self.lines.iter().enumerate())
            .map(|(peer, line)| {
                let ready = self.outbound.is_ready(peer as Rank);
                format!("{peer}: ready {ready}, {line}")
            })
            .collect();
        let ahead = (0..self.who.ranks).flat_map(|peer| self.inbound.missing(peer));
        let ahead: Vec<String> = ahead.map(|name| format!("{name:?}")).collect();
        format!(
            "requests not over [{}], {} messages stored, replay over: {}, to come again [{}], lines [{}]",
            waits.join(", "),
            self.stored.len(),
            self.replay.is_over(),
            ahead.join(", "),
            lines.join("; ")
        )
    }

    fn log(&mut self, mut event: LoggedEvent) {
        if self.is(Broken::PollsBeforeMatchForgotten)
            && let Event::Matched { polls, .. } | Event::Cancelled { polls, .. } = &mut event.event
        {
            // They are logged with the next event of a poll, if there is one.
            for _ in 0..std::mem::take(polls) {
                let full = self.recorder.found_nothing();
                debug_assert_eq!(full, None, "these are few");
            }
        }
        self.gate.written(self.place, event.clock);
        if let Some(causal) = &mut self.causal {
            causal.wrote(&event);
        }
        self.unstable.push_back(event);
        self.to_write.push(event);
    }

    fn is_fellow(&self, rank: Rank) -> bool {
        self.who.set.contains(&rank)
    }

    /// Whether this is what is wrong with us.
    fn is(&self, broken: Broken) -> bool {
        self.who.broken == Some(broken)
    }
}
