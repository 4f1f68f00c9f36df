//! The connection between the event logger and whoever started it: whole packets, with descriptors.

use super::packet::{LONGEST, Malformed, Packet, decode};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Descriptors that one packet can bring.
const MAX_DESCRIPTORS: usize = 4;

/// Why nothing can be said or heard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The other end is closed.
    #[error("the other end of the event logger's connection is closed, or its process ended")]
    Closed,
    /// The other end must read first.
    #[error("the other end of the event logger's connection does not read; try again")]
    Full,
    /// What was heard is not in the format.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The operating system refused.
    #[error("event logger's connection: {call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    /// Events are kept in memory: a rank is served with two descriptors.
    in_memory: bool,
}

impl Channel {
    /// Both ends. The second one is for another process.
    pub fn pair(in_memory: bool) -> Result<(Self, OwnedFd), ChannelError> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(|errno| ChannelError::Os { call: "socketpair", errno })?;
        Ok((Channel { socket: ours, in_memory }, theirs))
    }

    /// An end that was inherited.
    pub fn inherited(socket: OwnedFd, in_memory: bool) -> Self {
        Channel { socket, in_memory }
    }

    /// Says something, if the other end reads.
    pub fn send(&self, packet: &Packet, files: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            let pushed = control.push(SendAncillaryMessage::ScmRights(files));
            assert!(pushed, "{} descriptors in one packet", files.len());
        }
        let bytes = packet.encode();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags)
        });
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => Err(ChannelError::Full),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(ChannelError::Closed),
            Err(errno) => Err(ChannelError::Os { call: "sendmsg", errno }),
        }
    }

    /// What was said, if anything was, with the descriptors that belong to it.
    pub fn receive(&self) -> Result<Option<(Packet, Vec<OwnedFd>)>, ChannelError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; LONGEST];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(&self.socket, &mut into, &mut control, flags) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let message = match received {
            Ok(message) => message,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(ChannelError::Closed),
            Err(errno) => return Err(ChannelError::Os { call: "recvmsg", errno }),
        };
        let mut files = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = part {
                files.extend(some);
            }
        }
        if message.bytes == 0 && files.is_empty() {
            return Err(ChannelError::Closed);
        }
        let wrong = |field, expected: String, got: String| {
            Err(ChannelError::Malformed(Malformed { field, expected, got }))
        };
        if message.flags.contains(ReturnFlags::TRUNC) {
            return wrong("length", format!("at most {LONGEST} bytes"), "more".into());
        }
        let packet = decode(&bytes[..message.bytes])?;
        let expected = packet.descriptors(self.in_memory);
        if files.len() != expected || message.flags.contains(ReturnFlags::CTRUNC) {
            let got = format!("{} (is the limit of open files reached?)", files.len());
            return wrong("descriptors", expected.to_string(), got);
        }
        Ok(Some((packet, files)))
    }

    /// Waits until something was said, or the other end is closed, but no longer than this.
    pub fn wait(&self, limit: Duration) {
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        // Ready, interrupted or too late: in each case the caller looks.
        let _ = rustix::event::poll(&mut fds, Some(&limit));
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
