//! What the engine does with buffers and loans that come back.

use crate::core::state::Unexpected;
use crate::loan::{Buffer, Return};
use crate::policy::Policy;
use crate::{Engine, Error, Rank};
use taffrail_fabric::{Fabric, SendMemory};

impl<F: Fabric + SendMemory, P: Policy> Engine<F, P> {
    /// A buffer of at least `len` bytes that peers can map.
    pub fn take_buffer(&mut self, len: usize) -> Result<Buffer, Error> {
        if self.lending.has_returns() {
            self.drain_returns();
        }
        Ok(self.lending.buffer(&mut self.fabric, len)?)
    }

    /// Brings back what was dropped since the last look.
    #[cold]
    pub(crate) fn drain_returns(&mut self) {
        let mut things = self.lending.take_returns();
        for thing in things.drain(..) {
            match thing {
                Return::Block(_) => {}
                Return::Loan { owner, loan } => self.tx().give_back(owner, loan),
                Return::Message(id) => self.discard_claimed(id),
            }
        }
        self.lending.keep_list(things);
    }

    /// Gives back what was lent to this endpoint and is not looked at, since it closes.
    pub fn give_all_back(&mut self) {
        self.drain_returns();
        let waiting = self.core.matcher.unexpected().chain(self.core.matcher.claimed());
        let lent: Vec<(Rank, u64)> = waiting
            .filter_map(|(_, env, found)| match found {
                Unexpected::Loan(offer) => Some((env.source, offer.loan)),
                _ => None,
            })
            .collect();
        for (owner, loan) in lent {
            self.tx().give_back(owner, loan);
        }
    }

    /// Takes back what was lent to ranks that are gone, as soon as nobody there reads it.
    pub(crate) fn reclaim_loans(&mut self) {
        if self.lending.is_any_out() && self.core.last_finished.is_some() {
            self.lending.reclaim(&self.fabric, &self.core.peers);
        }
    }
}
