//! Multi-receives that are replayed: they get the messages that they got before, in that order, and are
//! posted like any other when they have them.

use super::Logging;
use super::host::Host;
use super::multi_state::MultiReplay;
use crate::Pattern;
use crate::recv_record::{CANCELLED, LOGGED, RecvRecord};
use std::collections::VecDeque;
use taffrail_logging::RecvOutcome;
use taffrail_matching::MessageId;

/// What is next of a multi-receive of the replay.
pub(super) enum MultiStep {
    /// A message that is not here yet, or nothing.
    Waits,
    /// This message, which is here.
    Has(MessageId),
    /// It has all, and is posted like any other.
    IsFree(Pattern),
}

impl<H: Host> Logging<H> {
    /// A message has come for a receive that waits for it. Whether that waits for more.
    pub(super) fn got_one(&mut self, request: u32) -> bool {
        let multi = self.multi_replays.get_mut(&request);
        multi.is_some_and(|multi| multi.messages.pop_front().is_some())
    }

    /// What the replay knows of a multi-receive with this number. `false`: nothing.
    pub(super) fn replay_multi(&mut self, request: u32, post: u32, from: &Pattern) -> bool {
        let fate = self.replay.recv_outcome(post);
        let cancelled = self.replay.is_cancelled(post);
        let messages = match fate {
            RecvOutcome::Messages(messages) => messages,
            RecvOutcome::Cancelled => VecDeque::new(),
            RecvOutcome::Free => return false,
        };
        self.multi_replays.insert(request, MultiReplay { messages, from: *from, cancelled });
        self.look_at_replay();
        true
    }

    /// The next message of a multi-receive of the replay, if it is here.
    pub(super) fn next_of_multi(&mut self, request: u32, record: &mut RecvRecord) -> MultiStep {
        let Some(multi) = self.multi_replays.get_mut(&request) else { return MultiStep::Waits };
        let Some(&next) = multi.messages.front() else {
            let MultiReplay { from, cancelled, .. } = *multi;
            self.multi_replays.remove(&request);
            if cancelled {
                record.flags |= CANCELLED | LOGGED;
                return MultiStep::Waits;
            }
            return MultiStep::IsFree(from);
        };
        record.set_name(next.context, next.seq);
        let Some(id) = self.reserved.remove(&next) else {
            self.awaited.insert(next, request);
            return MultiStep::Waits;
        };
        multi.messages.pop_front();
        MultiStep::Has(id)
    }
}
