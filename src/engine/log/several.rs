//! Multi-receives that are replayed: they get the messages that they got before, in that order, and are
//! posted like any other when they have them.

use super::Log;
use super::notes::{BY_CHANCE, CANCELLED, LOGGED, Note, POSTED, SEVERAL};
use crate::engine::core::Core;
use crate::{Endpoint, Pattern};
use std::collections::VecDeque;
use taffrail_logging::{Fate, Name};

/// Such a receive.
pub(super) struct Several {
    /// The messages that it is still to get.
    messages: VecDeque<Name>,
    /// What it takes when it has them.
    from: Pattern,
    /// It was cancelled then.
    cancelled: bool,
}

impl Log {
    /// A multi-receive is posted: its note begins. Whether the replay is to be asked about it.
    pub(crate) fn posted_several(&mut self, note: &mut Note) -> bool {
        note.post = self.recorder.post();
        note.flags = POSTED | BY_CHANCE | SEVERAL;
        self.replaying
    }

    /// A message has come for a receive that waits for it. Whether that waits for more.
    pub(super) fn got_one(&mut self, request: u32) -> bool {
        let several = self.several.get_mut(&request);
        several.is_some_and(|several| several.messages.pop_front().is_some())
    }
}

impl Endpoint {
    /// Posts a multi-receive that the replay may know of. `false`: it does not.
    pub(crate) fn post_several_replayed(&mut self, request: u32, from: &Pattern) -> bool {
        let Core { log: Some(log), requests, .. } = &mut self.core else { return false };
        let note = &mut requests.get(request).note;
        let fate = log.replay.fate(note.post);
        let cancelled = log.replay.is_cancelled(note.post);
        let messages = match fate {
            Fate::Messages(messages) => messages,
            Fate::Cancelled => VecDeque::new(),
            Fate::Free => return false,
        };
        log.several.insert(request, Several { messages, from: *from, cancelled });
        log.look_at_replay();
        self.continue_multi(request);
        true
    }

    /// Gives a multi-receive of the replay the messages that are here, as far as it is their turn.
    pub(crate) fn continue_multi(&mut self, request: u32) {
        loop {
            let Core { log: Some(log), requests, .. } = &mut self.core else { return };
            let Some(several) = log.several.get_mut(&request) else { return };
            let note = &mut requests.get(request).note;
            let Some(&next) = several.messages.front() else {
                let Several { from, cancelled, .. } = *several;
                log.several.remove(&request);
                if cancelled {
                    note.flags |= CANCELLED | LOGGED;
                } else {
                    self.post_multi(request, &from);
                }
                return;
            };
            note.set_name(next.context, next.seq);
            let Some(id) = log.reserved.remove(&next) else {
                log.awaited.insert(next, request);
                return;
            };
            several.messages.pop_front();
            self.receive_reserved(request, id);
        }
    }
}
