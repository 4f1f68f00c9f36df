//! Which events there are.

use crate::{Event, MsgId, mutant};

/// An event, and its place among those of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// From 1, without gaps.
    pub clock: u64,
    /// What has happened.
    pub event: Event,
}

/// Numbers the events of a rank.
///
/// It is given every nondeterministic call, and returns the events to be logged. A
/// restarted rank has a recorder that resumes where the log ends, and gives it only what
/// [`Replay`](crate::Replay) leaves free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// The clock of the last event.
    clock: u64,
    /// Receives posted.
    posts: u32,
    /// Polls without success since the last event.
    polls: u32,
}

impl Recorder {
    /// The recorder of a rank whose last logged event is `clock`: 0 for one that starts for the first
    /// time.
    pub fn after(clock: u64) -> Self {
        Recorder { clock, ..Recorder::default() }
    }

    /// The recorder of a rank that resumes from a checkpoint: `posts` receives were posted before, and its
    /// last logged event is `clock`.
    pub fn going_on(clock: u64, posts: u32) -> Self {
        Recorder { clock, posts, polls: 0 }
    }

    /// How many receives were posted.
    pub fn posts(&self) -> u32 {
        self.posts
    }

    /// The clock of the last event: whatever leaves now depends on all events up to it.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// A receive is posted: its number.
    #[inline]
    pub fn post(&mut self) -> u32 {
        self.posts = self.posts.wrapping_add(1);
        self.posts.wrapping_sub(1)
    }

    /// A receive whose message chance has chosen has got it. Also to be called when a receive cannot
    /// be cancelled because it has its message, if that is in no event yet: which of the two came
    /// first is chance.
    #[inline(always)]
    pub fn matched(&mut self, post: u32, message: MsgId) -> LoggedEvent {
        // A receive posted after these polls is another one if they find something: so they are
        // logged with whatever is logged after them.
        let polls = self.take_polls_before();
        self.next(Event::Matched { polls, post, message })
    }

    /// A receive was cancelled in time.
    pub fn cancelled(&mut self, post: u32) -> LoggedEvent {
        let polls = self.take_polls_before();
        self.next(Event::Cancelled { polls, post })
    }

    /// A poll (a test, a probe, a claim) has found nothing. An event only when there are more of them
    /// than an event can count, which takes a rank that does nothing but poll a few minutes.
    #[inline]
    #[must_use]
    pub fn found_nothing(&mut self) -> Option<LoggedEvent> {
        let full = if self.polls == u32::MAX { self.before_send() } else { None };
        self.polls += 1;
        full
    }

    /// A test has found its request over, or a test or wait for several the one with this index.
    pub fn found(&mut self, index: u32) -> LoggedEvent {
        let polls = std::mem::take(&mut self.polls);
        self.next(Event::Found { polls, index })
    }

    /// A probe has seen a message.
    pub fn probed(&mut self, message: MsgId) -> LoggedEvent {
        let polls = std::mem::take(&mut self.polls);
        self.next(Event::Probed { polls, message })
    }

    /// A message was claimed.
    pub fn claimed(&mut self, message: MsgId) -> LoggedEvent {
        let polls = std::mem::take(&mut self.polls);
        self.next(Event::Claimed { polls, message })
    }

    /// How many polls have found nothing since the last event.
    #[inline(always)]
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Whether polls have found nothing since the last event.
    #[inline(always)]
    pub fn has_polled(&self) -> bool {
        self.polls > 0
    }

    /// A message is about to be sent. What it may depend on and is in no event yet: that polls have
    /// found nothing.
    #[inline]
    pub fn before_send(&mut self) -> Option<LoggedEvent> {
        if self.polls == 0 {
            return None;
        }
        let polls = std::mem::take(&mut self.polls);
        Some(self.next(Event::Nothing { polls }))
    }

    /// The polls before the match, or the cancellation, of a receive.
    #[inline(always)]
    fn take_polls_before(&mut self) -> u32 {
        if mutant!(PollsBeforeMatchForgotten) { 0 } else { std::mem::take(&mut self.polls) }
    }

    #[inline(always)]
    fn next(&mut self, event: Event) -> LoggedEvent {
        self.clock += 1;
        LoggedEvent { clock: self.clock, event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_counted_up_to_the_next_that_finds_something() {
        let mut recorder = Recorder::after(7);
        assert_eq!(recorder.before_send(), None, "nothing was polled");
        assert_eq!(recorder.found_nothing(), None);
        assert_eq!(recorder.found_nothing(), None);
        assert_eq!(
            recorder.found(1),
            LoggedEvent { clock: 8, event: Event::Found { polls: 2, index: 1 } }
        );
        assert_eq!(recorder.found_nothing(), None);
        let sent = recorder.before_send();
        assert_eq!(sent, Some(LoggedEvent { clock: 9, event: Event::Nothing { polls: 1 } }));
        assert_eq!(recorder.before_send(), None, "said already");
        let message = MsgId { source: 1, context: 2, seq: 3 };
        let probed = recorder.probed(message);
        assert_eq!(probed, LoggedEvent { clock: 10, event: Event::Probed { polls: 0, message } });
        assert_eq!((recorder.post(), recorder.post(), recorder.clock()), (0, 1, 10));
    }

    #[test]
    fn no_event_is_logged_without_the_polls_before_it() {
        let message = MsgId { source: 1, context: 2, seq: 3 };
        let mut recorder = Recorder::default();
        assert_eq!(recorder.found_nothing(), None);
        let matched = recorder.matched(0, message);
        assert_eq!(matched.event, Event::Matched { polls: 1, post: 0, message });
        assert_eq!(recorder.found_nothing(), None);
        assert_eq!(recorder.found_nothing(), None);
        assert_eq!(recorder.cancelled(1).event, Event::Cancelled { polls: 2, post: 1 });
        assert_eq!(recorder.before_send(), None, "said already");
    }

    #[test]
    fn no_poll_is_forgotten_however_many_there_are() {
        let mut recorder = Recorder { polls: u32::MAX - 1, ..Recorder::default() };
        assert_eq!(recorder.found_nothing(), None);
        let full = LoggedEvent { clock: 1, event: Event::Nothing { polls: u32::MAX } };
        assert_eq!(recorder.found_nothing(), Some(full));
        assert_eq!(recorder.found(0).event, Event::Found { polls: 1, index: 0 });
    }
}
