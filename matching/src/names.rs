//! What goes in and out of the engine: envelopes, postings, outcomes and handles.

/// What a message says of itself, as it comes off the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Envelope {
    /// The sending rank.
    pub source: u32,
    /// The context (communicator); messages and receives of different contexts never meet.
    pub context: u16,
    /// The tag.
    pub tag: u64,
    /// The number of the message, which matching does not look at.
    pub seq: u32,
    /// Length of the payload in bytes.
    pub len: u64,
    /// The identifier (pattern id and iteration id, packed), 0 if there is none.
    pub ident: u64,
    /// What the sender has put beside the payload.
    pub data: Data,
}

/// A number of 32 bits beside the payload of a message, or none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Data(u64);

impl Data {
    /// No number.
    pub const NONE: Data = Data(0);

    /// This number.
    #[inline]
    pub const fn new(number: u32) -> Data {
        Data(number as u64 + 1)
    }

    /// The number, if there is one.
    #[inline]
    pub const fn get(self) -> Option<u32> {
        match self.0 {
            0 => None,
            code => Some((code - 1) as u32),
        }
    }

    /// 0 for none, else one more than the number.
    #[inline]
    pub const fn code(self) -> u64 {
        self.0
    }

    /// From a [`code`](Self::code) of 16 bits.
    #[inline]
    pub const fn from_code(code: u16) -> Data {
        Data(code as u64)
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Posting {
    /// The sending rank, or any.
    pub source: Option<u32>,
    /// The context.
    pub context: u16,
    /// The tag; its bits in `ignore` may have any value.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// The identifier that the message must carry; 0 takes only messages without one.
    pub ident: u64,
    /// Whether it stays posted when it has taken a message, until it is cancelled.
    pub multi: bool,
}

impl Posting {
    /// Whether this receive takes a message with this envelope.
    #[inline]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        self.source.is_none_or(|source| source == envelope.source)
            && self.context == envelope.context
            && self.ident == envelope.ident
            && (self.tag ^ envelope.tag) & !self.ignore == 0
    }
}

/// What became of a posting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Posted<U> {
    /// The earliest fitting message had arrived already and was taken out of the store. Nothing was
    /// queued, also for a `multi` posting: post it again until it is [`Posted::Queued`].
    Matched(Envelope, U),
    /// No message fits yet: the posting waits.
    Queued(PostId),
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Arrival<R> {
    /// The earliest fitting receive, which is no longer posted unless it is `multi`.
    Matched(R),
    /// Nobody waits for the message: hand it to [`store_unexpected`](crate::Matcher::store_unexpected)
    /// before anything else is done with the engine.
    Unmatched,
}

/// A receive that waits; goes stale when the receive is matched (unless `multi`) or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostId {
    pub(crate) number: u32,
    pub(crate) stamp: u32,
}

/// A message in the unexpected store, claimed or not; goes stale when the message leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId {
    pub(crate) number: u32,
    pub(crate) stamp: u32,
}

/// How much the engine holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Receives that wait.
    pub posted: usize,
    /// Messages that wait for a receive.
    pub unexpected: usize,
    /// Messages claimed and not taken yet.
    pub claimed: usize,
    /// Payload bytes of the unexpected and claimed messages.
    pub unexpected_bytes: u64,
}

/// Source and context in one word.
#[inline]
pub(crate) fn lane(source: u32, context: u16) -> u64 {
    u64::from(context) << 32 | u64::from(source)
}

/// Set in the lane of receives from any source, instead of a source.
pub(crate) const ANY_SOURCE: u64 = 1 << 48;

#[inline]
pub(crate) fn any_lane(context: u16) -> u64 {
    ANY_SOURCE | u64::from(context) << 32
}

/// What a posting looks for, in the form that is compared: a message fits if its own lane or the
/// any-source lane of its context is `lane`, its tag without the ignored bits is `tag`, and its
/// identifier is `ident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) lane: u64,
    pub(crate) tag: u64,
    /// The bits of the tag that matter.
    pub(crate) keep: u64,
    pub(crate) ident: u64,
}

impl Key {
    #[inline]
    pub(crate) fn of(posting: &Posting) -> Key {
        let lane = match posting.source {
            Some(source) => lane(source, posting.context),
            None => any_lane(posting.context),
        };
        let keep = !posting.ignore;
        Key { lane, tag: posting.tag & keep, keep, ident: posting.ident }
    }

    /// The key that a receive of a certain class must have to take this message.
    #[inline]
    pub(crate) fn of_message(envelope: &Envelope, named: bool, keep: u64) -> Key {
        let lane = match named {
            true => lane(envelope.source, envelope.context),
            false => any_lane(envelope.context),
        };
        Key { lane, tag: envelope.tag & keep, keep, ident: envelope.ident }
    }

    #[inline]
    pub(crate) fn takes(&self, envelope: &Envelope) -> bool {
        envelope.tag & self.keep == self.tag
            && (self.lane == lane(envelope.source, envelope.context)
                || self.lane == any_lane(envelope.context))
            && self.ident == envelope.ident
    }

    #[inline]
    pub(crate) fn is_named(&self) -> bool {
        self.lane & ANY_SOURCE == 0
    }

    pub(crate) fn posting(&self, multi: bool) -> Posting {
        Posting {
            source: self.is_named().then_some(self.lane as u32),
            context: (self.lane >> 32) as u16,
            tag: self.tag,
            ignore: !self.keep,
            ident: self.ident,
            multi,
        }
    }
}
