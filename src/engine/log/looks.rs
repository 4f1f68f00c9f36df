//! Looks for operations that are over: what a completion queue is told of (`docs/logging.md`, section 11).
//!
//! Which one is told is an event, and how often the program has looked in vain before is counted with it.
//! A look right after one that has told of all there was is not counted if it finds nothing: Open MPI ends
//! each round with one, and it would be an event before each message that it sends. In a replay such a look
//! finds something only if the next event says so. So whether it looks at all is free, too.

use super::Log;
use super::calls::diverged;
use crate::engine::request::MOST_SERIAL;
use crate::engine::wait::PREPARE_EVERY;
use crate::{Endpoint, Error, Over};
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
    /// What becomes of a look right after the replay has told of all there was then.
    fn ask_again(&mut self) -> Answer {
        let answer = self.replay.poll_for(|index| index & AT_ONCE != 0);
        self.look_at_replay();
        answer
    }

    /// A look has told of an operation, perhaps the last that was over.
    fn told(&mut self, last: bool, all: Shown) {
        self.shown = if last { all } else { Shown::Part };
    }
}

impl Endpoint {
    /// As [`next_ended_within`](Self::next_ended_within): an event, which names the operation by its number
    /// among those that are reported, and says whether it was the last that was over then.
    #[inline(never)]
    pub(crate) fn await_ended_logged(&mut self, turns: u32) -> Result<Over, Error> {
        // While nothing is under way that could be told of, looks mean nothing: an MPI looks for as long
        // as its launcher takes to start the others.
        if !self.core.requests.has_any_reported() {
            return Ok(self.look_in_vain(turns));
        }
        let log = self.log();
        let shown = log.shown;
        if shown == Shown::All && !log.recheck.pays() {
            return Ok(self.look_in_vain(0));
        }
        if log.replaying || log.asked.is_some() || shown == Shown::AllThen {
            return self.await_ended_replayed(turns, shown);
        }
        Ok(self.look_freely(turns, shown == Shown::All))
    }

    /// A look of which the replay may have something to say.
    #[inline(never)]
    #[expect(clippy::expect_used, reason = "the wait ends only when the request has completed")]
    fn await_ended_replayed(&mut self, turns: u32, shown: Shown) -> Result<Over, Error> {
        let answer = match shown {
            Shown::AllThen => self.log().ask_again(),
            _ => self.log().ask(),
        };
        match answer {
            Answer::Free => Ok(self.look_freely(turns, shown == Shown::All)),
            Answer::Nothing => Ok(self.look_in_vain(turns)),
            // It looks more often than it did, again for as long as something else takes.
            early @ Answer::Found(word) if !self.core.requests.has_reported(word & MOST_SERIAL) => {
                self.log().asked = Some(early);
                Ok(self.look_in_vain(turns))
            }
            Answer::Found(word) => {
                let serial = word & MOST_SERIAL;
                self.wait_until(|endpoint| endpoint.core.requests.ended_with(serial).is_some());
                let request = self.core.requests.ended_with(serial).expect("the wait has ended");
                self.log().told(word & LAST != 0, Shown::AllThen);
                Ok(Over::This(request))
            }
            other => Err(diverged(other, "a look for the end of an operation")),
        }
    }

    /// A look that finds what there is; perhaps `at_once` after all was told.
    #[inline(always)]
    fn look_freely(&mut self, turns: u32, at_once: bool) -> Over {
        let (mut left, mut idle) = (turns, false);
        let ended = loop {
            if let Some(request) = self.core.requests.ended() {
                break request;
            }
            if left == 0 {
                return self.found_nothing(at_once, idle);
            }
            if left < turns {
                std::hint::spin_loop();
            }
            idle = self.turn() == 0;
            if self.core.last_gone.is_some() {
                self.end_of_any_source();
            }
            left -= 1;
            if idle {
                let flags = if at_once { LAST | AT_ONCE } else { LAST };
                self.log().prepare_event((flags >> FLAG) as u8);
            }
        };
        let serial = self.core.requests.get(ended.index).serial;
        let last = self.core.requests.only_one_is_ended();
        let flags = if last { LAST } else { 0 } | if at_once { AT_ONCE } else { 0 };
        let log = self.log();
        if at_once {
            log.recheck.found(true);
        }
        log.found((serial | flags) as usize);
        log.told(last, Shown::All);
        Over::Next
    }

    /// A look that has found nothing.
    #[inline(never)]
    fn found_nothing(&mut self, at_once: bool, idle: bool) -> Over {
        let log = self.log();
        match at_once {
            true => log.recheck.found(false),
            false => log.found_nothing(),
        }
        log.shown = Shown::Nothing;
        // Whoever looks in vain waits.
        self.core.is_ahead = false;
        if idle && self.turns.is_multiple_of(PREPARE_EVERY) {
            self.prepare_log();
        }
        Over::Nothing
    }

    /// A look that brings nothing, whatever is over.
    fn look_in_vain(&mut self, turns: u32) -> Over {
        if turns > 0 {
            self.turn();
        }
        self.log().shown = Shown::Nothing;
        Over::Nothing
    }
}
