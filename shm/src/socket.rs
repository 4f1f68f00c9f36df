//! The sockets between processes: handshake, passed descriptors, and the end of a process.
//!
//! Unix sockets of whole packets with abstract names: no file is left behind. Only processes of the
//! same user are listened to.

mod address;
mod callers;
mod children;
mod connect;
mod dial;
mod greeting;
mod packet;
mod setup_error;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use taffrail_fabric::Fault;

pub use address::Address;
pub(crate) use callers::{Callers, Came};
pub use connect::OnWait;
pub(crate) use connect::{Terms, connect_all};
use dial::own_user;
pub(crate) use dial::{DialError, dial};
pub(crate) use greeting::{Offer, Peer, hear};
pub use packet::{Hello, Malformed, Notice, decode_hello, decode_notice};
pub use setup_error::SetupError;

/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Descriptors that one packet can bring before the kernel cuts the rest off.
const MAX_DESCRIPTORS: usize = 4;

/// Where other processes of the job find this one.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    address: Address,
}

impl Drop for Listener {
    fn drop(&mut self) {
        children::forget(self.socket.as_raw_fd());
    }
}

impl Listener {
    /// Listens under a random name of its own.
    ///
    /// # Errors
    /// [`SetupError`] when the kernel refuses a socket, or no random number is to be had.
    pub fn bind() -> Result<Self, SetupError> {
        let name = format!("taffrail-{:032x}", u128::from_ne_bytes(random()?));
        Listener::named(&name, Duration::ZERO)
    }

    /// Listens under this name. While another process does, such as the one before this that is not
    /// quite gone yet, it is waited for.
    ///
    /// # Errors
    /// [`SetupError::NameTaken`] when the patience is over; others when this is no name, or the kernel
    /// refuses a socket.
    pub fn named(name: &str, patience: Duration) -> Result<Self, SetupError> {
        let os = |call| move |errno| SetupError::Os { call, errno };
        let address = Address::parse(name.as_bytes())?;
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(os("bind"))?;
        let socket = new_socket()?;
        let start = Instant::now();
        while let Err(errno) = rustix::net::bind(&socket, &name) {
            if errno != Errno::ADDRINUSE {
                return Err(os("bind")(errno));
            }
            if start.elapsed() >= patience {
                return Err(SetupError::NameTaken { name: address.to_string(), waited: patience });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        rustix::net::listen(&socket, BACKLOG).map_err(os("listen"))?;
        children::keep_from(socket.as_raw_fd());
        Ok(Listener { socket, address })
    }

    /// The next connection and the user of its process; `None` when there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn accept(&self) -> Result<Option<(Link, u32)>, SetupError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let socket = match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return Err(SetupError::from_os("accept", errno)),
            };
            let (pid, uid) = credentials(&socket)?;
            return Ok(Some((Link { socket, pid }, uid)));
        }
    }

    /// Readable when somebody has connected.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The name to be published; it is valid as soon as it is known.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// The connection to one peer.
///
/// It ends when the peer's process does. A child that the peer forked holds the socket open beyond
/// that; [`Watch`](crate::liveness::Watch) therefore looks at the process, too.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    pid: i32,
}

/// What a peer said.
#[derive(Debug)]
pub(crate) enum Packet {
    /// Memory that may be mapped from now on.
    Region {
        /// Its name in keys.
        region: u32,
        /// The length of the file, as announced.
        len: u64,
        /// How many of its bytes count; at most `len`.
        used: u64,
        /// The file, unchecked.
        fd: OwnedFd,
    },
    /// A region's name is not valid any more.
    Forget {
        /// Its name in keys.
        region: u32,
    },
}

/// Why a packet could not be sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkError {
    /// The peer has many packets to read; try again when it has read some.
    #[error("the peer has not read its packets yet; try again")]
    Full,
    /// The peer's end is closed.
    #[error("the peer closed its socket, or its process ended")]
    Closed,
    /// The peer sent what the format does not allow.
    #[error(transparent)]
    Protocol(#[from] Malformed),
    /// A descriptor that came with a packet was lost, since too many are open.
    #[error("too many open files to receive a descriptor; raise the limit (ulimit -n)")]
    Descriptors,
    /// The operating system refused.
    #[error("{call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => Fault::Died,
            LinkError::Protocol(bad) => bad.into(),
            LinkError::Full => Fault::Os { call: "sendmsg", errno: error.to_string() },
            LinkError::Descriptors => Fault::Os { call: "recvmsg", errno: error.to_string() },
            LinkError::Os { call, errno } => Fault::Os { call, errno: errno.to_string() },
        }
    }
}

impl Link {
    /// Gives the peer a file of `len` bytes of memory under the name `region`; `used` of them count.
    ///
    /// # Errors
    /// [`LinkError::Full`] when the peer must read first, [`LinkError::Closed`] when it is gone.
    pub fn send_region(
        &self,
        region: u32,
        len: u64,
        used: u64,
        file: BorrowedFd<'_>,
    ) -> Result<(), LinkError> {
        send(&self.socket, &Notice::Region { region, len, used }.encode(), &[file])
    }

    /// Takes the name `region` back.
    ///
    /// # Errors
    /// As [`send_region`](Self::send_region).
    pub fn send_forget(&self, region: u32) -> Result<(), LinkError> {
        send(&self.socket, &Notice::Forget { region }.encode(), &[])
    }

    /// The next packet, if there is one.
    ///
    /// # Errors
    /// [`LinkError::Closed`] after the last packet of a peer that is gone; [`LinkError::Protocol`]
    /// when the packet or the number of its descriptors is wrong (they are closed then).
    pub fn receive(&self) -> Result<Option<Packet>, LinkError> {
        let Some((bytes, files)) = receive(&self.socket)? else { return Ok(None) };
        let notice = decode_notice(&bytes)?;
        packet::same("packet, descriptors", notice.descriptors(), files.len())?;
        Ok(Some(match (notice, files.into_iter().next()) {
            (Notice::Region { region, len, used }, Some(fd)) => {
                Packet::Region { region, len, used, fd }
            }
            (Notice::Region { region, .. } | Notice::Forget { region }, _) => {
                Packet::Forget { region }
            }
        }))
    }

    /// Says that nothing will be sent any more: the peer finds this end closed. What it says is still
    /// heard.
    pub fn shut(&self) {
        // Fails when the peer has closed its end already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// Whether the peer's end is closed. Packets may still be there to be received.
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&now)) {
            Ok(_) => fds[0]
                .revents()
                .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            Err(_) => false,
        }
    }

    /// The peer's process, 0 when it is not visible from here.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends one packet, or nothing.
fn send(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), LinkError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        let pushed = control.push(SendAncillaryMessage::ScmRights(files));
        debug_assert!(pushed, "{} descriptors in one packet", files.len());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)
    });
    match sent {
        Ok(_) => Ok(()),
        // Too many references: more descriptors are under way between processes of this user than
        // the limit of open files allows; they become fewer as receivers take them.
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => Err(LinkError::Full),
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(LinkError::Closed),
        Err(errno) => Err(LinkError::Os { call: "sendmsg", errno }),
    }
}

/// A packet's bytes and descriptors.
type Received = (Vec<u8>, Vec<OwnedFd>);

/// Receives one packet and its descriptors, if there is one.
fn receive(socket: &OwnedFd) -> Result<Option<Received>, LinkError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; packet::LONGEST];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket, &mut into, &mut control, flags) {
            // A reset is said once, ahead of packets that arrived before it.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            other => break other,
        }
    };
    let message = match received {
        Ok(message) => message,
        Err(Errno::AGAIN) => return Ok(None),
        Err(errno) => return Err(LinkError::Os { call: "recvmsg", errno }),
    };
    let mut files = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            files.extend(some);
        }
    }
    if message.bytes == 0 && files.is_empty() {
        return Err(LinkError::Closed);
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(LinkError::Protocol(Malformed {
            place: "packet, length",
            expected: format!("at most {}", packet::LONGEST),
            got: "more".into(),
        }));
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(if files.len() >= MAX_DESCRIPTORS {
            LinkError::Protocol(Malformed {
                place: "packet, descriptors",
                expected: "at most 3".into(),
                got: format!("more than {MAX_DESCRIPTORS}"),
            })
        } else {
            LinkError::Descriptors
        });
    }
    bytes.truncate(message.bytes);
    Ok(Some((bytes, files)))
}

fn new_socket() -> Result<OwnedFd, SetupError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|errno| SetupError::from_os("socket", errno))
}

/// Process (0: not visible from here) and user of the other end.
fn credentials(socket: &OwnedFd) -> Result<(i32, u32), SetupError> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both pointers are to live variables, and `len` is the first one's length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut len,
        )
    };
    if result == 0 {
        return Ok((found.pid, found.uid));
    }
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    Err(SetupError::Os { call: "getsockopt(SO_PEERCRED)", errno })
}

fn random() -> Result<[u8; 16], SetupError> {
    let mut bytes = [0u8; 16];
    loop {
        // SAFETY: the buffer is writable for its length.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if got == bytes.len() as isize {
            return Ok(bytes);
        }
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
        if errno != Errno::INTR {
            return Err(SetupError::Os { call: "getrandom", errno });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
