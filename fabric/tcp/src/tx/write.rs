//! Calls that write to a socket.

use crate::frame::HEADER;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use taffrail_fabric::UserBytes;

/// Parts of a payload that leave without being joined first.
const MAX_PARTS: usize = 15;

/// Writes as much of a frame as the socket takes.
pub(super) fn write_frame(
    socket: BorrowedFd<'_>,
    header: &[u8; HEADER],
    parts: &[&[u8]],
) -> Result<usize, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if parts.iter().all(|part| part.is_empty()) {
        return taken(send(socket, header, flags));
    }
    if parts.len() > MAX_PARTS {
        return write_frame(socket, header, &[&parts.concat()]);
    }
    let mut pieces = [IoSlice::new(&[]); MAX_PARTS + 1];
    pieces[0] = IoSlice::new(header);
    for (piece, part) in pieces[1..].iter_mut().zip(parts) {
        *piece = IoSlice::new(part);
    }
    let mut control = SendAncillaryBuffer::default();
    taken(sendmsg(socket, &pieces[..=parts.len()], &mut control, flags))
}

/// How many bytes a call has written. That there was no room, or that a signal came first, is no failure.
pub(super) fn taken(result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
        result => result,
    }
}

/// The bytes from `at` on.
///
/// # Safety
/// They are readable and unchanged as long as the slice is used.
pub(super) unsafe fn slice<'a>(bytes: UserBytes, at: usize) -> &'a [u8] {
    if at >= bytes.len() {
        return &[];
    }
    // SAFETY: the caller's promise; `at` is within the length.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().add(at), bytes.len() - at) }
}
