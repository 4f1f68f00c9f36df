//! Memory of a peer that somebody may have a view of, and how the peer learns that nobody has.
//!
//! A view holds the connection to the owner of the memory open, so that the connection hangs up when
//! the fabric and all views are gone, or their process is.

use crate::memory::Mapped;
use crate::shm_fabric::ShmFabric;
use crate::socket::Link;
use std::ops::Deref;
use std::sync::Arc;
use taffrail_fabric::PeerId;

/// A peer's allocation.
pub(crate) struct Lent {
    memory: Mapped,
    _link: Arc<Link>,
}

impl Lent {
    pub(crate) fn new(memory: Mapped, link: Arc<Link>) -> Self {
        Lent { memory, _link: link }
    }
}

impl Deref for Lent {
    type Target = Mapped;

    fn deref(&self) -> &Mapped {
        &self.memory
    }
}

impl ShmFabric {
    /// Whether a peer that has failed or closed its fabric holds no view of our memory any more, and
    /// will never again.
    pub fn has_let_go(&self, peer: PeerId) -> bool {
        let cold = &self.pairs[peer.index()].cold;
        // A peer that was never connected maps nothing of ours.
        let closed = cold.mapped.as_ref().is_none_or(|maps| maps.link.is_closed());
        cold.fault.is_some() && closed
    }
}
