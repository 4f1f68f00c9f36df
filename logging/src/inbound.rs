//! What arrives: from which incarnation, whether it is here already, and what is not here whole.

use crate::{Admit, LoggedEvent, MsgId, Numbers, Rank, Replay, before, mutant};
use std::collections::BTreeSet;

/// What a connection with an incarnation of a peer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// It is the one known.
    Known,
    /// It is a later one: the one before is dead, and nothing of it is believed from now on.
    Restarted,
    /// It is an earlier one: nothing of it is believed (*old-incarnations-die*).
    Old,
}

/// The receiving side of a rank.
#[derive(Clone, Debug)]
pub struct Inbound {
    incarnations: Vec<u32>,
    /// Messages that were counted, and perhaps matched, and whose last byte is not here.
    parts: BTreeSet<MsgId>,
    /// Messages that were counted and not received when the checkpoint was taken that this rank resumes
    /// from: they come again.
    to_come: BTreeSet<MsgId>,
}

impl Inbound {
    /// Of a rank of a job whose ranks are all in their first incarnation as far as it knows.
    pub fn new(ranks: u32) -> Self {
        Inbound {
            incarnations: vec![0; ranks as usize],
            parts: BTreeSet::new(),
            to_come: BTreeSet::new(),
        }
    }

    /// Judges a message, and counts it if it is the next of its channel. To be asked once of each that comes.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline]
    pub fn admit(&mut self, numbers: &mut Numbers, message: MsgId) -> Admit {
        match numbers.count(message) {
            true => Admit::Match,
            false => self.admit_not_next(numbers, message),
        }
    }

    /// As [`admit`](Self::admit), where the replay may know for whom the message is kept.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn admit_in_replay(
        &mut self,
        numbers: &mut Numbers,
        message: MsgId,
        replay: &mut Replay<impl Iterator<Item = LoggedEvent> + Clone>,
    ) -> Admit {
        let is_next = message.seq == numbers.of(message.source).expected.next(message.context);
        if (is_next || self.is_to_come(message))
            && let Some(whom) = replay.arrived(message)
        {
            if !is_next {
                self.has_come(message);
            } else if !mutant!(ReplayedNotCounted) {
                numbers.count(message);
            }
            return if mutant!(NotReserved) { Admit::Match } else { Admit::Reserved(whom) };
        }
        self.admit(numbers, message)
    }

    #[cold]
    #[inline(never)]
    fn admit_not_next(&mut self, numbers: &Numbers, message: MsgId) -> Admit {
        let expected = numbers.of(message.source).expected.next(message.context);
        if !before(message.seq, expected) {
            Admit::OutOfOrder { expected }
        } else if self.has_come(message) {
            // It lay ahead of the checkpoint that this rank resumes from: a message like any other.
            Admit::Match
        } else if self.lacks(message) {
            Admit::Refill
        } else if mutant!(DuplicatesDelivered) {
            Admit::Match
        } else {
            Admit::Duplicate
        }
    }

    /// A message that a checkpoint counts as sent and does not have: nobody had received it then. It comes
    /// again, and is then a message like any other.
    pub fn lies_ahead(&mut self, message: MsgId) {
        self.to_come.insert(message);
    }

    /// A message that was counted before is here. Whether it is one that [lay ahead](Self::lies_ahead).
    #[inline]
    pub fn has_come(&mut self, message: MsgId) -> bool {
        !self.to_come.is_empty() && self.to_come.remove(&message)
    }

    /// Whether a message still lies ahead.
    #[inline]
    pub fn is_to_come(&self, message: MsgId) -> bool {
        self.to_come.contains(&message)
    }

    /// Whether all that lay ahead has come.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.to_come.is_empty()
    }

    /// A connection with `peer` has been made.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn met(&mut self, peer: Rank, incarnation: u32) -> Meeting {
        let known = &mut self.incarnations[peer as usize];
        match incarnation.cmp(known) {
            std::cmp::Ordering::Less => Meeting::Old,
            std::cmp::Ordering::Equal => Meeting::Known,
            std::cmp::Ordering::Greater => {
                *known = incarnation;
                Meeting::Restarted
            }
        }
    }

    /// The incarnation of each rank, as far as this rank has met it.
    pub fn incarnations(&self) -> impl Iterator<Item = u32> {
        self.incarnations.iter().copied()
    }

    /// Whether the incarnation that is known of a peer is an earlier one.
    pub fn precedes(&self, peer: Rank, incarnation: u32) -> bool {
        self.incarnations[peer as usize] < incarnation
    }

    /// Whether what comes from this incarnation is believed.
    #[inline]
    pub fn believes(&self, peer: Rank, incarnation: u32) -> bool {
        self.incarnations[peer as usize] == incarnation
    }

    /// The first bytes of a message are here, and not the last.
    pub fn began(&mut self, message: MsgId) {
        self.parts.insert(message);
    }

    /// The last byte of a message is here. Whether it had begun before.
    pub fn is_whole(&mut self, message: MsgId) -> bool {
        self.parts.remove(&message)
    }

    /// Whether a message that was counted before is one to be completed (*whole-message*: the request
    /// stays matched to it), and not one that is here.
    #[inline]
    pub fn lacks(&self, message: MsgId) -> bool {
        self.parts.contains(&message)
    }

    /// The messages of `source` that are not here whole.
    pub fn missing(&self, source: Rank) -> impl Iterator<Item = MsgId> {
        let first = MsgId { source, context: 0, seq: 0 };
        let last = MsgId { source, context: u16::MAX, seq: u32::MAX };
        self.parts.range(first..=last).chain(self.to_come.range(first..=last)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Reserved};

    const fn name(seq: u32) -> MsgId {
        MsgId { source: 1, context: 0, seq }
    }

    #[test]
    fn a_message_is_judged_by_what_is_here_of_it() {
        let (mut inbound, mut numbers) = (Inbound::new(2), Numbers::new(2));
        assert_eq!(inbound.admit(&mut numbers, name(1)), Admit::OutOfOrder { expected: 0 });
        numbers.of_mut(1).expected.set(0, 3);
        inbound.began(name(1));
        inbound.lies_ahead(name(2));
        let mut admit = |seq| inbound.admit(&mut numbers, name(seq));
        assert_eq!(admit(0), Admit::Duplicate);
        assert_eq!(admit(1), Admit::Refill);
        assert_eq!(admit(2), Admit::Match, "no more than counted had it");
        assert_eq!(admit(2), Admit::Duplicate);
        assert_eq!(admit(3), Admit::Match);
        assert_eq!(admit(5), Admit::OutOfOrder { expected: 4 });
        inbound.is_whole(name(1));
        assert_eq!(inbound.admit(&mut numbers, name(1)), Admit::Duplicate);
    }

    #[test]
    fn the_replay_reserves_what_comes_for_the_first_time() {
        let event = |clock, post, seq| LoggedEvent {
            clock,
            event: Event::Matched { polls: 0, post, message: name(seq) },
        };
        let events = [event(1, 7, 1), event(2, 8, 2)];
        let mut replay = Replay::new(0, events).unwrap();
        let (mut inbound, mut numbers) = (Inbound::new(2), Numbers::new(2));
        numbers.of_mut(1).expected.set(0, 2);
        inbound.lies_ahead(name(1));
        let mut admit = |seq| inbound.admit_in_replay(&mut numbers, name(seq), &mut replay);
        assert_eq!(admit(0), Admit::Duplicate);
        assert_eq!(admit(1), Admit::Reserved(Reserved::Post(7)));
        assert_eq!(admit(1), Admit::Duplicate);
        assert_eq!(admit(3), Admit::OutOfOrder { expected: 2 });
        assert_eq!(admit(2), Admit::Reserved(Reserved::Post(8)));
        assert_eq!(admit(3), Admit::Match);
        assert_eq!(admit(2), Admit::Duplicate);
    }

    #[test]
    fn only_the_latest_incarnation_is_believed() {
        let mut inbound = Inbound::new(2);
        assert_eq!(inbound.met(1, 0), Meeting::Known);
        assert_eq!(inbound.met(1, 2), Meeting::Restarted);
        assert_eq!(inbound.met(1, 1), Meeting::Old);
        assert!(inbound.believes(1, 2) && !inbound.believes(1, 0) && !inbound.believes(1, 1));
        assert!(inbound.believes(0, 0));
    }

    #[test]
    fn a_message_lacks_its_rest_until_that_is_here() {
        let mut inbound = Inbound::new(3);
        let name = |source, seq| MsgId { source, context: 4, seq };
        inbound.began(name(1, 9));
        inbound.began(name(2, 9));
        assert!(inbound.lacks(name(1, 9)) && !inbound.lacks(name(1, 8)));
        assert_eq!(inbound.missing(1).collect::<Vec<_>>(), [name(1, 9)]);
        assert!(inbound.is_whole(name(1, 9)));
        assert!(!inbound.is_whole(name(1, 9)), "it was whole already");
        assert_eq!(inbound.missing(1).count(), 0);
        assert_eq!(inbound.missing(2).count(), 1);
    }

    #[test]
    fn what_lies_ahead_comes_once() {
        let mut inbound = Inbound::new(2);
        let name = |seq| MsgId { source: 1, context: 0, seq };
        inbound.lies_ahead(name(3));
        inbound.began(name(5));
        assert!(inbound.is_to_come(name(3)) && !inbound.lacks(name(3)) && !inbound.is_complete());
        assert_eq!(inbound.missing(1).collect::<Vec<_>>(), [name(5), name(3)]);
        assert!(!inbound.has_come(name(5)) && inbound.has_come(name(3)));
        assert!(!inbound.has_come(name(3)) && inbound.is_complete());
    }
}
