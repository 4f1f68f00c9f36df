//! The sending half of a link: frames that the socket has not taken yet, or the peer has not acknowledged.

mod write;

use crate::frame::{HEADER, Room};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use taffrail_fabric::{Refused, SegmentId, Sent, Token, UserBytes};
use write::{slice, taken, write_frame};

/// Pieces that are written by one call.
const MAX_PIECES: usize = 32;
/// A payload that is not copied has room while fewer pieces of such payloads are queued.
const MAX_LENT: usize = 64;
/// Room that only acknowledgements have. Two sides that have filled the rest towards each other must acknowledge to get on; each
/// acknowledgement that arrives frees those before it, so a few are enough, and a peer that acknowledges nothing is not owed more.
const ACK_ROOM: usize = 4 << 10;
/// Short frames are copied into chunks of this length, which are freed as a whole.
const CHUNK: usize = 8 << 10;
/// Longer ones are copied in pieces of this length: with the bytes that an idle peer does not acknowledge it is less than what such a peer may cost.
const PIECE: usize = 32 << 10;
/// On a link that is made anew, a payload up to this length is copied: cheaper than an acknowledgement of its own.
pub(crate) const MAX_KEPT_COPY: usize = 16 << 10;

/// Where a payload comes from.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// It is copied if the socket does not take it, or if it may have to be sent again.
    Parts(&'a [&'a [u8]]),
    /// It stays readable and unchanged until it is done with.
    Lent(UserBytes, Lender),
    /// The parts, which the log has in these pieces before the queue is written.
    BeforeLog { parts: &'a [&'a [u8]], pieces: &'a [(UserBytes, Lender)] },
}

impl Payload<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Payload::Parts(parts) | Payload::BeforeLog { parts, .. } => {
                parts.iter().map(|part| part.len()).sum()
            }
            Payload::Lent(bytes, _) => bytes.len(),
        }
    }

    /// A copy of all bytes.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        match self {
            Payload::Parts(parts) | Payload::BeforeLog { parts, .. } => parts.concat(),
            // SAFETY: readable now, as promised where the bytes were named.
            Payload::Lent(bytes, _) => unsafe { slice(bytes, 0) }.to_vec(),
        }
    }
}

/// Owner of the memory that a payload is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lender {
    Log(SegmentId),
    User(Token),
}

/// Bytes of the stream.
enum Out {
    Copied(Vec<u8>),
    Lent(UserBytes, Lender),
}

impl Out {
    fn len(&self) -> usize {
        match self {
            Out::Copied(bytes) => bytes.len(),
            Out::Lent(bytes, _) => bytes.len(),
        }
    }
}

/// The end of the stream that may still have to be written. Positions count the bytes of the stream from its beginning.
pub(crate) struct Tx {
    /// In the order in which they were sent.
    queue: VecDeque<Out>,
    /// Whether bytes stay until the peer has acknowledged them, and not only until the socket has taken them.
    keeps: bool,
    /// Where the front of the queue begins.
    base: u64,
    /// All before it is done with.
    done: u64,
    /// All before it was written to the current connection.
    written: u64,
    /// The highest that `written` has been.
    most_written: u64,
    end: u64,
    /// The entry that `written` lies in, and where in it.
    cursor: (usize, usize),
    /// Bytes of the queue that were copied.
    copied: usize,
    max_copied: usize,
    lent: usize,
}

impl Tx {
    pub(crate) fn new(max_copied: usize, keeps: bool) -> Tx {
        Tx {
            queue: VecDeque::new(),
            keeps,
            base: 0,
            done: 0,
            written: 0,
            most_written: 0,
            end: 0,
            cursor: (0, 0),
            copied: 0,
            max_copied,
            lent: 0,
        }
    }

    /// Whether the socket has taken everything.
    pub(crate) fn is_written(&self) -> bool {
        self.written == self.end
    }

    /// Whether nothing could have to be written (again).
    pub(crate) fn is_done(&self) -> bool {
        self.done == self.end
    }

    /// The bytes that the peer has acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.done
    }

    /// Whether bytes of this segment may still be read.
    pub(crate) fn uses(&self, segment: SegmentId) -> bool {
        self.queue.iter().any(|out| matches!(out, Out::Lent(_, Lender::Log(id)) if *id == segment))
    }

    /// The tokens of user memory that is read from.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token> {
        self.queue.iter().filter_map(|out| match out {
            Out::Lent(_, Lender::User(token)) => Some(*token),
            _ => None,
        })
    }

    /// Whether a payload like this stays where it is until the peer has acknowledged it.
    pub(crate) fn asks_for_ack(&self, payload: Payload<'_>) -> bool {
        self.keeps && self.refers_to(payload)
    }

    /// Whether the queue refers to a payload like this, and has no copy of it.
    fn refers_to(&self, payload: Payload<'_>) -> bool {
        !matches!(payload, Payload::Parts(_)) && (!self.keeps || payload.len() > MAX_KEPT_COPY)
    }

    /// Sends a frame as far as the socket takes it, if there is one, and queues what is not done with. `Ok(Err(_))`: there
    /// is no room. `Err(_)`: the socket has failed. Nothing was sent in both cases.
    pub(crate) fn send(
        &mut self,
        socket: Option<BorrowedFd<'_>>,
        header: [u8; HEADER],
        payload: Payload<'_>,
        room: Room,
    ) -> Result<Result<Sent, Refused>, Errno> {
        let total = HEADER + payload.len();
        let beyond = if room == Room::Acknowledgement { ACK_ROOM } else { 0 };
        // Behind an empty queue there is room for any frame.
        if !self.queue.is_empty() && !self.has_room(total, payload, beyond) {
            return Ok(Err(Refused::Busy));
        }
        let mut now = 0;
        if let Some(socket) = socket
            && self.is_written()
        {
            now = match payload {
                Payload::Parts(parts) | Payload::BeforeLog { parts, .. } => {
                    write_frame(socket, &header, parts)?
                }
                Payload::Lent(bytes, _) => {
                    // SAFETY: readable until it is written, as promised where the bytes were named.
                    let bytes = unsafe { slice(bytes, 0) };
                    write_frame(socket, &header, &[bytes])?
                }
            };
        }
        self.end += total as u64;
        if now == total && !self.keeps {
            self.skip(total);
            return Ok(Ok(Sent::Now));
        }
        let sent = self.queue(header, payload);
        self.wrote(now, &mut |_| {});
        Ok(Ok(sent))
    }

    fn has_room(&self, total: usize, payload: Payload<'_>, beyond: usize) -> bool {
        if self.refers_to(payload) {
            return self.lent < MAX_LENT;
        }
        let past = match self.queue.front() {
            Some(Out::Copied(_)) => (self.done - self.base) as usize,
            _ => 0,
        };
        self.copied - past + total <= self.max_copied + beyond
    }

    /// A frame that was written whole and is not kept.
    fn skip(&mut self, total: usize) {
        debug_assert!(self.queue.is_empty());
        self.written += total as u64;
        self.most_written = self.written;
        (self.base, self.done) = (self.end, self.end);
    }

    fn queue(&mut self, header: [u8; HEADER], payload: Payload<'_>) -> Sent {
        let one;
        let (parts, pieces) = match payload {
            Payload::Parts(parts) => (parts, &[][..]),
            Payload::BeforeLog { parts, pieces } => (parts, pieces),
            Payload::Lent(bytes, lender) => {
                // SAFETY: readable now, as promised where the bytes were named.
                one = ([unsafe { slice(bytes, 0) }], [(bytes, lender)]);
                (&one.0[..], &one.1[..])
            }
        };
        if !self.refers_to(payload) {
            self.copy(&header, parts);
            return Sent::Now;
        }
        self.copy(&header, &[]);
        self.lent += pieces.len();
        self.queue.extend(pieces.iter().map(|&(bytes, lender)| Out::Lent(bytes, lender)));
        match pieces {
            [(_, Lender::User(_))] => Sent::Later,
            _ => Sent::Now,
        }
    }

    fn copy(&mut self, header: &[u8], parts: &[&[u8]]) {
        let total = header.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        self.copied += total;
        let fits =
            matches!(self.queue.back(), Some(Out::Copied(last)) if last.len() + total <= CHUNK);
        if !fits {
            if total > PIECE {
                return self.copy_long(total, header, parts);
            }
            self.queue.push_back(Out::Copied(Vec::new()));
        }
        if let Some(Out::Copied(bytes)) = self.queue.back_mut() {
            bytes.reserve(total);
            std::iter::once(&header).chain(parts).for_each(|part| bytes.extend_from_slice(part));
        }
    }

    /// Copies a frame of `total` bytes in pieces, each of which is freed when it is done with.
    #[cold]
    fn copy_long(&mut self, total: usize, header: &[u8], parts: &[&[u8]]) {
        let mut left = total;
        let mut piece = Vec::with_capacity(PIECE);
        for mut part in std::iter::once(header).chain(parts.iter().copied()) {
            while !part.is_empty() {
                let (now, rest) = part.split_at(part.len().min(PIECE - piece.len()));
                piece.extend_from_slice(now);
                part = rest;
                left -= now.len();
                if piece.len() == PIECE || left == 0 {
                    let next = Vec::with_capacity(left.min(PIECE));
                    self.queue.push_back(Out::Copied(std::mem::replace(&mut piece, next)));
                }
            }
        }
    }

    /// Writes what the socket takes now, by one call. `sent` is called for user memory that may be reused.
    pub(crate) fn flush(
        &mut self,
        socket: BorrowedFd<'_>,
        mut sent: impl FnMut(Token),
    ) -> Result<usize, Errno> {
        if self.is_written() {
            return Ok(0);
        }
        self.step(0);
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
        let mut used = 0;
        let (first, mut at) = self.cursor;
        for (piece, out) in pieces.iter_mut().zip(self.queue.range(first..)) {
            *piece = IoSlice::new(match out {
                Out::Copied(bytes) => &bytes[at..],
                // SAFETY: readable until it is done with, as promised where the bytes were named.
                Out::Lent(bytes, _) => unsafe { slice(*bytes, at) },
            });
            (used, at) = (used + 1, 0);
        }
        let written = taken(sendmsg(
            socket,
            &pieces[..used],
            &mut SendAncillaryBuffer::default(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ))?;
        self.wrote(written, &mut sent);
        Ok(written)
    }

    fn wrote(&mut self, len: usize, sent: &mut impl FnMut(Token)) {
        self.written += len as u64;
        self.most_written = self.most_written.max(self.written);
        self.step(len);
        if !self.keeps {
            self.finish(self.written, sent);
        }
    }

    /// Moves the cursor. Behind everything it stays in the last entry, which may grow.
    fn step(&mut self, len: usize) {
        let (entry, at) = &mut self.cursor;
        *at += len;
        while *entry + 1 < self.queue.len() && *at >= self.queue[*entry].len() {
            *at -= self.queue[*entry].len();
            *entry += 1;
        }
    }

    /// All before this position is done with.
    fn finish(&mut self, position: u64, sent: &mut impl FnMut(Token)) {
        self.done = position;
        while let Some(out) = self.queue.front()
            && self.base + out.len() as u64 <= position
        {
            self.base += out.len() as u64;
            match self.queue.pop_front() {
                Some(Out::Copied(bytes)) => self.copied -= bytes.len(),
                Some(Out::Lent(_, lender)) => {
                    self.lent -= 1;
                    if let Lender::User(token) = lender {
                        sent(token);
                    }
                }
                None => {}
            }
            // What is done with was written, but perhaps not over this connection.
            match &mut self.cursor {
                (0, at) => *at = 0,
                (entry, _) => *entry -= 1,
            }
        }
        if self.queue.is_empty() {
            self.queue.shrink_to(MAX_LENT);
        }
    }

    /// The peer has all before this position. It may have said more before: an acknowledgement that is sent again, as all of
    /// its stream, is an old one. `false` if it cannot be.
    #[must_use]
    pub(crate) fn acknowledge(&mut self, position: u64, mut sent: impl FnMut(Token)) -> bool {
        if position > self.done && position <= self.written {
            self.finish(position, &mut sent);
        }
        position <= self.written
    }

    /// A new connection, over which the peer wants to have all from this position on. `false` if that cannot be.
    #[must_use]
    pub(crate) fn resume(&mut self, position: u64, mut sent: impl FnMut(Token)) -> bool {
        if position < self.done || position > self.most_written {
            return false;
        }
        self.finish(position, &mut sent);
        self.written = position;
        self.cursor = (0, 0);
        self.step((position - self.base) as usize);
        true
    }
}

#[cfg(test)]
mod tests;
