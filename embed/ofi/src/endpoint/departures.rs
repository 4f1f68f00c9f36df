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

    /// A peer is gone, and all its operations have been told.
    #[cold]
    pub fn departed(&mut self, rank: Rank) {
        self.departed.push(rank);
        self.release_departed();
        self.watch_departures();
    }

    /// Releases what peers that are gone have left, unless something of it waits for the program: a message,
    /// or the end of an operation.
    #[cold]
    pub fn release_departed(&mut self) {
        for rank in std::mem::take(&mut self.departed) {
            if !self.engine.forget(rank) {
                self.departed.push(rank);
                continue;
            }
            self.refused.retain(|&of| of != rank);
            let Some(number) = self.numbers.get_mut(rank as usize) else { continue };
            let number = std::mem::replace(number, FI_ADDR_NOTAVAIL);
            if let Some(of) = self.ranks.get_mut(number as usize) {
                *of = GONE;
            }
        }
    }
}
