//! Peers that are gone: what they have left behind is released, and their ranks are given to others.

use super::operation::{Kind, Operation};
use super::{Endpoint, GONE};
use crate::abi::constants::FI_ADDR_NOTAVAIL;
use std::ptr::null_mut;
use taffrail::Rank;

impl Endpoint {
    /// Waits for the next peer to go.
    pub fn watch_departures(&mut self) {
        let request = self.engine.watch_departures();
        self.started(Ok(request), Operation::new(Kind::Departure, 0, null_mut(), false));
    }

    /// A peer is gone, and nothing of it waits for the program any more.
    #[cold]
    pub fn departed(&mut self, rank: Rank) {
        if self.engine.forget(rank) {
            self.refused.retain(|&of| of != rank);
            if let Some(number) = self.numbers.get_mut(rank as usize) {
                let number = std::mem::replace(number, FI_ADDR_NOTAVAIL);
                self.ranks.get_mut(number as usize).into_iter().for_each(|of| *of = GONE);
            }
        }
        self.watch_departures();
    }
}
