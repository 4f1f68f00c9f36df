//! What a restarted rank is told, call by call, until it is where it was.

use crate::{Event, Name};
use std::collections::{HashMap, HashSet, VecDeque};

/// What happened to a receive before the failure.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Fate {
    /// Nothing that the log knows: it is posted like any other.
    #[default]
    Free,
    /// It got these messages, in this order: one, unless it is a multi-receive, which is free
    /// afterwards.
    Messages(VecDeque<Name>),
    /// It was cancelled in time: no message may match it.
    Cancelled,
}

/// For whom a message that arrives is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// For the receive that was, or will be, posted as this number.
    Post(u32),
    /// For a claim that is still to come.
    Claim,
}

/// What a poll is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is logged: what is there decides, and is an event.
    Free,
    /// That there is nothing, whatever there is.
    Nothing,
    /// The request with this index, once it is over.
    Found(u32),
    /// This message, once it is here.
    Probed(Name),
    /// This message, once it is here.
    Claimed(Name),
}

/// Why a log cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// An event is missing, or is there twice.
    #[error("event {got} follows event {after}: the log is not whole")]
    Gap {
        /// The clock before.
        after: u64,
        /// The clock found.
        got: u64,
    },
    /// Two receives, or two claims, have got one message.
    #[error(
        "event {clock} gives message {seq} of rank {source_rank} (context {context}) away a second time"
    )]
    Twice {
        /// The clock of the second.
        clock: u64,
        /// The sender.
        source_rank: u32,
        /// The context.
        context: u16,
        /// The number in the channel.
        seq: u32,
    },
    /// A receive was cancelled twice, or has got a message after it was cancelled.
    #[error("event {clock} is about receive {post}, which was cancelled before")]
    Fate {
        /// The clock of the second event.
        clock: u64,
        /// The receive.
        post: u32,
    },
}

/// The logged events of a rank, in the form in which its next execution asks for them.
///
/// Outcomes of polls come in the order of the calls, so they stand in a queue. Which message a
/// receive gets is asked when the receive is posted, and when the message arrives, in either order:
/// so these are found by both.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    fates: HashMap<u32, Fate>,
    reserved: HashMap<Name, Reserved>,
    /// The receives that were cancelled.
    cancelled: HashSet<u32>,
    /// Unsuccessful polls, and what the poll after them answers.
    polls: VecDeque<(u64, Answer)>,
    /// Unsuccessful polls after the last that found something.
    tail: u64,
    /// The last event.
    clock: u64,
}

impl Replay {
    /// From events in the order of their clocks, the first with clock `after + 1`.
    ///
    /// # Errors
    /// [`ReplayError`] when they are not the events of one execution, one after the other.
    pub fn new(
        after: u64,
        events: impl IntoIterator<Item = (u64, Event)>,
    ) -> Result<Replay, ReplayError> {
        let mut replay = Replay { clock: after, ..Replay::default() };
        for (clock, event) in events {
            if clock != replay.clock + 1 {
                return Err(ReplayError::Gap { after: replay.clock, got: clock });
            }
            replay.clock = clock;
            replay.take_in(clock, event)?;
        }
        Ok(replay)
    }

    fn take_in(&mut self, clock: u64, event: Event) -> Result<(), ReplayError> {
        match event {
            Event::Matched { polls, post, message } => {
                self.tail += u64::from(polls);
                self.reserve(clock, message, Reserved::Post(post))?;
                match self.fates.entry(post).or_default() {
                    Fate::Messages(messages) => messages.push_back(message),
                    _ if self.cancelled.contains(&post) => {
                        return Err(ReplayError::Fate { clock, post });
                    }
                    free => *free = Fate::Messages([message].into()),
                }
            }
            Event::Cancelled { polls, post } => {
                self.tail += u64::from(polls);
                if !self.cancelled.insert(post) {
                    return Err(ReplayError::Fate { clock, post });
                }
                // A multi-receive may have got messages before.
                self.fates.entry(post).or_insert(Fate::Cancelled);
            }
            Event::Found { polls, index } => self.found(polls, Answer::Found(index)),
            Event::Probed { polls, message } => self.found(polls, Answer::Probed(message)),
            Event::Claimed { polls, message } => {
                self.reserve(clock, message, Reserved::Claim)?;
                self.found(polls, Answer::Claimed(message));
            }
            Event::Nothing { polls } => self.tail += u64::from(polls),
        }
        Ok(())
    }

    fn found(&mut self, polls: u32, answer: Answer) {
        let nothing = std::mem::take(&mut self.tail) + u64::from(polls);
        self.polls.push_back((nothing, answer));
    }

    fn reserve(&mut self, clock: u64, name: Name, whom: Reserved) -> Result<(), ReplayError> {
        match self.reserved.insert(name, whom) {
            None => Ok(()),
            Some(_) => {
                let Name { source, context, seq } = name;
                Err(ReplayError::Twice { clock, source_rank: source, context, seq })
            }
        }
    }

    /// The clock of the last event: the recorder goes on after it.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Whether nothing is left to be told.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.tail == 0 && self.polls.is_empty() && self.reserved.is_empty() && self.fates.is_empty()
    }

    /// What becomes of the receive that is posted as number `post`. To be asked once.
    pub fn fate(&mut self, post: u32) -> Fate {
        // To remove nothing from nothing would take a hash.
        if self.fates.is_empty() {
            return Fate::Free;
        }
        self.fates.remove(&post).unwrap_or_default()
    }

    /// Whether the receive that is posted as number `post` was cancelled: a multi-receive, after it had got
    /// its messages.
    pub fn is_cancelled(&self, post: u32) -> bool {
        self.cancelled.contains(&post)
    }

    /// For whom a message that arrives is kept, if it is. To be asked once: afterwards the caller
    /// keeps it.
    pub fn arrived(&mut self, name: Name) -> Option<Reserved> {
        if self.reserved.is_empty() {
            return None;
        }
        self.reserved.remove(&name)
    }

    /// What a poll answers of which only success is an event, and that by an index that `is` one of it:
    /// [`Nothing`](Answer::Nothing), of which no event tells, unless the next poll that is logged is that.
    pub fn poll_for(&mut self, is: impl Fn(u32) -> bool) -> Answer {
        match self.polls.front() {
            Some(&(0, answer @ Answer::Found(index))) if is(index) => {
                self.polls.pop_front();
                answer
            }
            _ => Answer::Nothing,
        }
    }

    /// What the next poll answers.
    pub fn poll(&mut self) -> Answer {
        let Some((nothing, answer)) = self.polls.front_mut() else {
            if self.tail == 0 {
                return Answer::Free;
            }
            self.tail -= 1;
            return Answer::Nothing;
        };
        if *nothing > 0 {
            *nothing -= 1;
            return Answer::Nothing;
        }
        let answer = *answer;
        self.polls.pop_front();
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;

    fn name(seq: u32) -> Name {
        Name { source: 5, context: 1, seq }
    }

    fn replay(events: &[Event]) -> Result<Replay, ReplayError> {
        Replay::new(10, (11..).zip(events.iter().copied()))
    }

    #[test]
    fn polls_are_answered_in_their_order_and_then_left_free() {
        let mut replay = replay(&[
            Event::Found { polls: 2, index: 4 },
            Event::Nothing { polls: 1 },
            Event::Nothing { polls: 1 },
            Event::Probed { polls: 1, message: name(0) },
            Event::Nothing { polls: 2 },
        ])
        .unwrap();
        let expected = [
            [Answer::Nothing; 2].as_slice(),
            &[Answer::Found(4)],
            &[Answer::Nothing; 3],
            &[Answer::Probed(name(0))],
            &[Answer::Nothing; 2],
        ]
        .concat();
        for answer in expected {
            assert!(!replay.is_over());
            assert_eq!(replay.poll(), answer);
        }
        assert!(replay.is_over());
        assert_eq!((replay.poll(), replay.clock()), (Answer::Free, 15));
    }

    #[test]
    fn a_poll_that_is_logged_only_when_it_finds_something_takes_no_other_answer() {
        let mut replay = replay(&[
            Event::Found { polls: 0, index: 1 },
            Event::Found { polls: 1, index: 2 },
            Event::Found { polls: 0, index: 3 },
            Event::Nothing { polls: 1 },
        ])
        .unwrap();
        let is_even = |index: u32| index.is_multiple_of(2);
        assert_eq!(replay.poll_for(is_even), Answer::Nothing, "the next finds another");
        assert_eq!(replay.poll(), Answer::Found(1));
        assert_eq!(replay.poll_for(is_even), Answer::Nothing, "the next finds nothing");
        assert_eq!(replay.poll(), Answer::Nothing);
        assert_eq!(replay.poll_for(is_even), Answer::Found(2));
        assert_eq!(replay.poll(), Answer::Found(3));
        assert_eq!(replay.poll_for(is_even), Answer::Nothing);
        assert!(!replay.is_over(), "that was none of those that are logged");
        assert_eq!(replay.poll(), Answer::Nothing);
        assert!(replay.is_over());
        assert_eq!(replay.poll_for(is_even), Answer::Nothing, "it is where it was");
    }

    #[test]
    fn receives_and_messages_find_each_other_whoever_comes_first() {
        let mut replay = replay(&[
            Event::Matched { polls: 0, post: 3, message: name(7) },
            Event::Cancelled { polls: 0, post: 4 },
            Event::Matched { polls: 0, post: 9, message: name(8) },
            Event::Matched { polls: 0, post: 9, message: name(6) },
            Event::Claimed { polls: 0, message: name(1) },
        ])
        .unwrap();
        assert_eq!(replay.fate(0), Fate::Free);
        assert_eq!(replay.fate(3), Fate::Messages([name(7)].into()));
        assert_eq!(replay.fate(4), Fate::Cancelled);
        assert_eq!(replay.fate(9), Fate::Messages([name(8), name(6)].into()));
        assert_eq!(replay.arrived(name(0)), None);
        assert_eq!(replay.arrived(name(7)), Some(Reserved::Post(3)));
        assert_eq!(replay.arrived(name(7)), None, "it was handed over");
        assert_eq!(replay.arrived(name(1)), Some(Reserved::Claim));
        assert_eq!(replay.poll(), Answer::Claimed(name(1)));
        for seq in [6, 8] {
            assert!(!replay.is_over());
            assert_eq!(replay.arrived(name(seq)), Some(Reserved::Post(9)));
        }
        assert!(replay.is_over());
    }

    #[test]
    fn what_no_execution_can_have_logged_is_refused() {
        let matched = |post, seq| Event::Matched { polls: 0, post, message: name(seq) };
        let twice = replay(&[matched(0, 1), matched(1, 1)]).unwrap_err();
        assert_eq!(twice, ReplayError::Twice { clock: 12, source_rank: 5, context: 1, seq: 1 });
        let cancelled = Event::Cancelled { polls: 0, post: 0 };
        for events in [[cancelled, cancelled], [cancelled, matched(0, 1)]] {
            assert_eq!(replay(&events).unwrap_err(), ReplayError::Fate { clock: 12, post: 0 });
        }
        // A multi-receive.
        let mut several = replay(&[matched(0, 1), cancelled]).unwrap();
        assert_eq!(several.fate(0), Fate::Messages([name(1)].into()));
        assert!(several.is_cancelled(0) && !several.is_cancelled(1));
        let gap = Replay::new(0, [(1, matched(0, 0)), (3, matched(1, 1))]).unwrap_err();
        assert_eq!(gap, ReplayError::Gap { after: 1, got: 3 });
    }

    #[test]
    fn what_was_recorded_is_what_is_replayed() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut recorder = Recorder::default();
            let (mut log, mut told, mut posts) = (Vec::new(), Vec::new(), Vec::new());
            for step in 0..random.u32(0..60) {
                match random.u32(0..8) {
                    0..3 => {
                        log.extend(recorder.found_nothing());
                        told.push(Answer::Nothing);
                    }
                    3 => {
                        log.push(recorder.found(step));
                        told.push(Answer::Found(step));
                    }
                    4 => {
                        log.push(recorder.probed(name(step)));
                        told.push(Answer::Probed(name(step)));
                    }
                    5 => {
                        log.push(recorder.matched(step, name(step)));
                        posts.push((step, Fate::Messages([name(step)].into())));
                    }
                    6 => {
                        log.push(recorder.cancelled(step));
                        posts.push((step, Fate::Cancelled));
                    }
                    _ => log.extend(recorder.before_send()),
                }
            }
            log.extend(recorder.before_send());
            let events = log.iter().map(|c| (c.clock, c.event));
            let mut replay = Replay::new(0, events).unwrap();
            for answer in told {
                assert_eq!(replay.poll(), answer, "seed {seed}");
            }
            for (post, fate) in posts {
                if fate != Fate::Cancelled {
                    assert_eq!(replay.arrived(name(post)), Some(Reserved::Post(post)));
                }
                assert_eq!(replay.fate(post), fate, "seed {seed}");
            }
            assert_eq!((replay.poll(), replay.is_over()), (Answer::Free, true), "seed {seed}");
            assert_eq!(replay.clock(), recorder.clock());
        }
    }
}
