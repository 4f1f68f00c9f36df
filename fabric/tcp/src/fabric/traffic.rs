//! Messages over the connections: the [`Fabric`] itself.

use super::{COST, FRAGMENT, MAX_MESSAGE, News, Peer, TcpFabric};
use crate::log::SEGMENT;
use crate::rx::End;
use crate::tx::{Lender, Payload};
use crate::wait::{Key, Ready};
use std::time::Duration;
use taffrail_fabric::{
    BeforeLog, Cost, Fabric, Fault, Head, Incarnation, Limits, LinkEvent, LogRange, MemoryError,
    PeerId, Refused, Segment, SegmentId, SendMemory, Sent, Sink, Source, UserBytes,
};

/// How long a leaver waits at most until peers have received its goodbye, and how often it looks.
const LAST_WAITS: u32 = 200;
const LAST_WAIT: Duration = Duration::from_millis(1);

impl Fabric for TcpFabric {
    const STREAMS: bool = true;

    #[inline]
    fn me(&self) -> PeerId {
        self.me
    }

    #[inline]
    fn limits(&self, _: PeerId) -> &Limits {
        &self.limits
    }

    fn send(&mut self, to: PeerId, head: Head, source: Source<'_>) -> Result<Sent, Refused> {
        debug_assert!(head.kind < Head::KINDS);
        match source {
            Source::Bytes(bytes) => {
                self.send_payload(to, head, bytes.len(), Payload::Parts(&[bytes]))
            }
            Source::Parts(parts) => {
                let len = parts.iter().map(|part| part.len()).sum();
                self.send_payload(to, head, len, Payload::Parts(parts))
            }
            Source::Log(range) => {
                let (bytes, lender) = self.lend(range);
                self.send_payload(to, head, range.len, Payload::Lent(bytes, lender))
            }
            Source::BeforeLog(&BeforeLog { parts, ranges }) => {
                let len = ranges.iter().map(|range| range.len).sum();
                debug_assert_eq!(Payload::Parts(parts).len(), len, "{ranges:?}");
                // A frame that the queue refers to asks for an acknowledgement of its own, which costs more than a copy this long.
                if len <= FRAGMENT {
                    return self.send_payload(to, head, len, Payload::Parts(parts));
                }
                let pieces: Vec<_> = ranges.iter().map(|&range| self.lend(range)).collect();
                self.send_payload(to, head, len, Payload::BeforeLog { parts, pieces: &pieces })
            }
            Source::User(bytes, token) => {
                let payload = Payload::Lent(bytes, Lender::User(token));
                self.send_payload(to, head, bytes.len(), payload)
            }
        }
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut calls = self.report(sink);
        if !self.own.is_empty() {
            calls += self.own.deliver(self.me, sink);
        }
        if let Some(peer) = self.lively.only() {
            let found = self.read(peer, sink);
            self.note_lively(peer, found);
            return calls + found + self.report(sink);
        }
        if let Some(peer) = self.lively.take_former() {
            self.catch_up(peer);
        }
        for ready in self.watch.ready() {
            calls += match ready.key {
                Key::Peer(peer) => self.serve(peer, ready, sink),
                key => self.serve_network(key, sink) + self.report(sink),
            };
        }
        if !self.failing.is_empty() {
            calls += self.read_failing(sink);
        }
        self.set_timer();
        calls + self.report(sink)
    }

    fn disconnect(&mut self, peer: PeerId, why: Fault) {
        self.end(peer, LinkEvent::Broken(why));
        if let Peer::Down { is_final, .. } = &mut self.peers[peer.index()] {
            *is_final = true;
        }
    }

    fn drained(&self, peer: PeerId, of: Incarnation) -> bool {
        // Bytes of the peer are written by this process only, out of a connection that it has.
        match &self.peers[peer.index()] {
            Peer::Up(link) => link.incarnation > of,
            Peer::Myself => false,
            Peer::Fresh { .. } | Peer::Down { .. } => true,
        }
    }

    fn was_linked(&self, peer: PeerId) -> bool {
        self.peers[peer.index()].was_linked()
    }

    fn connect(&mut self, peer: PeerId) {
        self.begin_anew(peer);
    }

    fn peer_finished(&mut self, peer: PeerId) {
        self.note_finished(peer);
    }

    fn abandon_in_child(&mut self) {
        // Closing the child's descriptors leaves the parent's connections, and its set of watched ones, as they are.
        let why = "a forked child has none of its parent's connections";
        for peer in &mut self.peers {
            *peer = Peer::down(Fault::Lost(why.to_owned()), Incarnation::default());
        }
        if let Some(network) = &mut self.network {
            network.abandon();
        }
        self.network = None;
    }

    fn flushed(&self, to: PeerId) -> bool {
        match &self.peers[to.index()] {
            Peer::Up(link) => link.is_flushed(),
            Peer::Myself | Peer::Fresh { .. } | Peer::Down { .. } => true,
        }
    }

    fn is_active(&self) -> bool {
        self.has_news() || self.peers.iter().any(|peer| matches!(peer, Peer::Up(_)))
    }

    fn incarnation(&self, peer: PeerId) -> Incarnation {
        match &self.peers[peer.index()] {
            Peer::Up(link) => link.incarnation,
            Peer::Myself => Incarnation::default(),
            Peer::Fresh { .. } => self.contact_of(peer).incarnation,
            Peer::Down { last, .. } => *last,
        }
    }

    fn adopt(&mut self, segment: Segment) -> Result<(), MemoryError> {
        self.log.adopt(segment);
        Ok(())
    }

    fn uses(&self, segment: SegmentId) -> bool {
        self.peers.iter().any(|peer| matches!(peer, Peer::Up(link) if link.uses(segment)))
    }

    fn send_cost(&self, _: PeerId) -> Cost {
        COST
    }
}

impl TcpFabric {
    /// Hands over the news. Returns the calls of the sink.
    pub(super) fn report<S: Sink>(&mut self, sink: &mut S) -> usize {
        if self.news.is_empty() {
            return 0;
        }
        let count = self.news.len();
        for news in self.news.drain(..) {
            match news {
                News::Sent(token, fault) => sink.sent(token, Err(fault)),
                News::Moved(token, fault) => sink.moved(token, Err(fault)),
                News::Link(peer, event) => sink.link(peer, event),
            }
        }
        count
    }

    /// Reads from a peer once. Returns the calls of the sink.
    fn read<S: Sink>(&mut self, peer: PeerId, sink: &mut S) -> usize {
        let Peer::Up(link) = &mut self.peers[peer.index()] else { return 0 };
        let turn = link.read(&self.watch, &mut self.buffer, sink);
        let has_failed = link.has_failed();
        let is_lasting = link.stream.is_some();
        match turn.end {
            None if has_failed => self.note_failure(peer),
            None => {}
            Some(End::Closed) => self.end(peer, LinkEvent::Closed),
            Some(End::Broken(Fault::Lost(why))) if is_lasting => self.suspend(peer, why),
            Some(End::Broken(fault)) => self.end(peer, LinkEvent::Broken(fault)),
        }
        turn.calls
    }

    /// Reads from and writes to a connection that is ready. Returns the calls of the sink.
    fn serve<S: Sink>(&mut self, peer: PeerId, ready: Ready, sink: &mut S) -> usize {
        let mut calls = 0;
        match &mut self.peers[peer.index()] {
            Peer::Up(link) if ready.has_room => {
                calls += link.flush(&self.watch, sink);
                if link.has_failed() {
                    self.note_failure(peer);
                }
            }
            Peer::Up(_) | Peer::Fresh { .. } | Peer::Down { .. } => {}
            Peer::Myself => self.watch.silence(),
        }
        if ready.has_data {
            let found = self.read(peer, sink);
            self.note_lively(peer, found);
            calls += found;
        }
        calls
    }

    /// A peer was read, with this number of calls of the sink.
    #[inline]
    fn note_lively(&mut self, peer: PeerId, found: usize) {
        if found > 0
            && let Some(former) = self.lively.found(peer)
        {
            self.catch_up(former);
        }
    }

    /// Acknowledges what a peer has sent while it was the lively one.
    fn catch_up(&mut self, peer: PeerId) {
        if let Peer::Up(link) = &mut self.peers[peer.index()] {
            link.catch_up(&self.watch);
            if link.has_failed() {
                self.note_failure(peer);
            }
        }
    }

    /// Reads from links that have failed, until nothing more is there.
    fn read_failing<S: Sink>(&mut self, sink: &mut S) -> usize {
        let failing = self.failing.clone();
        failing.into_iter().map(|peer| self.read(peer, sink)).sum()
    }

    pub(super) fn note_failure(&mut self, peer: PeerId) {
        if !self.failing.contains(&peer) {
            self.failing.push(peer);
        }
    }

    /// Memory of the log that is to be read until a frame is done with.
    fn lend(&self, range: LogRange) -> (UserBytes, Lender) {
        (self.log.lend(range), Lender::Log(range.segment))
    }

    fn send_payload(
        &mut self,
        to: PeerId,
        head: Head,
        len: usize,
        payload: Payload<'_>,
    ) -> Result<Sent, Refused> {
        if len > MAX_MESSAGE {
            return Err(Refused::TooLong { got: len, limit: MAX_MESSAGE });
        }
        if let Peer::Fresh { .. } = self.peers[to.index()] {
            if self.contact_of(to).address.is_none() {
                return Err(Refused::Failed(Fault::Vacant));
            }
            self.begin(to);
        }
        match &mut self.peers[to.index()] {
            Peer::Up(link) if link.socket().is_none() && !self.config.accepts_unconnected => {
                Err(Refused::Busy)
            }
            Peer::Up(link) => {
                let result = link.send_message(&self.watch, head, payload);
                if link.has_failed() {
                    self.note_failure(to);
                }
                result
            }
            Peer::Down { fault, .. } => Err(Refused::Failed(fault.clone())),
            Peer::Fresh { .. } => Err(Refused::Busy),
            Peer::Myself => {
                self.own.send(head, payload)?;
                self.watch.ring();
                Ok(Sent::Now)
            }
        }
    }
}

impl SendMemory for TcpFabric {
    fn segment_len(&self) -> usize {
        SEGMENT
    }

    fn max_segments(&self) -> usize {
        self.log.max_segments()
    }

    fn take(&mut self) -> Result<Option<SegmentId>, MemoryError> {
        let peers = &self.peers;
        let is_used =
            |segment| peers.iter().any(|peer| matches!(peer, Peer::Up(link) if link.uses(segment)));
        self.log.take(|segment| !is_used(segment))
    }

    fn write(&mut self, segment: SegmentId, at: usize, bytes: &[u8]) {
        self.log.write(segment, at, bytes);
    }

    fn read(&self, segment: SegmentId, at: usize, len: usize) -> &[u8] {
        self.log.read(LogRange { segment, at, len })
    }

    fn segment(&self, id: SegmentId) -> Segment {
        let bytes = self.log.lend(LogRange { segment: id, at: 0, len: SEGMENT });
        Segment { id, bytes }
    }

    fn release(&mut self, segment: SegmentId) {
        self.log.release(segment);
    }
}

impl Drop for TcpFabric {
    /// Says goodbye, so that peers need not take this for a failure, and waits a little until they have received it.
    fn drop(&mut self) {
        let up = |peer: &mut Peer| match std::mem::replace(peer, Peer::Myself) {
            Peer::Up(link) => Some(link),
            Peer::Myself | Peer::Fresh { .. } | Peer::Down { .. } => None,
        };
        let mut links: Vec<_> = self.peers.iter_mut().filter_map(up).collect();
        links.iter_mut().for_each(|link| link.say_goodbye());
        for _ in 0..LAST_WAITS {
            links.retain(|link| link.is_leaving(&mut self.buffer));
            if links.is_empty() {
                break;
            }
            std::thread::sleep(LAST_WAIT);
        }
    }
}
