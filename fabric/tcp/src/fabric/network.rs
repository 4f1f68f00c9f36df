//! Links over connections that the fabric makes and accepts by itself, and makes anew when they are lost.

mod admit;
mod outages;

use super::{Config, News, Peer, TcpFabric};
use crate::acceptor::{Acceptor, Dropped};
use crate::address::Listener;
use crate::call::{Call, Callee, Failed};
use crate::error::SetupError;
use crate::handshake::{ClientStep, Identity, Standing, Verdict, nonce};
use crate::link::{Fit, Link, Stream};
use crate::outage::Outage;
use crate::socket::{limit, tune};
use crate::timer::Timer;
use crate::wait::Key;
use outages::say_long;
use rustc_hash::{FxHashMap, FxHashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use taffrail_fabric::{Fabric, Fault, Incarnation, LinkEvent, PeerId, Sink};

/// How long the higher rank leaves it to the lower one to make a lost connection anew.
const DEFERENCE: Duration = Duration::from_millis(10);

/// How often the directory is asked for the address of a peer that it does not have yet.
const LOOK_UP: Duration = Duration::from_millis(10);

/// Where a peer is to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// Its [listener's address](Listener::address). `None`: it is to call.
    pub address: Option<SocketAddr>,
    /// Which start of the rank listens there.
    pub incarnation: Incarnation,
}

/// All that belongs to making connections.
pub(super) struct Network {
    me: Identity,
    contacts: Vec<Contact>,
    acceptor: Acceptor,
    calls: FxHashMap<u32, Call>,
    /// Of links that have a connection again, over which nothing has come through yet.
    outages: FxHashMap<u32, Outage>,
    /// Peers that have closed their endpoints: a lost link with one of them is not made anew.
    finished: FxHashSet<u32>,
    timer: Timer,
}

impl Network {
    /// Nothing is reported of calls any more: this is a forked child.
    pub(super) fn abandon(&mut self) {
        self.calls.values_mut().for_each(|call| call.outage.abandon());
        self.outages.values_mut().for_each(Outage::abandon);
    }
}

/// A name for a stream: random, and not 0.
fn session() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = nonce();
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1
}

impl TcpFabric {
    /// The fabric of the rank that `me` names, in a job with these ranks. A connection to a peer is made when the first
    /// message to it is sent, or accepted, and made anew when it is lost.
    ///
    /// # Errors
    /// [`SetupError`]: `me` is none of the ranks, or there are too few descriptors.
    pub fn open(
        me: Identity,
        listener: Listener,
        contacts: Vec<Contact>,
        config: Config,
    ) -> Result<TcpFabric, SetupError> {
        let ranks = contacts.len() as u32;
        if me.rank >= ranks {
            return Err(SetupError::Rank { rank: me.rank, me: me.rank, ranks });
        }
        let mut fabric = TcpFabric::new(PeerId(me.rank), ranks, vec![], config)?;
        for peer in &mut fabric.peers {
            if let Peer::Down { .. } = peer {
                // A process that is not the first of its rank has to know of each link: it holds what it sends until then.
                *peer = Peer::Fresh { is_news: me.incarnation.0 > 0, was_linked: false };
            }
        }
        let acceptor = Acceptor::new(listener, &config);
        fabric.watch.add(acceptor.listener().socket(), Key::Listener)?;
        let timer = Timer::new()?;
        fabric.watch.add(timer.fd(), Key::Timer)?;
        let (calls, outages, finished) = Default::default();
        let network = Network { me, contacts, acceptor, calls, outages, finished, timer };
        fabric.network = Some(Box::new(network));
        Ok(fabric)
    }

    /// Sets the address of a peer. A link that has ended can be made anew afterwards; one that is up with this
    /// incarnation stays.
    ///
    /// # Panics
    /// If the fabric was not [opened](Self::open) with a listener, or the peer is none of the job.
    #[expect(clippy::expect_used, reason = "documented: only a fabric with a listener is called")]
    pub fn contact(&mut self, peer: PeerId, contact: Contact) {
        let network = self.network.as_mut().expect("a fabric that makes connections");
        let before = std::mem::replace(&mut network.contacts[peer.index()], contact);
        match &self.peers[peer.index()] {
            Peer::Up(link) if link.incarnation < contact.incarnation => {
                self.end(peer, LinkEvent::Broken(restarted(contact.incarnation)));
            }
            Peer::Fresh { .. } if before.incarnation < contact.incarnation => {}
            Peer::Down { .. } => {}
            Peer::Up(_) | Peer::Fresh { .. } | Peer::Myself => return,
        }
        let was_linked = self.peers[peer.index()].was_linked();
        self.peers[peer.index()] = Peer::Fresh { is_news: true, was_linked };
    }

    /// Begins a link with the incarnation of a peer that runs now, unless there is one.
    pub(super) fn begin_anew(&mut self, peer: PeerId) {
        if !matches!(self.peers[peer.index()], Peer::Fresh { .. } | Peer::Down { .. })
            || self.network.is_none()
        {
            return;
        }
        let now = (self.config.look_up)(peer);
        if let Some(contact) = now.filter(|now| now.incarnation > self.incarnation(peer)) {
            self.contact(peer, contact);
        }
        self.begin(peer);
    }

    /// The address on which it listens; `None` for a fabric with connections that were made beforehand.
    pub fn address(&self) -> Option<SocketAddr> {
        self.network.as_ref().map(|network| network.acceptor.listener().address())
    }

    /// Connections that were dropped because they did not prove that they belong to the job.
    pub fn dropped(&self) -> Dropped {
        self.network.as_ref().map_or(Dropped::default(), |network| network.acceptor.dropped)
    }

    pub(super) fn contact_of(&self, peer: PeerId) -> Contact {
        self.network.as_ref().map_or(Contact::default(), |network| network.contacts[peer.index()])
    }

    /// The first message to a peer is to be sent.
    pub(super) fn begin(&mut self, peer: PeerId) {
        let Peer::Fresh { is_news, .. } = self.peers[peer.index()] else { return };
        let mut link = self.new_link(peer, self.contact_of(peer).incarnation);
        link.is_news = is_news;
        self.peers[peer.index()] = Peer::Up(link);
        self.call(peer, Duration::ZERO, Outage::new(Instant::now(), None, 0));
    }

    fn new_link(&self, peer: PeerId, incarnation: Incarnation) -> Box<Link> {
        let stream = Stream::new(session());
        let window = self.config.window;
        Box::new(Link::lasting(stream, peer, incarnation, self.lengths, window))
    }

    /// The connection of a link that outlives it is lost.
    pub(super) fn suspend(&mut self, peer: PeerId, why: String) {
        let Peer::Up(link) = &mut self.peers[peer.index()] else { return };
        link.suspend(&self.watch);
        self.failing.retain(|&other| other != peer);
        if self.network.as_ref().is_some_and(|network| network.finished.contains(&peer.0)) {
            return self.end(peer, LinkEvent::Closed);
        }
        tracing::debug!(peer = peer.0, "the connection is lost and made anew: {why}");
        let acknowledged = link.tx.acknowledged();
        let (outage, pause) = self.outage(peer, why, acknowledged);
        let delay = if self.me < peer { pause } else { DEFERENCE + pause };
        self.call(peer, delay, outage);
    }

    /// A peer has closed its endpoint. If no connection with it is up, its goodbye was lost with the last one.
    pub(super) fn note_finished(&mut self, peer: PeerId) {
        let Some(network) = &mut self.network else { return };
        network.finished.insert(peer.0);
        if matches!(&self.peers[peer.index()], Peer::Up(link) if link.socket().is_none()) {
            self.end(peer, LinkEvent::Closed);
        }
    }

    /// Begins to make a connection.
    fn call(&mut self, peer: PeerId, delay: Duration, outage: Outage) {
        let Some(network) = &mut self.network else { return };
        network.calls.insert(peer.0, Call::new(Instant::now(), delay, outage));
        if delay.is_zero() {
            self.try_call(peer);
        }
        self.set_timer();
    }

    /// Ends what is under way to make a connection.
    fn hang_up(&mut self, peer: PeerId) {
        if let Some(network) = &mut self.network
            && let Some(mut call) = network.calls.remove(&peer.0)
        {
            call.stop(&self.watch);
            network.outages.insert(peer.0, call.outage);
        }
    }

    /// Makes an attempt, unless the patience is over.
    fn try_call(&mut self, peer: PeerId) {
        let Config { heartbeat, patience, .. } = self.config;
        let Some(network) = &mut self.network else { return };
        let Some(call) = network.calls.get_mut(&peer.0) else { return };
        let contact = &mut network.contacts[peer.index()];
        // It may have been published meanwhile, or be that of an incarnation before.
        let now = (self.config.look_up)(peer);
        let is_known =
            |now: &Contact| now.incarnation == contact.incarnation && now.address.is_some();
        *contact = now.filter(is_known).unwrap_or(*contact);
        let why = "it has not called, and its address is not known";
        let (now, given_up) = (Instant::now(), call.outage.since + patience);
        let result = match contact.address {
            Some(address) => call.start(&self.watch, peer, address, heartbeat),
            None if now < given_up => {
                say_long(&mut call.outage, &self.config, network.me.rank, peer, why);
                call.wait((now + LOOK_UP).min(given_up));
                return;
            }
            None => Err(Failed { why: why.to_owned(), nobody: true }),
        };
        if let Err(failed) = result {
            self.failed(peer, failed);
        }
    }

    /// An attempt has come to nothing.
    fn failed(&mut self, peer: PeerId, mut failed: Failed) {
        let Config { patience, has_membership, .. } = self.config;
        // That nobody listens there is no verdict: a firewall may say so, or the process has died and is started again.
        failed.nobody &= !has_membership;
        let Some(network) = &mut self.network else { return };
        let Some(call) = network.calls.get_mut(&peer.0) else { return };
        let now = Instant::now();
        let callee = (peer, network.contacts[peer.index()].incarnation);
        call.report_down(now, callee, &failed, self.config.report_link);
        if !failed.nobody && now < call.outage.since + patience {
            tracing::debug!(peer = peer.0, "no connection: {}", failed.why);
            say_long(&mut call.outage, &self.config, network.me.rank, peer, &failed.why);
            return call.pause(&self.watch, now);
        }
        let lost = call.outage.lost.take();
        self.give_up(peer, lost, failed);
    }

    /// Something other than a link or the alarm is ready. Returns the calls of the sink.
    pub(super) fn serve_network<S: Sink>(&mut self, key: Key, sink: &mut S) -> usize {
        let ranks = self.peers.len() as u32;
        let Some(network) = &mut self.network else { return 0 };
        let Network { me, acceptor, timer, .. } = &mut **network;
        match key {
            Key::Listener => {
                let heartbeat = self.config.heartbeat;
                let prepare =
                    |socket: &_| tune(socket, heartbeat).and_then(|()| limit(socket, heartbeat));
                acceptor.accept(&self.watch, prepare, nonce);
            }
            Key::Slot(index) => {
                if let Some(visitor) = acceptor.read(&self.watch, index, me, ranks) {
                    return self.admit(visitor, sink);
                }
            }
            Key::Call(rank) => return self.serve_call(PeerId(rank), sink),
            Key::Timer => {
                timer.silence();
                self.on_time();
            }
            Key::Peer(_) => {}
        }
        0
    }

    /// Does what is due.
    fn on_time(&mut self) {
        let Some(network) = &mut self.network else { return };
        let now = Instant::now();
        network.acceptor.expire(&self.watch, now);
        network.outages.retain(|_, outage| outage.expires().is_none_or(|at| at > now));
        let is_due = |call: &Call| call.deadline().is_some_and(|at| at <= now);
        let due = network.calls.iter().filter(|(_, call)| is_due(call));
        let due: Vec<_> = due.map(|(&rank, call)| (PeerId(rank), call.is_waiting())).collect();
        for (peer, is_waiting) in due {
            if is_waiting {
                self.try_call(peer);
            } else {
                let why = "its host has not answered".to_owned();
                self.failed(peer, Failed { why, nobody: false });
            }
        }
    }

    /// Sets the timer to what is due next.
    pub(super) fn set_timer(&mut self) {
        if let Some(network) = &mut self.network {
            let calls = network.calls.values().filter_map(Call::deadline);
            let outages = network.outages.values().filter_map(Outage::expires);
            network.timer.set(calls.chain(outages).chain(network.acceptor.deadline()).min());
        }
    }

    fn serve_call<S: Sink>(&mut self, peer: PeerId, sink: &mut S) -> usize {
        let Some(network) = &mut self.network else { return 0 };
        let Peer::Up(link) = &self.peers[peer.index()] else { return 0 };
        let (Some(call), Some(standing)) = (network.calls.get_mut(&peer.0), link.standing()) else {
            return 0;
        };
        let callee = Callee { me: &network.me, peer, incarnation: link.incarnation, standing };
        match call.advance(&self.watch, &callee, nonce) {
            Ok(ClientStep::Answer { verdict, standing, incarnation }) => {
                self.answered(peer, verdict, &standing, incarnation, sink)
            }
            Ok(_) => 0,
            Err(failed) => {
                self.failed(peer, failed);
                0
            }
        }
    }

    /// A peer has answered our call.
    fn answered<S: Sink>(
        &mut self,
        peer: PeerId,
        verdict: Verdict,
        theirs: &Standing,
        incarnation: Incarnation,
        sink: &mut S,
    ) -> usize {
        let lost = |why: &str| LinkEvent::Broken(Fault::Lost(why.to_owned()));
        match verdict {
            Verdict::Welcome => return self.welcomed(peer, theirs, incarnation, sink),
            // It lives, and calls by itself: no matter of patience.
            Verdict::Elsewhere => {
                if let Some(network) = &mut self.network
                    && let Some(call) = network.calls.get_mut(&peer.0)
                {
                    call.pause(&self.watch, Instant::now());
                }
            }
            Verdict::Ended => self.end(peer, lost("it has ended this link")),
            Verdict::Incarnation => self.end(peer, LinkEvent::Broken(restarted(incarnation))),
            Verdict::Superseded => {
                self.end(peer, lost("it knows a later incarnation of this process"));
            }
        }
        0
    }

    fn welcomed<S: Sink>(
        &mut self,
        peer: PeerId,
        theirs: &Standing,
        incarnation: Incarnation,
        sink: &mut S,
    ) -> usize {
        let Some(network) = &mut self.network else { return 0 };
        let call = network.calls.remove(&peer.0);
        let Peer::Up(link) = &mut self.peers[peer.index()] else { return 0 };
        let Some((Some(socket), outage)) = call.map(|call| call.into_parts(&self.watch)) else {
            return 0;
        };
        network.outages.insert(peer.0, outage);
        let Some(stream) = &mut link.stream else { return 0 };
        if stream.fit(theirs) != Fit::Same || incarnation != link.incarnation {
            let got = format!("session {}", theirs.session);
            let fault = crate::frame::fault("a welcome", "the stream that was called for", got);
            self.end(peer, LinkEvent::Broken(fault));
            return 0;
        }
        stream.accepted_by(theirs);
        self.attach(peer, socket, theirs.received, sink)
    }
}

/// Why a link with an earlier incarnation ends.
fn restarted(incarnation: Incarnation) -> Fault {
    Fault::Lost(format!("it runs as incarnation {}", incarnation.0))
}
