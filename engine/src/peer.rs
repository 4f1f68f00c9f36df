//! What the engine holds of one peer.

mod backlog;

use super::Sizes;
use super::flow::Unreceived;
use super::frame::{Frame, MsgHead, Throttle};
use super::rendezvous_path::{RndvPath, RndvPaths};
use super::reply_delay::ReplyDelay;
use backlog::Backlog;
use std::collections::VecDeque;
use std::time::Instant;
use taffrail_fabric::{Fault, Limits};
use taffrail_logging::{Ticket, mutant};
use taffrail_matching::MessageId;

/// Answers to a peer that it does not take, at most.
pub(crate) const MAX_ANSWERS: usize = 1 << 18;

/// What holds messages to a peer back.
mod hold {
    /// Frames wait in its queue.
    pub(crate) const BACKLOG: u8 = 1;
    /// It asked for RTS instead of long eager messages.
    pub(crate) const THROTTLED: u8 = 2;
    /// Events wait for room in the event ring: nothing leaves before them (*nothing-passes-an-event*).
    pub(crate) const EVENTS: u8 = 4;
    /// It was killed, and has not connected again.
    pub(crate) const AWAY: u8 = 8;
    /// It takes no new message now. Answers leave.
    pub(crate) const STOPPED: u8 = 16;
}

/// One peer.
#[derive(Default)]
pub struct Peer {
    /// What became of it.
    pub(crate) fault: Option<Box<Fault>>,
    /// It sends no messages any more: it is gone, or its program is over.
    pub is_finished: bool,
    /// What holds messages to it back: bits of [`hold`]. 0: a short message leaves at once.
    hold: u8,
    /// Most bytes of a message that a slot of it takes.
    inline: u32,
    /// Messages of up to this length leave whole, without asking.
    short: u32,
    /// Bytes of a fragment of a message: one that leaves without asking, and one that was asked for.
    fragment: u32,
    rndv_fragment: u32,
    /// Bytes to it are copied while they are sent.
    copies_sends: bool,
    /// How long its answers take.
    pub reply_delay: ReplyDelay,
    /// `None` as long as nothing of that was needed.
    traffic: Option<Box<Traffic>>,
    /// The message of several fragments that is arriving.
    pub(crate) partial: Option<PartialMessage>,
    /// What its messages take which nobody has received.
    pub(crate) unreceived: Unreceived,
    /// Receive buffers of the fabric that its unexpected messages keep.
    pub(crate) kept_leases: u8,
}

/// What only a peer has that messages wait for, or that sends long ones: a rank has few of those, and knows many peers.
#[derive(Default)]
struct Traffic {
    /// Frames that wait for room or for the gate, in order, and messages that it has stopped.
    backlog: Backlog,
    /// Announced messages whose fragments the peer wants.
    streams: VecDeque<Stream>,
    /// What long messages from it have cost lately, and those in memory that this process has mapped.
    rndv_paths: [RndvPaths; 2],
    /// The message from it that is being timed.
    timed: Option<Timed>,
}

impl Peer {
    /// Takes over what the fabric can do for it, so that no message has to ask.
    pub(crate) fn set_limits(&mut self, limits: &Limits, sizes: &Sizes) {
        self.inline = limits.inline as u32;
        let (fragment, rndv_fragment) = match sizes.by_peer {
            // The first fragment of a message travels with the length of the whole.
            true => {
                let longest = limits.max_message - 8;
                (limits.fragment.min(longest), limits.rndv_fragment.min(longest))
            }
            false => (sizes.fragment, sizes.rndv_fragment),
        };
        debug_assert!(fragment <= rndv_fragment, "a message of one fragment leaves as one frame");
        (self.fragment, self.rndv_fragment) = (fragment as u32, rndv_fragment as u32);
        self.copies_sends = limits.copies_sends;
        self.short = fragment.min(sizes.eager_max) as u32;
    }

    /// Bytes of a fragment of a message to it that leaves without asking.
    #[inline]
    pub fn fragment(&self) -> usize {
        self.fragment as usize
    }

    /// Whether a logged message to it may be written to the log when it has left.
    #[inline]
    pub(crate) fn copies_sends(&self) -> bool {
        self.copies_sends
    }

    /// Bytes of a fragment of a message that it has asked for.
    #[inline]
    pub(crate) fn rndv_fragment(&self) -> usize {
        self.rndv_fragment as usize
    }

    /// Most bytes of a message to it that leaves whole, without asking.
    #[inline(always)]
    pub(crate) fn short(&self) -> usize {
        self.short as usize
    }

    /// Most bytes of a message that a slot of it takes.
    #[inline(always)]
    pub(crate) fn inline(&self) -> usize {
        self.inline as usize
    }

    /// What became of it, if it is gone.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_deref()
    }

    fn traffic(&mut self) -> &mut Traffic {
        self.traffic.get_or_insert_default()
    }

    fn backlog(&self) -> Option<&Backlog> {
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

    /// Whether a message of `len` bytes may leave at once, of those that leave whole up to `most` bytes: `inline`
    /// bytes leave also to a peer that is throttled.
    #[inline(always)]
    pub(crate) fn is_clear_for(&self, len: usize, most: usize, inline: usize) -> bool {
        len <= most && (self.hold == 0 || self.hold == hold::THROTTLED && len <= inline)
    }

    /// Whether frames wait for room or for the gate.
    #[inline(always)]
    pub(crate) fn has_backlog(&self) -> bool {
        self.hold & hold::BACKLOG != 0
    }

    /// Whether a message may leave at once: no frame waits in front of it, and nothing holds messages back.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.hold & !hold::THROTTLED == 0
    }

    /// The same of any frame: it may be one that passes messages which the peer has stopped.
    #[inline]
    pub(crate) fn is_clear_for_frame(&self, frame: &Frame) -> bool {
        match frame {
            Frame::Finalize if self.has_withheld() => false,
            Frame::Finalize => self.hold & !(hold::THROTTLED | hold::STOPPED) == 0,
            _ if frame.is_stoppable() || mutant!(AnswersWithheld) => self.is_clear(),
            _ => self.hold & !(hold::THROTTLED | hold::STOPPED) == 0,
        }
    }

    /// Whether no frame may leave, also if there is room.
    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        self.hold & (hold::EVENTS | hold::AWAY) != 0
    }

    /// Whether frames to it wait for events of this rank.
    #[inline]
    pub(crate) fn waits_for_events(&self) -> bool {
        self.hold & hold::EVENTS != 0
    }

    /// Whether a message of this peer is only partly here.
    pub fn has_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// Whether it was killed, and has not connected again.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.hold & hold::AWAY != 0
    }

    /// Frames to it have to wait for events of this rank, or not any more.
    pub(crate) fn wait_for_events(&mut self, on: bool) {
        self.set(hold::EVENTS, on);
    }

    /// It was killed, or has connected again.
    pub(crate) fn set_away(&mut self, on: bool) {
        self.set(hold::AWAY, on);
    }

    fn set(&mut self, bit: u8, on: bool) {
        self.hold = self.hold & !bit | if on { bit } else { 0 };
    }

    /// Whether it asked for RTS instead of long eager messages.
    #[inline(always)]
    pub(crate) fn forces_rendezvous(&self) -> bool {
        self.hold & hold::THROTTLED != 0
    }

    /// Whether it takes no new message now.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.hold & hold::STOPPED != 0
    }

    /// Whether messages to it wait until it takes new ones.
    pub fn has_withheld(&self) -> bool {
        self.withheld() > 0
    }

    /// How many messages to it wait until it takes new ones.
    pub fn withheld(&self) -> usize {
        self.backlog().map_or(0, Backlog::withheld)
    }

    /// The memory that its messages take which nobody has received, if it is stopped for that reason.
    pub fn stopped_at(&self) -> Option<usize> {
        let Unreceived { memory, throttle, .. } = self.unreceived;
        (throttle == Throttle::Stop).then_some(memory)
    }

    /// It has said which messages it takes from now on. Whether messages may leave that were withheld.
    pub(crate) fn obey(&mut self, throttle: Throttle) -> bool {
        if throttle == Throttle::Stop && !mutant!(StopIgnored) {
            if !self.is_stopped() {
                self.set(hold::STOPPED, true);
                self.change_backlog(Backlog::stop);
            }
            return false;
        }
        self.set(hold::THROTTLED, throttle == Throttle::Announce);
        self.set(hold::STOPPED, false);
        let has_withheld = self.has_withheld();
        self.change_backlog(Backlog::resume);
        has_withheld
    }

    /// Changes what waits, if anything may.
    fn change_backlog(&mut self, change: impl FnOnce(&mut Backlog)) {
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

    /// Whether one more answer of this weight may wait: a peer that asks has to take the answers.
    pub(crate) fn takes_answer(&self, weight: usize) -> bool {
        self.backlog().map_or(0, Backlog::answers) + weight <= MAX_ANSWERS
    }
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

/// A frame in the queue of a peer.
pub(crate) struct Waiting {
    /// The events that it waits for at the gate (*stable-before-escape*); free as soon as the gate was open.
    pub(crate) ticket: Ticket,
    /// How many answers it counts as, of those that may wait.
    pub(crate) weight: usize,
    pub(crate) frame: Queued,
}

impl Waiting {
    /// A frame that waits for room only.
    pub(crate) fn free(frame: Queued) -> Self {
        Waiting { ticket: Ticket::default(), weight: 0, frame }
    }
}

/// Something that waits for room towards a peer.
pub(crate) enum Queued {
    /// A message that is complete in itself.
    Small {
        /// What it says.
        frame: Frame,
        /// Its body.
        body: Vec<u8>,
        /// The send that ends when it has left.
        request: Option<u32>,
    },
    /// An eager message of a request, `sent` bytes of which have left.
    Eager {
        /// How it is called.
        msg: MsgHead,
        /// The send.
        request: u32,
        /// Bytes that have left.
        sent: usize,
    },
    /// A message of the log.
    Logged(crate::log::leaving::LoggedSend),
    /// Messages of the log, to be sent again.
    Page(crate::log::leaving::Resend),
}

/// The fragments of an announced message.
pub struct Stream {
    pub(crate) request: u32,
    /// Bytes the peer wants.
    pub(crate) want: usize,
    /// The receive, as the peer names it.
    pub(crate) to: u64,
    /// Copy the fragments past the caches.
    pub(crate) non_temporal: bool,
}

/// A message of several fragments that is arriving.
pub(crate) struct PartialMessage {
    pub(crate) destination: Destination,
    /// Which message it is.
    pub(crate) context: u16,
    pub(crate) seq: u32,
    /// Bytes that are here.
    pub(crate) here: usize,
    /// Bytes in all.
    pub(crate) len: usize,
}

impl PartialMessage {
    /// Whether its fragments go to this entry of the store.
    pub(crate) fn is_into(&self, entry: u32) -> bool {
        matches!(self.destination, Destination::Buffer(e) if e == entry)
    }
}

/// Where the fragments go.
#[derive(Clone, Copy)]
pub enum Destination {
    /// To the receive that matched.
    Request(u32),
    /// To the store, since none did.
    Buffer(u32),
    /// To the message itself, which was announced and waits for a receive: of one that comes again.
    Waiting(MessageId),
    /// Nowhere: it is here already, or nobody wants it.
    Nowhere,
}
