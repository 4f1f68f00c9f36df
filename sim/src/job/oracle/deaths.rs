//! Ranks that die and are not started again, since messages are not logged.

use super::Oracle;
use crate::call::{Failed, Message};
use crate::job::paths::Path;
use taffrail_engine::Error;
use taffrail_fabric::Fault;
use taffrail_logging::Rank;

/// How a rank has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Died,
    Closed,
}

impl Oracle {
    /// A rank has closed its endpoint, after its program had ended.
    pub(in crate::job) fn closed(&mut self, rank: Rank) {
        self.gone[rank as usize] = Some(Gone::Closed);
    }

    /// A call or a send of a rank has failed: with which peer. `None`: with none. The peer that is named must be gone, and in the
    /// way that the error says.
    pub(in crate::job) fn fails(&mut self, rank: Rank, error: &Error) -> Option<Failed> {
        let Error::PeerFailed { rank: peer, fault } = error else { return None };
        let is = match fault {
            // The memory of a dead process may be gone before its death is known.
            Fault::Died | Fault::NoSuchMemory(_) => Gone::Died,
            Fault::Closed => Gone::Closed,
            _ => return None,
        };
        let (peer, is_died) = (*peer, *fault == Fault::Died);
        let gone = self.gone[peer as usize];
        if gone != Some(is) {
            let text = format!("rank {rank} is given the error: {error}. Rank {peer}: {gone:?}");
            self.violated("an error names a rank that is gone", text);
        }
        if is_died {
            self.paths.reach(Path::EndedWithPeer);
        }
        Some(Failed { rank: peer, died: is == Gone::Died })
    }

    /// Whether a rank was killed, and is not started again.
    pub(in crate::job) fn has_died(&self, rank: Rank) -> bool {
        self.gone[rank as usize] == Some(Gone::Died)
    }

    /// A rank has received a message.
    pub(in crate::job) fn received(&mut self, message: &Message) {
        if self.gone[message.name.source as usize] == Some(Gone::Died) {
            self.paths.reach(Path::ReceivedFromDead);
        }
    }

    /// A receive from any source of this rank has failed: nobody else may be left.
    pub(in crate::job) fn any_source_fails(&mut self, rank: Rank) {
        self.paths.reach(Path::NobodyLeft);
        let left = (0..).zip(&self.gone).find(|(peer, gone)| *peer != rank && gone.is_none());
        if let Some((peer, _)) = left {
            let text = format!("a receive from any source of rank {rank} fails, and {peer} lives");
            self.violated("a receive from any source ends with the last sender", text);
        }
    }
}
