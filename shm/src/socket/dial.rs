//! Connecting to an address.

use super::{Link, SetupError, credentials, new_socket};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

/// Why nobody was reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// Nobody listens at this address.
    #[error("{}", Errno::CONNREFUSED)]
    Nobody,
    /// The process that listens there is refused.
    #[error("{0}")]
    Unreachable(String),
    /// This process could not even try.
    #[error(transparent)]
    Own(#[from] SetupError),
}

/// A connection with the process that listens at `address`, which has the same user. `None` when its queue of
/// connections is full: try again.
pub(crate) fn dial(address: &str) -> Result<Option<Link>, DialError> {
    let unreachable = |errno: Errno| DialError::Unreachable(errno.to_string());
    let name = SocketAddrUnix::new_abstract_name(address.as_bytes()).map_err(unreachable)?;
    let socket = new_socket()?;
    match rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &name)) {
        Ok(()) => {}
        // Its backlog is full.
        Err(Errno::AGAIN) => return Ok(None),
        Err(Errno::CONNREFUSED) => return Err(DialError::Nobody),
        Err(errno) => return Err(unreachable(errno)),
    }
    let (pid, uid) = credentials(&socket)?;
    if uid != own_user() {
        let why = format!("it belongs to user {uid}, not {}", own_user());
        return Err(DialError::Unreachable(why));
    }
    Ok(Some(Link { socket, pid }))
}

pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
