//! The link with one peer: a stream in each direction, over one connection or over several, one after the other.

mod stream;

pub(crate) use stream::{Fit, Stream};

use crate::frame::{Frame, HEADER, fault};
use crate::handshake::Standing;
use crate::rx::{End, Lengths, Rx, Turn};
use crate::tx::{Payload, Tx};
use crate::wait::{Key, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt::socket_domain;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, Shutdown, recv, recvmsg, send,
    shutdown,
};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use taffrail_fabric::{Fault, Head, Incarnation, PeerId, Refused, SegmentId, Sent, Sink, Token};

/// Bytes that may be queued beyond the rest of the longest frame: room for short messages behind it.
const SHORT_ROOM: usize = 16 << 10;
/// Reads of a leaver, so that its end does not reset the connection while its last bytes are under way.
const MAX_LAST_READS: usize = 64;
/// Bytes after which the receiver acknowledges them without being asked. An acknowledgement costs both ends a call, and in front of the
/// program's answer it delays that: of the lively peer there may be more, but less than what an idle peer may cost its sender.
const ACK_EVERY: u64 = 16 << 10;
pub(crate) const ACK_LIVELY_EVERY: u64 = 48 << 10;

/// A write that has failed, and the bytes that had arrived by then and are unread. More may arrive, without end.
struct Failure {
    errno: Errno,
    unread: u64,
}

/// A link with one peer.
pub(crate) struct Link {
    peer: PeerId,
    pub(crate) incarnation: Incarnation,
    /// `None` while a connection is made.
    socket: Option<OwnedFd>,
    /// Of a link that outlives its connections.
    pub(crate) stream: Option<Stream>,
    /// Whether its coming up is to be reported.
    pub(crate) is_news: bool,
    rx: Rx,
    pub(crate) tx: Tx,
    /// What had arrived before a write failed is still to be read, and the connection ends after that.
    failure: Option<Failure>,
    /// Whether the socket is watched for room.
    wants_room: bool,
    /// An acknowledgement could not be sent yet.
    owes_ack: bool,
    is_network: bool,
}

impl Link {
    /// A link that ends with this connection.
    pub(crate) fn over(
        socket: OwnedFd,
        peer: PeerId,
        incarnation: Incarnation,
        lengths: Lengths,
    ) -> Link {
        let is_network = !matches!(socket_domain(&socket), Ok(AddressFamily::UNIX));
        let tx = Tx::new(HEADER + lengths.max_message + SHORT_ROOM, false);
        let lengths = Lengths { acknowledged: false, ..lengths };
        let link = Link::new(peer, incarnation, lengths, tx);
        Link { socket: Some(socket), is_network, ..link }
    }

    /// A link without a connection so far, with room for `window` bytes of copied frames.
    pub(crate) fn lasting(
        stream: Stream,
        peer: PeerId,
        incarnation: Incarnation,
        lengths: Lengths,
        window: usize,
    ) -> Link {
        let tx = Tx::new(window.max(HEADER + lengths.max_message + SHORT_ROOM), true);
        let lengths = Lengths { acknowledged: true, ..lengths };
        let link = Link::new(peer, incarnation, lengths, tx);
        Link { stream: Some(stream), is_network: true, ..link }
    }

    fn new(peer: PeerId, incarnation: Incarnation, lengths: Lengths, tx: Tx) -> Link {
        Link {
            peer,
            incarnation,
            socket: None,
            stream: None,
            is_news: false,
            rx: Rx::new(peer, lengths),
            tx,
            failure: None,
            wants_room: false,
            owes_ack: false,
            is_network: false,
        }
    }

    pub(crate) fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn uses(&self, segment: SegmentId) -> bool {
        self.tx.uses(segment)
    }

    /// The sends that have not ended.
    pub(crate) fn sends(&self) -> impl Iterator<Item = Token> {
        self.tx.tokens()
    }

    /// The rest of a message that is not all there.
    pub(crate) fn rest(&self) -> Option<Token> {
        self.rx.token()
    }

    /// What this side says in a handshake. `None` for a link that ends with its connection.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.stream.as_ref().map(Stream::standing)
    }

    /// Resumes over a new connection, which is watched, with all bytes that the peer has not received. Returns the number
    /// of calls of the sink, or `None` if the peer's position is impossible.
    pub(crate) fn resume<S: Sink>(
        &mut self,
        watch: &Watch,
        socket: OwnedFd,
        received: u64,
        sink: &mut S,
    ) -> Option<usize> {
        self.socket = Some(socket);
        let mut calls = 0;
        let sent = |token| {
            sink.sent(token, Ok(()));
            calls += 1;
        };
        if !self.tx.resume(received, sent) {
            return None;
        }
        self.owes_ack = false;
        if let Some(stream) = &mut self.stream {
            stream.acknowledged = stream.received;
        }
        calls += self.flush(watch, sink);
        self.want_room(watch, !self.tx.is_written() && !self.has_failed());
        Some(calls)
    }

    /// Gives the connection up. What was not acknowledged stays.
    pub(crate) fn suspend(&mut self, watch: &Watch) {
        if let Some(socket) = self.socket.take() {
            watch.remove(&socket);
        }
        self.failure = None;
        self.wants_room = false;
    }

    /// Whether the peer's kernel has everything that was accepted, and there is room for a goodbye.
    pub(crate) fn is_flushed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(socket) = &self.socket else { return self.tx.is_done() };
        self.tx.is_written()
            && !self.has_unreceived()
            && poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&now)) == Ok(1)
    }

    pub(crate) fn send_message(
        &mut self,
        watch: &Watch,
        head: Head,
        payload: Payload<'_>,
    ) -> Result<Sent, Refused> {
        let (len, ack) = (payload.len(), self.tx.asks_for_ack(payload));
        self.send(watch, Frame::Message { head, len, ack }, payload)
    }

    fn send(&mut self, watch: &Watch, frame: Frame, payload: Payload<'_>) -> Result<Sent, Refused> {
        let (header, room) = (frame.encode(), frame.room());
        if !self.has_failed() {
            let socket = self.socket.as_ref().map(AsFd::as_fd);
            match self.tx.send(socket, header, payload, room) {
                Ok(result) => {
                    self.want_room(watch, !self.tx.is_written());
                    return result;
                }
                Err(errno) => self.fail(watch, errno),
            }
        }
        match &self.stream {
            // It leaves over the next connection.
            Some(_) => self.tx.send(None, header, payload, room).unwrap_or(Err(Refused::Busy)),
            None => Err(Refused::Busy),
        }
    }

    /// Writes more of what is queued. Returns the calls of the sink.
    pub(crate) fn flush<S: Sink>(&mut self, watch: &Watch, sink: &mut S) -> usize {
        let Some(socket) = &self.socket else { return 0 };
        if self.has_failed() {
            return 0;
        }
        let mut calls = 0;
        let sent = |token| {
            sink.sent(token, Ok(()));
            calls += 1;
        };
        match self.tx.flush(socket.as_fd(), sent) {
            Ok(_) if self.tx.is_written() => {
                self.want_room(watch, false);
                if std::mem::take(&mut self.owes_ack) {
                    self.send_ack(watch);
                }
            }
            Ok(_) => {}
            Err(errno) => self.fail(watch, errno),
        }
        calls
    }

    fn fail(&mut self, watch: &Watch, errno: Errno) {
        let unread = self.socket.as_ref().map_or(0, |socket| ioctl_fionread(socket).unwrap_or(0));
        self.failure = Some(Failure { errno, unread });
        self.want_room(watch, false);
    }

    fn want_room(&mut self, watch: &Watch, yes: bool) {
        if let Some(socket) = &self.socket
            && self.wants_room != yes
        {
            self.wants_room = yes;
            watch.modify(socket, Key::Peer(self.peer), yes);
        }
    }

    /// Reads once, and hands over what came.
    pub(crate) fn read<S: Sink>(&mut self, watch: &Watch, buffer: &mut [u8], sink: &mut S) -> Turn {
        if let Some(Failure { errno, unread: 0 }) = self.failure {
            return Turn::ended(Some(lost(errno)));
        }
        let (calls, len) = match self.receive(buffer, sink) {
            Ok(Some(it)) => it,
            Ok(None) => {
                return Turn::ended(self.failure.as_ref().map(|failure| lost(failure.errno)));
            }
            Err(end) => return Turn::ended(Some(end)),
        };
        let mut turn = self.rx.take(&buffer[..len], sink);
        turn.calls += calls;
        // The rest of what has begun is there as well, mostly.
        if turn.end.is_none() && self.rx.destination().is_some() {
            match self.receive(buffer, sink) {
                Ok(Some((calls, len))) => {
                    let more = self.rx.take(&buffer[..len], sink);
                    turn.calls += calls + more.calls;
                    turn.acknowledged = more.acknowledged.or(turn.acknowledged);
                    turn.end = more.end;
                }
                Ok(None) => {}
                Err(end) => turn.end = Some(end),
            }
        }
        if let Some(received) = turn.acknowledged {
            let calls = &mut turn.calls;
            let sent = |token| {
                sink.sent(token, Ok(()));
                *calls += 1;
            };
            if !self.tx.acknowledge(received, sent) && turn.end.is_none() {
                let got = received.to_string();
                let what = "no more bytes than were sent";
                turn.end = Some(End::Broken(fault("an acknowledgement", what, got)));
            }
        }
        if turn.end.is_none() {
            // With a message the peer is the lively one.
            let limit = if turn.calls > 0 { ACK_LIVELY_EVERY } else { ACK_EVERY };
            self.acknowledge(watch, limit);
        }
        turn
    }

    /// Acknowledges what was left while the peer was the lively one.
    pub(crate) fn catch_up(&mut self, watch: &Watch) {
        self.acknowledge(watch, ACK_EVERY);
    }

    /// Acknowledges received bytes, if the peer waits for that, they are this many, or there was no room before.
    fn acknowledge(&mut self, watch: &Watch, limit: u64) {
        let is_due = self.rx.take_due() | std::mem::take(&mut self.owes_ack);
        let Some(stream) = &self.stream else { return };
        if is_due || stream.received - stream.acknowledged >= limit {
            self.send_ack(watch);
        }
    }

    fn send_ack(&mut self, watch: &Watch) {
        let Some(stream) = &mut self.stream else { return };
        let before = std::mem::replace(&mut stream.acknowledged, stream.received);
        let frame = Frame::Ack { received: stream.received };
        // Behind what waits it would only make that more.
        let is_sent = self.tx.is_written() && self.send(watch, frame, Payload::Parts(&[])).is_ok();
        if let Some(stream) = &mut self.stream
            && !is_sent
        {
            stream.acknowledged = before;
            self.owes_ack = true;
        }
    }

    /// Receives into user memory first, if a rest is under way, then into the buffer. Calls of the sink, and bytes
    /// in the buffer; `None` if nothing is there.
    fn receive<S: Sink>(
        &mut self,
        buffer: &mut [u8],
        sink: &mut S,
    ) -> Result<Option<(usize, usize)>, End> {
        let Some(socket) = &self.socket else { return Ok(None) };
        let step = self.rx.step(buffer.len());
        let (before, result) = match self.rx.destination() {
            None => {
                let before = self.rx.unstash(buffer);
                let result = recv(socket, &mut buffer[before..step], RecvFlags::DONTWAIT);
                (before, result.map(|(_, len)| len))
            }
            Some(user) => {
                let buffer = &mut buffer[..step];
                let mut pieces = [IoSliceMut::new(user), IoSliceMut::new(buffer)];
                let mut control = RecvAncillaryBuffer::default();
                let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
                let result = recvmsg(socket, &mut pieces, &mut control, flags);
                (0, result.map(|message| message.bytes))
            }
        };
        match result {
            Ok(0) => Err(End::Broken(Fault::Lost("it ended without a goodbye".to_owned()))),
            Ok(len) => {
                if let Some(failure) = &mut self.failure {
                    failure.unread = failure.unread.saturating_sub(len as u64);
                }
                if let Some(stream) = &mut self.stream {
                    stream.received += len as u64;
                }
                let room = self.rx.destination().map_or(0, |user| user.len());
                let calls = if room > 0 { self.rx.filled(len.min(room), sink) } else { 0 };
                Ok(Some((calls, before + len.saturating_sub(room))))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(lost(errno)),
        }
    }

    /// Says goodbye if everything before it could be written. Does not wait.
    pub(crate) fn say_goodbye(&mut self) {
        let Some(socket) = &self.socket else { return };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while matches!(self.tx.flush(socket.as_fd(), |_| {}), Ok(1..)) {}
        if self.tx.is_written() && !self.has_failed() {
            // Without it the peer takes the link for lost, which is all that can be said then.
            let _ = send(socket, &Frame::Goodbye.encode(), flags);
        }
        let _ = shutdown(socket, Shutdown::Write);
    }

    /// Drops what the peer still sends: to close a connection with unread bytes would reset it, and take from the
    /// peer what it has not received. Whether that can still happen.
    pub(crate) fn is_leaving(&self, buffer: &mut [u8]) -> bool {
        let Some(socket) = &self.socket else { return false };
        for _ in 0..MAX_LAST_READS {
            if !matches!(recv(socket, &mut *buffer, RecvFlags::DONTWAIT), Ok((_, 1..))) {
                break;
            }
        }
        self.has_unreceived()
    }

    /// Whether bytes have left this process that the peer's kernel has not received.
    fn has_unreceived(&self) -> bool {
        type Unreceived = Getter<{ libc::TIOCOUTQ as Opcode }, libc::c_int>;
        let Some(socket) = &self.socket else { return false };
        // SAFETY: the call writes one number; this is what it does for sockets of this family.
        let count = || unsafe { ioctl(socket, Unreceived::new()) };
        // The other end of a pair of `AF_UNIX` sockets has at once what is written.
        self.is_network && count().is_ok_and(|bytes| bytes > 0)
    }
}

fn lost(errno: Errno) -> End {
    End::Broken(Fault::Lost(errno.to_string()))
}
