//! Open lines: processes that are called by their addresses, or come by themselves.
//!
//! This file has the table of seats, [`meeting`] the handshake of two processes, [`newcomers`] the decision about
//! processes that connect by themselves, [`leaving`] the release of a seat. The protocol, and why it always ends, is in
//! `docs/wire.md`, section 1.

mod leaving;
mod meeting;
mod newcomers;

use crate::line::ShmFabric;
use crate::pair::PeerLink;
use crate::socket::{Address, Callers, Hello, Link, Malformed, Peer};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use taffrail_fabric::PeerId;

/// Why a process cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The line is that of a closed job, which nobody can be added to.
    #[error("this line is that of a closed job; only an open one can call others (Config.open)")]
    Closed,
    /// This is no address.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is no seat left.
    #[error(
        "no seat for {address}: all {seats} seats are taken, {gone} of them by processes that are gone; \
         open with more seats, or forget those who are gone"
    )]
    Full {
        /// The address that was called.
        address: String,
        /// How many seats there are, the own among them.
        seats: usize,
        /// How many of them are those of processes that have failed or closed their line.
        gone: usize,
    },
}

/// The seats of an open line.
pub(crate) struct Seats {
    callers: Callers,
    /// Sent to every peer, with the seat that the peer has here.
    hello: Hello,
    /// Our outbox, as peers may have it.
    outbox: OwnedFd,
    patience: Duration,
    seats: Vec<Seat>,
    /// Seats with a handshake under way.
    under_way: Vec<usize>,
    /// Seats that are to become free.
    leaving: Vec<usize>,
    /// Processes that have sent HELLO, and have no seat yet.
    waiting: Vec<Newcomer>,
    /// Counts polls, to advance calls only every few polls.
    polls: u32,
    /// A process was refused because no seat is left: this is logged once.
    is_full_said: bool,
}

/// State of a seat.
enum Seat {
    /// This process itself.
    Own,
    /// Of no process.
    Vacant,
    /// Of a peer with which a handshake is under way.
    Meeting(Call),
    /// Of a peer that is connected, or was called and has failed. `left` is the connection of a failed call: over it
    /// the peer may still have completed the handshake.
    Taken { address: Address, left: Option<Link> },
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
struct Newcomer {
    peer: Peer,
    /// It is the process that listens at the address it says.
    is_genuine: bool,
}

impl Seats {
    pub(crate) fn new(callers: Callers, hello: Hello, outbox: OwnedFd, patience: Duration) -> Self {
        let seat = |seat| if seat == hello.rank { Seat::Own } else { Seat::Vacant };
        Seats {
            callers,
            hello,
            outbox,
            patience,
            seats: (0..hello.ranks).map(seat).collect(),
            under_way: Vec::new(),
            leaving: Vec::new(),
            waiting: Vec::new(),
            polls: 0,
            is_full_said: false,
        }
    }

    /// The seat of the process that listens at an address.
    fn find(&self, address: &Address) -> Option<usize> {
        self.seats.iter().position(|seat| match seat {
            Seat::Own => self.hello.address == *address,
            Seat::Meeting(call) => call.address == *address,
            Seat::Taken { address: of, .. } => of == address,
            Seat::Vacant | Seat::Leaving { .. } => false,
        })
    }

    fn vacant(&self) -> Option<usize> {
        self.seats.iter().position(|seat| matches!(seat, Seat::Vacant))
    }
}

impl ShmFabric {
    /// Where others find this process.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// Where a peer of an open line listens; `None` for a seat that nobody has, and in closed lines.
    pub fn address_of(&self, peer: PeerId) -> Option<&str> {
        let seats = self.seats.as_ref()?;
        match seats.seats.get(peer.index())? {
            Seat::Own => Some(self.address()),
            Seat::Meeting(call) => Some(call.address.as_str()),
            Seat::Taken { address, .. } => Some(address.as_str()),
            Seat::Vacant | Seat::Leaving { .. } => None,
        }
    }

    /// Whether a peer was met, and still takes messages.
    pub fn is_met(&self, peer: PeerId) -> bool {
        self.pairs[peer.index()].open
    }

    /// Gives the process that listens at `address` a seat, if it has none yet, and begins to connect
    /// with it. Does not block: until they have met, sends to it are
    /// [`Busy`](taffrail_fabric::Refused::Busy), and if it cannot be reached,
    /// [`link`](taffrail_fabric::Sink::link) reports it as broken with
    /// [`Unreachable`](taffrail_fabric::Fault::Unreachable) or whatever else became of it. The same
    /// address has the same seat until it is [forgotten](Self::forget), also of a process that came by
    /// itself, or has failed. Its own address gives its own seat.
    ///
    /// # Errors
    /// [`CallError`], saying what there was and what to do.
    pub fn call(&mut self, address: &str) -> Result<PeerId, CallError> {
        let Some(mut seats) = self.seats.take() else { return Err(CallError::Closed) };
        let seat = self.seat_for(&mut seats, address);
        self.seats = Some(seats);
        if let Ok(peer) = seat {
            // An error is reported by a later poll, as the end of the link.
            self.meet_some(|seat| seat == peer.index());
        }
        seat
    }

    fn seat_for(&mut self, seats: &mut Seats, address: &str) -> Result<PeerId, CallError> {
        let address = Address::parse(address.as_bytes())?;
        let seat = if let Some(seat) = seats.find(&address) {
            seat
        } else {
            self.reclaim(seats);
            let Some(seat) = seats.vacant() else {
                let gone = |pair: &&PeerLink| !pair.open && !pair.is_awaited();
                return Err(CallError::Full {
                    address: address.to_string(),
                    seats: seats.seats.len(),
                    gone: self.pairs.iter().filter(gone).count(),
                });
            };
            let call = Call { address, since: Instant::now(), stage: Stage::ToConnect };
            self.occupy(seats, seat, call);
            seat
        };
        let peer = PeerId(seat as u32);
        if matches!(seats.seats[seat], Seat::Meeting(_)) && !self.pairs[seat].is_awaited() {
            self.pairs[seat].cold.fault = None;
            self.failed_peers.push(peer);
        }
        Ok(peer)
    }

    /// Somebody has a seat from now on.
    fn occupy(&mut self, seats: &mut Seats, seat: usize, call: Call) {
        seats.seats[seat] = Seat::Meeting(call);
        if !seats.under_way.contains(&seat) {
            seats.under_way.push(seat);
        }
        // Rings beyond the last seat in use are not looked at.
        self.dirty_words = self.dirty_words.max(seat / 64 + 1);
    }
}

#[cfg(test)]
mod tests;
