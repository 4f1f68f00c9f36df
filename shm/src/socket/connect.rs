//! How the processes of a job connect with each other.
//!
//! Each pair has one socket. The process that was started later connects; of two started together, the one
//! with the higher rank. All connections proceed at once in one loop, so that the order in which processes
//! start does not matter, and connections of strangers delay no other.
//!
//! With restarts, a peer may be killed at any time, also before this process is connected with it. Its successor
//! is started later than this process, so the successor connects. A process knows all processes that were started
//! before it, but not those that are started after it. So where two processes connect to each other, the
//! connection of the later one is used.
//!
//! Where addresses are names known in advance, a process may not listen yet, or its successor may listen under the
//! same name: connecting is tried again and again, and a connection from that rank is accepted as well.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::callers::{Callers, Came};
use super::greeting::{Offer, Peer, hear};
use super::packet::same;
use super::{DialError, Hello, Link, LinkError, SetupError, dial};

/// Interval of retries that no descriptor can announce.
const SOON: Duration = Duration::from_millis(1);
/// Longest interval of retries of a name under which no process listens yet.
const LATER: Duration = Duration::from_millis(20);

/// Refusals that are kept for the error text.
const KEPT_REFUSALS: usize = 8;

/// How peers are met.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// Of each rank, how many restarts the job had seen when it was started; none where there are none.
    pub generations: &'a [u32],
    /// Ranks that die are started again.
    pub restarts: bool,
    /// Addresses were known before anybody listened there.
    pub named: bool,
    /// How long to wait for peers.
    pub patience: Duration,
    /// Makes what we share with a rank as if it had never been there.
    pub renew: &'a dyn Fn(u32),
    /// Is called of a wait that takes long.
    pub on_wait: OnWait<'a>,
}

/// Hears which ranks are missing, and for how long they have been waited for. An error ends the wait.
pub type OnWait<'a> = &'a dyn Fn(&[u32], Duration) -> Result<(), String>;

/// A wait is reported after this time, and again each time when it has doubled.
const LONG: Duration = Duration::from_millis(1250);

/// Connects this process with all others of the job, whose addresses are given in the order of
/// their ranks, and returns them in that order, `None` at its own place. With restarts some may have
/// died since.
///
/// # Errors
/// [`SetupError::Missing`] after the patience has ended; others at once when a peer cannot be reached
/// (without restarts) or does not fit. Strangers that connect are refused, and harm nobody.
pub(crate) fn connect_all(
    callers: &mut Callers,
    offer: &Offer<'_>,
    addresses: &[String],
    terms: Terms<'_>,
) -> Result<Vec<Option<Peer>>, SetupError> {
    let Hello { rank, ranks, .. } = offer.hello;
    if addresses.len() != ranks as usize || rank >= ranks {
        return Err(SetupError::Addresses { rank, ranks, got: addresses.len() });
    }
    let start = Instant::now();
    let mut meeting = Meeting::new(callers, offer, addresses, terms);
    let mut long = LONG;
    loop {
        let again = meeting.advance()?;
        if meeting.is_complete() {
            return Ok(meeting.into_peers());
        }
        let waited = start.elapsed();
        if waited >= terms.patience {
            return Err(meeting.given_up(terms.patience));
        }
        if waited >= long {
            (terms.on_wait)(&meeting.missing(), waited).map_err(SetupError::Hopeless)?;
            long *= 2;
        }
        let left = terms.patience.min(long).saturating_sub(waited);
        meeting.wait(again.map_or(left, |soon| left.min(soon)))?;
    }
}

/// How far things are with one peer.
enum PeerState {
    /// Our own.
    Own,
    /// To be connected to.
    ToConnect,
    /// Does not listen yet: to be connected to at this time, unless it comes.
    NotYet(Instant),
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
    callers: &'a mut Callers,
    offer: &'a Offer<'a>,
    addresses: &'a [String],
    terms: Terms<'a>,
    start: Instant,
    places: Vec<PeerState>,
    refused: Vec<String>,
}

impl<'a> Meeting<'a> {
    fn new(
        callers: &'a mut Callers,
        offer: &'a Offer<'a>,
        addresses: &'a [String],
        terms: Terms<'a>,
    ) -> Self {
        let me = age(&offer.hello);
        let place = |rank: u32| {
            let generation = terms.generations.get(rank as usize).copied().unwrap_or(0);
            match (generation, rank).cmp(&me) {
                std::cmp::Ordering::Less => PeerState::ToConnect,
                std::cmp::Ordering::Equal => PeerState::Own,
                std::cmp::Ordering::Greater => PeerState::Awaited,
            }
        };
        let places = (0..offer.hello.ranks).map(place).collect();
        let start = Instant::now();
        Meeting { callers, offer, addresses, terms, start, places, refused: Vec::new() }
    }

    /// Advances every peer as far as possible. Returns when to try again, if no descriptor can announce the next
    /// step.
    fn advance(&mut self) -> Result<Option<Duration>, SetupError> {
        self.hear_callers()?;
        let now = Instant::now();
        let mut again: Option<Duration> = None;
        for rank in 0..self.offer.hello.ranks {
            let place = std::mem::replace(&mut self.places[rank as usize], PeerState::Own);
            let place = match place {
                PeerState::ToConnect => self.connect(rank)?,
                PeerState::NotYet(at) if at <= now => self.connect(rank)?,
                other => other,
            };
            let place = match place {
                PeerState::ToGreet(link) => self.greet(rank, link)?,
                other => other,
            };
            let place = match place {
                PeerState::Greeted(link) => self.hear_answer(rank, link)?,
                PeerState::ToAnswer(peer) => self.answer(rank, peer)?,
                other => other,
            };
            let soon = match place {
                PeerState::ToConnect | PeerState::ToGreet(_) | PeerState::ToAnswer(_) => Some(SOON),
                PeerState::NotYet(at) => Some(at.saturating_duration_since(now).max(SOON)),
                _ => None,
            };
            again = again.into_iter().chain(soon).min();
            self.places[rank as usize] = place;
        }
        Ok(again)
    }

    /// The state of a peer that does not listen, or does not live any more. A process that was started after this one
    /// connects by itself. A name says nothing about the process behind it, so there connecting is tried again, too.
    fn not_there(&self) -> PeerState {
        if !self.terms.named {
            return PeerState::Awaited;
        }
        // The longer it took, the less one more millisecond matters.
        let pause = (self.start.elapsed() / 8).clamp(SOON, LATER);
        PeerState::NotYet(Instant::now() + pause)
    }

    fn connect(&self, rank: u32) -> Result<PeerState, SetupError> {
        let address = &self.addresses[rank as usize];
        match dial(address) {
            Ok(Some(link)) => Ok(PeerState::ToGreet(link)),
            Ok(None) => Ok(PeerState::ToConnect),
            Err(DialError::Nobody) if self.terms.restarts || self.terms.named => {
                Ok(self.not_there())
            }
            Err(DialError::Own(error)) => Err(error),
            Err(error) => {
                let (address, why) = (address.clone(), error.to_string());
                Err(SetupError::Unreachable { rank, address, why })
            }
        }
    }

    fn greet(&mut self, rank: u32, link: Link) -> Result<PeerState, SetupError> {
        match self.offer.say_hello(&link) {
            Ok(()) => Ok(PeerState::Greeted(link)),
            Err(LinkError::Full) => Ok(PeerState::ToGreet(link)),
            Err(LinkError::Closed) if self.terms.restarts => Ok(self.hung_up(rank, link.pid)),
            Err(error) => Err(setup_error(rank, error)),
        }
    }

    fn hear_answer(&mut self, rank: u32, link: Link) -> Result<PeerState, SetupError> {
        let pid = link.pid;
        match hear(&self.offer.hello, link) {
            Ok(Ok(peer)) => {
                same("HELLO, rank", rank, peer.hello.rank)
                    .map_err(|bad| SetupError::WrongAnswer { rank, bad })?;
                Ok(PeerState::Met(peer))
            }
            Ok(Err(silent)) => Ok(PeerState::Greeted(silent)),
            Err((LinkError::Closed, _)) if self.terms.restarts => Ok(self.hung_up(rank, pid)),
            Err((error, _)) => Err(setup_error(rank, error)),
        }
    }

    /// The peer closed the connection instead of answering. It was killed, or it was started after this process and
    /// connects by itself, or it refused for a reason that stands in its own log.
    fn hung_up(&mut self, rank: u32, pid: i32) -> PeerState {
        self.refused.push(format!("process {pid} (rank {rank} hung up instead of answering)"));
        self.refused.truncate(KEPT_REFUSALS);
        self.not_there()
    }

    fn answer(&mut self, rank: u32, peer: Peer) -> Result<PeerState, SetupError> {
        if self.terms.restarts {
            // There may have been a predecessor, that we had given our inbox to.
            (self.terms.renew)(rank);
        }
        match self.offer.say_hello(&peer.link) {
            Ok(()) => Ok(PeerState::Met(peer)),
            Err(LinkError::Full) => Ok(PeerState::ToAnswer(peer)),
            Err(LinkError::Closed) => {
                self.refuse(peer.pid, &format!("rank {rank} left before it was answered"));
                Ok(PeerState::Awaited)
            }
            Err(error) => Err(setup_error(rank, error)),
        }
    }

    fn hear_callers(&mut self) -> Result<(), SetupError> {
        let mut came = Came::default();
        if self.listens() {
            self.callers.hear(&self.offer.hello, &mut came)?;
        }
        self.refused.append(&mut came.refused);
        for peer in came.peers {
            let (rank, pid) = (peer.hello.rank, peer.pid);
            if let Err(why) = self.welcome(peer) {
                self.refuse(pid, &format!("rank {rank} {why}"));
            }
        }
        self.refused.truncate(KEPT_REFUSALS);
        Ok(())
    }

    fn welcome(&mut self, peer: Peer) -> Result<(), &'static str> {
        let restarts = self.terms.restarts;
        let hello = &peer.hello;
        let place = &mut self.places[hello.rank as usize];
        match place {
            PeerState::Own => return Err("is this process"),
            PeerState::Awaited => {}
            PeerState::ToAnswer(old) | PeerState::Met(old)
                if restarts && hello.incarnation > old.hello.incarnation => {}
            PeerState::ToAnswer(_) | PeerState::Met(_) => return Err("is here already"),
            // The peer was started after this process, which was to connect to the peer's predecessor.
            _ if restarts && age(hello) > age(&self.offer.hello) => {}
            _ => return Err("is to wait for this one"),
        }
        *place = PeerState::ToAnswer(peer);
        Ok(())
    }

    fn refuse(&mut self, pid: i32, why: &str) {
        let mut came = Came::default();
        self.callers.refuse(pid, why, &mut came);
        self.refused.append(&mut came.refused);
    }

    /// Whether connections are to be accepted. With restarts always: a connected peer may have a successor.
    fn listens(&self) -> bool {
        self.terms.restarts || self.is_awaiting()
    }

    fn is_awaiting(&self) -> bool {
        self.places.iter().any(|place| matches!(place, PeerState::Awaited))
    }

    fn is_complete(&self) -> bool {
        self.places.iter().all(|place| matches!(place, PeerState::Own | PeerState::Met(_)))
    }

    fn missing(&self) -> Vec<u32> {
        let ranks = (0..).zip(&self.places);
        let missing =
            ranks.filter(|(_, place)| !matches!(place, PeerState::Own | PeerState::Met(_)));
        missing.map(|(rank, _)| rank).collect()
    }

    fn given_up(self, waited: Duration) -> SetupError {
        SetupError::Missing { ranks: self.missing(), waited, refused: self.refused }
    }

    fn into_peers(self) -> Vec<Option<Peer>> {
        let peer = |place| if let PeerState::Met(peer) = place { Some(peer) } else { None };
        self.places.into_iter().map(peer).collect()
    }

    /// Waits until a descriptor is ready or the time is over.
    fn wait(&self, limit: Duration) -> Result<(), SetupError> {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        let poll_fd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        if self.listens() {
            fds.push(poll_fd(self.callers.fd()));
        }
        fds.extend(self.callers.unknown().map(poll_fd));
        fds.extend(self.places.iter().filter_map(|place| match place {
            PeerState::Greeted(link) => Some(PollFd::new(&link.socket, PollFlags::IN)),
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

/// Order of processes: the greater one connects. It was started later, or together and with a higher rank.
fn age(hello: &Hello) -> (u32, u32) {
    (hello.generation, hello.rank)
}

fn setup_error(rank: u32, error: LinkError) -> SetupError {
    match error {
        LinkError::Protocol(bad) => SetupError::WrongAnswer { rank, bad },
        LinkError::Descriptors => SetupError::descriptors(),
        LinkError::Os { call, errno } => SetupError::from_os(call, errno),
        LinkError::Closed | LinkError::Full => SetupError::HungUp { rank },
    }
}
