//! How a seat of an open line becomes free for another process.

use super::{Seat, Seats};
use crate::line::ShmFabric;
use crate::rejoin::wipe;
use std::sync::Arc;
use taffrail_fabric::{Fault, PeerId};

impl ShmFabric {
    /// Ends all traffic with a peer, without a word of it in any [`Sink`](taffrail_fabric::Sink) but the
    /// ends of its gets and puts, and frees its seat: another process may have it from now on, as soon
    /// as nothing of this one can reach it any more (its process has ended, or has forgotten this one as
    /// well). Its address is forgotten, too. The own seat and closed lines are left as they are.
    pub fn forget(&mut self, peer: PeerId) {
        if peer == self.me || self.seats.is_none() {
            return;
        }
        self.say_goodbye(peer);
        self.cut(peer, Fault::Closed);
        self.failed_peers.retain(|&of| of != peer);
        let Some(mut seats) = self.seats.take() else { return };
        let seat = &mut seats.seats[peer.index()];
        let old = std::mem::replace(seat, Seat::Vacant);
        seats.seats[peer.index()] = match old {
            Seat::Meeting(call) => {
                // A process that has connected by itself and was not answered yet.
                self.drop_call(peer.index(), call.stage);
                Seat::Leaving { left: None }
            }
            Seat::Taken { left, .. } => Seat::Leaving { left },
            other => other,
        };
        if matches!(seats.seats[peer.index()], Seat::Leaving { .. }) {
            seats.leaving.retain(|&of| of != peer.index());
            seats.leaving.push(peer.index());
        }
        self.reclaim(&mut seats);
        self.seats = Some(seats);
    }

    /// Frees the seats of forgotten peers that do not write any more.
    pub(super) fn reclaim(&mut self, seats: &mut Seats) {
        for seat in std::mem::take(&mut seats.leaving) {
            let has_gone = match &seats.seats[seat] {
                Seat::Leaving { left: Some(link) } => link.is_closed(),
                _ => true,
            };
            // Both are looked at, since the second lets the peer know.
            if !self.has_left(PeerId(seat as u32)) || !has_gone {
                seats.leaving.push(seat);
                continue;
            }
            let vacant = self.home(seats.hello.fenced).vacant(seat);
            self.pairs[seat] = vacant;
            self.window.forget(PeerId(seat as u32));
            self.regions.replaced(seat);
            wipe(&self.inbox, &self.layout, seat);
            seats.seats[seat] = Seat::Vacant;
            seats.is_full_said = false;
        }
    }

    /// Whether neither side maps memory of the other any more. Once this side does not, it shuts the connection, which
    /// the peer sees.
    fn has_left(&mut self, peer: PeerId) -> bool {
        if self.transfers.are_with(peer) {
            return false;
        }
        let cold = &mut self.pairs[peer.index()].cold;
        cold.regions.clear();
        let Some(maps) = &cold.mapped else { return true };
        // Views of its memory hold the connection, and it waits for their end.
        if Arc::strong_count(&maps.link) == 1 {
            maps.link.shut();
        }
        cold.fault == Some(Fault::Died) || maps.link.is_closed()
    }
}
