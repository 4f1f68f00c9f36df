//! What the engine holds of one peer.

mod backlog;
mod traffic;

use super::Sizes;
use super::flow::Unreceived;
use super::frame::{Frame, MsgHead, Throttle};
use super::reply_delay::ReplyDelay;
use backlog::Backlog;
use taffrail_fabric::{Fault, Limits};
use taffrail_logging::{Ticket, mutant};
use taffrail_matching::MessageId;
use traffic::Traffic;

pub(crate) use traffic::Timed;

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
    /// `None` until it is needed.
    traffic: Option<Box<Traffic>>,
    /// The message of several fragments that is arriving.
    pub(crate) partial: Option<PartialMessage>,
    /// What its messages take which nobody has received.
    pub(crate) unreceived: Unreceived,
    /// Receive buffers of the fabric that its unexpected messages keep.
    pub(crate) kept_leases: u8,
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
