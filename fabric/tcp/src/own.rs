//! Messages of a rank to itself.

use crate::tx::Payload;
use std::collections::VecDeque;
use taffrail_fabric::{Head, PeerId, Refused, Sink};

/// Messages that may wait.
const MAX_MESSAGES: usize = 64;

/// Messages from this rank that wait to be polled by it.
#[derive(Default)]
pub(crate) struct Own(VecDeque<(Head, Vec<u8>)>);

impl Own {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn send(&mut self, head: Head, payload: Payload<'_>) -> Result<(), Refused> {
        if self.0.len() >= MAX_MESSAGES {
            return Err(Refused::Busy);
        }
        self.0.push_back((head, payload.to_vec()));
        Ok(())
    }

    /// Hands over what waits now.
    pub(crate) fn deliver<S: Sink>(&mut self, me: PeerId, sink: &mut S) -> usize {
        let count = self.0.len();
        for (head, bytes) in self.0.drain(..) {
            crate::rx::whole(me, head, &bytes, sink);
        }
        count
    }
}
