//! Looks for operations that are over: what a completion queue is told of (`docs/logging.md`, section 11).
//!
//! Which one is told is an event, and how often the program has looked in vain before is counted with it.
//! A look right after one that has told of all there was is not counted if it finds nothing: Open MPI ends
//! each round with one, and it would be an event before each message that it sends. In a replay such a look
//! finds something only if the next event says so. So whether it looks at all is free, too.

use super::Log;
use crate::Over;
use crate::engine::policy::calls::Decision;
use crate::engine::request::{MOST_SERIAL, Requests};
use taffrail_logging::Answer;

/// Set in the number of an operation that was the last whose end was to be told.
const LAST: u32 = MOST_SERIAL + 1;
/// Set in the number of an operation whose end was told to who had just been told of all there was.
const AT_ONCE: u32 = LAST << 1;
/// The bit that these flags begin with.
const FLAG: u32 = LAST.trailing_zeros();

/// What the last look has shown of what was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing.
    #[default]
    Nothing,
    /// Not all.
    Part,
    /// All.
    All,
    /// All that was over then, as the replay says.
    AllThen,
}

impl Shown {
    /// Whether the look goes on.
    pub(crate) fn is_part(self) -> bool {
        self == Shown::Part
    }

    /// That all was told does not count any more.
    pub(super) fn forget_all(&mut self) {
        if !self.is_part() {
            *self = Shown::Nothing;
        }
    }
}

/// Whether it pays to look at once after all was told: not while such looks find nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recheck {
    /// So many more, though they find nothing.
    left: u8,
    omitted: u8,
}

impl Recheck {
    const AFTER_SUCCESS: u8 = 8;
    const EVERY: u8 = 32;

    fn pays(&mut self) -> bool {
        self.omitted = if self.left > 0 { 0 } else { (self.omitted + 1) % Self::EVERY };
        self.omitted == 0
    }

    fn found(&mut self, something: bool) {
        self.left = if something { Self::AFTER_SUCCESS } else { self.left.saturating_sub(1) };
    }
}

impl Log {
    /// What is decided of a completion poll: what it finds is an event, which names the operation by its number
    /// among those that are reported, and says whether it was the last that was over then. Of an operation that
    /// the replay names, the number is the answer.
    #[inline(always)]
    pub(super) fn ask_poll(&mut self, turns: u32, requests: &Requests) -> Decision {
        // Further entries of a poll that has shown all there was.
        if turns == 0 && !self.shown.is_part() {
            return Decision::Skip;
        }
        // While nothing is under way that could be told of, polls mean nothing: an MPI polls for as long
        // as its launcher takes to start the others.
        if !requests.has_any_reported() {
            return self.finds_nothing(Decision::Replayed(Answer::Nothing));
        }
        if self.shown == Shown::All && !self.recheck.pays() {
            return self.finds_nothing(Decision::Skip);
        }
        if self.replaying || self.asked.is_some() || self.shown == Shown::AllThen {
            return self.ask_replay(requests);
        }
        Decision::Free
    }

    /// What the replay says of a completion poll.
    #[inline(never)]
    fn ask_replay(&mut self, requests: &Requests) -> Decision {
        let decision = match self.shown {
            Shown::AllThen => {
                let answer = self.replay.poll_for(|index| index & AT_ONCE != 0);
                self.look_at_replay();
                Decision::Replayed(answer)
            }
            _ => self.next_answer(),
        };
        match decision {
            // It polls more often than it did, again for as long as something else takes.
            Decision::Replayed(early @ Answer::Found(word))
                if !requests.has_reported(word & MOST_SERIAL) =>
            {
                self.asked = Some(early);
                self.finds_nothing(Decision::Replayed(Answer::Nothing))
            }
            Decision::Replayed(Answer::Found(word)) => {
                self.showed(word & LAST != 0, Shown::AllThen);
                Decision::Replayed(Answer::Found(word & MOST_SERIAL))
            }
            Decision::Replayed(Answer::Nothing) => self.finds_nothing(decision),
            other => other,
        }
    }

    fn finds_nothing(&mut self, decision: Decision) -> Decision {
        self.shown = Shown::Nothing;
        decision
    }

    /// A poll has shown an operation, perhaps the last that was over.
    #[inline(always)]
    fn showed(&mut self, last: bool, all: Shown) {
        self.shown = if last { all } else { Shown::Part };
    }

    /// A completion poll has come to this.
    #[inline(always)]
    pub(super) fn tell_poll(&mut self, over: Over, requests: &mut Requests) {
        let at_once = self.shown == Shown::All;
        let Some(ended) = requests.ended().filter(|_| over == Over::Next) else {
            return self.tell_empty_poll(at_once);
        };
        let serial = requests.get(ended.index).serial;
        let last = requests.only_one_is_ended();
        let flags = if last { LAST } else { 0 } | if at_once { AT_ONCE } else { 0 };
        if at_once {
            self.recheck.found(true);
        }
        let event = self.recorder.found(serial | flags);
        self.write(event);
        self.showed(last, Shown::All);
    }

    #[inline(never)]
    fn tell_empty_poll(&mut self, at_once: bool) {
        match at_once {
            true => self.recheck.found(false),
            false => self.found_nothing(),
        }
        self.shown = Shown::Nothing;
    }

    /// Gets ready for the event of a poll that finds the only operation that is over.
    #[inline(always)]
    pub(super) fn prepare_poll(&mut self) {
        let flags = if self.shown == Shown::All { LAST | AT_ONCE } else { LAST };
        self.prepare_event((flags >> FLAG) as u8);
    }
}
