//! The frames that wait to leave to one peer.

use super::{Queued, Waiting};
use crate::frame::Frame;
use std::collections::VecDeque;
use taffrail_logging::mutant;

/// The frames that wait for room or for the gate, and the messages that their peer has stopped.
///
/// *Invariant:* messages are withheld only while the peer stops them, and each comes behind all messages of the queue that are
/// of its channel, so that messages keep their order.
#[derive(Default)]
pub(super) struct Backlog {
    queue: VecDeque<Waiting>,
    withheld: VecDeque<Waiting>,
    /// Frames that a peer does not stop.
    unstoppable: usize,
    /// Answers that wait for room: those that have waited at the gate do not count, since that is not the peer's fault.
    answers: usize,
}

impl Backlog {
    /// Whether no frame waits for room or for the gate.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many messages wait until the peer lets them leave.
    pub(super) fn withheld(&self) -> usize {
        self.withheld.len()
    }

    /// How many frames wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.withheld.len()
    }

    /// The frame that leaves next.
    pub(super) fn front(&self) -> Option<&Waiting> {
        self.queue.front()
    }

    /// As [`front`](Self::front).
    pub(super) fn front_mut(&mut self) -> Option<&mut Waiting> {
        self.queue.front_mut()
    }

    /// All frames; the messages among them in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = &Queued> {
        self.queue.iter().chain(&self.withheld).map(|waiting| &waiting.frame)
    }

    /// Puts a frame behind the others. A message to a peer that has stopped messages is withheld.
    pub(super) fn push(&mut self, waiting: Waiting, is_stopped: bool) {
        self.answers += waiting.weight;
        self.unstoppable += usize::from(!waiting.is_stoppable());
        match is_stopped && !self.leaves_while_stopped(&waiting) {
            true => self.withheld.push_back(waiting),
            false => self.queue.push_back(waiting),
        }
    }

    /// Puts a frame before all others.
    pub(super) fn push_front(&mut self, waiting: Waiting) {
        self.answers += waiting.weight;
        self.unstoppable += usize::from(!waiting.is_stoppable());
        self.queue.push_front(waiting);
    }

    /// Takes out the frame at the front.
    pub(super) fn pop_front(&mut self) {
        if let Some(waiting) = self.queue.pop_front() {
            self.answers -= waiting.weight;
            self.unstoppable -= usize::from(!waiting.is_stoppable());
        }
    }

    /// The peer has stopped messages: those that are not begun are withheld, and other frames pass them
    /// (*control-passes-bodies*).
    pub(super) fn stop(&mut self) {
        let mut waiting = std::mem::take(&mut self.queue);
        if waiting.front().is_some_and(Waiting::is_begun) {
            self.queue.extend(waiting.pop_front());
        }
        if self.unstoppable == 0 {
            // The usual case, in which millions of messages may wait: none of them is touched.
            self.withheld = waiting;
        } else {
            for waiting in waiting {
                match self.leaves_while_stopped(&waiting) {
                    true => self.queue.push_back(waiting),
                    false => self.withheld.push_back(waiting),
                }
            }
        }
        if self.withheld.front().is_some_and(Waiting::is_finalize) {
            // There is no message for it to wait for.
            self.queue.append(&mut self.withheld);
        }
    }

    /// The peer lets messages leave again.
    pub(super) fn resume(&mut self) {
        if self.queue.is_empty() {
            std::mem::swap(&mut self.queue, &mut self.withheld);
        }
        self.queue.append(&mut self.withheld);
    }

    /// Whether a frame leaves although the peer has stopped messages. FINALIZE, which says that all messages have left, does
    /// not pass them.
    fn leaves_while_stopped(&self, waiting: &Waiting) -> bool {
        match waiting.is_finalize() {
            true => self.withheld.is_empty(),
            false if waiting.is_begun() => true,
            false => !waiting.is_stoppable() && !mutant!(AnswersWithheld),
        }
    }

    /// The weight of the answers that wait for room.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// The frame at the front lets the next one, of the log as well, pass: a mistake made on purpose.
    pub(super) fn let_next_pass(&mut self) {
        let is_logged = |at: usize| {
            let waiting = self.queue.get(at);
            waiting.is_some_and(|waiting| matches!(waiting.frame, Queued::Logged(_)))
        };
        if is_logged(0) && is_logged(1) {
            self.queue.swap(0, 1);
        }
    }
}

impl Waiting {
    fn is_finalize(&self) -> bool {
        matches!(self.frame, Queued::Small { frame: Frame::Finalize, .. })
    }

    /// Whether it is a message of which a part has left: the rest follows.
    fn is_begun(&self) -> bool {
        match &self.frame {
            Queued::Small { .. } | Queued::Page(_) => false,
            Queued::Logged(leaving) => leaving.sent > 0,
            Queued::Eager { sent, .. } => *sent > 0,
        }
    }

    /// Whether a peer can stop it: it takes memory there until the program receives it, or comes behind what does. The
    /// library's own messages are few, and received soon.
    fn is_stoppable(&self) -> bool {
        match &self.frame {
            Queued::Small { frame, .. } => frame.is_stoppable(),
            Queued::Eager { msg, .. } => msg.is_of_program(),
            Queued::Logged(leaving) => leaving.context < crate::CONTEXTS,
            Queued::Page(_) => true,
        }
    }
}
