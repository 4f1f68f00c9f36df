//! Ranks inside one process, connected with each other.

use crate::error::SetupError;
use crate::fabric::{Config, Connection, TcpFabric};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Ipv4Addr, SocketAddrV4, SocketFlags, SocketType, accept_with, bind, connect,
    getsockname, listen, socket_with, socketpair,
};
use std::os::fd::OwnedFd;
use taffrail_fabric::{Incarnation, PeerId};

/// Both ends of a new connection.
type Pair = Result<(OwnedFd, OwnedFd), Errno>;

/// `n` fabrics connected with each other by pairs of `AF_UNIX` sockets.
///
/// # Errors
/// [`SetupError::Os`], such as for too many descriptors.
pub fn over_unix(n: u32, config: Config) -> Result<Vec<TcpFabric>, SetupError> {
    mesh(n, config, || {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
    })
}

/// `n` fabrics connected with each other by TCP over the loopback interface.
///
/// # Errors
/// [`SetupError::Os`], such as for too many descriptors.
pub fn over_tcp(n: u32, config: Config) -> Result<Vec<TcpFabric>, SetupError> {
    mesh(n, config, tcp_pair)
}

fn mesh(
    n: u32,
    config: Config,
    mut pair: impl FnMut() -> Pair,
) -> Result<Vec<TcpFabric>, SetupError> {
    let mut ends: Vec<Vec<Connection>> = (0..n).map(|_| Vec::new()).collect();
    let connection = |peer, socket| {
        let peer = PeerId(peer);
        Connection { peer, incarnation: Incarnation::default(), socket }
    };
    for high in 0..n {
        for low in 0..high {
            let (here, there) = pair().map_err(SetupError::os("a connection"))?;
            ends[high as usize].push(connection(low, here));
            ends[low as usize].push(connection(high, there));
        }
    }
    (0..n).zip(ends).map(|(me, ends)| TcpFabric::new(PeerId(me), n, ends, config)).collect()
}

fn tcp_pair() -> Pair {
    let socket =
        || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let listener = socket()?;
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    listen(&listener, 1)?;
    let here = socket()?;
    connect(&here, &getsockname(&listener)?)?;
    Ok((here, accept_with(&listener, SocketFlags::CLOEXEC)?))
}
