//! Kept receive buffers of two fabrics that may give them the same names.

use crate::mutant::Mutant;
use rustc_hash::FxHashMap;
use taffrail_fabric::{Body, Head, Lease, PeerId, Sink, Take};

/// One of the two fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Near,
    Far,
}

/// The fabric that has lent each kept buffer. A buffer gets a name when it is handed over; the names of kept buffers are
/// stored.
#[derive(Default)]
pub(crate) struct Leases {
    last: u64,
    kept: FxHashMap<u64, (Side, Lease)>,
}

impl Leases {
    /// Hands a message over. A buffer that comes with it has a name of this table.
    pub(crate) fn hand<S: Sink>(
        &mut self,
        side: Side,
        sink: &mut S,
        (from, head): (PeerId, Head),
        body: Body<'_>,
    ) -> Take {
        let Body::Leased(payload, Lease(own)) = body else { return sink.message(from, head, body) };
        self.last = if Mutant::LeaseAsItIs.lives() { own } else { self.last + 1 };
        let name = self.last;
        match sink.message(from, head, Body::Leased(payload, Lease(name))) {
            Take::Keep(Lease(kept)) => {
                assert_eq!(kept, name, "the lease that is kept of a message of {from}");
                self.kept.insert(name, (side, Lease(own)));
                Take::Keep(Lease(own))
            }
            take => take,
        }
    }

    /// Forgets a kept buffer. Returns the fabric that has lent it, and the lease of that fabric.
    ///
    /// # Panics
    /// If no such buffer is kept.
    #[expect(clippy::panic, reason = "documented: a lease is returned once")]
    pub(crate) fn remove(&mut self, Lease(name): Lease) -> (Side, Lease) {
        let kept = self.kept.remove(&name);
        kept.unwrap_or_else(|| panic!("lease {name} is returned, and is not kept"))
    }
}
