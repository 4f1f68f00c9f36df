//! The fabric over all connections of a rank.

mod network;
mod traffic;

use crate::acceptor::Tally;
use crate::error::SetupError;
use crate::frame::HEADER;
use crate::link::{ACK_LIVELY_EVERY, Link};
use crate::lively::Lively;
use crate::log::LogMemory;
use crate::own::Own;
use crate::rx::Lengths;
use crate::socket::prepare;
use crate::wait::{Key, Watch};
pub use network::Contact;
use network::Network;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;
use taffrail_fabric::{Cost, Fabric, Fault, Incarnation, Limits, LinkEvent, PeerId, Token};

/// Bytes that one read takes at most.
const READ: usize = 64 << 10;
/// The length at which the fragments of messages that nobody has asked for move fastest: as long as one of the log.
pub(crate) const FRAGMENT: usize = 64 << 10;
/// The same of messages that are read into the memory they are for: one call for each of these, and the two ends work at once.
const RNDV_FRAGMENT: usize = 256 << 10;
/// The longest payload of one message: a fragment with what stands in front of it.
pub(crate) const MAX_MESSAGE: usize = RNDV_FRAGMENT + 64;
/// Of a long message that is copied two fragments are on their way at once, behind what a lively peer does not acknowledge.
const _: () =
    assert!(Config::DEFAULT.window >= 2 * (HEADER + MAX_MESSAGE) + ACK_LIVELY_EVERY as usize);
/// Until measured: a round trip through two kernels, and what a processor copies into one.
const COST: Cost = Cost::linear(15_000.0, 2.0);

/// Lengths in bytes and times that the fabric goes by. Both ends of a connection have the same lengths.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A payload of up to this length is handed over when all of it is there, a longer one as soon as its header is.
    pub whole: usize,
    /// Segments of log memory, each as long as a fragment that nobody has asked for, that there can be at most.
    pub max_segments: usize,
    /// How long nothing may come back over a network connection before it counts as cut, from a second on.
    pub heartbeat: Duration,
    /// How long a lost connection may take to be made anew before the link is broken.
    pub patience: Duration,
    /// Whether a [`Membership`](taffrail_fabric::Membership) says who has died. Then a host that refuses a connection is tried again
    /// as one that does not answer, until the dead peer is disconnected. If `false`, a refusal ends the link: the process has ended.
    pub has_membership: bool,
    /// How long a process that connects may take to prove that it belongs to the job.
    pub handshake: Duration,
    /// Processes that may be in a handshake at a time. Others wait for their turn.
    pub max_handshakes: usize,
    /// Bytes of copied messages that may be sent to a peer and not acknowledged by it.
    pub window: usize,
    /// Whether a message is accepted while the connection with its peer is still being made. It then leaves with a later
    /// poll, so that the program has to poll although it waits for nothing. If `false`, sends are refused with
    /// [`Refused::Busy`] until the connection is made.
    ///
    /// [`Refused::Busy`]: taffrail_fabric::Refused::Busy
    pub accepts_unconnected: bool,
    /// Says what a user should know: that a peer cannot be reached for long, and who was refused.
    pub say: fn(&str),
    /// Where connections that are dropped before they are proven are counted, too.
    pub tally: Option<&'static Tally>,
    /// Reports that the host of a peer, of this incarnation, has not answered for a second or longer (why), now and then as long as
    /// that lasts, and once (`None`) when it has answered or nobody tries any more.
    pub report_link: fn(PeerId, Incarnation, Option<&str>),
    /// Where a peer is to be found now, by the job's directory; `None` if that is not known.
    pub look_up: fn(PeerId) -> Option<Contact>,
}

impl Config {
    /// What is right for most networks.
    pub const DEFAULT: Config = Config {
        whole: 4096,
        max_segments: 4096,
        heartbeat: Duration::from_secs(5),
        patience: Duration::from_secs(30),
        has_membership: false,
        handshake: Duration::from_secs(30),
        max_handshakes: 64,
        window: 576 << 10,
        accepts_unconnected: true,
        say: |what| tracing::warn!("{what}"),
        tally: None,
        report_link: |_, _, _| {},
        look_up: |_| None,
    };
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// A connected stream socket, and its peer.
#[derive(Debug)]
pub struct Connection {
    /// The rank at the other end.
    pub peer: PeerId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The socket. It is used with calls that do not wait, whatever its flags say.
    pub socket: OwnedFd,
}

/// The fabric over connected stream sockets.
pub struct TcpFabric {
    me: PeerId,
    peers: Vec<Peer>,
    limits: Limits,
    lengths: Lengths,
    config: Config,
    network: Option<Box<Network>>,
    pub(crate) watch: Watch,
    own: Own,
    lively: Lively,
    /// Events for the sink of the next poll, in order.
    news: VecDeque<News>,
    /// Peers of links that end when all that has arrived is read.
    failing: Vec<PeerId>,
    log: LogMemory,
    buffer: Box<[u8]>,
}

enum Peer {
    Myself,
    /// It has an address, and there was no message yet. Whether the link's coming up is news, and whether there was one before.
    Fresh {
        is_news: bool,
        was_linked: bool,
    },
    /// There is a link, or one is being made.
    Up(Box<Link>),
    /// The link has ended.
    Down {
        fault: Fault,
        last: Incarnation,
        is_final: bool,
        was_linked: bool,
    },
}

impl Peer {
    /// A link that the peer may begin anew.
    fn down(fault: Fault, last: Incarnation) -> Peer {
        Peer::Down { fault, last, is_final: false, was_linked: true }
    }

    /// Whether there is or was a link.
    fn was_linked(&self) -> bool {
        match self {
            Peer::Myself | Peer::Up(_) => true,
            Peer::Fresh { was_linked, .. } | Peer::Down { was_linked, .. } => *was_linked,
        }
    }
}

enum News {
    Sent(Token, Fault),
    Moved(Token, Fault),
    Link(PeerId, LinkEvent),
}

impl TcpFabric {
    /// The fabric of rank `me` of `ranks`, with these connections. Ranks without one can be
    /// [added](Self::add_connection) later.
    ///
    /// # Errors
    /// [`SetupError`], if the connections are not stream sockets with other ranks of the job, one for each.
    pub fn new(
        me: PeerId,
        ranks: u32,
        connections: Vec<Connection>,
        config: Config,
    ) -> Result<TcpFabric, SetupError> {
        let whole = config.whole.min(MAX_MESSAGE);
        let peers = (0..ranks).map(|rank| match PeerId(rank) == me {
            true => Peer::Myself,
            false => Peer::down(Fault::Vacant, Incarnation::default()),
        });
        let mut fabric = TcpFabric {
            me,
            peers: peers.collect(),
            limits: Limits {
                fabric: "tcp",
                max_message: MAX_MESSAGE,
                inline: 256,
                fragment: FRAGMENT,
                rndv_fragment: RNDV_FRAGMENT,
                maps: false,
                guards: true,
                copies_sends: true,
            },
            lengths: Lengths { max_message: MAX_MESSAGE, whole, acknowledged: false },
            config,
            network: None,
            watch: Watch::new(me)?,
            own: Own::default(),
            lively: Lively::default(),
            news: VecDeque::new(),
            failing: Vec::new(),
            log: LogMemory::new(config.max_segments),
            buffer: vec![0; HEADER + whole + READ].into_boxed_slice(),
        };
        for Connection { peer, incarnation, socket } in connections {
            if let Some(Peer::Up(_)) = fabric.peers.get(peer.index()) {
                return Err(SetupError::Twice { rank: peer.0 });
            }
            fabric.put(Connection { peer, incarnation, socket })?;
        }
        Ok(fabric)
    }

    /// Takes a new connection with a peer, which ends one that there is already. The next poll reports both.
    ///
    /// # Errors
    /// As of [`new`](Self::new). An existing connection stays.
    pub fn add_connection(&mut self, connection: Connection) -> Result<(), SetupError> {
        let (peer, incarnation) = (connection.peer, connection.incarnation);
        self.put(connection)?;
        self.news.push_back(News::Link(peer, LinkEvent::Up(incarnation)));
        Ok(())
    }

    fn put(&mut self, connection: Connection) -> Result<(), SetupError> {
        let Connection { peer, incarnation, socket } = connection;
        let ranks = self.peers.len() as u32;
        if peer == self.me || peer.0 >= ranks {
            return Err(SetupError::Rank { rank: peer.0, me: self.me.0, ranks });
        }
        prepare(peer, &socket, self.config.heartbeat)?;
        self.watch.add(&socket, Key::Peer(peer))?;
        let replaced = Fault::Lost("another connection took its place".to_owned());
        self.end(peer, LinkEvent::Broken(replaced));
        let link = Link::over(socket, peer, incarnation, self.lengths);
        self.peers[peer.index()] = Peer::Up(Box::new(link));
        Ok(())
    }

    /// Whether the next poll has something for the sink, whatever comes over the connections.
    pub(crate) fn has_news(&self) -> bool {
        !(self.news.is_empty() && self.own.is_empty() && self.failing.is_empty())
    }

    /// Ends a link, unless there is none.
    fn end(&mut self, peer: PeerId, event: LinkEvent) {
        let fault = match &event {
            LinkEvent::Broken(fault) => fault.clone(),
            LinkEvent::Closed | LinkEvent::Up(_) => Fault::Closed,
        };
        self.end_outage(peer);
        let is_final = matches!(event, LinkEvent::Closed);
        let (last, was_linked) = (self.incarnation(peer), self.peers[peer.index()].was_linked());
        let down = Peer::Down { fault: fault.clone(), last, is_final, was_linked };
        match std::mem::replace(&mut self.peers[peer.index()], down) {
            Peer::Up(mut link) => {
                link.suspend(&self.watch);
                self.failing.retain(|&other| other != peer);
                let sends = link.sends().map(|token| News::Sent(token, fault.clone()));
                self.news.extend(sends);
                self.news.extend(link.rest().map(|token| News::Moved(token, fault)));
            }
            Peer::Myself => self.own.clear(),
            Peer::Fresh { .. } => {}
            before @ Peer::Down { .. } => {
                self.peers[peer.index()] = before;
                return;
            }
        }
        self.news.push_back(News::Link(peer, event));
    }
}
