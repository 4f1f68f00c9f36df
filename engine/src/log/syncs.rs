//! Synchronous messages to other sets: their sends wait until the receiver says that they are matched, and that may be
//! lost with a connection or with a process.

use super::decisions::Logged;
use super::host::Host;
use super::nondeterminism::CoreParts;
use super::{LogEntry, Logging};
use crate::Rank;
use crate::core::Core;
use crate::request::Requests;
use taffrail_logging::{Received, mutant};

impl<H: Host> Logging<H> {
    /// Notes the request of a synchronous message, and forgets those that are over.
    pub(super) fn note_sync(&mut self, requests: &Requests, message: (Rank, u16, u32), send: u64) {
        if self.syncs.len() == self.syncs.capacity() {
            self.syncs.retain(|_, send| requests.waits(*send));
        }
        self.syncs.insert(message, send);
    }

    /// The request of a synchronous message, if it still waits for its receiver.
    pub(super) fn waiting_send(
        &self,
        requests: &Requests,
        message: (Rank, u16, u32),
        kept: &LogEntry,
    ) -> Option<u64> {
        if !kept.is_sync() {
            return None;
        }
        let send = self.syncs.get(&message).copied();
        send.filter(|&send| requests.waits(send))
    }
}

impl<P: Logged> Core<P> {
    /// The messages to a peer whose sends wait, and these.
    fn unanswered(&mut self, to: Rank) -> Vec<((u16, u32), u64)> {
        let CoreParts { log, requests, .. } = self.parts();
        let waiting =
            log.syncs.iter().filter(|((rank, ..), send)| *rank == to && requests.waits(**send));
        waiting.map(|(&(_, context, seq), &send)| ((context, seq), send)).collect()
    }

    /// A peer has said what it has. Messages whose sends still wait are taken to be missing, and sent again: the
    /// peer answers to those that it has, too. Its answer may have been at the gate when it died.
    pub(super) fn ask_again(&mut self, rank: Rank, has: &mut Received) {
        if !mutant!(NotAskedAgain) {
            has.missing.extend(self.unanswered(rank).into_iter().map(|(message, _)| message));
        }
    }

    /// A committed checkpoint of a peer covers these messages: they were received, and the peer's next
    /// incarnation will not ask for them.
    pub(super) fn received_for_good(&mut self, rank: Rank, committed: &Received) {
        for ((context, seq), send) in self.unanswered(rank) {
            if committed.covers(context, seq) && !mutant!(CommitDoesNotAnswer) {
                self.finished(rank, send, None);
            }
        }
    }
}
