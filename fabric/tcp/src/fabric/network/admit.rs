//! Admission of a process that has connected and proven that it belongs to the job.

use super::{Call, Fit, Link, News, Peer, TcpFabric, restarted};
use crate::acceptor::Visitor;
use crate::handshake::{Proven, Standing, Verdict};
use crate::wait::Key;
use std::os::fd::OwnedFd;
use std::time::Instant;
use taffrail_fabric::{Fault, LinkEvent, PeerId, Sink};

/// Decision about a new connection.
enum Admission {
    /// It is refused with this verdict.
    Refuse(Verdict),
    /// The link with the peer resumes over the new connection.
    Resume,
    /// A new link begins. The one before, if there is one, ends for this reason.
    Begin { end: Option<Fault>, is_news: bool },
}

impl TcpFabric {
    /// Takes a caller's connection, or refuses it. Returns the calls of the sink.
    pub(super) fn admit<S: Sink>(&mut self, visitor: Visitor, sink: &mut S) -> usize {
        let proven = visitor.proven;
        let peer = PeerId(proven.rank);
        let verdict = match self.admission(peer, &proven) {
            Admission::Refuse(verdict) => verdict,
            Admission::Resume => Verdict::Welcome,
            Admission::Begin { end, is_news } => {
                if let Some(fault) = end {
                    self.end(peer, LinkEvent::Broken(fault));
                }
                let mut link = self.new_link(peer, proven.incarnation);
                link.is_news = is_news;
                self.peers[peer.index()] = Peer::Up(link);
                Verdict::Welcome
            }
        };
        tracing::debug!(peer = peer.0, ?verdict, "a call");
        let standing = match verdict {
            Verdict::Welcome => self.accept(peer, &proven.standing),
            _ => Standing::default(),
        };
        let Some(network) = &self.network else { return 0 };
        match visitor.answer(verdict, &standing, &network.me) {
            Some(socket) => self.attach(peer, socket, proven.standing.received, sink),
            None if verdict == Verdict::Welcome => {
                self.suspend(peer, "it ended during the handshake".to_owned());
                0
            }
            None => 0,
        }
    }

    fn admission(&mut self, peer: PeerId, proven: &Proven) -> Admission {
        let theirs = &proven.standing;
        let Some(network) = &mut self.network else { return Admission::Refuse(Verdict::Ended) };
        if proven.wanted != network.me.incarnation {
            return Admission::Refuse(Verdict::Incarnation);
        }
        let contact = network.contacts[peer.index()];
        if proven.incarnation < contact.incarnation {
            return Admission::Refuse(Verdict::Superseded);
        }
        let is_new = proven.incarnation > contact.incarnation;
        let is_fresh = theirs.peer_session == 0;
        let admission = match &self.peers[peer.index()] {
            Peer::Up(link) if !is_new && link.incarnation == proven.incarnation => {
                return match &link.stream {
                    Some(stream) => match stream.fit(theirs) {
                        Fit::Ended => Admission::Refuse(Verdict::Ended),
                        Fit::Anew => {
                            let why = "it has begun another link".to_owned();
                            Admission::Begin { end: Some(Fault::Lost(why)), is_news: true }
                        }
                        Fit::Same => {
                            let call = network.calls.get(&peer.0);
                            precedence(self.me < peer, link, theirs, call)
                        }
                    },
                    None => Admission::Refuse(Verdict::Ended),
                };
            }
            _ if !is_fresh => return Admission::Refuse(Verdict::Ended),
            Peer::Myself => return Admission::Refuse(Verdict::Ended),
            Peer::Up(_) => {
                Admission::Begin { end: Some(restarted(proven.incarnation)), is_news: true }
            }
            Peer::Fresh { is_news, .. } => {
                Admission::Begin { end: None, is_news: *is_news || is_new }
            }
            Peer::Down { is_final: true, last, .. } if *last >= proven.incarnation => {
                return Admission::Refuse(Verdict::Ended);
            }
            Peer::Down { .. } => Admission::Begin { end: None, is_news: true },
        };
        if is_new {
            // Where the new one listens is not known yet.
            network.contacts[peer.index()] =
                super::Contact { address: None, incarnation: proven.incarnation };
        }
        admission
    }

    /// Prepares the link for the caller's connection. What this side says of the stream.
    fn accept(&mut self, peer: PeerId, theirs: &Standing) -> Standing {
        self.hang_up(peer);
        self.failing.retain(|&other| other != peer);
        let Peer::Up(link) = &mut self.peers[peer.index()] else { return Standing::default() };
        link.suspend(&self.watch);
        if let Some(stream) = &mut link.stream {
            stream.accept(theirs);
        }
        link.standing().unwrap_or_default()
    }

    /// Resumes a link over this connection.
    pub(super) fn attach<S: Sink>(
        &mut self,
        peer: PeerId,
        socket: OwnedFd,
        received: u64,
        sink: &mut S,
    ) -> usize {
        let Peer::Up(link) = &mut self.peers[peer.index()] else { return 0 };
        if let Err(error) = self.watch.add(&socket, Key::Peer(peer)) {
            self.end(peer, LinkEvent::Broken(Fault::Lost(error.to_string())));
            return 0;
        }
        if std::mem::take(&mut link.is_news) {
            self.news.push_back(News::Link(peer, LinkEvent::Up(link.incarnation)));
        }
        let Some(calls) = link.resume(&self.watch, socket, received, sink) else {
            let expected = "bytes that were sent and not acknowledged";
            let fault = crate::frame::fault("a handshake", expected, received.to_string());
            self.end(peer, LinkEvent::Broken(fault));
            return 0;
        };
        if link.has_failed() {
            self.note_failure(peer);
        }
        self.connected(peer, received);
        calls
    }
}

/// Which connection is used where both sides may have made one. `call` is this side's, if it is making one.
fn precedence(is_lower: bool, link: &Link, theirs: &Standing, call: Option<&Call>) -> Admission {
    let is_late = link.stream.as_ref().is_some_and(|stream| stream.is_late(theirs));
    let is_calling = call.is_some_and(|call| call.is_promising(Instant::now()));
    // While both call, the lower rank's connection is used: both sides see it so.
    let yields = if link.socket().is_some() { is_late } else { is_lower && is_calling };
    if yields { Admission::Refuse(Verdict::Elsewhere) } else { Admission::Resume }
}
