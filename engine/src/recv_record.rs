//! What is known of a receive while it is under way: its number, and the message it has got.

use crate::Rank;
use taffrail_logging::MsgId;
use taffrail_matching::Envelope;

/// The name of a message.
#[inline]
pub(crate) fn name(envelope: &Envelope) -> MsgId {
    MsgId { source: envelope.source, context: envelope.context, seq: envelope.seq }
}

/// Of a receive, where messages are logged; stands with its request, whose lines are at hand when a
/// message is delivered.
#[derive(Clone, Copy, Default)]
pub struct RecvRecord {
    /// The number of the receive, if it was [`POSTED`].
    pub(crate) post: u32,
    /// Of its message, if it is [`KEYED`]: the number in the channel, and the context.
    seq: u32,
    context: u16,
    /// What of the following is so.
    pub(crate) flags: u8,
}

/// Chance decides what it gets, so that this is an event.
pub(crate) const BY_CHANCE: u8 = 1;
/// What it got is an event already.
pub(crate) const LOGGED: u8 = 2;
/// Its message is known.
const KEYED: u8 = 4;
/// By the replay, it was cancelled.
pub(crate) const CANCELLED: u8 = 8;
/// It was posted, and is no send, and no receive of a claimed message.
pub(crate) const POSTED: u8 = 16;
/// It is a multi-receive: each of its messages is an event.
pub(crate) const MULTI: u8 = 32;

impl RecvRecord {
    /// The message that it has got from this rank, or is to get.
    pub(crate) fn name(&self, source: Rank) -> Option<MsgId> {
        let RecvRecord { seq, context, .. } = *self;
        self.has(KEYED).then_some(MsgId { source, context, seq })
    }

    /// It gets this message.
    #[inline]
    pub(crate) fn set_name(&mut self, context: u16, seq: u32) {
        self.seq = seq;
        self.context = context;
        self.flags |= KEYED;
    }

    /// Of a part of a multi-receive: the message that the whole has just got.
    pub(crate) fn of_part(&self) -> RecvRecord {
        RecvRecord { flags: self.flags & KEYED, ..*self }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether what it has got is still to become an event.
    #[inline]
    pub(crate) fn is_to_be_logged(&self) -> bool {
        self.flags & (BY_CHANCE | LOGGED) == BY_CHANCE
    }
}
