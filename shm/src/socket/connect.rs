//! How a set of processes finds together.
//!
//! Each pair has one socket; the side that was started later connects, of two started together the
//! one with the higher rank. Nobody waits for anybody in
//! particular: all connections proceed at once in one loop, so that the order in which processes
//! start does not matter, and strangers delay nobody.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use super::packet::same;
use super::{
    Hello, Link, LinkError, Listener, Malformed, SetupError, credentials, decode_hello, new_socket,
    receive, send,
};

/// Connections of strangers that may be open at once, beside those of the peers awaited.
const STRANGERS: usize = 64;

/// Refusals that are kept for the error text.
const KEPT_REFUSALS: usize = 8;

/// What this process tells and gives every peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    /// The packet.
    pub hello: Hello,
    /// The inbox, that peers may write.
    pub inbox: BorrowedFd<'a>,
    /// The outbox, that peers may read.
    pub outbox: BorrowedFd<'a>,
    /// The doorbell (an eventfd that does not block).
    pub doorbell: BorrowedFd<'a>,
}

impl Offer<'_> {
    /// Says who this is, and gives what a peer needs.
    pub(crate) fn say_hello(&self, link: &Link) -> Result<(), LinkError> {
        let Offer { hello, inbox, outbox, doorbell } = *self;
        send(&link.socket, &hello.encode(), &[inbox, outbox, doorbell])
    }

    /// The peer at the other end of a link, or the link if nothing was said yet.
    pub(crate) fn hear(&self, link: Link) -> Result<Result<Peer, Link>, LinkError> {
        let Some((bytes, files)) = receive(&link.socket)? else { return Ok(Err(link)) };
        let hello = decode_hello(&bytes)?;
        same("HELLO, ranks", self.hello.ranks, hello.ranks)?;
        if hello.job != self.hello.job {
            return Err(LinkError::Protocol(Malformed {
                place: "HELLO, job",
                expected: format!("{:x?}", self.hello.job),
                got: format!("{:x?}", hello.job),
            }));
        }
        let [inbox, outbox, doorbell] = <[OwnedFd; 3]>::try_from(files).map_err(|files| {
            LinkError::Protocol(Malformed {
                place: "HELLO, descriptors",
                expected: "3 (inbox, outbox, doorbell)".into(),
                got: files.len().to_string(),
            })
        })?;
        check_doorbell(&doorbell)?;
        Ok(Ok(Peer { hello, pid: link.pid, inbox, outbox, doorbell, link }))
    }
}

/// A peer that was met.
#[derive(Debug)]
pub(crate) struct Peer {
    /// What it said. Its rank, number of ranks and job are right; its lengths are its claims.
    pub hello: Hello,
    /// Its process, 0 when that is not visible from here.
    pub pid: i32,
    /// Its inbox, unchecked.
    pub inbox: OwnedFd,
    /// Its outbox, unchecked.
    pub outbox: OwnedFd,
    /// Its doorbell; writing to it does not block.
    pub doorbell: OwnedFd,
    /// The connection.
    pub link: Link,
}

/// Connects this process with all others of the job, whose addresses are given in the order of
/// their ranks, and returns them in that order, `None` at its own place.
///
/// # Errors
/// [`SetupError::Missing`] after `patience`; others at once when a peer cannot be reached or does
/// not fit. Strangers that connect are refused, and harm nobody.
pub(crate) fn connect_all(
    listener: &Listener,
    offer: &Offer<'_>,
    addresses: &[String],
    generations: &[u32],
    patience: Duration,
) -> Result<Vec<Option<Peer>>, SetupError> {
    let Hello { rank, ranks, .. } = offer.hello;
    if addresses.len() != ranks as usize || rank >= ranks {
        return Err(SetupError::Addresses { rank, ranks, got: addresses.len() });
    }
    let start = Instant::now();
    let mut meeting = Meeting::new(listener, offer, addresses, generations);
    loop {
        let again_soon = meeting.advance()?;
        if meeting.is_complete() {
            return Ok(meeting.into_peers());
        }
        let left = patience.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(meeting.missing(patience));
        }
        meeting.wait(if again_soon { left.min(Duration::from_millis(1)) } else { left })?;
    }
}

/// How far things are with one peer.
enum Place {
    /// Our own.
    Own,
    /// To be connected to.
    ToConnect,
    /// Does not know us yet.
    ToGreet(Link),
    /// Knows us, and has not answered.
    Greeted(Link),
    /// Is to come, and has not.
    Awaited,
    /// Came, and waits for our answer.
    ToAnswer(Peer),
    /// Done.
    Met(Peer),
}

struct Meeting<'a> {
    listener: &'a Listener,
    offer: &'a Offer<'a>,
    addresses: &'a [String],
    places: Vec<Place>,
    /// Connections of the same user that have not said who they are.
    unknown: Vec<Link>,
    refused: Vec<String>,
}

impl<'a> Meeting<'a> {
    fn new(
        listener: &'a Listener,
        offer: &'a Offer<'a>,
        addresses: &'a [String],
        generations: &[u32],
    ) -> Self {
        // Whoever was started later connects; of those started together, the higher rank.
        let age = |rank: u32| (generations.get(rank as usize).copied().unwrap_or(0), rank);
        let me = age(offer.hello.rank);
        let place = |rank: u32| match age(rank).cmp(&me) {
            std::cmp::Ordering::Less => Place::ToConnect,
            std::cmp::Ordering::Equal => Place::Own,
            std::cmp::Ordering::Greater => Place::Awaited,
        };
        Meeting {
            listener,
            offer,
            addresses,
            places: (0..offer.hello.ranks).map(place).collect(),
            unknown: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Does whatever can be done now. Returns whether something must be tried again that no
    /// descriptor tells of.
    fn advance(&mut self) -> Result<bool, SetupError> {
        self.accept()?;
        self.hear_unknown()?;
        let mut again_soon = false;
        for rank in 0..self.offer.hello.ranks {
            let place = std::mem::replace(&mut self.places[rank as usize], Place::Own);
            let place = match place {
                Place::ToConnect => self.connect(rank)?,
                other => other,
            };
            let place = match place {
                Place::ToGreet(link) => self.greet(rank, link)?,
                other => other,
            };
            let place = match place {
                Place::Greeted(link) => self.hear_answer(rank, link)?,
                Place::ToAnswer(peer) => self.answer(rank, peer)?,
                other => other,
            };
            again_soon |=
                matches!(place, Place::ToConnect | Place::ToGreet(_) | Place::ToAnswer(_));
            self.places[rank as usize] = place;
        }
        Ok(again_soon)
    }

    fn connect(&self, rank: u32) -> Result<Place, SetupError> {
        let address = &self.addresses[rank as usize];
        let unreachable =
            |why: String| SetupError::Unreachable { rank, address: address.clone(), why };
        let name = SocketAddrUnix::new_abstract_name(address.as_bytes())
            .map_err(|errno| unreachable(errno.to_string()))?;
        let socket = new_socket()?;
        match rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &name)) {
            Ok(()) => {}
            // Its backlog is full.
            Err(Errno::AGAIN) => return Ok(Place::ToConnect),
            Err(errno) => return Err(unreachable(errno.to_string())),
        }
        let (pid, uid) = credentials(&socket)?;
        if uid != own_user() {
            return Err(unreachable(format!("it belongs to user {uid}, not {}", own_user())));
        }
        Ok(Place::ToGreet(Link { socket, pid }))
    }

    fn greet(&self, rank: u32, link: Link) -> Result<Place, SetupError> {
        match self.offer.say_hello(&link) {
            Ok(()) => Ok(Place::Greeted(link)),
            Err(LinkError::Full) => Ok(Place::ToGreet(link)),
            Err(error) => Err(setup_error(rank, error)),
        }
    }

    fn hear_answer(&self, rank: u32, link: Link) -> Result<Place, SetupError> {
        match self.offer.hear(link) {
            Ok(Ok(peer)) => {
                same("HELLO, rank", rank, peer.hello.rank)
                    .map_err(|bad| SetupError::WrongAnswer { rank, bad })?;
                Ok(Place::Met(peer))
            }
            Ok(Err(silent)) => Ok(Place::Greeted(silent)),
            Err(error) => Err(setup_error(rank, error)),
        }
    }

    fn answer(&mut self, rank: u32, peer: Peer) -> Result<Place, SetupError> {
        match self.offer.say_hello(&peer.link) {
            Ok(()) => Ok(Place::Met(peer)),
            Err(LinkError::Full) => Ok(Place::ToAnswer(peer)),
            Err(LinkError::Closed) => {
                self.refuse(&peer.link, &format!("rank {rank} left before it was answered"));
                Ok(Place::Awaited)
            }
            Err(error) => Err(setup_error(rank, error)),
        }
    }

    fn accept(&mut self) -> Result<(), SetupError> {
        if !self.is_awaiting() {
            return Ok(());
        }
        while let Some((link, uid)) = self.listener.accept()? {
            if uid == own_user() {
                self.unknown.push(link);
            } else {
                self.refuse(&link, &format!("it belongs to user {uid}, not {}", own_user()));
            }
            if self.unknown.len() > STRANGERS + self.places.len() {
                let oldest = self.unknown.remove(0);
                self.refuse(&oldest, "it said nothing, and too many others came");
            }
        }
        Ok(())
    }

    fn hear_unknown(&mut self) -> Result<(), SetupError> {
        for link in std::mem::take(&mut self.unknown) {
            let pid = link.pid;
            match self.offer.hear(link) {
                Ok(Ok(peer)) => self.welcome(peer),
                Ok(Err(silent)) => self.unknown.push(silent),
                Err(LinkError::Descriptors) => return Err(SetupError::descriptors()),
                Err(error) => self.note_refusal(pid, &error.to_string()),
            }
        }
        Ok(())
    }

    fn welcome(&mut self, peer: Peer) {
        let rank = peer.hello.rank;
        match &mut self.places[rank as usize] {
            place @ Place::Awaited => *place = Place::ToAnswer(peer),
            Place::ToAnswer(_) | Place::Met(_) => {
                self.refuse(&peer.link, &format!("rank {rank} is here already"));
            }
            Place::Own => self.refuse(&peer.link, &format!("rank {rank} is this process")),
            _ => self.refuse(&peer.link, &format!("rank {rank} is to wait for this one")),
        }
    }

    fn refuse(&mut self, link: &Link, why: &str) {
        self.note_refusal(link.pid, why);
    }

    fn note_refusal(&mut self, pid: i32, why: &str) {
        let address = &self.listener.address;
        tracing::warn!(pid, why, address, "refused a connection");
        if self.refused.len() < KEPT_REFUSALS {
            self.refused.push(format!("process {pid} ({why})"));
        }
    }

    fn is_awaiting(&self) -> bool {
        self.places.iter().any(|place| matches!(place, Place::Awaited))
    }

    fn is_complete(&self) -> bool {
        self.places.iter().all(|place| matches!(place, Place::Own | Place::Met(_)))
    }

    fn missing(self, waited: Duration) -> SetupError {
        let ranks = (0..).zip(&self.places);
        let missing = ranks.filter(|(_, place)| !matches!(place, Place::Own | Place::Met(_)));
        SetupError::Missing {
            ranks: missing.map(|(rank, _)| rank).collect(),
            waited,
            refused: self.refused,
        }
    }

    fn into_peers(self) -> Vec<Option<Peer>> {
        let peer = |place| if let Place::Met(peer) = place { Some(peer) } else { None };
        self.places.into_iter().map(peer).collect()
    }

    /// Waits until somebody says something or the time is over.
    fn wait(&self, limit: Duration) -> Result<(), SetupError> {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        if self.is_awaiting() {
            fds.push(PollFd::new(&self.listener.socket, PollFlags::IN));
        }
        fds.extend(self.unknown.iter().map(|link| PollFd::new(&link.socket, PollFlags::IN)));
        fds.extend(self.places.iter().filter_map(|place| match place {
            Place::Greeted(link) => Some(PollFd::new(&link.socket, PollFlags::IN)),
            _ => None,
        }));
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(SetupError::Os { call: "poll", errno }),
        }
    }
}

/// A doorbell that blocks would let a peer stop us.
fn check_doorbell(doorbell: &OwnedFd) -> Result<(), LinkError> {
    let flags = rustix::fs::fcntl_getfl(doorbell)
        .map_err(|errno| LinkError::Os { call: "fcntl(F_GETFL)", errno })?;
    if flags.contains(OFlags::NONBLOCK) && flags & OFlags::ACCMODE == OFlags::RDWR {
        return Ok(());
    }
    Err(LinkError::Protocol(Malformed {
        place: "HELLO, doorbell",
        expected: "an eventfd that does not block".into(),
        got: format!("a descriptor with the flags {flags:?}"),
    }))
}

fn setup_error(rank: u32, error: LinkError) -> SetupError {
    match error {
        LinkError::Protocol(bad) => SetupError::WrongAnswer { rank, bad },
        LinkError::Descriptors => SetupError::descriptors(),
        LinkError::Os { call, errno } => SetupError::from_os(call, errno),
        LinkError::Closed | LinkError::Full => SetupError::HungUp { rank },
    }
}

pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
