//! Processes that connect to an open job by themselves: their check, and the peer slots that they get.

use super::handshake::slot_pair;
use super::{Call, Incoming, PeerSlot, PeerSlots, Stage};
use crate::liveness::Watch;
use crate::shm_fabric::ShmFabric;
use crate::socket::{Address, Came, DialError, Peer, dial};
use std::os::fd::AsFd;
use std::time::Instant;
use taffrail_fabric::Fault;

/// Incoming connections that may wait for a peer slot at once, beside one for each peer slot.
const STRANGERS: usize = 64;

/// What to do with an incoming connection.
enum Verdict {
    /// It has this peer slot.
    Accept(usize),
    /// It can be answered later.
    Wait,
    /// It has hung up.
    Gone,
    /// It is not wanted, for this reason.
    Refuse(String),
}

impl ShmFabric {
    /// Gives peer slots to incoming connections. Returns to how many.
    pub(super) fn welcome(&mut self) -> usize {
        let Some(mut peer_slots) = self.peer_slots.take() else { return 0 };
        let mut accepted = 0;
        for mut incoming in std::mem::take(&mut peer_slots.waiting) {
            match peer_slots.judge(&mut incoming) {
                Verdict::Accept(peer_slot) => {
                    accepted += self.accept_at(&mut peer_slots, peer_slot, incoming.peer)
                }
                Verdict::Wait => peer_slots.waiting.push(incoming),
                Verdict::Gone => {}
                Verdict::Refuse(why) => {
                    peer_slots.callers.refuse(incoming.peer.pid, &why, &mut Came::default());
                }
            }
        }
        let most = peer_slots.slots.len() + STRANGERS;
        while peer_slots.waiting.len() > most {
            let oldest = peer_slots.waiting.remove(0);
            let why = "it waits for the end of an earlier connection, and too many others do";
            peer_slots.callers.refuse(oldest.peer.pid, why, &mut Came::default());
        }
        self.peer_slots = Some(peer_slots);
        accepted
    }

    /// Gives an incoming connection a peer slot, which is free or that of our call to it. Whether it has it.
    fn accept_at(&mut self, peer_slots: &mut PeerSlots, peer_slot: usize, peer: Peer) -> usize {
        let (hello, pid) = (peer.hello, peer.pid);
        let refuse = |why: String| peer_slots.callers.refuse(pid, &why, &mut Came::default());
        let pair = match self
            .home(peer_slots.hello.fenced)
            .pair(slot_pair(peer_slots, peer_slot, &hello), peer)
        {
            Ok(pair) => pair,
            Err((error, _)) => {
                refuse(error.to_string());
                return 0;
            }
        };
        // Our own call is only kept waiting there.
        let old = std::mem::replace(&mut peer_slots.slots[peer_slot], PeerSlot::Free);
        let (since, own) = match old {
            PeerSlot::Handshake(call) => (call.since, self.drop_call(peer_slot, call.stage)),
            _ => (Instant::now(), None),
        };
        let watched = match &pair.cold.mapped {
            Some(maps) => self.watch.add(peer_slot as u32, &maps.link),
            None => Ok(()),
        };
        let address = hello.address;
        if let Err(error) = watched {
            refuse(error.to_string());
            if self.pairs[peer_slot].is_awaited() {
                let fault = Fault::Os { call: "epoll", errno: error.to_string() };
                peer_slots.slots[peer_slot] = self.fail(peer_slot, address, fault, None);
            }
            return 0;
        }
        let stage = Stage::ToAnswer(Box::new(pair), own);
        self.occupy(peer_slots, peer_slot, Call { address, since, stage });
        1
    }
}

impl PeerSlots {
    /// Accepts connections, and queues the processes that have sent HELLO.
    pub(super) fn listen(&mut self, watch: &Watch) {
        let mut came = Came::default();
        if let Err(error) = self.callers.hear(&self.hello, &mut came) {
            tracing::warn!(%error, "could not accept connections");
        }
        for silent in self.callers.unknown() {
            if let Err(error) = watch.have_own(silent) {
                tracing::warn!(%error, "a new connection is polled only now and then");
            }
        }
        for peer in came.peers {
            watch.remove_own(peer.link.as_fd());
            self.waiting.push(Incoming { peer, is_genuine: false });
        }
    }

    /// Decides about a process that has sent HELLO (`docs/wire.md`, "Crossing calls").
    fn judge(&mut self, incoming: &mut Incoming) -> Verdict {
        let address = incoming.peer.hello.address;
        if incoming.peer.link.is_closed() {
            return Verdict::Gone;
        }
        if !incoming.is_genuine {
            match who_listens(&address) {
                Ok(None) => return Verdict::Wait,
                Ok(Some(pid)) if pid == incoming.peer.pid => incoming.is_genuine = true,
                Ok(Some(pid)) => {
                    return Verdict::Refuse(format!(
                        "at its address {address} listens process {pid}"
                    ));
                }
                Err(error) => {
                    return Verdict::Refuse(format!("at its address {address}: {error}"));
                }
            }
        }
        match self.find(&address) {
            Some(peer_slot) => match &self.slots[peer_slot] {
                // Two call each other: the lower one's call is answered.
                PeerSlot::Handshake(call) if !matches!(call.stage, Stage::ToAnswer(..)) => {
                    match address < self.hello.address {
                        true => Verdict::Accept(peer_slot),
                        false => Verdict::Wait,
                    }
                }
                PeerSlot::Own => Verdict::Refuse(format!("its address {address} is our own")),
                // Of a connection before, which is not forgotten yet.
                _ => Verdict::Wait,
            },
            None => match self.first_free() {
                Some(peer_slot) => Verdict::Accept(peer_slot),
                None => self.full(),
            },
        }
    }

    /// The decision when no peer slot is left. The reason is logged once.
    fn full(&mut self) -> Verdict {
        if std::mem::replace(&mut self.is_full_said, true) {
            return Verdict::Gone;
        }
        Verdict::Refuse(format!(
            "all {} peer slots are taken; open with more peer slots, or forget those who are gone",
            self.slots.len()
        ))
    }
}

/// The process that listens at an address, 0 if it is not visible from here; `None`: ask again.
fn who_listens(address: &Address) -> Result<Option<i32>, DialError> {
    Ok(dial(address.as_str())?.map(|link| link.pid()))
}
