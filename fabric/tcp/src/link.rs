//! One connection.

use crate::frame::{Frame, HEADER};
use crate::rx::{End, Lengths, Rx, Turn};
use crate::tx::{Payload, Tx};
use crate::wait::Watch;
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
use taffrail_fabric::{Fault, Incarnation, PeerId, Refused, SegmentId, Sent, Sink, Token};

/// Bytes that may be queued beyond the rest of the longest frame: room for short messages behind it.
const SHORT_ROOM: usize = 16 << 10;
/// Reads of a leaver, so that its end does not reset the connection while its last bytes are under way.
const MAX_LAST_READS: usize = 64;

/// A write that has failed, and the bytes that had arrived by then and are unread. More may arrive, without end.
struct Failure {
    errno: Errno,
    unread: u64,
}

/// A connection with one peer.
pub(crate) struct Link {
    socket: OwnedFd,
    peer: PeerId,
    pub(crate) incarnation: Incarnation,
    rx: Rx,
    tx: Tx,
    /// A write has failed. What had arrived before is still to be read, and the link ends after that.
    failure: Option<Failure>,
    /// Whether the socket is watched for room.
    wants_room: bool,
    is_network: bool,
}

impl Link {
    pub(crate) fn new(
        socket: OwnedFd,
        peer: PeerId,
        incarnation: Incarnation,
        lengths: Lengths,
    ) -> Link {
        let tx = Tx::new(HEADER + lengths.max_message + SHORT_ROOM);
        let rx = Rx::new(peer, lengths);
        let is_network = !matches!(socket_domain(&socket), Ok(AddressFamily::UNIX));
        Link { socket, peer, incarnation, rx, tx, failure: None, wants_room: false, is_network }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
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

    /// Whether the peer's kernel has everything that was accepted, and there is room for a goodbye.
    pub(crate) fn is_flushed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.tx.is_empty()
            && !self.has_unreceived()
            && poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&now)) == Ok(1)
    }

    pub(crate) fn send(
        &mut self,
        watch: &Watch,
        frame: Frame,
        payload: Payload<'_>,
    ) -> Result<Sent, Refused> {
        if self.has_failed() {
            return Err(Refused::Busy);
        }
        match self.tx.send(self.socket.as_fd(), frame.encode(), payload) {
            Ok(result) => {
                if !self.tx.is_empty() && !self.wants_room {
                    self.want_room(watch, true);
                }
                result
            }
            Err(errno) => {
                self.fail(watch, errno);
                Err(Refused::Busy)
            }
        }
    }

    /// Writes more of what is queued. Returns the calls of the sink.
    pub(crate) fn flush<S: Sink>(&mut self, watch: &Watch, sink: &mut S) -> usize {
        if self.has_failed() {
            return 0;
        }
        let mut calls = 0;
        let sent = |token| {
            sink.sent(token, Ok(()));
            calls += 1;
        };
        match self.tx.flush(self.socket.as_fd(), sent) {
            Ok(_) if self.tx.is_empty() => self.want_room(watch, false),
            Ok(_) => {}
            Err(errno) => self.fail(watch, errno),
        }
        calls
    }

    fn fail(&mut self, watch: &Watch, errno: Errno) {
        let unread = ioctl_fionread(&self.socket).unwrap_or(0);
        self.failure = Some(Failure { errno, unread });
        self.want_room(watch, false);
    }

    fn want_room(&mut self, watch: &Watch, yes: bool) {
        self.wants_room = yes;
        watch.modify(&self.socket, self.peer, yes);
    }

    /// Reads once, and hands over what came.
    pub(crate) fn read<S: Sink>(&mut self, buffer: &mut [u8], sink: &mut S) -> Turn {
        if let Some(Failure { errno, unread: 0 }) = self.failure {
            return Turn { calls: 0, end: Some(lost(errno)) };
        }
        let (calls, len) = match self.receive(buffer, sink) {
            Ok(Some(it)) => it,
            Ok(None) => {
                let end = self.failure.as_ref().map(|failure| lost(failure.errno));
                return Turn { calls: 0, end };
            }
            Err(end) => return Turn { calls: 0, end: Some(end) },
        };
        let turn = self.rx.take(&buffer[..len], sink);
        Turn { calls: calls + turn.calls, end: turn.end }
    }

    /// Receives into user memory first, if a rest is under way, then into the buffer. Calls of the sink, and bytes
    /// in the buffer; `None` if nothing is there.
    fn receive<S: Sink>(
        &mut self,
        buffer: &mut [u8],
        sink: &mut S,
    ) -> Result<Option<(usize, usize)>, End> {
        let (before, result) = match self.rx.destination() {
            None => {
                let before = self.rx.unstash(buffer);
                let result = recv(&self.socket, &mut buffer[before..], RecvFlags::DONTWAIT);
                (before, result.map(|(_, len)| len))
            }
            Some(user) => {
                let mut pieces = [IoSliceMut::new(user), IoSliceMut::new(buffer)];
                let mut control = RecvAncillaryBuffer::default();
                let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
                let result = recvmsg(&self.socket, &mut pieces, &mut control, flags);
                (0, result.map(|message| message.bytes))
            }
        };
        match result {
            Ok(0) => Err(End::Broken(Fault::Lost("it ended without a goodbye".to_owned()))),
            Ok(len) => {
                if let Some(failure) = &mut self.failure {
                    failure.unread = failure.unread.saturating_sub(len as u64);
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
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while !self.tx.is_empty() && matches!(self.tx.flush(self.socket.as_fd(), |_| {}), Ok(1..)) {
        }
        if self.tx.is_empty() && !self.has_failed() {
            // Without it the peer takes the link for lost, which is all that can be said then.
            let _ = send(&self.socket, &Frame::Goodbye.encode(), flags);
        }
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Drops what the peer still sends: to close a connection with unread bytes would reset it, and take from the
    /// peer what it has not received. Whether that can still happen.
    pub(crate) fn is_leaving(&self, buffer: &mut [u8]) -> bool {
        for _ in 0..MAX_LAST_READS {
            if !matches!(recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT), Ok((_, 1..))) {
                break;
            }
        }
        self.has_unreceived()
    }

    /// Whether bytes have left this process that the peer's kernel has not received.
    fn has_unreceived(&self) -> bool {
        type Unreceived = Getter<{ libc::TIOCOUTQ as Opcode }, libc::c_int>;
        // SAFETY: the call writes one number; this is what it does for sockets of this family.
        let count = || unsafe { ioctl(&self.socket, Unreceived::new()) };
        // The other end of a pair of `AF_UNIX` sockets has at once what is written.
        self.is_network && count().is_ok_and(|bytes| bytes > 0)
    }
}

fn lost(errno: Errno) -> End {
    End::Broken(Fault::Lost(errno.to_string()))
}
