//! The handshake of two processes of open jobs, in steps that never wait.

use super::{Call, PeerSlot, PeerSlots, Stage};
use crate::layout::Layout;
use crate::pair::{Mailbox, PeerLink};
use crate::setup::SlotPair;
use crate::shm_fabric::ShmFabric;
use crate::socket::{Address, DialError, Hello, Link, LinkError, Malformed, Offer, Peer};
use crate::socket::{dial, hear};
use std::os::fd::AsFd;
use taffrail_fabric::{Fault, PeerId};

/// Polls between two steps of the calls under way. Every check makes a step, too.
const POLLS: u32 = 16;

impl ShmFabric {
    /// Accepts connections, and advances every handshake. Returns the number of events.
    pub(crate) fn meet(&mut self) -> usize {
        let Some(mut peer_slots) = self.peer_slots.take() else { return 0 };
        self.reclaim(&mut peer_slots);
        peer_slots.listen(&self.watch);
        self.peer_slots = Some(peer_slots);
        let mut events = self.welcome();
        events += self.meet_some(|_| true);
        events
    }

    /// As [`meet`](Self::meet), now and then: for every poll while there is a call.
    #[cold]
    pub(crate) fn meet_soon(&mut self) -> usize {
        let Some(peer_slots) = &mut self.peer_slots else { return 0 };
        peer_slots.polls = peer_slots.polls.wrapping_add(1);
        if peer_slots.polls.is_multiple_of(POLLS) { self.meet() } else { 0 }
    }

    /// Advances the handshakes of some peer slots as far as possible.
    pub(super) fn meet_some(&mut self, which: impl Fn(usize) -> bool) -> usize {
        let Some(peer_slots) = &mut self.peer_slots else { return 0 };
        let under_way = std::mem::take(&mut peer_slots.under_way);
        let mut events = 0;
        for peer_slot in under_way {
            while which(peer_slot) && self.advance(peer_slot) {
                events += 1;
            }
            if let Some(peer_slots) = &mut self.peer_slots
                && matches!(peer_slots.slots[peer_slot], PeerSlot::Handshake(_))
            {
                peer_slots.under_way.push(peer_slot);
            }
        }
        events
    }

    /// Takes the next step with the holder of a peer slot. Whether there was one to take.
    pub(super) fn advance(&mut self, peer_slot: usize) -> bool {
        let Some(mut peer_slots) = self.peer_slots.take() else { return false };
        let is_meeting = matches!(peer_slots.slots[peer_slot], PeerSlot::Handshake(_));
        if is_meeting
            && let PeerSlot::Handshake(call) =
                std::mem::replace(&mut peer_slots.slots[peer_slot], PeerSlot::Free)
        {
            let stage = std::mem::discriminant(&call.stage);
            peer_slots.slots[peer_slot] = self.step(&peer_slots, peer_slot, call);
            let advanced = matches!(&peer_slots.slots[peer_slot], PeerSlot::Handshake(call)
                                   if std::mem::discriminant(&call.stage) != stage);
            let has_ended = !matches!(peer_slots.slots[peer_slot], PeerSlot::Handshake(_));
            self.peer_slots = Some(peer_slots);
            return advanced || has_ended;
        }
        self.peer_slots = Some(peer_slots);
        false
    }

    /// One step of a call, or of an answer: what the peer slot is then.
    fn step(&mut self, peer_slots: &PeerSlots, peer_slot: usize, call: Call) -> PeerSlot {
        let Call { address, since, stage } = call;
        let rank = peer_slot as u32;
        let stage = match stage {
            Stage::ToConnect => match dial(address.as_str()) {
                Ok(None) => Stage::ToConnect,
                Ok(Some(link)) => match self.watch.add(rank, &link) {
                    Ok(()) => Stage::ToGreet(link),
                    Err(error) => {
                        let fault = Fault::Os { call: "epoll", errno: error.to_string() };
                        return self.fail(peer_slot, address, fault, None);
                    }
                },
                Err(error) => {
                    return self.fail(peer_slot, address, unreachable(address, error), None);
                }
            },
            Stage::ToGreet(link) => match peer_slots.say_hello(self, peer_slot, &link) {
                Ok(()) => Stage::Greeted(link),
                Err(LinkError::Full) => Stage::ToGreet(link),
                Err(error) => {
                    let fault = self.left(peer_slot, address, error);
                    return self.fail(peer_slot, address, fault, Some(link));
                }
            },
            Stage::Greeted(link) => match hear(&peer_slots.hello, link) {
                Ok(Ok(peer)) => return self.answered(peer_slots, peer_slot, address, peer),
                Ok(Err(silent)) => Stage::Greeted(silent),
                Err((error, link)) => {
                    let fault = self.left(peer_slot, address, error);
                    return self.fail(peer_slot, address, fault, Some(link));
                }
            },
            Stage::ToAnswer(pair, own) => {
                let said = match &pair.cold.mapped {
                    Some(maps) => peer_slots.say_hello(self, peer_slot, &maps.link),
                    None => Err(LinkError::Closed),
                };
                match said {
                    Ok(()) => {
                        self.install(peer_slot, *pair);
                        return PeerSlot::Connected { address, left: None };
                    }
                    Err(LinkError::Full) => Stage::ToAnswer(pair, own),
                    Err(error) => return self.unanswered(peer_slot, address, *pair, error),
                }
            }
        };
        if since.elapsed() < peer_slots.patience {
            return PeerSlot::Handshake(Call { address, since, stage });
        }
        let fault = Fault::Unreachable {
            address: address.to_string(),
            why: format!(
                "it did not answer within {:?}; look whether it makes progress",
                peer_slots.patience
            ),
        };
        match stage {
            Stage::ToConnect => self.fail(peer_slot, address, fault, None),
            Stage::ToGreet(link) | Stage::Greeted(link) => {
                self.fail(peer_slot, address, fault, Some(link))
            }
            Stage::ToAnswer(pair, _) => self.unanswered(peer_slot, address, *pair, LinkError::Full),
        }
    }

    /// Connects a process that has answered our call.
    fn answered(
        &mut self,
        peer_slots: &PeerSlots,
        peer_slot: usize,
        address: Address,
        peer: Peer,
    ) -> PeerSlot {
        if peer.hello.address != address {
            let fault = Malformed {
                place: "HELLO, address",
                expected: address.to_string(),
                got: peer.hello.address.to_string(),
            };
            return self.fail(peer_slot, address, fault.into(), Some(peer.link));
        }
        match self
            .home(peer_slots.hello.fenced)
            .pair(slot_pair(peer_slots, peer_slot, &peer.hello), peer)
        {
            Ok(pair) => {
                self.install(peer_slot, pair);
                PeerSlot::Connected { address, left: None }
            }
            Err((error, link)) => self.fail(peer_slot, address, error.into(), Some(link)),
        }
    }

    /// A peer is connected, and its ring is polled from now on.
    fn install(&mut self, peer_slot: usize, pair: PeerLink) {
        let peer = PeerId(peer_slot as u32);
        self.failed_peers.retain(|&of| of != peer);
        self.pairs[peer_slot] = pair;
        if self.has_hot_place() {
            self.heat_up(peer);
        } else {
            // The peer may have written already, and set its bit before this process polled it.
            self.pairs[peer_slot].mark_dirty();
        }
    }

    /// A call has failed.
    pub(super) fn fail(
        &mut self,
        peer_slot: usize,
        address: Address,
        fault: Fault,
        left: Option<Link>,
    ) -> PeerSlot {
        if let Some(link) = &left {
            self.watch.remove(peer_slot as u32, link);
            link.shut();
        }
        // The next poll reports the end of the link: a called peer is in `failed_peers`.
        self.pairs[peer_slot].cold.fault = Some(fault);
        PeerSlot::Connected { address, left }
    }

    /// A process that has connected by itself has left before our answer. No event reports it, unless we have
    /// called it as well.
    fn unanswered(
        &mut self,
        peer_slot: usize,
        address: Address,
        pair: PeerLink,
        why: LinkError,
    ) -> PeerSlot {
        tracing::debug!(%address, %why, "a process that has connected was not answered");
        let fault = self.pairs[peer_slot].is_awaited().then(|| self.left(peer_slot, address, why));
        if let Some(maps) = &pair.cold.mapped {
            self.watch.remove(peer_slot as u32, &maps.link);
        }
        match fault {
            Some(fault) => self.fail(peer_slot, address, fault, None),
            None => PeerSlot::Free,
        }
    }

    /// The fault of a process that has closed its connection during the handshake.
    fn left(&self, peer_slot: usize, address: Address, error: LinkError) -> Fault {
        match error {
            LinkError::Closed if self.watch.has_ended(peer_slot as u32) => Fault::Died,
            LinkError::Closed => {
                Fault::Unreachable { address: address.to_string(), why: HUNG_UP.into() }
            }
            other => other.into(),
        }
    }

    /// The connection of a call, or its process, has ended.
    #[cold]
    pub(crate) fn call_ended(&mut self, peer: PeerId) -> usize {
        // It may have answered before.
        let mut events = self.meet_some(|peer_slot| peer_slot == peer.index());
        if self.pairs[peer.index()].is_awaited() {
            let fault = if self.watch.has_ended(peer.0) {
                Fault::Died
            } else {
                let address = self.address_of(peer).unwrap_or_default().to_owned();
                Fault::Unreachable { address, why: HUNG_UP.into() }
            };
            self.hang_up(peer, fault);
            events += 1;
        }
        events
    }

    /// Ends a call that is under way.
    #[cold]
    pub(crate) fn hang_up(&mut self, peer: PeerId, fault: Fault) {
        let Some(mut peer_slots) = self.peer_slots.take() else { return };
        let peer_slot = &mut peer_slots.slots[peer.index()];
        if let PeerSlot::Handshake(_) = peer_slot
            && let PeerSlot::Handshake(call) = std::mem::replace(peer_slot, PeerSlot::Free)
        {
            let left = self.drop_call(peer.index(), call.stage);
            let address = call.address;
            peer_slots.slots[peer.index()] = self.fail(peer.index(), address, fault, left);
        }
        self.peer_slots = Some(peer_slots);
    }

    /// Gives a call up. What is left of it, if the other may answer.
    pub(super) fn drop_call(&mut self, peer_slot: usize, stage: Stage) -> Option<Link> {
        match stage {
            Stage::ToConnect => None,
            Stage::ToGreet(link) => {
                self.watch.remove(peer_slot as u32, &link);
                None
            }
            Stage::Greeted(link) => {
                self.watch.remove(peer_slot as u32, &link);
                Some(link)
            }
            Stage::ToAnswer(pair, _) => {
                if let Some(maps) = &pair.cold.mapped {
                    self.watch.remove(peer_slot as u32, &maps.link);
                }
                None
            }
        }
    }
}

impl PeerSlots {
    /// Sends HELLO with the descriptors that a peer needs.
    pub(super) fn say_hello(
        &self,
        fabric: &ShmFabric,
        peer_slot: usize,
        link: &Link,
    ) -> Result<(), LinkError> {
        let offer = Offer {
            hello: Hello { peer_slot: peer_slot as u32, ..self.hello },
            inbox: fabric.inbox.fd(),
            outbox: self.outbox.as_fd(),
            doorbell: fabric.doorbell.as_fd(),
        };
        offer.say_hello(link)
    }
}

/// The places of both sides in the memory of the other. Each side learns its peer slot from the HELLO of the other.
pub(super) fn slot_pair(peer_slots: &PeerSlots, peer_slot: usize, hello: &Hello) -> SlotPair {
    let we_are_lower = peer_slots.hello.address < hello.address;
    SlotPair {
        theirs: peer_slot,
        mine: hello.peer_slot as usize,
        layout: Layout::new(hello.ranks),
        mailbox: if we_are_lower { Mailbox::Ours } else { Mailbox::Theirs },
    }
}

const HUNG_UP: &str =
    "it hung up instead of answering: it closed its endpoint, or its own log says why it refused";

fn unreachable(address: Address, error: DialError) -> Fault {
    let why = match error {
        DialError::Nobody => {
            "nobody listens there; look whether its process ended, and whether both \
                              run in one network namespace (containers: --network=host)"
                .into()
        }
        other => other.to_string(),
    };
    Fault::Unreachable { address: address.to_string(), why }
}
