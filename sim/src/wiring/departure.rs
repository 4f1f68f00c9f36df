//! What leaves for peers.

use super::{Content, Frame, Piece, SendName, SyncAnswer, Wiring};
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
        /// The send that is over with the last piece: of the rest of an announced message.
        send: Option<SendName>,
    },
    Answer {
        ticket: Ticket,
        answer: SyncAnswer,
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
        let message = Leaving::Message { ticket, context, seq, content, sent: 0, send: None };
        self.lines[to as usize].push(message);
        if behind {
            self.precede(to);
        }
    }

    /// A peer outside of the set has said what it has: sends it what it lacks of the log.
    pub(super) fn send_again(&mut self, peer: Rank, mut has: Received) {
        self.lines[peer as usize].is_first = false;
        let committed = has.clone();
        self.ask_again(peer, &mut has);
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
                Some(Leaving::Message { ticket, .. } | Leaving::Answer { ticket, .. }) => {
                    self.gate.is_open(ticket)
                }
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
        let frame = match queue.front()? {
            Leaving::Restart(bytes) => Frame::Restart(bytes.clone()),
            Leaving::Determinants(bytes) => Frame::Determinants(bytes.clone()),
            Leaving::Answer { answer, .. } => Frame::Answer(*answer),
            Leaving::Message { .. } => return self.next_piece(peer).map(Frame::Piece),
        };
        queue.pop_front();
        Some(frame)
    }

    /// The next piece of the message at the front of the queue.
    fn next_piece(&mut self, peer: Rank) -> Option<Piece> {
        let queue = &self.lines[peer as usize].queue;
        let &Leaving::Message { context, seq, content, sent, send, .. } = queue.front()? else {
            return None;
        };
        let waits =
            if content.sync && sent == 0 { self.waiting_send(peer, context, seq) } else { None };
        // The rest of what is announced waits until it is asked for.
        let whole = sent + 1 == content.body.pieces;
        let ends = whole || waits.is_some() && content.is_announced();
        let queue = &mut self.lines[peer as usize].queue;
        match queue.front_mut() {
            Some(Leaving::Message { sent, .. }) if !ends => *sent += 1,
            _ => drop(queue.pop_front()),
        }
        if let (true, Some(send)) = (whole, send) {
            self.has_streamed(send);
        }
        let body = part(&content.body, sent);
        Some(Piece { context, seq, tag: content.tag, index: sent, body, sync: waits })
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
