//! How a peer slot of an open job becomes free for another process.

use super::{PeerSlot, PeerSlots};
use crate::rejoin::wipe;
use crate::shm_fabric::ShmFabric;
use std::sync::Arc;
use taffrail_fabric::{Fault, PeerId};

impl ShmFabric {
    /// Ends all traffic with a peer, without a word of it in any [`Sink`](taffrail_fabric::Sink) but the
    /// ends of its gets and puts, and frees its peer slot: another process may have it from now on, as soon
    /// as nothing of this one can reach it any more (its process has ended, or has forgotten this one as
    /// well). Its address is forgotten, too. The own peer slot and closed jobs are left as they are.
    pub fn forget(&mut self, peer: PeerId) {
        if peer == self.me || self.peer_slots.is_none() {
            return;
        }
        self.say_goodbye(peer);
        self.cut(peer, Fault::Closed);
        self.failed_peers.retain(|&of| of != peer);
        let Some(mut peer_slots) = self.peer_slots.take() else { return };
        let peer_slot = &mut peer_slots.slots[peer.index()];
        let old = std::mem::replace(peer_slot, PeerSlot::Free);
        peer_slots.slots[peer.index()] = match old {
            PeerSlot::Handshake(call) => {
                // A process that has connected by itself and was not answered yet.
                self.drop_call(peer.index(), call.stage);
                PeerSlot::Leaving { left: None }
            }
            PeerSlot::Connected { left, .. } => PeerSlot::Leaving { left },
            other => other,
        };
        if matches!(peer_slots.slots[peer.index()], PeerSlot::Leaving { .. }) {
            peer_slots.leaving.retain(|&of| of != peer.index());
            peer_slots.leaving.push(peer.index());
        }
        self.reclaim(&mut peer_slots);
        self.peer_slots = Some(peer_slots);
    }

    /// Frees the peer slots of forgotten peers that do not write any more.
    pub(super) fn reclaim(&mut self, peer_slots: &mut PeerSlots) {
        for peer_slot in std::mem::take(&mut peer_slots.leaving) {
            let has_gone = match &peer_slots.slots[peer_slot] {
                PeerSlot::Leaving { left: Some(link) } => link.is_closed(),
                _ => true,
            };
            // Both are looked at, since the second lets the peer know.
            if !self.has_left(PeerId(peer_slot as u32)) || !has_gone {
                peer_slots.leaving.push(peer_slot);
                continue;
            }
            let vacant = self.home(peer_slots.hello.fenced).free_link(peer_slot);
            self.pairs[peer_slot] = vacant;
            self.window.forget(PeerId(peer_slot as u32));
            self.regions.replaced(peer_slot);
            wipe(&self.inbox, &self.layout, peer_slot);
            peer_slots.slots[peer_slot] = PeerSlot::Free;
            peer_slots.is_full_said = false;
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
