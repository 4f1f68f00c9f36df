//! The sending half of a connection: frames that the socket has not taken yet.

use crate::frame::HEADER;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use taffrail_fabric::{Refused, SegmentId, Sent, Token, UserBytes};

/// Parts of a payload that leave without being joined first.
const MAX_PARTS: usize = 15;
/// Pieces that are written by one call.
const MAX_PIECES: usize = 32;
/// Frames in the queue whose payload is not copied.
const MAX_LENT: usize = 64;

/// Where a payload comes from.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// It is copied if the socket does not take it.
    Parts(&'a [&'a [u8]]),
    /// It stays readable and unchanged until it is written.
    Lent(UserBytes, Lender),
}

impl Payload<'_> {
    /// A copy of all bytes.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        match self {
            Payload::Parts(parts) => parts.concat(),
            // SAFETY: readable now, as promised where the bytes were named.
            Payload::Lent(bytes, _) => unsafe { slice(bytes, 0) }.to_vec(),
        }
    }
}

/// Whose memory a payload is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lender {
    Log(SegmentId),
    User(Token),
}

/// Bytes that the socket has not taken yet; `at` of them it has.
enum Out {
    Copied { bytes: Vec<u8>, at: usize },
    Lent { header: [u8; HEADER], at: usize, payload: UserBytes, lender: Lender },
}

impl Out {
    fn left(&self) -> usize {
        match self {
            Out::Copied { bytes, at } => bytes.len() - at,
            Out::Lent { at, payload, .. } => HEADER + payload.len() - at,
        }
    }

    fn advance(&mut self, by: usize) {
        match self {
            Out::Copied { at, .. } | Out::Lent { at, .. } => *at += by,
        }
    }
}

/// The frames that wait for the socket, in the order in which they were sent.
pub(crate) struct Tx {
    queue: VecDeque<Out>,
    /// Bytes of them that were copied.
    copied: usize,
    max_copied: usize,
    lent: usize,
}

impl Tx {
    pub(crate) fn new(max_copied: usize) -> Tx {
        Tx { queue: VecDeque::new(), copied: 0, max_copied, lent: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether bytes of this segment wait.
    pub(crate) fn uses(&self, segment: SegmentId) -> bool {
        self.queue
            .iter()
            .any(|out| matches!(out, Out::Lent { lender: Lender::Log(id), .. } if *id == segment))
    }

    /// The tokens of user memory that is read from.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token> {
        self.queue.iter().filter_map(|out| match out {
            Out::Lent { lender: Lender::User(token), .. } => Some(*token),
            _ => None,
        })
    }

    /// Sends a frame, or queues what the socket does not take of it. `Ok(Err(_))`: the socket has failed, and
    /// nothing was sent.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        header: [u8; HEADER],
        payload: Payload<'_>,
    ) -> Result<Result<Sent, Refused>, Errno> {
        let len = match payload {
            Payload::Parts(parts) => parts.iter().map(|part| part.len()).sum(),
            Payload::Lent(bytes, _) => bytes.len(),
        };
        let mut written = 0;
        if self.queue.is_empty() {
            written = match payload {
                Payload::Parts(parts) => write_frame(socket, &header, parts)?,
                Payload::Lent(bytes, _) => {
                    // SAFETY: readable until it is written, as promised where the bytes were named.
                    let bytes = unsafe { slice(bytes, 0) };
                    write_frame(socket, &header, &[bytes])?
                }
            };
            if written == HEADER + len {
                return Ok(Ok(Sent::Now));
            }
        } else if !self.has_room(len, payload) {
            return Ok(Err(Refused::Busy));
        }
        Ok(Ok(self.queue(header, payload, written)))
    }

    fn has_room(&self, len: usize, payload: Payload<'_>) -> bool {
        match payload {
            Payload::Parts(_) => self.copied + HEADER + len <= self.max_copied,
            Payload::Lent(..) => self.lent < MAX_LENT,
        }
    }

    /// Queues a frame of which `at` bytes are written.
    fn queue(&mut self, header: [u8; HEADER], payload: Payload<'_>, at: usize) -> Sent {
        match payload {
            Payload::Parts(parts) => {
                self.copy(&header, parts, at);
                Sent::Now
            }
            Payload::Lent(payload, lender) => {
                self.lent += 1;
                self.queue.push_back(Out::Lent { header, at, payload, lender });
                match lender {
                    Lender::Log(_) => Sent::Now,
                    Lender::User(_) => Sent::Later,
                }
            }
        }
    }

    fn copy(&mut self, header: &[u8], parts: &[&[u8]], mut skip: usize) {
        if !matches!(self.queue.back(), Some(Out::Copied { .. })) {
            self.queue.push_back(Out::Copied { bytes: Vec::new(), at: 0 });
        }
        let Some(Out::Copied { bytes, at }) = self.queue.back_mut() else { return };
        if *at > bytes.len() / 2 {
            bytes.drain(..*at);
            *at = 0;
        }
        let before = bytes.len();
        for part in std::iter::once(&header).chain(parts) {
            bytes.extend_from_slice(&part[skip.min(part.len())..]);
            skip = skip.saturating_sub(part.len());
        }
        self.copied += bytes.len() - before;
    }

    /// Writes what the socket takes now, by one call. `sent` is called for user memory that may be reused.
    pub(crate) fn flush(
        &mut self,
        socket: BorrowedFd<'_>,
        mut sent: impl FnMut(Token),
    ) -> Result<usize, Errno> {
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES + 1];
        let mut used = 0;
        for out in &self.queue {
            if used >= MAX_PIECES {
                break;
            }
            match out {
                Out::Copied { bytes, at } => {
                    pieces[used] = IoSlice::new(&bytes[*at..]);
                    used += 1;
                }
                Out::Lent { header, at, payload, .. } => {
                    if *at < HEADER {
                        pieces[used] = IoSlice::new(&header[*at..]);
                        used += 1;
                    }
                    // SAFETY: readable until it is written, as promised where the bytes were named.
                    pieces[used] =
                        IoSlice::new(unsafe { slice(*payload, at.saturating_sub(HEADER)) });
                    used += 1;
                }
            }
        }
        if used == 0 {
            return Ok(0);
        }
        let written = taken(sendmsg(
            socket,
            &pieces[..used],
            &mut SendAncillaryBuffer::default(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ))?;
        self.advance(written, &mut sent);
        Ok(written)
    }

    fn advance(&mut self, mut written: usize, sent: &mut impl FnMut(Token)) {
        while let Some(out) = self.queue.front_mut() {
            let now = written.min(out.left());
            out.advance(now);
            written -= now;
            if let Out::Copied { .. } = out {
                self.copied -= now;
            }
            if out.left() > 0 {
                return;
            }
            if let Some(Out::Lent { lender, .. }) = self.queue.pop_front() {
                self.lent -= 1;
                if let Lender::User(token) = lender {
                    sent(token);
                }
            }
        }
    }
}

/// Writes as much of a frame as the socket takes.
fn write_frame(
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
fn taken(result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
        result => result,
    }
}

/// The bytes from `at` on.
///
/// # Safety
/// They are readable and unchanged as long as the slice is used.
unsafe fn slice<'a>(bytes: UserBytes, at: usize) -> &'a [u8] {
    if at >= bytes.len() {
        return &[];
    }
    // SAFETY: the caller's promise; `at` is within the length.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().add(at), bytes.len() - at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_queue_that_is_never_empty_keeps_no_more_than_what_waits() {
        const MAX: usize = 100_000;
        let (here, mut there) = UnixStream::pair().expect("a pair of sockets");
        let mut tx = Tx::new(MAX);
        let (mut sent, mut read, mut buffer) = (0, 0, vec![0; 5000]);
        while read < 20 * MAX {
            let payload = [7; 1000];
            while let Ok(Ok(_)) = tx.send(here.as_fd(), [1; HEADER], Payload::Parts(&[&payload])) {
                sent += HEADER + payload.len();
            }
            read += there.read(&mut buffer).expect("bytes");
            tx.flush(here.as_fd(), |_| {}).expect("a socket");
            assert!(!tx.is_empty() && tx.copied <= MAX);
            let kept: usize = tx
                .queue
                .iter()
                .map(|out| match out {
                    Out::Copied { bytes, .. } => bytes.len(),
                    Out::Lent { .. } => 0,
                })
                .sum();
            assert!(kept <= 2 * MAX, "{kept} bytes are kept, and {} wait", tx.copied);
        }
        assert!(sent >= read);
    }
}
