//! Open jobs: processes that are called by their addresses, or come by themselves.
//!
//! This file has the table of peer slots, [`handshake`] the handshake of two processes, [`accept`] the decision about
//! processes that connect by themselves, [`disconnect`] the release of a peer slot. The protocol, and why it always ends, is in
//! `docs/wire.md`, section 1.

mod accept;
mod disconnect;
mod handshake;

use crate::pair::PeerLink;
use crate::shm_fabric::ShmFabric;
use crate::socket::{Address, Callers, Hello, Link, Malformed, Peer};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use taffrail_fabric::PeerId;

/// Why a process cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The members of this job are fixed.
    #[error("this is a closed job; only in an open one peers can be called (Config.open)")]
    Closed,
    /// This is no address.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is no peer slot left.
    #[error(
        "no peer slot for {address}: all {peer_slots} peer slots are taken, {gone} of them by processes that are gone; \
         open with more peer slots, or forget those who are gone"
    )]
    Full {
        /// The address that was called.
        address: String,
        /// How many peer slots there are, the own among them.
        peer_slots: usize,
        /// How many of them are those of processes that have failed or left.
        gone: usize,
    },
}

/// The peer slots of an open job.
pub(crate) struct PeerSlots {
    callers: Callers,
    /// Sent to every peer, with the slot that the peer has here.
    hello: Hello,
    /// Our outbox, as peers may have it.
    outbox: OwnedFd,
    patience: Duration,
    slots: Vec<PeerSlot>,
    /// Peer slots with a handshake under way.
    under_way: Vec<usize>,
    /// Peer slots that are to become free.
    leaving: Vec<usize>,
    /// Processes that have sent HELLO, and have no peer slot yet.
    waiting: Vec<Incoming>,
    /// Counts polls, to advance calls only every few polls.
    polls: u32,
    /// A process was refused because no peer slot is left: this is logged once.
    is_full_said: bool,
}

/// State of a peer slot.
enum PeerSlot {
    /// This process itself.
    Own,
    /// Of no process.
    Free,
    /// Of a peer with which a handshake is under way.
    Handshake(Call),
    /// Of a peer that is connected, or was called and has failed. `left` is the connection of a failed call: over it
    /// the peer may still have completed the handshake.
    Connected { address: Address, left: Option<Link> },
    /// Of a peer that is forgotten, and may still write.
    Leaving { left: Option<Link> },
}

/// A handshake under way.
struct Call {
    address: Address,
    since: Instant,
    stage: Stage,
}

enum Stage {
    /// To be connected to.
    ToConnect,
    /// Does not know us yet.
    ToGreet(Link),
    /// Knows us, and has not answered.
    Greeted(Link),
    /// Came by itself, and waits for our answer. Our own call to it, if there was one, ends with that.
    ToAnswer(Box<PeerLink>, Option<Link>),
}

/// A process that has connected by itself.
struct Incoming {
    peer: Peer,
    /// It is the process that listens at the address it says.
    is_genuine: bool,
}

impl PeerSlots {
    pub(crate) fn new(callers: Callers, hello: Hello, outbox: OwnedFd, patience: Duration) -> Self {
        let slot = |slot| if slot == hello.rank { PeerSlot::Own } else { PeerSlot::Free };
        PeerSlots {
            callers,
            hello,
            outbox,
            patience,
            slots: (0..hello.ranks).map(slot).collect(),
            under_way: Vec::new(),
            leaving: Vec::new(),
            waiting: Vec::new(),
            polls: 0,
            is_full_said: false,
        }
    }

    /// The peer slot of the process that listens at an address.
    fn find(&self, address: &Address) -> Option<usize> {
        self.slots.iter().position(|slot| match slot {
            PeerSlot::Own => self.hello.address == *address,
            PeerSlot::Handshake(call) => call.address == *address,
            PeerSlot::Connected { address: of, .. } => of == address,
            PeerSlot::Free | PeerSlot::Leaving { .. } => false,
        })
    }

    fn first_free(&self) -> Option<usize> {
        self.slots.iter().position(|slot| matches!(slot, PeerSlot::Free))
    }
}

impl ShmFabric {
    /// Where others find this process.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// Where a peer of an open job listens; `None` for a peer slot that nobody has, and in closed jobs.
    pub fn address_of(&self, peer: PeerId) -> Option<&str> {
        let peer_slots = self.peer_slots.as_ref()?;
        match peer_slots.slots.get(peer.index())? {
            PeerSlot::Own => Some(self.address()),
            PeerSlot::Handshake(call) => Some(call.address.as_str()),
            PeerSlot::Connected { address, .. } => Some(address.as_str()),
            PeerSlot::Free | PeerSlot::Leaving { .. } => None,
        }
    }

    /// Whether a peer was met, and still takes messages.
    pub fn is_met(&self, peer: PeerId) -> bool {
        self.pairs[peer.index()].open
    }

    /// Gives the process that listens at `address` a peer slot, if it has none yet, and begins to connect
    /// with it. Does not block: until they have met, sends to it are
    /// [`Busy`](taffrail_fabric::Refused::Busy), and if it cannot be reached,
    /// [`link`](taffrail_fabric::Sink::link) reports it as broken with
    /// [`Unreachable`](taffrail_fabric::Fault::Unreachable) or whatever else became of it. The same
    /// address has the same peer slot until it is [forgotten](Self::forget), also of a process that came by
    /// itself, or has failed. Its own address gives its own peer slot.
    ///
    /// # Errors
    /// [`CallError`], saying what there was and what to do.
    pub fn call(&mut self, address: &str) -> Result<PeerId, CallError> {
        let Some(mut peer_slots) = self.peer_slots.take() else { return Err(CallError::Closed) };
        let peer_slot = self.slot_for(&mut peer_slots, address);
        self.peer_slots = Some(peer_slots);
        if let Ok(peer) = peer_slot {
            // An error is reported by a later poll, as the end of the link.
            self.meet_some(|peer_slot| peer_slot == peer.index());
        }
        peer_slot
    }

    fn slot_for(&mut self, peer_slots: &mut PeerSlots, address: &str) -> Result<PeerId, CallError> {
        let address = Address::parse(address.as_bytes())?;
        let peer_slot = if let Some(peer_slot) = peer_slots.find(&address) {
            peer_slot
        } else {
            self.reclaim(peer_slots);
            let Some(peer_slot) = peer_slots.first_free() else {
                let gone = |pair: &&PeerLink| !pair.open && !pair.is_awaited();
                return Err(CallError::Full {
                    address: address.to_string(),
                    peer_slots: peer_slots.slots.len(),
                    gone: self.pairs.iter().filter(gone).count(),
                });
            };
            let call = Call { address, since: Instant::now(), stage: Stage::ToConnect };
            self.occupy(peer_slots, peer_slot, call);
            peer_slot
        };
        let peer = PeerId(peer_slot as u32);
        if matches!(peer_slots.slots[peer_slot], PeerSlot::Handshake(_))
            && !self.pairs[peer_slot].is_awaited()
        {
            self.pairs[peer_slot].cold.fault = None;
            self.failed_peers.push(peer);
        }
        Ok(peer)
    }

    /// Somebody has a peer slot from now on.
    fn occupy(&mut self, peer_slots: &mut PeerSlots, peer_slot: usize, call: Call) {
        peer_slots.slots[peer_slot] = PeerSlot::Handshake(call);
        if !peer_slots.under_way.contains(&peer_slot) {
            peer_slots.under_way.push(peer_slot);
        }
        // Rings beyond the last peer slot in use are not looked at.
        self.dirty_words = self.dirty_words.max(peer_slot / 64 + 1);
    }
}

#[cfg(test)]
mod tests;
