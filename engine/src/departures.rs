//! Peers that are gone, for programs that give their numbers to new ones.

use super::core::Core;
use crate::Engine;
use crate::policy::Policy;
use crate::{Data, Error, Rank, Status};
use taffrail_fabric::{Fabric, PeerId, SendMemory};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// Ends the request that watches, with the next peer that is gone and has left nothing.
    #[cold]
    pub(crate) fn report_departure(&mut self) {
        let departures = &self.core.departures;
        if departures.watch.is_none() || departures.unreported.is_empty() {
            return;
        }
        let next = departures.unreported.iter().position(|&rank| !self.holds_something_of(rank));
        let Core { departures, requests, .. } = &mut self.core;
        if let (Some(at), Some(request)) = (next, departures.watch.take_if(|_| next.is_some())) {
            let source = departures.unreported.remove(at);
            requests.get(request).status = Status { source, tag: 0, len: 0, data: Data::NONE };
            requests.end(request);
        }
    }

    /// Whether anything of a peer that is gone is still here: messages that nobody has received, requests that
    /// nobody has finished, views of its memory.
    pub fn holds_something_of(&self, rank: Rank) -> bool {
        let Core { matcher, requests, .. } = &self.core;
        matcher.unexpected_from(rank).next().is_some()
            || matcher.claimed().any(|(_, envelope, _)| envelope.source == rank)
            || requests.under_way().any(|(_, slot)| slot.peer == rank)
            || requests.over().any(|(_, slot)| slot.peer == rank || slot.status.source == rank)
            || requests.under_way().any(|(_, slot)| slot.has_landed_of(rank))
            || self.lending.has_lent_to(rank)
    }

    /// Gives the number of a peer that is gone, and has left nothing, to the next that connects.
    pub fn forget(&mut self, rank: Rank) {
        self.core.peers[rank as usize] = Default::default();
        self.learn_limits(rank);
        self.core.numbers.forget(rank);
        if self.core.last_finished == Some(rank) {
            self.core.last_finished = None;
        }
    }

    /// Refuses a rank that nobody has.
    #[cold]
    pub(crate) fn check_taken(&self, rank: Rank) -> Result<(), Error> {
        match self.fabric.knows(PeerId(rank)) {
            true => Ok(()),
            false => Err(Error::NoSuchRank { rank, size: self.size() }),
        }
    }
}
