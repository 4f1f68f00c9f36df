//! What leaves for peers.

use super::{Content, Frame, Piece, Wiring};
use crate::broken::Broken;
use crate::call::Body;
use std::collections::VecDeque;
use std::fmt;
use taffrail_logging::{Rank, Received, Ticket};

/// The way to a peer.
pub(super) struct Line {
    pub(super) connected: bool,
    /// We have started again, and have not heard yet what this peer has of us.
    pub(super) is_first: bool,
    queue: VecDeque<Leaving>,
}

#[derive(Debug)]
pub(super) enum Leaving {
    Restart(Vec<u8>),
    Determinants(Vec<u8>),
    Message {
        /// What it waits for, if it leaves the set.
        ticket: Ticket,
        context: u16,
        seq: u32,
        content: Content,
        /// Pieces that have left.
        sent: u8,
    },
}

impl Line {
    pub(super) fn new(connected: bool) -> Self {
        Line { connected, is_first: !connected, queue: VecDeque::new() }
    }

    pub(super) fn connect(&mut self) {
        self.connected = true;
    }

    pub(super) fn disconnect(&mut self) {
        self.connected = false;
        self.queue.clear();
    }

    pub(super) fn tell(&mut self, bytes: Vec<u8>) {
        self.push(Leaving::Restart(bytes));
    }

    /// Whether a message waits to leave.
    pub(super) fn has_messages(&self) -> bool {
        self.queue.iter().any(|leaving| matches!(leaving, Leaving::Message { .. }))
    }

    pub(super) fn push(&mut self, leaving: Leaving) {
        self.queue.push_back(leaving);
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { connected, queue, .. } = self;
        write!(f, "connected {connected}, {} to leave", queue.len())?;
        queue.front().map_or(Ok(()), |first| write!(f, " (first: {first:?})"))
    }
}

impl Wiring {
    /// Puts a message behind all others to this peer. It waits for what the set has written by now.
    pub(super) fn leave(&mut self, to: Rank, context: u16, seq: u32, content: Content) {
        let behind = self.is(Broken::DeterminantsBehind);
        if !behind {
            self.precede(to);
        }
        let free = self.is_fellow(to) || self.who.causal || self.is(Broken::GateIgnored);
        let ticket = if free { Ticket::default() } else { self.gate.ticket() };
        let message = Leaving::Message { ticket, context, seq, content, sent: 0 };
        self.lines[to as usize].push(message);
        if behind {
            self.precede(to);
        }
    }

    /// A peer outside of the set has said what it has: sends it what it lacks of the log.
    pub(super) fn send_again(&mut self, peer: Rank, has: Received) {
        self.lines[peer as usize].is_first = false;
        let committed = has.clone();
        let lacking: Vec<_> = self.outbound.restarted(peer, has).collect();
        if self.is(Broken::DiscardedEarly) {
            self.outbound.collect(peer, &committed);
        }
        if self.is(Broken::HeldIsForgotten) {
            return;
        }
        for entry in lacking {
            // It was held when it was sent, and may depend on events that are not stable yet.
            self.leave(peer, entry.context, entry.seq, entry.payload);
            if self.is(Broken::SentAgainUngated)
                && let Some(Leaving::Message { ticket, .. }) =
                    self.lines[peer as usize].queue.back_mut()
            {
                *ticket = Ticket::default();
            }
        }
    }

    /// Whether a frame may leave for this peer.
    pub fn may_leave(&self, peer: Rank) -> bool {
        let Line { connected, queue, .. } = &self.lines[peer as usize];
        *connected
            && match queue.front() {
                None => false,
                Some(Leaving::Message { ticket, .. }) => self.gate.is_open(ticket),
                Some(Leaving::Restart(_) | Leaving::Determinants(_)) => true,
            }
    }

    /// The next frame for this peer, if one may leave.
    pub fn next_frame(&mut self, peer: Rank) -> Option<Frame> {
        if !self.may_leave(peer) {
            return None;
        }
        debug_assert!(self.to_write.is_empty(), "events are written before anything leaves");
        let queue = &mut self.lines[peer as usize].queue;
        match queue.front_mut()? {
            Leaving::Restart(_) | Leaving::Determinants(_) => match queue.pop_front() {
                Some(Leaving::Restart(bytes)) => Some(Frame::Restart(bytes)),
                Some(Leaving::Determinants(bytes)) => Some(Frame::Determinants(bytes)),
                _ => None,
            },
            Leaving::Message { context, seq, content, sent, .. } => {
                let (index, body) = (*sent, part(&content.body, *sent));
                let piece = Piece { context: *context, seq: *seq, tag: content.tag, index, body };
                *sent += 1;
                if *sent == content.body.pieces {
                    queue.pop_front();
                }
                Some(Frame::Piece(piece))
            }
        }
    }
}

/// The words of one piece: each has one, and the last has the rest.
fn part(body: &Body, index: u8) -> Body {
    let mut words = [0; 3];
    let last = index + 1 == body.pieces;
    for (k, word) in body.words.iter().enumerate() {
        if k == index.into() || (last && k > index.into()) {
            words[k] = *word;
        }
    }
    Body { words, ..*body }
}
