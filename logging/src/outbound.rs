//! What leaves: the payload log, and what becomes of a message while its receiver is away.
//!
//! Appendix A of MPICH-V2, `send` and the rules for RESTART1 and RESTART2, with two differences.
//! Numbers are those of channels instead of the sender's clock. And a message that its receiver has
//! already is not transmitted, but it is logged: until a checkpoint of the receiver covers it, it may be
//! asked for once more.

use crate::{ChannelNumbers, Numbers, Rank, Received, before, mutant};

/// A message in the payload log; `P` says where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// Its context.
    pub context: u16,
    /// Its number in the channel.
    pub seq: u32,
    /// The rest of it.
    pub payload: P,
}

/// What says where the bytes of a message in the payload log are, and what else they are.
pub trait Payload: Copy {
    /// How far behind this one `other` is, if they differ in nothing else.
    fn distance(&self, other: &Self) -> Option<u64>;

    /// One that is so far behind this one, and differs in nothing else.
    fn behind(&self, distance: u64) -> Self;
}

/// The most messages of a run: a search for one of them reads all.
const MAX_RUN: u32 = 128;

/// Messages of the payload log that differ in nothing but their numbers, one after the other, and where they
/// are, one as far behind the other as the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<P> {
    /// The first.
    pub first: Entry<P>,
    /// How many there are: from 1 to 128 of those that were [kept](Outbound::keep).
    pub count: u32,
    /// How far one is behind the other; of one alone 0.
    pub step: u64,
}

impl<P: Payload> Run<P> {
    /// Its messages, in the order of sending.
    pub fn entries(self) -> impl Iterator<Item = Entry<P>> {
        let Run { first: Entry { context, seq, payload }, count, step } = self;
        (0..count).map(move |n| Entry {
            context,
            seq: seq.wrapping_add(n),
            payload: payload.behind(u64::from(n).wrapping_mul(step)),
        })
    }

    /// Whether this says that all of its messages are there, whole.
    pub fn is_covered(&self, received: &Received) -> bool {
        let Run { first: Entry { context, seq, .. }, count, .. } = *self;
        received.covers(context, seq.wrapping_add(count.wrapping_sub(1)))
            && (mutant!(MissingCollected)
                || (received.missing.iter())
                    .all(|&(c, s)| c != context || s.wrapping_sub(seq) >= count))
    }

    #[inline(always)]
    fn takes(&mut self, entry: &Entry<P>) -> bool {
        let Entry { context, seq, payload } = self.first;
        if context != entry.context || seq.wrapping_add(self.count) != entry.seq {
            return false;
        }
        let Some(distance) = payload.distance(&entry.payload) else { return false };
        if self.count == 1 {
            self.step = distance;
        } else if distance != u64::from(self.count) * self.step || self.count == MAX_RUN {
            return false;
        }
        self.count += 1;
        true
    }
}

/// Adds a message to those of its run, or begins one with it.
#[inline(always)]
fn add<P: Payload>(runs: &mut Vec<Run<P>>, entry: Entry<P>) {
    let belongs = runs.last_mut().is_some_and(|run| run.takes(&entry));
    if !belongs {
        runs.push(Run { first: entry, count: 1, step: 0 });
    }
}

/// What is done with a message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It is logged, if its receiver is outside of the set, and leaves.
    Transmit,
    /// It is logged and does not leave: its receiver has it from an earlier execution.
    Suppress,
    /// It is logged and does not leave now: its receiver has not said yet what it has, and will get
    /// from the log what it needs.
    Hold,
}

/// The sending side of a rank.
#[derive(Clone, Debug)]
pub struct Outbound<P> {
    peers: Vec<Peer<P>>,
}

#[derive(Clone, Debug)]
struct Peer<P> {
    /// It has said what it has, or is connected since the start.
    ready: bool,
    /// What it has had from an earlier execution of ours.
    has: Received,
    /// What it may need again, in the order of sending.
    log: Vec<Run<P>>,
}

impl<P: Payload> Outbound<P> {
    /// Of a rank of a job of `ranks` ranks. `ready`: all start together and have nothing; else this rank is
    /// started again, and holds everything until its peers have said what they have.
    pub fn new(ranks: u32, ready: bool) -> Self {
        let peer = |_| Peer { ready, has: Received::default(), log: Vec::new() };
        Outbound { peers: (0..ranks).map(peer).collect() }
    }

    /// Whether all messages to `to` leave: it has said what it has, and all of that was numbered again.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline(always)]
    pub fn transmits_all(&self, to: Rank) -> bool {
        let peer = &self.peers[to as usize];
        peer.ready && peer.has.channels.is_empty()
    }

    /// Numbers the next message to `to`, and says what is done with it.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn number(&mut self, numbers: &mut Numbers, to: Rank, context: u16) -> (u32, Sending) {
        let seq = numbers.next(to, context).commit();
        let peer = &mut self.peers[to as usize];
        peer.forget_what_was_numbered(&numbers.of(to).sent, context, seq);
        let sending = match (peer.ready, peer.has.covers(context, seq)) {
            (false, _) => Sending::Hold,
            (true, true) => Sending::Suppress,
            (true, false) => Sending::Transmit,
        };
        (seq, sending)
    }

    /// Keeps a message for `to`, which was given its number just now.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline(always)]
    pub fn keep(&mut self, to: Rank, entry: Entry<P>) {
        let peer = &mut self.peers[to as usize];
        if !(mutant!(SuppressedNotLogged) && peer.has.covers(entry.context, entry.seq)) {
            add(&mut peer.log, entry);
        }
    }

    /// How many runs of messages for `peer` the log has.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline(always)]
    pub fn runs(&self, peer: Rank) -> usize {
        self.peers[peer as usize].log.len()
    }

    /// Takes all messages for `peer` out of the log. The caller keeps them: what is [to be transmitted
    /// first](Self::restarted) begins with those of them that are lacking.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn take(&mut self, peer: Rank) -> impl Iterator<Item = Run<P>> {
        self.peers[peer as usize].log.drain(..)
    }

    /// `peer` is gone, and will be started again: everything to it is held until it has said what it
    /// has.
    pub fn lost(&mut self, peer: Rank) {
        self.peers[peer as usize].ready = mutant!(HoldDropped);
    }

    /// `peer` has said what it has: messages to it leave again. What it does not have of the log is
    /// to be transmitted first, in this order.
    pub fn restarted(&mut self, peer: Rank, has: Received) -> impl Iterator<Item = Entry<P>> {
        let peer = &mut self.peers[peer as usize];
        peer.ready = true;
        if peer.has.channels.is_empty() || !mutant!(NotLowered) {
            peer.has = has;
        }
        let Peer { log, has, .. } = peer;
        log.iter()
            .copied()
            .flat_map(Run::entries)
            .filter(|entry| !has.covers(entry.context, entry.seq))
    }

    /// Drops from the log what a committed checkpoint of `peer` covers, and returns it
    /// (*no-early-discard*: only this drops anything).
    pub fn collect(&mut self, peer: Rank, committed: &Received) -> Vec<Run<P>> {
        let log = &mut self.peers[peer as usize].log;
        let mut dropped = Vec::new();
        for run in std::mem::take(log) {
            if run.is_covered(committed) {
                dropped.push(run);
                continue;
            }
            for entry in run.entries() {
                let is_covered = committed.covers(entry.context, entry.seq);
                add(if is_covered { &mut dropped } else { log }, entry);
            }
        }
        dropped
    }

    /// The log of messages to `peer`, in the order of sending.
    pub fn log(&self, peer: Rank) -> impl Iterator<Item = Run<P>> {
        self.peers[peer as usize].log.iter().copied()
    }

    /// Whether `peer` has said what it has.
    pub fn is_ready(&self, peer: Rank) -> bool {
        self.peers[peer as usize].ready
    }
}

impl<P> Peer<P> {
    /// Forgets what it has had when all of that was numbered again before the message with this number.
    fn forget_what_was_numbered(&mut self, sent: &ChannelNumbers, context: u16, seq: u32) {
        let has = &mut self.has;
        let number = |of: u16| if of == context { seq } else { sent.next(of) };
        if has.channels.iter().all(|&(of, had)| !before(number(of), had)) {
            has.channels.clear();
            has.missing.clear();
        }
    }
}

impl Received {
    /// Whether it says that this message is there, whole.
    pub fn covers(&self, context: u16, seq: u32) -> bool {
        let expected = self.channels.iter().find(|(c, _)| *c == context).map_or(0, |(_, e)| *e);
        before(seq, expected) && !self.missing.contains(&(context, seq))
    }

    /// Whether it is as far in every channel as another one.
    pub fn reaches(&self, other: &Received) -> bool {
        let here = |context: u16| self.channels.iter().find(|(c, _)| *c == context);
        let mut all = other.channels.iter();
        all.all(|(context, expected)| {
            let here = here(*context).map_or(0, |(_, expected)| *expected);
            here == *expected || before(*expected, here)
        })
    }
}

#[cfg(test)]
mod tests;
