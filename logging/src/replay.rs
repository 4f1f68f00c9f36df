//! The logged outcomes that a restarted rank gets, call by call, until the log ends.

mod delivery_map;

use crate::{Event, LoggedEvent, MsgId};
use delivery_map::DeliveryMap;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// What happened to a receive before the failure.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum RecvOutcome {
    /// Nothing that the log knows: it is posted like any other.
    #[default]
    Free,
    /// It got these messages, in this order: one, unless it is a multi-receive, which is free
    /// afterwards.
    Messages(VecDeque<MsgId>),
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
    Probed(MsgId),
    /// This message, once it is here.
    Claimed(MsgId),
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = |f: &mut std::fmt::Formatter<'_>, how, MsgId { source, context, seq }| {
            write!(f, "message {seq} of rank {source} (context {context}) was {how}")
        };
        match *self {
            Answer::Free => write!(f, "nothing"),
            Answer::Nothing => write!(f, "that a poll has found nothing"),
            Answer::Found(index) => write!(f, "that a poll has found request {index} done"),
            Answer::Probed(name) => message(f, "probed", name),
            Answer::Claimed(name) => message(f, "taken (mprobe)", name),
        }
    }
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
/// Outcomes of polls come in the order of the calls, so they are read from the log as they are asked for. Which
/// message a receive gets is asked when the receive is posted, and when the message arrives, in either order:
/// so these are found by both.
#[derive(Clone, Debug)]
pub struct Replay<I> {
    given: DeliveryMap,
    /// The receives that were cancelled.
    cancelled: FxHashSet<u32>,
    /// What is left of the log, of which polls are the business still.
    log: I,
    /// Unsuccessful polls, and what the poll after them answers: `None` after the last one.
    nothing: u64,
    answer: Option<Answer>,
    /// The last event.
    clock: u64,
}

impl<I: Iterator<Item = LoggedEvent> + Clone> Replay<I> {
    /// From events in the order of their clocks, the first with clock `after + 1`. They are gone through
    /// twice, the second time as polls are asked for.
    ///
    /// # Errors
    /// [`ReplayError`] when they are not the events of one execution, one after the other.
    pub fn new(
        after: u64,
        events: impl IntoIterator<IntoIter = I>,
    ) -> Result<Replay<I>, ReplayError> {
        let log = events.into_iter();
        let mut replay = Replay {
            given: DeliveryMap::default(),
            cancelled: FxHashSet::default(),
            log: log.clone(),
            nothing: 0,
            answer: None,
            clock: after,
        };
        for LoggedEvent { clock, event } in log.clone() {
            if clock != replay.clock + 1 {
                return Err(ReplayError::Gap { after: replay.clock, got: clock });
            }
            replay.clock = clock;
            replay.take_in(clock, event)?;
        }
        if let Some(name) = replay.given.sort() {
            let gives_it = |one: &LoggedEvent| match one.event {
                Event::Matched { message, .. } | Event::Claimed { message, .. } => message == name,
                _ => false,
            };
            let clock = log.filter(gives_it).nth(1).map_or(after, |second| second.clock);
            let MsgId { source, context, seq } = name;
            return Err(ReplayError::Twice { clock, source_rank: source, context, seq });
        }
        replay.go_on();
        Ok(replay)
    }

    fn take_in(&mut self, clock: u64, event: Event) -> Result<(), ReplayError> {
        match event {
            Event::Matched { post, message, .. } => {
                if self.cancelled.contains(&post) {
                    return Err(ReplayError::Fate { clock, post });
                }
                self.given.message(message, Reserved::Post(post));
                self.given.post(post, Some(message));
            }
            Event::Cancelled { post, .. } => {
                if !self.cancelled.insert(post) {
                    return Err(ReplayError::Fate { clock, post });
                }
                // A multi-receive may have got messages before.
                self.given.post(post, None);
            }
            Event::Claimed { message, .. } => self.given.message(message, Reserved::Claim),
            Event::Found { .. } | Event::Probed { .. } | Event::Nothing { .. } => {}
        }
        Ok(())
    }

    /// Looks up what the next poll that is successful answers.
    fn go_on(&mut self) {
        for LoggedEvent { event, .. } in self.log.by_ref() {
            let (polls, answer) = match event {
                Event::Matched { polls, .. }
                | Event::Cancelled { polls, .. }
                | Event::Nothing { polls } => (polls, None),
                Event::Found { polls, index } => (polls, Some(Answer::Found(index))),
                Event::Probed { polls, message } => (polls, Some(Answer::Probed(message))),
                Event::Claimed { polls, message } => (polls, Some(Answer::Claimed(message))),
            };
            self.nothing += u64::from(polls);
            self.answer = answer;
            if answer.is_some() {
                return;
            }
        }
    }

    /// The clock of the last event: the recorder resumes after it.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// The events that are still to be asked for. For reports: goes through all of them.
    pub fn events_left(&self) -> u64 {
        self.log.clone().count() as u64
    }

    /// Whether no logged outcome is left.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.nothing == 0 && self.answer.is_none() && self.given.is_empty()
    }

    /// What becomes of the receive that is posted as number `post`. To be asked once.
    pub fn recv_outcome(&mut self, post: u32) -> RecvOutcome {
        self.given.take_outcome(post)
    }

    /// Whether the receive that is posted as number `post` was cancelled: a multi-receive, after it had got
    /// its messages.
    pub fn is_cancelled(&self, post: u32) -> bool {
        self.cancelled.contains(&post)
    }

    /// For whom a message that arrives is kept, if it is. To be asked once: afterwards the caller
    /// keeps it.
    pub fn arrived(&mut self, name: MsgId) -> Option<Reserved> {
        self.given.take_message(name)
    }

    /// What a poll answers of which only success is an event, and that by an index that `is` one of it:
    /// [`Nothing`](Answer::Nothing), which has no event, unless the next poll that is logged is that.
    pub fn poll_for(&mut self, is: impl Fn(u32) -> bool) -> Answer {
        match self.answer {
            Some(Answer::Found(index)) if self.nothing == 0 && is(index) => self.poll(),
            _ => Answer::Nothing,
        }
    }

    /// What the next poll answers.
    pub fn poll(&mut self) -> Answer {
        if self.nothing > 0 {
            self.nothing -= 1;
            return Answer::Nothing;
        }
        let Some(answer) = self.answer.take() else { return Answer::Free };
        self.go_on();
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;

    fn name(seq: u32) -> MsgId {
        MsgId { source: 5, context: 1, seq }
    }

    #[test]
    fn an_answer_is_said_in_words() {
        let said = "message 9 of rank 5 (context 1) was probed";
        assert_eq!(Answer::Probed(name(9)).to_string(), said);
        assert_eq!(Answer::Found(3).to_string(), "that a poll has found request 3 done");
    }

    type OfEvents = Replay<std::vec::IntoIter<LoggedEvent>>;

    fn clocked(from: u64, events: &[Event]) -> Vec<LoggedEvent> {
        (from..).zip(events).map(|(clock, &event)| LoggedEvent { clock, event }).collect()
    }

    fn replay(events: &[Event]) -> Result<OfEvents, ReplayError> {
        Replay::new(10, clocked(11, events))
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
    fn receives_and_messages_find_each_other_in_either_order() {
        let mut replay = replay(&[
            Event::Matched { polls: 0, post: 3, message: name(7) },
            Event::Cancelled { polls: 0, post: 4 },
            Event::Matched { polls: 0, post: 9, message: name(8) },
            Event::Matched { polls: 0, post: 9, message: name(6) },
            Event::Claimed { polls: 0, message: name(1) },
        ])
        .unwrap();
        assert_eq!(replay.recv_outcome(0), RecvOutcome::Free);
        assert_eq!(replay.recv_outcome(3), RecvOutcome::Messages([name(7)].into()));
        assert_eq!(replay.recv_outcome(4), RecvOutcome::Cancelled);
        assert_eq!(replay.recv_outcome(9), RecvOutcome::Messages([name(8), name(6)].into()));
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
        assert_eq!(several.recv_outcome(0), RecvOutcome::Messages([name(1)].into()));
        assert!(several.is_cancelled(0) && !several.is_cancelled(1));
        let mut apart = clocked(1, &[matched(0, 0), matched(1, 1)]);
        apart[1].clock = 3;
        let gap = OfEvents::new(0, apart).unwrap_err();
        assert_eq!(gap, ReplayError::Gap { after: 1, got: 3 });
    }

    #[test]
    fn what_was_recorded_is_what_is_replayed() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut recorder = Recorder::default();
            let (mut log, mut answers, mut posts) = (Vec::new(), Vec::new(), Vec::new());
            for step in 0..random.u32(0..60) {
                match random.u32(0..8) {
                    0..3 => {
                        log.extend(recorder.found_nothing());
                        answers.push(Answer::Nothing);
                    }
                    3 => {
                        log.push(recorder.found(step));
                        answers.push(Answer::Found(step));
                    }
                    4 => {
                        log.push(recorder.probed(name(step)));
                        answers.push(Answer::Probed(name(step)));
                    }
                    5 => {
                        log.push(recorder.matched(step, name(step)));
                        posts.push((step, RecvOutcome::Messages([name(step)].into())));
                    }
                    6 => {
                        log.push(recorder.cancelled(step));
                        posts.push((step, RecvOutcome::Cancelled));
                    }
                    _ => log.extend(recorder.before_send()),
                }
            }
            log.extend(recorder.before_send());
            let mut replay = Replay::new(0, log).unwrap();
            for answer in answers {
                assert_eq!(replay.poll(), answer, "seed {seed}");
            }
            for (post, fate) in posts {
                if fate != RecvOutcome::Cancelled {
                    assert_eq!(replay.arrived(name(post)), Some(Reserved::Post(post)));
                }
                assert_eq!(replay.recv_outcome(post), fate, "seed {seed}");
            }
            assert_eq!((replay.poll(), replay.is_over()), (Answer::Free, true), "seed {seed}");
            assert_eq!(replay.clock(), recorder.clock());
        }
    }
}
