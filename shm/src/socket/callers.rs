//! Connections to this process that have not sent their HELLO yet.

use super::greeting::{Peer, hear, send_version};
use super::{Address, Hello, Link, LinkError, Listener, SetupError, own_user};
use std::os::fd::{AsFd, BorrowedFd};

/// Connections of strangers that may be open at once, beside one for each rank.
const STRANGERS: usize = 64;

/// Where other processes come in: at the start, and when they were started again.
pub(crate) struct Callers {
    listener: Listener,
    /// Of the same user, without HELLO so far.
    unknown: Vec<Link>,
}

/// Connections that have sent HELLO, and refused ones.
#[derive(Default)]
pub(crate) struct Came {
    pub peers: Vec<Peer>,
    /// `process 17 (why)`, each.
    pub refused: Vec<String>,
}

impl Callers {
    pub fn new(listener: Listener) -> Self {
        Callers { listener, unknown: Vec::new() }
    }

    /// What peers need to find this process.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Readable when somebody has connected.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    /// Sockets that become readable with a HELLO.
    pub fn unknown(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.unknown.iter().map(AsFd::as_fd)
    }

    /// Accepts connections and reads their HELLOs, and adds them to `came`. Theirs have to fit to `mine`, the HELLO
    /// of this process.
    ///
    /// # Errors
    /// The kernel's, such as too many open files. At most one connection is lost by it.
    pub fn hear(&mut self, mine: &Hello, came: &mut Came) -> Result<(), SetupError> {
        while let Some((link, uid)) = self.listener.accept()? {
            if uid == own_user() {
                self.unknown.push(link);
            } else {
                let why = format!("it belongs to user {uid}, not {}", own_user());
                self.refuse(link.pid(), &why, came);
            }
            if self.unknown.len() > STRANGERS + mine.ranks as usize {
                let oldest = self.unknown.remove(0);
                self.refuse(oldest.pid(), "it said nothing, and too many others came", came);
            }
        }
        let mut links = std::mem::take(&mut self.unknown).into_iter();
        while let Some(link) = links.next() {
            let pid = link.pid();
            match hear(mine, link) {
                Ok(Ok(peer)) => came.peers.push(peer),
                Ok(Err(silent)) => self.unknown.push(silent),
                Err((LinkError::Descriptors, _)) => {
                    self.unknown.extend(links);
                    return Err(SetupError::descriptors());
                }
                // A process may have connected only to see which process listens here.
                Err((LinkError::Closed, _)) if mine.open => {}
                Err((error, link)) => {
                    if mine.open {
                        send_version(mine, &link, &error);
                    }
                    self.refuse(pid, &error.to_string(), came);
                }
            }
        }
        Ok(())
    }

    /// Says that a connection is not wanted.
    pub fn refuse(&self, pid: i32, why: &str, came: &mut Came) {
        tracing::warn!(pid, why, address = %self.address(), "refused a connection");
        came.refused.push(format!("process {pid} ({why})"));
    }
}
