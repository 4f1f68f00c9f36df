//! Processes that connect to an open line by themselves: their check, and the seats that they get.

use super::meeting::seating;
use super::{Call, Newcomer, Seat, Seats, Stage};
use crate::line::ShmFabric;
use crate::liveness::Watch;
use crate::socket::{Address, Came, DialError, Peer, dial};
use std::os::fd::AsFd;
use std::time::Instant;
use taffrail_fabric::Fault;

/// Newcomers that may wait for a seat at once, beside one for each seat.
const STRANGERS: usize = 64;

/// What to do with a newcomer.
enum Verdict {
    /// It has this seat.
    Seat(usize),
    /// It can be answered later.
    Wait,
    /// It has hung up.
    Gone,
    /// It is not wanted, for this reason.
    Refuse(String),
}

impl ShmFabric {
    /// Gives seats to newcomers. Returns to how many.
    pub(super) fn welcome(&mut self) -> usize {
        let Some(mut seats) = self.seats.take() else { return 0 };
        let mut seated = 0;
        for mut newcomer in std::mem::take(&mut seats.waiting) {
            match seats.judge(&mut newcomer) {
                Verdict::Seat(seat) => seated += self.seat(&mut seats, seat, newcomer.peer),
                Verdict::Wait => seats.waiting.push(newcomer),
                Verdict::Gone => {}
                Verdict::Refuse(why) => {
                    seats.callers.refuse(newcomer.peer.pid, &why, &mut Came::default());
                }
            }
        }
        let most = seats.seats.len() + STRANGERS;
        while seats.waiting.len() > most {
            let oldest = seats.waiting.remove(0);
            let why = "it waits for the end of an earlier connection, and too many others do";
            seats.callers.refuse(oldest.peer.pid, why, &mut Came::default());
        }
        self.seats = Some(seats);
        seated
    }

    /// Gives a newcomer a seat, which is vacant or that of our call to it. Whether it has it.
    fn seat(&mut self, seats: &mut Seats, seat: usize, peer: Peer) -> usize {
        let (hello, pid) = (peer.hello, peer.pid);
        let refuse = |why: String| seats.callers.refuse(pid, &why, &mut Came::default());
        let pair = match self.home(seats.hello.fenced).pair(seating(seats, seat, &hello), peer) {
            Ok(pair) => pair,
            Err((error, _)) => {
                refuse(error.to_string());
                return 0;
            }
        };
        // Our own call is only kept waiting there.
        let old = std::mem::replace(&mut seats.seats[seat], Seat::Vacant);
        let (since, own) = match old {
            Seat::Meeting(call) => (call.since, self.drop_call(seat, call.stage)),
            _ => (Instant::now(), None),
        };
        let watched = match &pair.cold.mapped {
            Some(maps) => self.watch.add(seat as u32, &maps.link),
            None => Ok(()),
        };
        let address = hello.address;
        if let Err(error) = watched {
            refuse(error.to_string());
            if self.pairs[seat].is_awaited() {
                let fault = Fault::Os { call: "epoll", errno: error.to_string() };
                seats.seats[seat] = self.fail(seat, address, fault, None);
            }
            return 0;
        }
        let stage = Stage::ToAnswer(Box::new(pair), own);
        self.occupy(seats, seat, Call { address, since, stage });
        1
    }
}

impl Seats {
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
            self.waiting.push(Newcomer { peer, is_genuine: false });
        }
    }

    /// Decides about a process that has sent HELLO (`docs/wire.md`, "Crossing calls").
    fn judge(&mut self, newcomer: &mut Newcomer) -> Verdict {
        let address = newcomer.peer.hello.address;
        if newcomer.peer.link.is_closed() {
            return Verdict::Gone;
        }
        if !newcomer.is_genuine {
            match who_listens(&address) {
                Ok(None) => return Verdict::Wait,
                Ok(Some(pid)) if pid == newcomer.peer.pid => newcomer.is_genuine = true,
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
            Some(seat) => match &self.seats[seat] {
                // Two call each other: the lower one's call is answered.
                Seat::Meeting(call) if !matches!(call.stage, Stage::ToAnswer(..)) => {
                    match address < self.hello.address {
                        true => Verdict::Seat(seat),
                        false => Verdict::Wait,
                    }
                }
                Seat::Own => Verdict::Refuse(format!("its address {address} is our own")),
                // Of a connection before, which is not forgotten yet.
                _ => Verdict::Wait,
            },
            None => match self.vacant() {
                Some(seat) => Verdict::Seat(seat),
                None => self.full(),
            },
        }
    }

    /// The decision when no seat is left. The reason is logged once.
    fn full(&mut self) -> Verdict {
        if std::mem::replace(&mut self.is_full_said, true) {
            return Verdict::Gone;
        }
        Verdict::Refuse(format!(
            "all {} seats are taken; open with more seats, or forget those who are gone",
            self.seats.len()
        ))
    }
}

/// The process that listens at an address, 0 if it is not visible from here; `None`: ask again.
fn who_listens(address: &Address) -> Result<Option<i32>, DialError> {
    Ok(dial(address.as_str())?.map(|link| link.pid()))
}
