//! The handshake of two processes with open lines, in steps that never wait.

use super::{Call, Seat, Seats, Stage};
use crate::layout::Layout;
use crate::line::ShmFabric;
use crate::pair::{Mailbox, PeerLink};
use crate::setup::Seating;
use crate::socket::{Address, DialError, Hello, Link, LinkError, Malformed, Offer, Peer};
use crate::socket::{dial, hear};
use std::os::fd::AsFd;
use taffrail_fabric::{Fault, PeerId};

/// Polls between two steps of the calls under way. Every check makes a step, too.
const POLLS: u32 = 16;

impl ShmFabric {
    /// Accepts connections, and advances every handshake. Returns the number of events.
    pub(crate) fn meet(&mut self) -> usize {
        let Some(mut seats) = self.seats.take() else { return 0 };
        self.reclaim(&mut seats);
        seats.listen(&self.watch);
        self.seats = Some(seats);
        let mut events = self.welcome();
        events += self.meet_some(|_| true);
        events
    }

    /// As [`meet`](Self::meet), now and then: for every poll while there is a call.
    #[cold]
    pub(crate) fn meet_soon(&mut self) -> usize {
        let Some(seats) = &mut self.seats else { return 0 };
        seats.polls = seats.polls.wrapping_add(1);
        if seats.polls.is_multiple_of(POLLS) { self.meet() } else { 0 }
    }

    /// Advances the handshakes of some seats as far as possible.
    pub(super) fn meet_some(&mut self, which: impl Fn(usize) -> bool) -> usize {
        let Some(seats) = &mut self.seats else { return 0 };
        let under_way = std::mem::take(&mut seats.under_way);
        let mut events = 0;
        for seat in under_way {
            while which(seat) && self.advance(seat) {
                events += 1;
            }
            if let Some(seats) = &mut self.seats
                && matches!(seats.seats[seat], Seat::Meeting(_))
            {
                seats.under_way.push(seat);
            }
        }
        events
    }

    /// Takes the next step with the holder of a seat. Whether there was one to take.
    pub(super) fn advance(&mut self, seat: usize) -> bool {
        let Some(mut seats) = self.seats.take() else { return false };
        let is_meeting = matches!(seats.seats[seat], Seat::Meeting(_));
        if is_meeting
            && let Seat::Meeting(call) = std::mem::replace(&mut seats.seats[seat], Seat::Vacant)
        {
            let stage = std::mem::discriminant(&call.stage);
            seats.seats[seat] = self.step(&seats, seat, call);
            let advanced = matches!(&seats.seats[seat], Seat::Meeting(call)
                                   if std::mem::discriminant(&call.stage) != stage);
            let has_ended = !matches!(seats.seats[seat], Seat::Meeting(_));
            self.seats = Some(seats);
            return advanced || has_ended;
        }
        self.seats = Some(seats);
        false
    }

    /// One step of a call, or of an answer: what the seat is then.
    fn step(&mut self, seats: &Seats, seat: usize, call: Call) -> Seat {
        let Call { address, since, stage } = call;
        let rank = seat as u32;
        let stage = match stage {
            Stage::ToConnect => match dial(address.as_str()) {
                Ok(None) => Stage::ToConnect,
                Ok(Some(link)) => match self.watch.add(rank, &link) {
                    Ok(()) => Stage::ToGreet(link),
                    Err(error) => {
                        let fault = Fault::Os { call: "epoll", errno: error.to_string() };
                        return self.fail(seat, address, fault, None);
                    }
                },
                Err(error) => {
                    return self.fail(seat, address, unreachable(address, error), None);
                }
            },
            Stage::ToGreet(link) => match seats.say_hello(self, seat, &link) {
                Ok(()) => Stage::Greeted(link),
                Err(LinkError::Full) => Stage::ToGreet(link),
                Err(error) => {
                    let fault = self.left(seat, address, error);
                    return self.fail(seat, address, fault, Some(link));
                }
            },
            Stage::Greeted(link) => match hear(&seats.hello, link) {
                Ok(Ok(peer)) => return self.answered(seats, seat, address, peer),
                Ok(Err(silent)) => Stage::Greeted(silent),
                Err((error, link)) => {
                    let fault = self.left(seat, address, error);
                    return self.fail(seat, address, fault, Some(link));
                }
            },
            Stage::ToAnswer(pair, own) => {
                let said = match &pair.cold.mapped {
                    Some(maps) => seats.say_hello(self, seat, &maps.link),
                    None => Err(LinkError::Closed),
                };
                match said {
                    Ok(()) => {
                        self.install(seat, *pair);
                        return Seat::Taken { address, left: None };
                    }
                    Err(LinkError::Full) => Stage::ToAnswer(pair, own),
                    Err(error) => return self.unanswered(seat, address, *pair, error),
                }
            }
        };
        if since.elapsed() < seats.patience {
            return Seat::Meeting(Call { address, since, stage });
        }
        let fault = Fault::Unreachable {
            address: address.to_string(),
            why: format!(
                "it did not answer within {:?}; look whether it makes progress",
                seats.patience
            ),
        };
        match stage {
            Stage::ToConnect => self.fail(seat, address, fault, None),
            Stage::ToGreet(link) | Stage::Greeted(link) => {
                self.fail(seat, address, fault, Some(link))
            }
            Stage::ToAnswer(pair, _) => self.unanswered(seat, address, *pair, LinkError::Full),
        }
    }

    /// Connects a process that has answered our call.
    fn answered(&mut self, seats: &Seats, seat: usize, address: Address, peer: Peer) -> Seat {
        if peer.hello.address != address {
            let fault = Malformed {
                place: "HELLO, address",
                expected: address.to_string(),
                got: peer.hello.address.to_string(),
            };
            return self.fail(seat, address, fault.into(), Some(peer.link));
        }
        match self.home(seats.hello.fenced).pair(seating(seats, seat, &peer.hello), peer) {
            Ok(pair) => {
                self.install(seat, pair);
                Seat::Taken { address, left: None }
            }
            Err((error, link)) => self.fail(seat, address, error.into(), Some(link)),
        }
    }

    /// A peer is connected, and its ring is polled from now on.
    fn install(&mut self, seat: usize, pair: PeerLink) {
        let peer = PeerId(seat as u32);
        self.failed_peers.retain(|&of| of != peer);
        self.pairs[seat] = pair;
        if self.has_hot_place() {
            self.heat_up(peer);
        } else {
            // The peer may have written already, and set its bit before this process polled it.
            self.pairs[seat].mark_dirty();
        }
    }

    /// A call has failed.
    pub(super) fn fail(
        &mut self,
        seat: usize,
        address: Address,
        fault: Fault,
        left: Option<Link>,
    ) -> Seat {
        if let Some(link) = &left {
            self.watch.remove(seat as u32, link);
            link.shut();
        }
        // The next poll reports the end of the link: a called peer is in `failed_peers`.
        self.pairs[seat].cold.fault = Some(fault);
        Seat::Taken { address, left }
    }

    /// A process that has connected by itself has left before our answer. No event reports it, unless we have
    /// called it as well.
    fn unanswered(
        &mut self,
        seat: usize,
        address: Address,
        pair: PeerLink,
        why: LinkError,
    ) -> Seat {
        tracing::debug!(%address, %why, "a process that has connected was not answered");
        let fault = self.pairs[seat].is_awaited().then(|| self.left(seat, address, why));
        if let Some(maps) = &pair.cold.mapped {
            self.watch.remove(seat as u32, &maps.link);
        }
        match fault {
            Some(fault) => self.fail(seat, address, fault, None),
            None => Seat::Vacant,
        }
    }

    /// The fault of a process that has closed its connection during the handshake.
    fn left(&self, seat: usize, address: Address, error: LinkError) -> Fault {
        match error {
            LinkError::Closed if self.watch.has_ended(seat as u32) => Fault::Died,
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
        let mut events = self.meet_some(|seat| seat == peer.index());
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
        let Some(mut seats) = self.seats.take() else { return };
        let seat = &mut seats.seats[peer.index()];
        if let Seat::Meeting(_) = seat
            && let Seat::Meeting(call) = std::mem::replace(seat, Seat::Vacant)
        {
            let left = self.drop_call(peer.index(), call.stage);
            let address = call.address;
            seats.seats[peer.index()] = self.fail(peer.index(), address, fault, left);
        }
        self.seats = Some(seats);
    }

    /// Gives a call up. What is left of it, if the other may answer.
    pub(super) fn drop_call(&mut self, seat: usize, stage: Stage) -> Option<Link> {
        match stage {
            Stage::ToConnect => None,
            Stage::ToGreet(link) => {
                self.watch.remove(seat as u32, &link);
                None
            }
            Stage::Greeted(link) => {
                self.watch.remove(seat as u32, &link);
                Some(link)
            }
            Stage::ToAnswer(pair, _) => {
                if let Some(maps) = &pair.cold.mapped {
                    self.watch.remove(seat as u32, &maps.link);
                }
                None
            }
        }
    }
}

impl Seats {
    /// Sends HELLO with the descriptors that a peer needs.
    pub(super) fn say_hello(
        &self,
        line: &ShmFabric,
        seat: usize,
        link: &Link,
    ) -> Result<(), LinkError> {
        let offer = Offer {
            hello: Hello { seat: seat as u32, ..self.hello },
            inbox: line.inbox.fd(),
            outbox: self.outbox.as_fd(),
            doorbell: line.doorbell.as_fd(),
        };
        offer.say_hello(link)
    }
}

/// The places of both sides in the memory of the other. Each side learns its seat from the HELLO of the other.
pub(super) fn seating(seats: &Seats, seat: usize, hello: &Hello) -> Seating {
    let we_are_lower = seats.hello.address < hello.address;
    Seating {
        theirs: seat,
        mine: hello.seat as usize,
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
