//! What is known of completion polls.

/// Completion-queue state after the last poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PollState {
    /// The poll found nothing.
    #[default]
    Empty,
    /// It returned a completion, and more are there.
    Partial,
    /// It returned the last completion that was there.
    Drained,
    /// The same, as the replay says.
    ReplayDrained,
}

impl PollState {
    /// Whether more completions are there.
    pub(crate) fn is_partial(self) -> bool {
        self == PollState::Partial
    }

    /// That all completions were returned does not count any more.
    pub(crate) fn forget_drained(&mut self) {
        if !self.is_partial() {
            *self = PollState::Empty;
        }
    }
}

/// Whether a poll right after the queue was drained is made: not while such polls find nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recheck {
    /// This number of further polls, though they find nothing.
    left: u8,
    omitted: u8,
}

impl Recheck {
    const AFTER_SUCCESS: u8 = 8;
    const EVERY: u8 = 32;

    pub(crate) fn decide(&mut self) -> bool {
        self.omitted = if self.left > 0 { 0 } else { (self.omitted + 1) % Self::EVERY };
        self.omitted == 0
    }

    pub(crate) fn observe(&mut self, something: bool) {
        self.left = if something { Self::AFTER_SUCCESS } else { self.left.saturating_sub(1) };
    }
}
