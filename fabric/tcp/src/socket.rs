//! What is set on every socket, and how its options make a cut connection fail.

use crate::error::SetupError;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::os::fd::OwnedFd;
use std::time::Duration;
use taffrail_fabric::PeerId;

/// The shortest heartbeat: the kernel counts the time between two probes in whole seconds.
const MIN_HEARTBEAT: Duration = Duration::from_secs(1);
/// Probes of an idle connection that may remain without an answer.
const PROBES: u32 = 3;

/// Checks that a socket is what is needed, and sets its options.
pub(crate) fn prepare(
    peer: PeerId,
    socket: &OwnedFd,
    heartbeat: Duration,
) -> Result<(), SetupError> {
    let wrong = |got| SetupError::NotAStream { rank: peer.0, got };
    let kind = sockopt::socket_type(socket).map_err(|errno| wrong(errno.to_string()))?;
    if kind != SocketType::STREAM {
        return Err(wrong(format!("a socket of another type ({kind:?})")));
    }
    rustix::net::getpeername(socket).map_err(|errno| wrong(errno.to_string()))?;
    rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC)
        .map_err(SetupError::os("fcntl"))?;
    let domain = sockopt::socket_domain(socket).map_err(SetupError::os("getsockopt"))?;
    if domain == AddressFamily::INET || domain == AddressFamily::INET6 {
        tune(socket, heartbeat).map_err(SetupError::os("setsockopt"))?;
    }
    Ok(())
}

/// Turns off what delays short messages, and has the kernel probe an idle connection, so that it ends when nothing has come
/// back for the time of a heartbeat.
pub(crate) fn tune(socket: &OwnedFd, heartbeat: Duration) -> rustix::io::Result<()> {
    let probe = Duration::from_secs((heartbeat / (PROBES + 1)).as_secs().max(1));
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, probe)?;
    sockopt::set_tcp_keepintvl(socket, probe)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)
}

/// Has the kernel end a connection when data are under way and none were acknowledged for the time of a heartbeat. It does
/// so as well when the peer's process reads nothing and its buffer is full, so that this is only for connections that
/// are made anew.
pub(crate) fn limit(socket: &OwnedFd, heartbeat: Duration) -> rustix::io::Result<()> {
    let millis = heartbeat.max(MIN_HEARTBEAT).as_millis();
    sockopt::set_tcp_user_timeout(socket, u32::try_from(millis).unwrap_or(u32::MAX))
}
