//! Checkpoints: of a rank that is a set by itself, at any moment when nothing is under way.
//!
//! Whoever takes its place goes on from there: its events up to then are not replayed, what it has sent is
//! in the log that the checkpoint keeps, and what had come and nobody had received comes again.

use super::{CONTEXTS, Content, Request, State, Trouble, Wiring};
use crate::broken::Broken;
use crate::call::Outcome;
use std::collections::BTreeSet;
use std::fmt;
use taffrail_logging::{
    Entry, MsgId, PeerPosition, Position, Rank, Received, Recorder, RestartPhase, Run,
};

/// What outlives a rank, beside the state of its program.
#[derive(Clone)]
pub struct Checkpoint {
    /// Where it is, as bytes.
    position: Vec<u8>,
    /// What it has logged for each rank.
    logs: Vec<Vec<Entry<Content>>>,
}

impl Checkpoint {
    /// Where the rank was, in a job of so many ranks.
    pub(super) fn position(&self, ranks: u32) -> Result<Position, Trouble> {
        Ok(Position::decode(&self.position, ranks)?)
    }
}

/// As one wants to read it in a trace.
impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(position) = self.position(self.logs.len() as u32) else { return Err(fmt::Error) };
        let Position { clock, posts, .. } = position;
        write!(f, "checkpoint behind event {clock} and {posts} receives")?;
        for (peer, side) in position.sides.iter().enumerate() {
            let (Received { channels, missing }, next) = (&side.received, &side.next);
            let logged = self.logs[peer].iter().map(|entry| (entry.context, entry.seq));
            let logged: Vec<_> = logged.collect();
            write!(f, "; of {peer} {channels:?} without {missing:?}")?;
            write!(f, ", to {peer} {next:?}, logged {logged:?}")?;
        }
        Ok(())
    }
}

impl Wiring {
    /// Whether a checkpoint can be taken now: nothing is under way, and no event before it can be lost. The
    /// events behind it are numbered from there, so those before must all be there.
    pub fn may_take(&self) -> bool {
        self.who.set.len() == 1
            && self.causal.is_none()
            && self.handed == self.requests.len()
            && self.asked.is_none()
            && self.replay.is_over()
            && (self.gate.ticket().is_free() || self.is(Broken::CheckpointBeforeStable))
            && self.all_are_matched()
    }

    /// Takes a checkpoint, if all events before it are stable. What polls have not found is one more of
    /// them, which may have to become stable first. A checkpoint counts when it is stored: then it is to be
    /// [told](Self::committed).
    pub fn take(&mut self) -> Option<Checkpoint> {
        if !self.is(Broken::PollsAcrossCheckpoint)
            && let Some(event) = self.recorder.before_send()
        {
            self.log(event);
            if !self.is(Broken::CheckpointBeforeStable) {
                return None;
            }
        }
        let sides = (0..self.who.ranks).map(|peer| PeerPosition {
            received: self.covered(peer),
            next: self.numbers.of(peer).sent.all().collect(),
            log: Vec::new(),
        });
        let position = Position {
            clock: self.recorder.clock(),
            posts: self.recorder.posts(),
            serial: self.requests.len() as u32,
            sides: sides.collect(),
        };
        let keeps = !self.is(Broken::LogNotInCheckpoint);
        let log = |peer| {
            let all = self.outbound.log(peer).flat_map(Run::entries);
            all.filter(|_| keeps).collect()
        };
        let logs = (0..self.who.ranks).map(log).collect();
        Some(Checkpoint { position: position.encode(), logs })
    }

    /// What a checkpoint covers of what a peer has sent: all but for what nobody has received.
    fn covered(&self, peer: Rank) -> Received {
        let mut missing: BTreeSet<_> =
            self.inbound.missing(peer).map(|name| (name.context, name.seq)).collect();
        if !self.is(Broken::UnreceivedIsCovered) {
            let here = self.matcher.unexpected_from(peer);
            missing.extend(here.map(|(_, envelope, ())| (envelope.context, envelope.seq)));
        }
        Received { channels: self.channels(peer), missing: missing.into_iter().collect() }
    }

    /// The next number of each channel from a peer.
    pub(super) fn channels(&self, peer: Rank) -> Vec<(u16, u32)> {
        CONTEXTS.map(|context| (context, self.numbers.of(peer).expected.next(context))).to_vec()
    }

    /// A checkpoint is stored: tells it to all who are there. Others will be told of a later one.
    ///
    /// # Errors
    /// When it is not one of this job.
    pub fn committed(&mut self, checkpoint: &Checkpoint) -> Result<(), Trouble> {
        let position = checkpoint.position(self.who.ranks)?;
        for (peer, side) in (0..).zip(position.sides) {
            if !self.is_fellow(peer) && self.lines[peer as usize].connected {
                self.tell(peer, RestartPhase::Committed, side.received);
            }
        }
        Ok(())
    }

    /// A peer has a checkpoint that covers this: it will not ask for it again. While something waits to
    /// leave for it nothing is dropped; a later checkpoint covers it as well.
    pub(super) fn collect(&mut self, peer: Rank, mut covered: Received) {
        self.received_for_good(peer, &covered);
        if self.lines[peer as usize].has_messages() {
            return;
        }
        if self.is(Broken::CollectsAll) {
            covered = Received {
                channels: self.numbers.of(peer).sent.all().collect(),
                missing: Vec::new(),
            };
        }
        let dropped = self.outbound.collect(peer, &covered);
        self.collected += dropped.iter().map(|run| run.count as usize).sum::<usize>();
    }

    /// How many messages have left the log since this was asked.
    pub fn take_collected(&mut self) -> usize {
        std::mem::take(&mut self.collected)
    }

    /// Goes on from a checkpoint, before anything has happened.
    pub(super) fn go_on_from(&mut self, checkpoint: &Checkpoint) -> Result<(), Trouble> {
        let Position { posts, serial, sides, .. } = checkpoint.position(self.who.ranks)?;
        self.recorder = Recorder::going_on(self.replay.clock(), posts);
        let over = Request { post: None, by_chance: false, logged: true, state: State::Cancelled };
        self.requests = vec![over; serial as usize];
        self.handed = self.requests.len();
        for ((peer, side), log) in (0..).zip(sides).zip(&checkpoint.logs) {
            for (context, seq) in side.received.channels {
                self.numbers.of_mut(peer).expected.set(context, seq);
            }
            for (context, seq) in side.received.missing {
                self.inbound.lies_ahead(MsgId { source: peer, context, seq });
            }
            for (context, seq) in side.next {
                self.numbers.of_mut(peer).sent.set(context, seq);
            }
            log.iter().for_each(|entry| self.outbound.keep(peer, *entry));
        }
        Ok(())
    }

    /// Whether a call that looks for messages, and is not told by the log what it finds, has to wait: what
    /// it has seen before may be still to come again. Everything else goes on, since who is to send that
    /// may wait for what we have sent once already, behind this checkpoint.
    pub(super) fn waits_to_look(&self) -> bool {
        !self.inbound.is_complete() && !self.is(Broken::ProbesBeforeAllIsHere)
    }

    /// The same for any call, which is wrong.
    pub(super) fn waits_wrongly(&self) -> bool {
        !self.inbound.is_complete() && self.is(Broken::NoCallsBeforeAllIsHere)
    }

    /// A request that the program was told the end of is not under way any more.
    pub(super) fn count_handed(&mut self, outcome: &Outcome) {
        if let Outcome::Message(_) | Outcome::Any(..) | Outcome::Cancelled(true) = outcome {
            self.handed += 1;
        }
    }
}
