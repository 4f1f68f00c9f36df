//! Who takes part: addresses, and peers that are found by them.

use crate::{Endpoint, Error, Rank, Request, Transport};
use taffrail_fabric::PeerId;

impl Endpoint {
    /// Where other processes of this user find this endpoint: ASCII without spaces, below 64 bytes.
    pub fn address(&self) -> &str {
        &self.addresses[self.rank() as usize]
    }

    /// The rank of the endpoint with this address; the same one each time. In an [open
    /// job](crate::Job::open) it is given a rank, and connected with while this endpoint and that one
    /// make progress: messages to it wait until then. It may also be there already, since it has
    /// connected by itself.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when that is no address, or all ranks are taken.
    pub fn connect(&mut self, address: &str) -> Result<Rank, Error> {
        self.check_process()?;
        let unreachable = |why: String| Error::Unreachable { address: address.to_owned(), why };
        if let (true, Some(shm)) = (self.is_open, self.engine.fabric.shm_mut()) {
            let peer = shm.call(address).map_err(|error| unreachable(error.to_string()))?;
            return Ok(peer.0);
        }
        let found = (0..).zip(&self.addresses).find(|(_, known)| *known == address);
        found.map(|(rank, _)| rank).ok_or_else(|| unreachable("it is no rank of this job".into()))
    }

    /// Gives the number of a peer of an [open job](crate::Job::open) that is gone to whoever comes next.
    /// `false` when it still lives, or something of it is still here: messages that nobody has received,
    /// requests that nobody has finished, views of its memory.
    pub fn forget(&mut self, rank: Rank) -> bool {
        let is_gone = |peer: &crate::engine::peer::Peer| peer.fault().is_some();
        let gone = self.engine.core.peers.get(rank as usize).is_some_and(is_gone);
        if !self.is_open || !gone || self.engine.holds_something_of(rank) {
            return false;
        }
        if let Some(shm) = self.engine.fabric.shm_mut() {
            shm.forget(PeerId(rank));
        }
        self.engine.forget(rank);
        true
    }
}

impl<F: Transport> Endpoint<F> {
    /// Whether messages in this context are told from those in others: in an [open
    /// job](crate::Job::open) only contexts are whose low 14 bits are zeros.
    #[inline]
    pub fn tells_context(&self, context: u16) -> bool {
        self.engine.tells_context(context)
    }

    /// The address of a rank, if there is such a one.
    pub fn peer_address(&self, rank: Rank) -> Option<&str> {
        match self.is_open {
            true => self.engine.fabric.address_of(PeerId(rank)),
            false => self.addresses.get(rank as usize).map(String::as_str),
        }
    }

    /// A peer in a line for people: the rank that its launcher has given it, as far as that is known.
    #[doc(hidden)]
    pub fn peer_name(&self, rank: Rank) -> String {
        crate::explain::peer_name(self, rank)
    }

    /// Starts an operation that ends when a peer is gone, all operations with it have been reported, and all its
    /// messages received: its status has the rank, to be [forgotten](Self::forget). Peers that go while there is
    /// no such operation are reported by the next ones.
    pub fn watch_departures(&mut self) -> Request {
        let request = self.engine.core.departures.watch(&mut self.engine.core.requests);
        self.engine.handle(request)
    }
}
