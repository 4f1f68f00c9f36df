//! Multi-receives that are replayed: they get the messages that they got before, in that order, and are
//! posted like any other when they have them.

use super::Logging;
use super::host::Host;
use super::multi_state::MultiReplay;
use crate::Engine;
use crate::Pattern;
use crate::policy::Policy;
use crate::recv_record::{BY_CHANCE, CANCELLED, LOGGED, MULTI, POSTED, RecvRecord};
use std::collections::VecDeque;
use taffrail_fabric::{Fabric, SendMemory};
use taffrail_logging::RecvOutcome;

impl<H: Host> Logging<H> {
    /// A multi-receive is posted: its record begins. Whether the replay is to be asked about it.
    pub(crate) fn posted_multi(&mut self, record: &mut RecvRecord) -> bool {
        record.post = self.recorder.post();
        record.flags = POSTED | BY_CHANCE | MULTI;
        self.replaying
    }

    /// A message has come for a receive that waits for it. Whether that waits for more.
    pub(crate) fn got_one(&mut self, request: u32) -> bool {
        let multi = self.multi_replays.get_mut(&request);
        multi.is_some_and(|multi| multi.messages.pop_front().is_some())
    }
}

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Posts a multi-receive that the replay may know of. `false`: it does not.
    pub(crate) fn replay_multi(&mut self, request: u32, from: &Pattern) -> bool {
        let (Some(log), requests) = (self.core.policy.log_mut(), &mut self.core.requests) else {
            return false;
        };
        let record = &mut requests.get(request).record;
        let fate = log.replay.recv_outcome(record.post);
        let cancelled = log.replay.is_cancelled(record.post);
        let messages = match fate {
            RecvOutcome::Messages(messages) => messages,
            RecvOutcome::Cancelled => VecDeque::new(),
            RecvOutcome::Free => return false,
        };
        log.multi_replays.insert(request, MultiReplay { messages, from: *from, cancelled });
        log.look_at_replay();
        self.continue_multi(request);
        true
    }

    /// Gives a multi-receive of the replay the messages that are here, as far as it is their turn.
    pub(crate) fn continue_multi(&mut self, request: u32) {
        loop {
            let (Some(log), requests) = (self.core.policy.log_mut(), &mut self.core.requests)
            else {
                return;
            };
            let Some(multi) = log.multi_replays.get_mut(&request) else { return };
            let record = &mut requests.get(request).record;
            let Some(&next) = multi.messages.front() else {
                let MultiReplay { from, cancelled, .. } = *multi;
                log.multi_replays.remove(&request);
                if cancelled {
                    record.flags |= CANCELLED | LOGGED;
                } else {
                    self.post_multi(request, &from);
                }
                return;
            };
            record.set_name(next.context, next.seq);
            let Some(id) = log.reserved.remove(&next) else {
                log.awaited.insert(next, request);
                return;
            };
            multi.messages.pop_front();
            self.receive_reserved(request, id);
        }
    }
}
