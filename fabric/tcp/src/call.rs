//! Connections that this process makes.

use crate::acceptor::is_sent;
use crate::handshake::{Client, ClientStep, Identity, Nonce, Standing};
use crate::outage::{Outage, ReportLink};
use crate::socket::{limit, tune};
use crate::wait::{Key, Watch};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with, sockopt,
};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use taffrail_fabric::{Incarnation, PeerId};

/// A link that is to get a connection.
pub(crate) struct Call {
    pub(crate) outage: Outage,
    state: State,
}

enum State {
    /// For the next attempt, or for a call of the peer.
    Waiting(Instant),
    /// For the peer's kernel, up to a moment.
    Connecting { socket: OwnedFd, since: Instant, until: Instant },
    /// For the peer's process, as long as its kernel answers: it may compute.
    Shaking { socket: OwnedFd, client: Client },
}

/// Why an attempt has come to nothing.
pub(crate) struct Failed {
    pub(crate) why: String,
    /// The peer's host says that nobody listens there. Where no [membership](crate::Config::has_membership) says who has died, the
    /// process has ended.
    pub(crate) nobody: bool,
}

impl Failed {
    pub(crate) fn new(why: impl ToString) -> Failed {
        Failed { why: why.to_string(), nobody: false }
    }

    pub(crate) fn os(errno: Errno) -> Failed {
        Failed { why: errno.to_string(), nobody: errno == Errno::CONNREFUSED }
    }
}

/// The peer to connect to, and the contents of the handshake.
pub(crate) struct Callee<'a> {
    pub(crate) me: &'a Identity,
    pub(crate) peer: PeerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) standing: Standing,
}

impl Call {
    /// A call with its first attempt due after `delay`.
    pub(crate) fn new(now: Instant, delay: Duration, outage: Outage) -> Call {
        Call { outage, state: State::Waiting(now + delay) }
    }

    /// The next moment at which something is to be done.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) | State::Connecting { until, .. } => Some(until),
            State::Shaking { .. } => None,
        }
    }

    /// An attempt has failed. Reports that the peer's host does not answer, unless it has: its process may compute.
    pub(crate) fn report_down(
        &mut self,
        now: Instant,
        callee: (PeerId, Incarnation),
        failed: &Failed,
        report: ReportLink,
    ) {
        if !matches!(self.state, State::Shaking { .. }) {
            self.outage.report_down(now, callee, failed, report);
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// Whether an attempt is under way that is likely to succeed.
    pub(crate) fn is_promising(&self, now: Instant) -> bool {
        match self.state {
            State::Waiting(_) => false,
            // The way may be open in the other direction alone.
            State::Connecting { since, .. } => now < since + Duration::from_secs(1),
            State::Shaking { .. } => true,
        }
    }

    /// Gives the attempt up, and waits for the next.
    pub(crate) fn pause(&mut self, watch: &Watch, now: Instant) {
        self.stop(watch);
        self.state = State::Waiting(now + self.outage.next_pause());
    }

    /// Waits for the peer, which has no address.
    pub(crate) fn wait(&mut self, until: Instant) {
        self.state = State::Waiting(until);
    }

    /// Ends the attempt that is under way, if there is one.
    pub(crate) fn stop(&mut self, watch: &Watch) {
        match &self.state {
            State::Waiting(_) => {}
            State::Connecting { socket, .. } | State::Shaking { socket, .. } => {
                watch.remove(socket)
            }
        }
        self.state = State::Waiting(self.outage.since);
    }

    /// Begins an attempt, which has the time of a heartbeat to reach the peer's kernel.
    pub(crate) fn start(
        &mut self,
        watch: &Watch,
        peer: PeerId,
        address: SocketAddr,
        heartbeat: Duration,
    ) -> Result<(), Failed> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(Failed::os)?;
        tune(&socket, heartbeat).map_err(Failed::os)?;
        limit(&socket, heartbeat).map_err(Failed::os)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(Failed::os(errno)),
        }
        watch.add_for_room(&socket, Key::Call(peer.0)).map_err(Failed::new)?;
        let since = Instant::now();
        self.state = State::Connecting { socket, since, until: since + heartbeat };
        Ok(())
    }

    /// The socket is ready for something. The answer of the peer, when it has come.
    pub(crate) fn advance(
        &mut self,
        watch: &Watch,
        callee: &Callee<'_>,
        nonce: impl FnOnce() -> Nonce,
    ) -> Result<ClientStep, Failed> {
        if let State::Connecting { socket, .. } = &self.state {
            match sockopt::socket_error(socket) {
                Ok(Ok(())) => {}
                Ok(Err(errno)) | Err(errno) => return Err(Failed::os(errno)),
            }
            if rustix::net::getpeername(socket).is_err() {
                return Ok(ClientStep::More);
            }
            let (peer, incarnation) = (callee.peer, callee.incarnation);
            let (client, hello) = Client::new(callee.me, peer.0, incarnation, nonce());
            if !is_sent(socket, &hello) {
                return Err(Failed::new("it ended before the handshake"));
            }
            watch.modify(socket, Key::Call(peer.0), false);
            let state = std::mem::replace(&mut self.state, State::Waiting(self.outage.since));
            if let State::Connecting { socket, .. } = state {
                self.state = State::Shaking { socket, client };
                self.outage.answered();
            }
        }
        match &mut self.state {
            State::Shaking { socket, client } => shake(socket, client, callee),
            _ => Ok(ClientStep::More),
        }
    }

    /// The socket of a handshake that is complete, and the outage that may end with it.
    pub(crate) fn into_parts(self, watch: &Watch) -> (Option<OwnedFd>, Outage) {
        let socket = match self.state {
            State::Shaking { socket, .. } => {
                watch.remove(&socket);
                Some(socket)
            }
            _ => None,
        };
        (socket, self.outage)
    }
}

/// Reads and answers, never more than the packet that is awaited.
fn shake(socket: &OwnedFd, client: &mut Client, callee: &Callee<'_>) -> Result<ClientStep, Failed> {
    loop {
        let mut buffer = [0; 128];
        let wants = client.wants().min(buffer.len());
        let len = match recv(socket, &mut buffer[..wants], RecvFlags::DONTWAIT) {
            Ok((_, len @ 1..)) => len,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(ClientStep::More),
            Ok(_) => {
                return Err(Failed::new(
                    "it ended the handshake; its job, secret or version may differ",
                ));
            }
            // A process that ends resets the connections that it has not accepted: the next attempt shows whether.
            Err(errno) => return Err(Failed::new(errno)),
        };
        match client.take(&buffer[..len], callee.me, &callee.standing) {
            Ok(ClientStep::More) => {}
            Ok(ClientStep::Send(packet)) if is_sent(socket, &packet) => {}
            Ok(ClientStep::Send(_)) => return Err(Failed::new("it ended during the handshake")),
            Ok(answer @ ClientStep::Answer { .. }) => return Ok(answer),
            Err(rejected) => return Err(Failed::new(rejected)),
        }
    }
}
