//! What leaves: numbers, the payload log, and what becomes of a message while its receiver is away.
//!
//! Appendix A of MPICH-V2, `send` and the rules for RESTART1 and RESTART2, with two differences.
//! Numbers are those of channels instead of the sender's clock. And a message that its receiver has
//! already is not transmitted, but it is logged: until a checkpoint of the receiver covers it, it may be
//! asked for once more.

use crate::{Next, Rank, Received, before, mutant};

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

/// The most messages of a run: whoever looks for one of them looks at all.
const MOST: u32 = 128;

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
        } else if distance != u64::from(self.count) * self.step || self.count == MOST {
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
    /// The next number of each context in use.
    next: Vec<(u16, u32)>,
    /// What it has had from an earlier execution of ours.
    has: Received,
    /// What it may need again, in the order of sending.
    log: Vec<Run<P>>,
}

impl<P: Payload> Outbound<P> {
    /// Of a rank among so many. `ready`: all start together and have nothing; else this rank is
    /// started again, and holds everything until its peers have said what they have.
    pub fn new(ranks: u32, ready: bool) -> Self {
        let peer = |_| Peer { ready, next: Vec::new(), has: Received::default(), log: Vec::new() };
        Outbound { peers: (0..ranks).map(peer).collect() }
    }

    /// The next number of each context in use to `peer`.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn numbers(&self, peer: Rank) -> &[(u16, u32)] {
        &self.peers[peer as usize].next
    }

    /// Goes on from a checkpoint: these are the next numbers to `peer`. What was logged for it is
    /// [kept](Self::keep) again.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn go_on(&mut self, peer: Rank, next: Vec<(u16, u32)>) {
        self.peers[peer as usize].next = next;
    }

    /// The next number to `to`; if nothing stands in the way of a message, and the channel has had one.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline(always)]
    pub fn next(&mut self, to: Rank, context: u16) -> Option<Next<'_>> {
        let peer = &mut self.peers[to as usize];
        if !peer.ready || !peer.has.channels.is_empty() {
            return None;
        }
        peer.next.iter_mut().find(|(c, _)| *c == context).map(|(_, next)| Next::new(next))
    }

    /// Numbers the next message to `to`, and says what is done with it.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn number(&mut self, to: Rank, context: u16) -> (u32, Sending) {
        let peer = &mut self.peers[to as usize];
        let seq = peer.take_number(context);
        peer.catch_up(context, seq);
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
    /// Forgets what it has had when all of that was numbered again: the last is this one.
    fn catch_up(&mut self, context: u16, seq: u32) {
        let Peer { next, has, .. } = self;
        let number = |of: u16| match of == context {
            true => seq,
            false => next.iter().find(|(c, _)| *c == of).map_or(0, |(_, next)| *next),
        };
        if has.channels.iter().all(|&(of, had)| !before(number(of), had)) {
            has.channels.clear();
            has.missing.clear();
        }
    }

    fn take_number(&mut self, context: u16) -> u32 {
        if let Some((_, next)) = self.next.iter_mut().find(|(c, _)| *c == context) {
            return Next::new(next).commit();
        }
        self.next.push((context, 1));
        0
    }
}

impl Received {
    /// Whether it says that this message is there, whole.
    pub fn covers(&self, context: u16, seq: u32) -> bool {
        let expected = self.channels.iter().find(|(c, _)| *c == context).map_or(0, |(_, e)| *e);
        before(seq, expected) && !self.missing.contains(&(context, seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Of a tag, at a place.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Spot(u8, u64);

    impl Payload for Spot {
        fn distance(&self, other: &Spot) -> Option<u64> {
            (self.0 == other.0).then(|| other.1.wrapping_sub(self.1))
        }

        fn behind(&self, distance: u64) -> Spot {
            Spot(self.0, self.1.wrapping_add(distance))
        }
    }

    fn entry(context: u16, seq: u32) -> Entry<Spot> {
        Entry { context, seq, payload: Spot(0, u64::from(seq) * 10) }
    }

    fn all(out: &Outbound<Spot>) -> Vec<Entry<Spot>> {
        out.log(1).flat_map(Run::entries).collect()
    }

    fn send(out: &mut Outbound<Spot>, context: u16) -> (u32, Sending) {
        let (seq, sending) = out.number(1, context);
        out.keep(1, entry(context, seq));
        (seq, sending)
    }

    #[test]
    fn a_lost_peer_gets_what_it_lacks_and_nothing_else() {
        let mut out = Outbound::new(2, true);
        for seq in 0..4 {
            assert_eq!(send(&mut out, 7), (seq, Sending::Transmit));
        }
        assert_eq!(send(&mut out, 8), (0, Sending::Transmit));
        out.lost(1);
        assert_eq!(send(&mut out, 7), (4, Sending::Hold));
        let has = Received { channels: vec![(7, 3)], missing: vec![(7, 1)] };
        let again: Vec<_> = out.restarted(1, has).collect();
        assert_eq!(again, [entry(7, 1), entry(7, 3), entry(8, 0), entry(7, 4)]);
        assert_eq!(send(&mut out, 7), (5, Sending::Transmit));
    }

    #[test]
    fn a_restarted_rank_logs_what_its_peer_has_without_sending_it() {
        let mut out = Outbound::new(2, false);
        assert_eq!(send(&mut out, 0), (0, Sending::Hold));
        let has = Received { channels: vec![(0, 3)], missing: vec![(0, 2)] };
        assert_eq!(out.restarted(1, has).count(), 0, "it has number 0");
        assert_eq!(send(&mut out, 0), (1, Sending::Suppress));
        assert_eq!(send(&mut out, 0), (2, Sending::Transmit), "it has only a part of number 2");
        assert_eq!(send(&mut out, 0), (3, Sending::Transmit));
        assert_eq!(all(&out).len(), 4, "all of it can be asked for again");
        out.lost(1);
        assert_eq!(out.restarted(1, Received::default()).count(), 4);
    }

    #[test]
    fn nothing_stands_in_the_way_when_all_that_a_peer_had_was_numbered_again() {
        let mut out = Outbound::<Spot>::new(2, false);
        assert!(out.next(1, 0).is_none(), "it has not said what it has");
        let has = Received { channels: vec![(0, 2), (3, 1)], missing: vec![(3, 0)] };
        assert_eq!(out.restarted(1, has).count(), 0);
        assert_eq!(out.number(1, 0), (0, Sending::Suppress));
        assert_eq!(out.number(1, 3), (0, Sending::Transmit), "it was missing");
        assert_eq!(out.number(1, 0), (1, Sending::Suppress));
        assert!(out.next(1, 0).is_none(), "number 1 was suppressed just now");
        assert_eq!(out.number(1, 0), (2, Sending::Transmit));
        assert_eq!(out.next(1, 0).map(|next| next.peek()), Some(3));
        assert_eq!(out.next(1, 3).map(|next| next.peek()), Some(1));
        assert!(out.next(1, 4).is_none(), "the first of its channel");
        assert_eq!(out.next(1, 0).unwrap().commit(), 3);
        assert_eq!(out.number(1, 0), (4, Sending::Transmit));
        out.lost(1);
        assert!(out.next(1, 0).is_none());
    }

    #[test]
    fn only_a_committed_checkpoint_drops_anything() {
        let mut out = Outbound::new(2, true);
        for _ in 0..5 {
            send(&mut out, 0);
        }
        let committed = Received { channels: vec![(0, 4)], missing: vec![(0, 1)] };
        let dropped = out.collect(1, &committed);
        let dropped: Vec<_> = dropped.into_iter().flat_map(Run::entries).collect();
        assert_eq!(dropped, [entry(0, 0), entry(0, 2), entry(0, 3)]);
        assert_eq!(all(&out), [entry(0, 1), entry(0, 4)]);
    }

    #[test]
    fn what_is_alike_and_as_far_apart_is_one_run() {
        let mut out = Outbound::new(2, true);
        let spots =
            [(0, 8), (0, 24), (0, 40), (0, 48), (0, 64), (1, 80), (1, 80), (1, 80), (1, 72)];
        for (seq, (tag, at)) in (u32::MAX - 1..=u32::MAX).chain(0..).zip(spots) {
            out.keep(1, Entry { context: 0, seq, payload: Spot(tag, at) });
        }
        out.keep(1, Entry { context: 1, seq: 7, payload: Spot(1, 64) });
        let runs: Vec<_> =
            out.log(1).map(|run| (run.first.payload.1, run.count, run.step)).collect();
        assert_eq!(runs, [(8, 3, 16), (48, 2, 16), (80, 3, 0), (72, 1, 0), (64, 1, 0)]);
    }

    proptest! {
        #[test]
        fn what_was_kept_is_there(
            steps in vec((0..3u16, 0..2u8, 0..3u64, 0..300u32), 0..40),
            expected in vec(0..1000u32, 3),
            missing in vec((0..3u16, 0..1000u32), 0..4),
        ) {
            let (mut out, mut kept, mut at) = (Outbound::new(2, true), Vec::new(), 0);
            for (context, tag, far, count) in steps {
                for _ in 0..count {
                    let (seq, _) = out.number(1, context);
                    let entry = Entry { context, seq, payload: Spot(tag, at) };
                    out.keep(1, entry);
                    kept.push(entry);
                    at += far;
                }
            }
            prop_assert_eq!(&all(&out), &kept);
            prop_assert!(out.log(1).all(|run| (1..=MOST).contains(&run.count)));
            let channels = (0..).zip(expected).collect();
            let committed = Received { channels, missing };
            let is_covered = |entry: &Entry<Spot>| committed.covers(entry.context, entry.seq);
            let (covered, stay): (Vec<_>, Vec<_>) = kept.into_iter().partition(is_covered);
            let dropped = out.collect(1, &committed).into_iter().flat_map(Run::entries);
            prop_assert_eq!(dropped.collect::<Vec<_>>(), covered);
            prop_assert_eq!(&all(&out), &stay);
            prop_assert_eq!(out.restarted(1, committed).collect::<Vec<_>>(), stay);
        }
    }

    #[test]
    fn numbers_wrap_around() {
        let has = Received { channels: vec![(0, 5)], missing: vec![] };
        assert!(has.covers(0, u32::MAX), "just before 0");
        assert!(has.covers(0, 4) && !has.covers(0, 5) && !has.covers(1, 0));
    }
}
