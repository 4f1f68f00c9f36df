//! Agents that connect with the launcher by themselves, since their starter passes on lines at best (`docs/spec/agent.md`,
//! section 2).

use super::channel::Channel;
use crate::run::{Failure, say};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use taffrail_agent::wire::Direction;
use taffrail_agent::{Incarnation, NODES_MAX, NodeId};
use taffrail_tcp::admission::{Admission, call};
use taffrail_tcp::handshake::Identity;
use taffrail_tcp::{Config, Interface, Listener, Secret, Tally};

/// The number of the launcher, behind those of nodes.
const LAUNCHER: u32 = NODES_MAX as u32;
const JOB: [u8; 16] = *b"taffrail-agent 1";
/// How long each step of a connection may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Bytes of an invitation at most: less than starters pass on at a time.
const LONGEST: u64 = 1024;

/// What was refused, in this process: a launcher listens once.
static REFUSED: Tally = [const { AtomicU64::new(0) }; 5];

/// The only line on the standard input of such an agent.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    node: NodeId,
    /// Where the launcher listens.
    address: SocketAddr,
    /// What both sides prove to know.
    secret: [u8; 32],
}

/// Where a launcher waits for such agents.
pub struct Callers {
    admission: Admission,
    address: SocketAddr,
    secret: [u8; 32],
}

impl Callers {
    /// Listens on this network, or on the first address that other hosts may reach.
    pub fn listen(network: &str) -> std::result::Result<Callers, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::new(format!("the launcher cannot listen for its agents: {why}"))
        };
        let interface: Interface = match network {
            "" => Interface::outward().map_err(|e| failed(&e))?,
            network => network.parse().map_err(|e| failed(&e))?,
        };
        let listener = Listener::bind(&interface, 0).map_err(|e| failed(&e))?;
        let mut address = listener.address();
        if address.ip().is_unspecified() {
            let outward = Interface::outward().and_then(|interface| interface.address());
            address.set_ip(outward.map_err(|e| failed(&e))?);
        }
        let mut secret = [0; 32];
        getrandom(&mut secret, GetRandomFlags::empty()).map_err(|e| failed(&e))?;
        let tally = Some(&REFUSED);
        let config = Config { handshake: LIMIT, say, tally, ..Config::default() };
        let me = identity(secret, LAUNCHER);
        let admission = Admission::new(listener, me, NODES_MAX as u32, &config);
        Ok(Callers { admission: admission.map_err(|e| failed(&e))?, address, secret })
    }

    /// For the agent of a node.
    pub fn invitation(&self, node: NodeId) -> Invitation {
        Invitation { node, address: self.address, secret: self.secret }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.admission.fd()
    }

    pub fn due(&self) -> Option<Instant> {
        self.admission.due()
    }

    /// What was refused up to now, by reason.
    pub fn refused(&self) -> [u64; 5] {
        REFUSED.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Agents that have come.
    pub fn take(&mut self) -> Vec<(NodeId, Result<Channel>)> {
        let channel = |socket| channel(socket, Direction::Up);
        let all = self.admission.take().into_iter();
        all.map(|(node, socket)| (node as NodeId, channel(socket))).collect()
    }
}

impl Invitation {
    /// The line.
    pub fn line(&self) -> Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Reads the line.
    pub fn read(from: impl BufRead) -> Result<Invitation> {
        let mut line = Vec::new();
        from.take(LONGEST).read_until(b'\n', &mut line)?;
        let wrong = |e| Error::new(ErrorKind::InvalidData, format!("not an invitation: {e}"));
        serde_json::from_slice(&line).map_err(wrong)
    }

    /// Connects with the launcher.
    pub fn accept(&self) -> Result<Channel> {
        let me = identity(self.secret, self.node.into());
        let with_address = |e: Error| Error::new(e.kind(), format!("{}: {e}", self.address));
        let stream = call(self.address, &me, LAUNCHER, LIMIT).map_err(with_address)?;
        channel(TcpStream::into(stream), Direction::Down)
    }
}

fn identity(secret: [u8; 32], rank: u32) -> Identity {
    Identity { job: JOB, secret: Secret::new(secret), rank, incarnation: Incarnation(0) }
}

fn channel(socket: OwnedFd, from: Direction) -> Result<Channel> {
    Channel::new(socket.as_fd().try_clone_to_owned()?, socket, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitations_are_one_short_line() {
        for address in ["10.0.0.1:65535", "[fd00:1111:2222:3333:4444:5555:6666:7777]:65535"] {
            let address = address.parse().unwrap();
            let invitation = Invitation { node: 1023, address, secret: [255; 32] };
            let line = invitation.line().unwrap();
            assert!(
                line.len() < LONGEST as usize && line.iter().filter(|&&b| b == b'\n').count() == 1
            );
            assert!(Invitation::read(&line[..]).unwrap() == invitation);
            assert!(Invitation::read(&line[..line.len() - 2]).is_err());
        }
        let error = Invitation::read(&b"Welcome to this host\n"[..]).err().unwrap().to_string();
        assert!(error.starts_with("not an invitation: "), "{error}");
    }

    #[test]
    fn who_was_invited_is_let_in() {
        let mut callers = Callers::listen("127.0.0.1").unwrap();
        let agent = std::thread::spawn({
            let invitation = callers.invitation(3);
            move || invitation.accept().map(|_| ())
        });
        let stranger = Invitation { secret: [0; 32], ..callers.invitation(2) };
        let stranger = std::thread::spawn(move || stranger.accept().map(|_| ()));
        let mut come = Vec::new();
        while come.is_empty() || !stranger.is_finished() {
            come.extend(callers.take());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(agent.join().unwrap().is_ok());
        assert_eq!(stranger.join().unwrap().unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(come.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [3]);
        assert!(come[0].1.is_ok());
    }
}
