//! Causal logging: what chance has decided travels with the messages that depend on it.
//!
//! A *determinant* is an event and the rank whose it is. Nothing waits until events are stable; instead
//! every message is preceded by the determinants that its sender knows and does not know to be stable,
//! and its receiver keeps them and passes them on (Elnozahy and Zwaenepoel, Manetho, 1992, as a log in
//! place of a graph; "simple causal message logging" of Meneses et al. 2011, with as many copies as
//! there are processes that depend on the event). So every process that depends on an event can say what it was:
//!
//! **determinant-before-effect**: when a message is delivered, its receiver knows each event that the
//! message may depend on, or the event is stable.
//!
//! What a rank knows is kept in the order in which it has learnt it, and is passed on in that order. An
//! event is learnt after those that it depends on, so whatever part of it arrives has no gaps.
//!
//! A rank's events are stable in their order. Of each rank all events up to some clock are known to be
//! stable, and those from there up to another clock are held: so two numbers say what is known, and
//! that nothing was lost on the way can be checked.

mod determinant;
mod held_store;

pub use determinant::{CausalError, DETERMINANT, Determinant};
pub use held_store::{HeldStore, NoRoom};

use crate::{LoggedEvent, Rank, mutant};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// What was created and sent so far: the columns of the fast message-logging paper's table 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent to other ranks.
    pub messages: u64,
    /// Determinants of this rank's own events.
    pub created: u64,
    /// Determinants sent in front of messages, those of other ranks included, each time one is sent.
    pub piggybacked: u64,
}

impl Counters {
    /// What several ranks have created and sent.
    pub fn add(&mut self, other: &Counters) {
        self.messages += other.messages;
        self.created += other.created;
        self.piggybacked += other.piggybacked;
    }

    /// Determinants sent for each message: 0 without messages.
    pub fn per_message(&self) -> f64 {
        self.piggybacked as f64 / self.messages.max(1) as f64
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { messages, created, piggybacked } = self;
        let each = self.per_message();
        write!(
            f,
            "{created} determinants created, {piggybacked} sent with {messages} messages: {each:.2} each"
        )
    }
}

/// A determinant that is not known to be stable, and when it was learnt.
#[derive(Clone, Copy, Debug)]
struct Unstable {
    number: u64,
    determinant: Determinant,
}

/// What is known of a rank's events.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Those up to this clock are stable.
    stable: u64,
    /// Those behind them up to this clock are held.
    last: u64,
}

/// What a peer is known to have.
#[derive(Clone, Debug, Default)]
struct Peer {
    /// All that was learnt before this number was looked at for it.
    seen: u64,
    /// Of ranks: the events up to these clocks.
    has: BTreeMap<Rank, u64>,
}

/// The determinants that a rank knows.
#[derive(Clone, Debug)]
pub struct Causal {
    me: Rank,
    /// No rank has more events than this that are not stable.
    most_open: u64,
    known: Vec<Known>,
    /// In the order in which they were learnt. Some may be known to be stable by now.
    held: VecDeque<Unstable>,
    /// The number of the next one.
    next: u64,
    /// Those held that are not known to be stable.
    open: usize,
    peers: Vec<Peer>,
    counters: Counters,
}

impl Causal {
    /// Of rank `me`. No rank has more than `most_open` events that are not stable: it has
    /// no room to write another.
    pub fn new(me: Rank, ranks: u32, most_open: u64) -> Self {
        Causal {
            me,
            most_open,
            known: vec![Known::default(); ranks as usize],
            held: VecDeque::new(),
            next: 0,
            open: 0,
            peers: (0..ranks).map(|_| Peer::default()).collect(),
            counters: Counters::default(),
        }
    }

    /// This rank has written an event.
    ///
    /// # Panics
    /// If it is not the next.
    pub fn wrote(&mut self, event: &LoggedEvent) {
        self.counters.created += 1;
        self.restore(event);
    }

    /// This rank was started again, and had written an event that is not stable.
    ///
    /// # Panics
    /// If it is not the next.
    pub fn restore(&mut self, event: &LoggedEvent) {
        assert_eq!(event.clock, self.known[self.me as usize].last + 1, "events have no gaps");
        self.hold(Determinant::new(self.me, event));
    }

    /// The events of a rank up to this clock are stable, by a message of a process that knows it.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline]
    pub fn stable(&mut self, rank: Rank, clock: u64) {
        if clock > self.known[rank as usize].stable {
            self.becomes_stable(rank, clock);
        }
    }

    fn becomes_stable(&mut self, rank: Rank, clock: u64) {
        let known = &mut self.known[rank as usize];
        self.open -= (clock.min(known.last) - known.stable) as usize;
        known.stable = clock;
        known.last = known.last.max(clock);
        let stable = |held: &Unstable| held.determinant.clock <= self.known[held.rank()].stable;
        while self.held.front().is_some_and(stable) {
            self.held.pop_front();
        }
        // What is stable behind one that is not. Each was written once for each that is dropped.
        if self.held.len() > 2 * self.open + 64 {
            self.held.retain(|held| held.determinant.clock > self.known[held.rank()].stable);
        }
    }

    /// Determinants have come from a peer.
    ///
    /// # Errors
    /// [`CausalError`] when a peer that keeps the protocol does not send these bytes. What was before
    /// the error is kept.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn received(&mut self, from: Rank, bytes: &[u8]) -> Result<(), CausalError> {
        let (determinants, rest) = bytes.as_chunks::<DETERMINANT>();
        if determinants.is_empty() || !rest.is_empty() {
            return Err(CausalError::Length { got: bytes.len() });
        }
        determinants.iter().try_for_each(|bytes| {
            let Determinant { rank, clock, .. } = self.receive(bytes, false)?;
            let has = self.peers[from as usize].has.entry(rank).or_default();
            *has = clock.max(*has);
            Ok(())
        })
    }

    /// This rank is started again, and a survivor holds [all of these](Self::all_held). They are held
    /// here from now on, and those of this rank are to be replayed behind the stable ones.
    ///
    /// A rank that is started again depends on what its events depend on, before it has received any of
    /// that again. So it holds what survivors hold of *all* ranks: if one of these dies next, it is asked
    /// like others.
    ///
    /// # Errors
    /// [`CausalError::Differ`] when two survivors hold different events; else as
    /// [`received`](Self::received).
    pub fn adopt(&mut self, bytes: &[u8]) -> Result<(), CausalError> {
        let (determinants, rest) = bytes.as_chunks::<DETERMINANT>();
        if !rest.is_empty() {
            return Err(CausalError::Length { got: bytes.len() });
        }
        for bytes in determinants {
            if mutant!(OnlyOwnAdopted) && bytes[..4] != self.me.to_le_bytes() {
                continue;
            }
            let new = self.receive(bytes, true)?;
            let same = |held: &Determinant| held.clock == new.clock;
            if self.held_of(new.rank).find(|held| same(held)).is_some_and(|held| *held != new) {
                return Err(CausalError::Differ { rank: new.rank, clock: new.clock });
            }
        }
        Ok(())
    }

    /// All that is held and not known to be stable, in the order in which it was learnt; of its own events those up to
    /// `written`. What a rank has not written yet, since there is no room for it, nobody depends on.
    pub fn all_held(&self, written: u64) -> Vec<u8> {
        self.encoded(0, |rank, clock| rank != self.me || clock <= written)
    }

    /// How many determinants were learnt, its own and those that are stable by now among them.
    pub fn learnt(&self) -> u64 {
        self.next
    }

    /// Those of other ranks that are held and not known to be stable, but for the first `before` that were
    /// [learnt](Self::learnt).
    pub fn held_of_others(&self, before: u64) -> Vec<u8> {
        self.encoded(before, |rank, _| rank != self.me)
    }

    fn encoded(&self, before: u64, which: impl Fn(Rank, u64) -> bool) -> Vec<u8> {
        let from = self.held.partition_point(|held| held.number < before);
        let mut bytes = Vec::new();
        for Unstable { determinant, .. } in self.held.range(from..) {
            let Determinant { rank, clock, .. } = *determinant;
            let stable = self.known[rank as usize].stable;
            if clock > stable && which(rank, clock) {
                bytes.extend_from_slice(&determinant.encode(open(clock, stable, self.most_open)));
            }
        }
        bytes
    }

    /// Takes in a determinant. `adopts`: also of this rank, beyond what it knows.
    fn receive(
        &mut self,
        bytes: &[u8; DETERMINANT],
        adopts: bool,
    ) -> Result<Determinant, CausalError> {
        let rank = u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[k]));
        let ranks = self.known.len() as u32;
        if rank >= ranks {
            return Err(CausalError::Rank { got: rank, ranks });
        }
        let (determinant, open) =
            Determinant::decode(bytes).map_err(|error| CausalError::Record { rank, error })?;
        let clock = determinant.clock;
        let most = self.most_open.min(clock);
        if open == 0 || u64::from(open) > most {
            return Err(CausalError::Open { rank, clock, got: open, most });
        }
        if rank != self.me {
            self.stable(rank, clock - u64::from(open));
        }
        let last = self.known[rank as usize].last;
        // Of its own events a rank knows all, and whether they are stable from the logger.
        let expected = last.saturating_add(u64::from(rank != self.me || adopts));
        if clock > expected {
            return Err(CausalError::Gap { rank, expected, got: clock });
        }
        if clock > last {
            self.hold(determinant);
        }
        Ok(determinant)
    }

    fn hold(&mut self, determinant: Determinant) {
        self.known[determinant.rank as usize].last = determinant.clock;
        self.held.push_back(Unstable { number: self.next, determinant });
        self.next += 1;
        self.open += 1;
    }

    /// A message is about to be sent to a peer, behind all that
    /// [`next_piggyback`](Self::next_piggyback) gives.
    #[inline]
    pub fn count_message(&mut self) {
        self.counters.messages += 1;
    }

    /// Whether there may be determinants that a peer has to be sent before the next message.
    ///
    /// # Panics
    /// If there is no such peer.
    #[inline]
    pub fn has_news_for(&self, peer: Rank) -> bool {
        self.peers[peer as usize].seen != self.next
    }

    /// The bytes of determinants that are to reach a peer before the next message, `most` bytes at the
    /// most; to be called until there are none. They are taken to reach it, as long as the connection
    /// [is not lost](Self::lost).
    ///
    /// # Panics
    /// If there is no such peer, or no room for one.
    pub fn next_piggyback(&mut self, peer: Rank, most: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.piggyback(peer, most, &mut bytes).then_some(bytes)
    }

    /// As [`next_piggyback`](Self::next_piggyback), into a buffer that can be used again. `false` when
    /// there are none.
    ///
    /// # Panics
    /// As there.
    pub fn piggyback(&mut self, peer: Rank, most: usize, bytes: &mut Vec<u8>) -> bool {
        assert!(most >= DETERMINANT, "room for {most} bytes");
        bytes.clear();
        let Causal { me, known, held, peers, counters, next, most_open, .. } = self;
        let Peer { seen, has } = &mut peers[peer as usize];
        let from = held.partition_point(|held| held.number < *seen);
        for Unstable { number, determinant } in held.range(from..) {
            let Determinant { rank, clock, .. } = *determinant;
            let stable = known[rank as usize].stable;
            let known_there = has.get(&rank).copied().unwrap_or(0);
            // Whose events they are knows them.
            if rank == peer || clock <= stable.max(known_there) {
                continue;
            }
            if mutant!(DeterminantsNotPassedOn) && rank != *me {
                continue;
            }
            if bytes.len() + DETERMINANT > most {
                *seen = *number;
                return true;
            }
            bytes.extend_from_slice(&determinant.encode(open(clock, stable, *most_open)));
            has.insert(rank, clock);
            counters.piggybacked += 1;
        }
        *seen = *next;
        !bytes.is_empty()
    }

    /// The connection with a peer is lost, or it has died: nothing is known of what it has.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn lost(&mut self, peer: Rank) {
        self.peers[peer as usize] = Peer::default();
    }

    /// What is held of the events of a rank: those behind some stable one, in their order.
    pub fn held_of(&self, rank: Rank) -> impl Iterator<Item = &Determinant> {
        let stable = self.known.get(rank as usize).map_or(0, |known| known.stable);
        let all = self.held.iter().map(|held| &held.determinant);
        all.filter(move |determinant| determinant.rank == rank && determinant.clock > stable)
    }

    /// Whether an event is known: stable, or held.
    pub fn knows(&self, rank: Rank, clock: u64) -> bool {
        self.known.get(rank as usize).is_some_and(|known| clock <= known.last)
    }

    /// The ranks of which events are held that are not known to be stable, and the clock of the last one of each.
    pub fn open_events(&self) -> impl Iterator<Item = (Rank, u64)> {
        let open = (0..).zip(&self.known).filter(|(_, known)| known.last > known.stable);
        open.map(|(rank, known)| (rank, known.last))
    }

    /// Whether an event is known to be stable.
    pub fn is_stable(&self, rank: Rank, clock: u64) -> bool {
        self.known.get(rank as usize).is_some_and(|known| clock <= known.stable)
    }

    /// What was created and sent.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

/// How many events up to this clock are not known to be stable. Of one that waits for room this is said before there is any,
/// and believed when it has left: then no more are open than a ring has room for.
fn open(clock: u64, stable: u64, most: u64) -> u32 {
    (clock - stable).min(most) as u32
}

impl Unstable {
    fn rank(&self) -> usize {
        self.determinant.rank as usize
    }
}

#[cfg(test)]
mod tests;
