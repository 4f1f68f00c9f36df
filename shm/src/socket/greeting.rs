//! What two processes say to each other first, and what they are given with it.

use super::packet::same;
use super::{Hello, Link, LinkError, Malformed, decode_hello, receive, send};
use rustix::fs::OFlags;
use std::os::fd::{BorrowedFd, OwnedFd};

/// HELLO and descriptors that this process sends every peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    /// The packet.
    pub hello: Hello,
    /// The inbox, that peers may write.
    pub inbox: BorrowedFd<'a>,
    /// The outbox, that peers may read.
    pub outbox: BorrowedFd<'a>,
    /// The doorbell (an eventfd that does not block).
    pub doorbell: BorrowedFd<'a>,
}

impl Offer<'_> {
    /// Sends HELLO with the descriptors that a peer needs.
    pub(crate) fn say_hello(&self, link: &Link) -> Result<(), LinkError> {
        let Offer { hello, inbox, outbox, doorbell } = *self;
        send(&link.socket, &hello.encode(), &[inbox, outbox, doorbell])
    }
}

/// The peer at the other end of a link, or the link if nothing was said yet.
///
/// # Errors
/// What is wrong with what was said, and the link.
pub(crate) fn hear(mine: &Hello, link: Link) -> Result<Result<Peer, Link>, (LinkError, Link)> {
    match hear_hello(mine, &link) {
        Ok(None) => Ok(Err(link)),
        Ok(Some((hello, [inbox, outbox, doorbell]))) => {
            Ok(Ok(Peer { hello, pid: link.pid, inbox, outbox, doorbell, link }))
        }
        Err(error) => Err((error, link)),
    }
}

/// Sends the format version of this process, without descriptors, to a process that was refused for its own, so that
/// its error can name both.
pub(crate) fn send_version(mine: &Hello, link: &Link, why: &LinkError) {
    if matches!(why, LinkError::Protocol(Malformed { place: "HELLO, version", .. })) {
        let _ = send(&link.socket, &mine.encode(), &[]);
    }
}

/// What was said, and the inbox, outbox and doorbell that came with it.
fn hear_hello(mine: &Hello, link: &Link) -> Result<Option<(Hello, [OwnedFd; 3])>, LinkError> {
    let Some((bytes, files)) = receive(&link.socket)? else { return Ok(None) };
    let hello = decode_hello(&bytes)?;
    let kind = |open: bool| if open { "an open job" } else { "a closed job" };
    same("HELLO, open", kind(mine.open), kind(hello.open))?;
    if !mine.open {
        same("HELLO, ranks", mine.ranks, hello.ranks)?;
    }
    if hello.job != mine.job {
        return Err(LinkError::Protocol(Malformed {
            place: "HELLO, job",
            expected: format!("{:x?}", mine.job),
            got: format!("{:x?}", hello.job),
        }));
    }
    let files = <[OwnedFd; 3]>::try_from(files).map_err(|files| {
        LinkError::Protocol(Malformed {
            place: "HELLO, descriptors",
            expected: "3 (inbox, outbox, doorbell)".into(),
            got: files.len().to_string(),
        })
    })?;
    check_doorbell(&files[2])?;
    Ok(Some((hello, files)))
}

/// A peer that was met.
#[derive(Debug)]
pub(crate) struct Peer {
    /// What it said. Its rank, number of ranks (in a closed job) and job are right; its lengths are
    /// its claims.
    pub hello: Hello,
    /// Its process, 0 when that is not visible from here.
    pub pid: i32,
    /// Its inbox, unchecked.
    pub inbox: OwnedFd,
    /// Its outbox, unchecked.
    pub outbox: OwnedFd,
    /// Its doorbell; writing to it does not block.
    pub doorbell: OwnedFd,
    /// The connection.
    pub link: Link,
}

/// A doorbell that blocks would let a peer stop us.
fn check_doorbell(doorbell: &OwnedFd) -> Result<(), LinkError> {
    let flags = rustix::fs::fcntl_getfl(doorbell)
        .map_err(|errno| LinkError::Os { call: "fcntl(F_GETFL)", errno })?;
    if flags.contains(OFlags::NONBLOCK) && flags & OFlags::ACCMODE == OFlags::RDWR {
        return Ok(());
    }
    Err(LinkError::Protocol(Malformed {
        place: "HELLO, doorbell",
        expected: "an eventfd that does not block".into(),
        got: format!("a descriptor with the flags {:#x}", flags.bits()),
    }))
}
