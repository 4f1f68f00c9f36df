//! What the engine holds of one peer.

use super::answer::Answer;
use super::ways::{Way, Ways};
use std::collections::VecDeque;
use std::time::Instant;
use taffrail_fabric::{Fault, Head};
use taffrail_matching::MessageId;

/// One peer.
#[derive(Default)]
pub(crate) struct Peer {
    /// What became of it.
    pub(crate) fault: Option<Fault>,
    /// It sends no messages any more: it is gone, or its program is over.
    pub(crate) is_silent: bool,
    /// It asked for announcements instead of long eager messages.
    pub(crate) announce_all: bool,
    /// How long its answers take.
    pub(crate) answer: Answer,
    /// What waits for room, in order.
    pub(crate) queue: VecDeque<Queued>,
    /// Announced messages whose pieces the peer wants.
    pub(crate) streams: VecDeque<Stream>,
    /// The message of several pieces that is arriving.
    pub(crate) inflow: Option<Inflow>,
    /// Bytes of its messages in the store.
    pub(crate) unexpected_bytes: usize,
    /// Bytes of our memory that its messages take which nobody has received.
    pub(crate) held: usize,
    /// Answers to it in the queue.
    pub(crate) answers: usize,
    /// We asked it for announcements.
    pub(crate) throttled: bool,
    /// What long messages from it have cost lately.
    pub(crate) ways: Ways,
    /// The same, of those in memory that this process has mapped.
    pub(crate) mapped_ways: Ways,
    /// The message from it that is being timed.
    pub(crate) timed: Option<Timed>,
}

impl Peer {
    /// What long messages from it have cost lately.
    pub(crate) fn ways(&mut self, mapped: bool) -> &mut Ways {
        if mapped { &mut self.mapped_ways } else { &mut self.ways }
    }
}

/// A message that is being timed.
pub(crate) struct Timed {
    pub(crate) request: u32,
    pub(crate) len: usize,
    pub(crate) way: Way,
    /// It lies in memory that this process has mapped.
    pub(crate) mapped: bool,
    pub(crate) since: Instant,
}

/// Something that waits for room towards a peer.
pub(crate) enum Queued {
    /// A message that is complete in itself.
    Small { head: Head, body: Vec<u8>, request: Option<u32> },
    /// An eager message of a request, `sent` bytes of which have left.
    Eager { head: Head, request: u32, sent: usize },
    /// A message of the log.
    Logged(super::log::Leaving),
    /// Messages of the log, to be sent again.
    Page(super::log::Again),
}

/// The pieces of an announced message.
pub(crate) struct Stream {
    pub(crate) request: u32,
    /// Bytes the peer wants.
    pub(crate) want: usize,
    /// The receive, as the peer names it.
    pub(crate) to_name: u64,
    /// Copy the pieces past the caches.
    pub(crate) streaming: bool,
}

/// A message of several pieces that is arriving.
pub(crate) struct Inflow {
    pub(crate) landing: Landing,
    /// Which message it is.
    pub(crate) context: u16,
    pub(crate) seq: u32,
    /// Bytes that are here.
    pub(crate) here: usize,
    /// Bytes in all.
    pub(crate) len: usize,
}

impl Inflow {
    /// Whether its pieces go to this entry of the store.
    pub(crate) fn is_into(&self, entry: u32) -> bool {
        matches!(self.landing, Landing::Store(e) if e == entry)
    }
}

/// Where the pieces go.
#[derive(Clone, Copy)]
pub(crate) enum Landing {
    /// To the receive that matched.
    Request(u32),
    /// To the store, since none did.
    Store(u32),
    /// To the message itself, which was announced and waits for a receive: of one that comes again.
    Waiting(MessageId),
    /// Nowhere: it is here already, or nobody wants it.
    Nowhere,
}
