//! Connections between processes of a job that are no ranks, such as launcher and agents: the handshake is that of ranks,
//! in both directions, and what follows it is the business of those processes.

use crate::acceptor::{Acceptor, Dropped};
use crate::address::Listener;
use crate::handshake::{Client, ClientStep, Identity, Standing, Verdict, nonce};
use crate::socket::tune;
use crate::wait::{Key, Watch};
use crate::{Config, SetupError};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use taffrail_fabric::{Incarnation, PeerId};

/// Both sides have one stream, which begins and ends with the connection.
const STANDING: Standing = Standing { session: 1, peer_session: 0, received: 0, accepted: 0 };

/// A listener that hands over the connections of processes that have proven that they belong to the job. As many
/// handshakes as [`Config::max_handshakes`] are under way at a time, for [`Config::handshake`] at most; what ends without a
/// proof is counted, and said by [`Config::say`].
pub struct Admission {
    watch: Watch,
    acceptor: Acceptor,
    me: Identity,
    callers: u32,
    heartbeat: Duration,
}

impl Admission {
    /// Takes callers of the numbers below `callers`, each as often as it likes.
    ///
    /// # Errors
    /// [`SetupError::Os`]: no descriptors are left.
    pub fn new(
        listener: Listener,
        me: Identity,
        callers: u32,
        config: &Config,
    ) -> std::result::Result<Admission, SetupError> {
        let watch = Watch::new(PeerId(me.rank))?;
        watch.add(listener.socket(), Key::Listener)?;
        let acceptor = Acceptor::new(listener, config);
        Ok(Admission { watch, acceptor, me, callers, heartbeat: config.heartbeat })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.listener().address()
    }

    /// It is readable when [`take`](Self::take) has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// When `take` has something to do, if nothing comes before.
    pub fn due(&self) -> Option<Instant> {
        self.acceptor.deadline()
    }

    /// What was dropped up to now.
    pub fn dropped(&self) -> Dropped {
        self.acceptor.dropped
    }

    /// Continues all handshakes, without waiting. The callers that have proven themselves meanwhile, with their
    /// non-blocking sockets.
    pub fn take(&mut self) -> Vec<(u32, OwnedFd)> {
        let mut proven = Vec::new();
        for ready in self.watch.ready() {
            match ready.key {
                Key::Listener => {
                    let heartbeat = self.heartbeat;
                    self.acceptor.accept(&self.watch, |socket| tune(socket, heartbeat), nonce);
                }
                Key::Slot(index) => {
                    let read = self.acceptor.read(&self.watch, index, &self.me, self.callers);
                    proven.extend(read.and_then(|visitor| {
                        let caller = visitor.proven.rank;
                        let socket = visitor.answer(Verdict::Welcome, &STANDING, &self.me)?;
                        Some((caller, socket))
                    }));
                }
                Key::Peer(_) | Key::Call(_) | Key::Timer => {}
            }
        }
        self.acceptor.expire(&self.watch, Instant::now());
        proven
    }
}

/// Connects to the [`Admission`] of process `callee` at an address. Both prove that they belong to the job. Each step may take
/// `limit`; the socket blocks, without a limit.
///
/// # Errors
/// Those of the connection; [`ErrorKind::PermissionDenied`] if the other side proves nothing, or refuses this one.
pub fn call(address: SocketAddr, me: &Identity, callee: u32, limit: Duration) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    let heartbeat = Config::default().heartbeat;
    let fd = stream.as_fd().try_clone_to_owned()?;
    tune(&fd, heartbeat)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    prove(&mut stream, me, callee)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

fn prove(stream: &mut TcpStream, me: &Identity, callee: u32) -> Result<()> {
    let (mut client, hello) = Client::new(me, callee, Incarnation(0), nonce());
    stream.write_all(&hello)?;
    while client.wants() > 0 {
        let mut bytes = vec![0; client.wants()];
        stream.read_exact(&mut bytes).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                rejected("it ended the handshake; its job, secret or version may differ")
            }
            _ => e,
        })?;
        match client.take(&bytes, me, &STANDING).map_err(rejected)? {
            ClientStep::More => {}
            ClientStep::Send(proof) => stream.write_all(&proof)?,
            ClientStep::Answer { verdict: Verdict::Welcome, .. } => return Ok(()),
            ClientStep::Answer { verdict, .. } => {
                return Err(rejected(format!("the answer was {verdict:?}")));
            }
        }
    }
    Err(rejected("the handshake has no end"))
}

fn rejected(why: impl ToString) -> Error {
    Error::new(ErrorKind::PermissionDenied, why.to_string())
}

#[cfg(test)]
mod tests;
