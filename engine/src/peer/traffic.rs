//! The state of peers that messages wait for, or that send long ones.

use super::backlog::Backlog;
use super::{Peer, Queued, Stream, Waiting, hold};
use crate::rendezvous_path::{RndvPath, RndvPaths};
use std::collections::VecDeque;
use std::time::Instant;

/// The state of a peer that messages wait for, or that sends long ones: a rank has few of those, and knows many peers.
#[derive(Default)]
pub(super) struct Traffic {
    /// Frames that wait for room or for the gate, in order, and messages that it has stopped.
    backlog: Backlog,
    /// Announced messages whose fragments the peer wants.
    streams: VecDeque<Stream>,
    /// What long messages from it have cost lately, and those in memory that this process has mapped.
    rndv_paths: [RndvPaths; 2],
    /// The message from it that is being timed.
    timed: Option<Timed>,
}

/// A message that is being timed.
pub(crate) struct Timed {
    pub(crate) request: u32,
    pub(crate) len: usize,
    pub(crate) way: RndvPath,
    /// It lies in memory that this process has mapped.
    pub(crate) mapped: bool,
    pub(crate) since: Instant,
}

impl Peer {
    fn traffic(&mut self) -> &mut Traffic {
        self.traffic.get_or_insert_default()
    }

    pub(super) fn backlog(&self) -> Option<&Backlog> {
        self.traffic.as_deref().map(|traffic| &traffic.backlog)
    }

    /// What long messages from it have cost lately.
    pub(crate) fn rndv_paths(&mut self, mapped: bool) -> &mut RndvPaths {
        &mut self.traffic().rndv_paths[usize::from(mapped)]
    }

    /// Times this message, unless another one is being timed.
    pub(crate) fn time(&mut self, timed: impl FnOnce() -> Timed) {
        self.traffic().timed.get_or_insert_with(timed);
    }

    /// The message that is being timed, if it is that of this operation: it is not timed any more.
    pub(crate) fn take_timed(&mut self, request: u32) -> Option<Timed> {
        self.traffic.as_deref_mut()?.timed.take_if(|timed| timed.request == request)
    }

    /// Times no message any more.
    pub(crate) fn stop_timing(&mut self) {
        if let Some(traffic) = &mut self.traffic {
            traffic.timed = None;
        }
    }

    /// Announced messages whose fragments the peer wants.
    pub(crate) fn streams(&mut self) -> &mut VecDeque<Stream> {
        &mut self.traffic().streams
    }

    /// The first of these.
    #[inline]
    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.traffic.as_deref()?.streams.front()
    }

    /// Changes what waits, if anything may.
    pub(super) fn change_backlog(&mut self, change: impl FnOnce(&mut Backlog)) {
        if let Some(traffic) = &mut self.traffic {
            change(&mut traffic.backlog);
            let is_empty = traffic.backlog.is_empty();
            self.set(hold::BACKLOG, !is_empty);
        }
    }

    /// The frame that leaves next, and what it waits for.
    pub(crate) fn front(&mut self) -> Option<&mut Waiting> {
        self.traffic.as_deref_mut()?.backlog.front_mut()
    }

    /// Whether the frame at the front waits for the gate, and not for room.
    pub fn waits_at_gate(&self) -> bool {
        let front = self.backlog().and_then(Backlog::front);
        front.is_some_and(|waiting| !waiting.ticket.is_free())
    }

    /// All frames that wait; the messages among them in order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Queued> {
        self.backlog().into_iter().flat_map(Backlog::frames)
    }

    /// Whether pages of the log wait in the queue, for the messages in them.
    pub fn has_pages(&self) -> bool {
        self.frames().any(|frame| matches!(frame, Queued::Page(_)))
    }

    /// How many frames wait, and announced messages whose fragments have not all left.
    pub fn waiting(&self) -> usize {
        self.backlog_len() + self.traffic.as_deref().map_or(0, |traffic| traffic.streams.len())
    }

    /// How many frames wait.
    pub fn backlog_len(&self) -> usize {
        self.backlog().map_or(0, Backlog::len)
    }

    /// Puts a frame into the queue.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let is_stopped = self.is_stopped();
        self.traffic().backlog.push(waiting, is_stopped);
        let is_empty = self.traffic().backlog.is_empty();
        self.set(hold::BACKLOG, !is_empty);
    }

    /// As [`push`](Self::push), before all others.
    pub(crate) fn push_front(&mut self, waiting: Waiting) {
        self.traffic().backlog.push_front(waiting);
        self.hold |= hold::BACKLOG;
    }

    /// Takes the frame at the front, which has left, out of the queue.
    pub(crate) fn pop_front(&mut self) {
        self.change_backlog(Backlog::pop_front);
    }

    /// The frame at the front lets the next one, of the log as well, pass: a mistake made on purpose.
    pub(crate) fn let_next_pass(&mut self) {
        self.change_backlog(Backlog::let_next_pass);
    }

    /// Drops all that waits to be sent: the connection has ended.
    pub(crate) fn drop_backlog(&mut self) {
        if let Some(traffic) = &mut self.traffic {
            (traffic.backlog, traffic.streams) = Default::default();
        }
        self.hold &= !hold::BACKLOG;
    }

    /// The answers that wait for it.
    pub(crate) fn answers(&self) -> usize {
        self.backlog().map_or(0, Backlog::answers)
    }
}
