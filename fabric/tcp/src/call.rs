//! Connections that this process makes.

use crate::acceptor::is_sent;
use crate::handshake::{Client, ClientStep, Identity, Nonce, Standing};
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

/// Pauses between two attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// After how long without a connection a user should know; then after twice the time, and so on.
const LONG: Duration = Duration::from_secs(10);

/// A link that is to get a connection.
pub(crate) struct Call {
    /// Since when there is none.
    pub(crate) since: Instant,
    /// Why the last connection was lost.
    pub(crate) lost: Option<String>,
    /// How long there may be none before that is said.
    quiet: Duration,
    pause: Duration,
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
    /// The peer's host says that nobody listens there: the process has ended.
    pub(crate) nobody: bool,
}

impl Failed {
    fn new(why: impl ToString) -> Failed {
        Failed { why: why.to_string(), nobody: false }
    }

    fn os(errno: Errno) -> Failed {
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
    pub(crate) fn new(now: Instant, delay: Duration, lost: Option<String>) -> Call {
        Call {
            since: now,
            lost,
            quiet: LONG,
            pause: FIRST_PAUSE,
            state: State::Waiting(now + delay),
        }
    }

    /// The next moment at which something is to be done.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) | State::Connecting { until, .. } => Some(until),
            State::Shaking { .. } => None,
        }
    }

    /// For how long there has been no connection, if that is to be said now.
    pub(crate) fn long(&mut self, now: Instant) -> Option<Duration> {
        let took = now.saturating_duration_since(self.since);
        let is_long = took >= self.quiet;
        while self.quiet <= took {
            self.quiet *= 2;
        }
        is_long.then_some(took)
    }

    /// When that is to be said next.
    pub(crate) fn long_at(&self) -> Instant {
        self.since + self.quiet
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
        self.state = State::Waiting(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
        self.state = State::Waiting(self.since);
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
            let state = std::mem::replace(&mut self.state, State::Waiting(self.since));
            if let State::Connecting { socket, .. } = state {
                self.state = State::Shaking { socket, client };
            }
        }
        match &mut self.state {
            State::Shaking { socket, client } => shake(socket, client, callee),
            _ => Ok(ClientStep::More),
        }
    }

    /// The socket of a handshake that is complete.
    pub(crate) fn into_socket(self, watch: &Watch) -> Option<OwnedFd> {
        match self.state {
            State::Shaking { socket, .. } => {
                watch.remove(&socket);
                Some(socket)
            }
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_there_is_no_connection_is_said_after_10_20_and_40_seconds() {
        let begun = Instant::now();
        let mut call = Call::new(begun, Duration::ZERO, None);
        let said =
            (0..100).filter(|&second| call.long(begun + Duration::from_secs(second)).is_some());
        assert_eq!(said.collect::<Vec<_>>(), [10, 20, 40, 80]);
        assert_eq!(call.long_at(), begun + Duration::from_secs(160));
        // Nobody has looked for long.
        assert!(call.long(begun + Duration::from_secs(1000)).is_some());
        assert_eq!(call.long_at(), begun + Duration::from_secs(1280));
    }
}
