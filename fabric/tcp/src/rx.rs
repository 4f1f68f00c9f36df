//! The receiving half of a connection: bytes become messages.

use crate::frame::{Frame, HEADER};
use taffrail_fabric::{Body, Fault, Head, Payload, PeerId, Sink, Take, Token, UserBuf};

/// What the receiver goes by: lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// The longest payload.
    pub(crate) max_message: usize,
    /// The longest payload that is handed over as a whole in any case.
    pub(crate) whole: usize,
    /// Whether both sides acknowledge what they have received.
    pub(crate) acknowledged: bool,
}

/// Why nothing more is read from a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A goodbye.
    Closed,
    Broken(Fault),
}

/// What has come of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Calls of the sink.
    pub(crate) calls: usize,
    /// The last acknowledgement: the peer has this many bytes.
    pub(crate) acknowledged: Option<u64>,
    pub(crate) end: Option<End>,
}

impl Turn {
    pub(crate) fn ended(end: Option<End>) -> Turn {
        Turn { calls: 0, acknowledged: None, end }
    }
}

/// Where the next byte of the stream belongs.
enum State {
    /// Into a header, or the short payload behind it, of which `stash` holds the beginning.
    Frame,
    /// Into user memory. `left` bytes of the message are still to come, and `room` of them have a place here.
    Rest { to: UserBuf, done: usize, room: usize, left: usize, token: Token },
    /// Nowhere: this many bytes of a message that the sink did not want.
    Skip(usize),
}

/// A payload from this length on is better read where it belongs than read into the buffer and copied from there: the copy costs more
/// than another call.
const LONG: usize = 16 << 10;

/// Cuts a stream into frames, and hands the messages over.
pub(crate) struct Rx {
    from: PeerId,
    lengths: Lengths,
    /// The beginning of a frame that is not whole: up to `HEADER + lengths.whole` bytes.
    stash: Vec<u8>,
    state: State,
    /// The sender of the message that comes in waits for an acknowledgement.
    wanted: bool,
    /// An acknowledgement is to be sent.
    due: bool,
    /// The last message was long: the next one may be, too.
    long: bool,
}

impl Rx {
    pub(crate) fn new(from: PeerId, lengths: Lengths) -> Rx {
        let (stash, state) = (Vec::new(), State::Frame);
        Rx { from, lengths, stash, state, wanted: false, due: false, long: false }
    }

    /// User memory that the next bytes of the stream go to, if any does.
    pub(crate) fn destination(&mut self) -> Option<&mut [u8]> {
        match self.state {
            State::Rest { to, done, room, .. } => {
                // SAFETY: the maker of the `UserBuf` has promised that the memory is writable and not used otherwise
                // until its token is reported, which ends this state; `done + room` is within its length.
                Some(unsafe { std::slice::from_raw_parts_mut(to.as_ptr().add(done), room) })
            }
            _ => None,
        }
    }

    /// The bytes that are read into the buffer at a time, of `room`. Behind a long message it is no more than the sink needs to say where
    /// the rest of another one belongs.
    pub(crate) fn step(&self, room: usize) -> usize {
        if self.long { room.min(HEADER + self.lengths.whole) } else { room }
    }

    /// The token of a rest that is under way.
    pub(crate) fn token(&self) -> Option<Token> {
        match self.state {
            State::Rest { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Whether a sender waits for an acknowledgement; not any more after this call.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// Copies the beginning of an unfinished frame to the front of `buffer`, and returns its length: the next bytes
    /// of the stream belong behind it.
    pub(crate) fn unstash(&self, buffer: &mut [u8]) -> usize {
        buffer[..self.stash.len()].copy_from_slice(&self.stash);
        self.stash.len()
    }

    /// `len` bytes were written to the [destination](Self::destination). Returns the calls of the sink.
    pub(crate) fn filled<S: Sink>(&mut self, len: usize, sink: &mut S) -> usize {
        if let State::Rest { done, room, left, .. } = &mut self.state {
            *done += len;
            *room -= len;
            *left -= len;
        }
        self.settle(sink)
    }

    /// Hands over what `bytes` bring, behind what was [unstashed](Self::unstash), which they begin with.
    pub(crate) fn take<S: Sink>(&mut self, mut bytes: &[u8], sink: &mut S) -> Turn {
        self.stash.clear();
        let mut turn = Turn::ended(None);
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Frame => match self.frame(bytes, sink, &mut turn) {
                    Ok(used) => used,
                    Err(end) => {
                        turn.end = Some(end);
                        return turn;
                    }
                },
                State::Rest { to, done, room, .. } => {
                    let len = bytes.len().min(*room);
                    // SAFETY: as in `destination`; the read buffer is the fabric's own.
                    unsafe { taffrail_fabric::copy(bytes.as_ptr(), to.as_ptr().add(*done), len) };
                    turn.calls += self.filled(len, sink);
                    len
                }
                State::Skip(left) => {
                    let len = bytes.len().min(*left);
                    *left -= len;
                    self.settle(sink);
                    len
                }
            };
            bytes = &bytes[used..];
        }
        turn
    }

    /// Reads one frame at the beginning of `bytes`. Returns how many bytes it has used: all of them if the frame
    /// is not whole.
    fn frame<S: Sink>(
        &mut self,
        bytes: &[u8],
        sink: &mut S,
        turn: &mut Turn,
    ) -> Result<usize, End> {
        let Some((header, behind)) = bytes.split_first_chunk::<HEADER>() else {
            self.stash.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let Lengths { max_message, acknowledged, .. } = self.lengths;
        let (head, len) = match Frame::decode(header, max_message, acknowledged) {
            Ok(Frame::Message { head, len, ack }) => {
                self.wanted = ack;
                self.long = len >= LONG;
                (head, len)
            }
            Ok(Frame::Ack { received }) => {
                turn.acknowledged = Some(received);
                return Ok(HEADER);
            }
            Ok(Frame::Goodbye) => return Err(End::Closed),
            Err(fault) => return Err(End::Broken(fault)),
        };
        if let Some(payload) = behind.get(..len) {
            self.due |= self.wanted;
            turn.calls += whole(self.from, head, payload, sink);
            return Ok(HEADER + len);
        }
        if len <= self.lengths.whole {
            self.stash.extend_from_slice(bytes);
        } else {
            turn.calls += self.stream(head, behind, len - behind.len(), sink);
        }
        Ok(bytes.len())
    }

    /// Hands over the beginning of a message.
    fn stream<S: Sink>(&mut self, head: Head, here: &[u8], left: usize, sink: &mut S) -> usize {
        let body = Body::Stream { here: Payload::of(here), left };
        self.state = match sink.message(self.from, head, body) {
            Take::Rest(to, token) => {
                State::Rest { to, done: 0, room: left.min(to.len()), left, token }
            }
            Take::Done | Take::Keep(_) => State::Skip(left),
        };
        1 + self.settle(sink)
    }

    /// Leaves a state that has got all its bytes. Returns the calls of the sink.
    fn settle<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut calls = 0;
        if let State::Rest { room: 0, left, token, .. } = self.state {
            self.state = State::Skip(left);
            sink.moved(token, Ok(()));
            calls += 1;
        }
        if let State::Skip(0) = self.state {
            self.state = State::Frame;
            self.due |= self.wanted;
        }
        calls
    }
}

/// Hands over a message that is all there. Returns the calls of the sink.
pub(crate) fn whole<S: Sink>(from: PeerId, head: Head, payload: &[u8], sink: &mut S) -> usize {
    match sink.message(from, head, Body::Whole(Payload::of(payload))) {
        Take::Done | Take::Keep(_) => 1,
        // Nothing is left to be written there.
        Take::Rest(_, token) => {
            sink.moved(token, Ok(()));
            2
        }
    }
}

#[cfg(test)]
mod tests;
