//! How messages are named: where they go, and which ones a receive takes.

pub use taffrail_matching::Data;

/// A process of the job, `0..size`.
pub type Rank = u32;

/// Where a message goes, and the tag it carries.
///
/// ```
/// use taffrail_engine::{Data, Dest};
/// assert_eq!(Dest::from((3, 7)), Dest { rank: 3, context: 0, tag: 7, data: Data::NONE });
/// assert_eq!(Dest::new(3, 7).context(2).context, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dest {
    /// The receiving rank.
    pub rank: Rank,
    /// The context (communicator); messages and receives of different contexts never meet.
    pub context: u16,
    /// The tag.
    pub tag: u64,
    /// Beside the payload, for [`Status::data`]. Up to 16 382 it costs nothing in an open
    /// job, and elsewhere 8 bytes more on the way.
    pub data: Data,
}

impl Dest {
    /// A destination in context 0.
    pub fn new(rank: Rank, tag: u64) -> Self {
        Dest { rank, context: 0, tag, data: Data::NONE }
    }

    /// The same destination in another context.
    pub fn context(self, context: u16) -> Self {
        Dest { context, ..self }
    }

    /// The same destination, with this number beside the payload.
    pub fn data(self, number: u32) -> Self {
        Dest { data: Data::new(number), ..self }
    }
}

impl From<(Rank, u64)> for Dest {
    fn from((rank, tag): (Rank, u64)) -> Self {
        Dest::new(rank, tag)
    }
}

/// Which messages a receive or a probe takes.
///
/// ```
/// use taffrail_engine::Pattern;
/// let named = Pattern::from((1, 42));
/// let any_source = Pattern::any_source(42);
/// let anything = Pattern::any_source(0).ignore(u64::MAX);
/// assert!(named.takes(1, 42) && !named.takes(0, 42));
/// assert!(any_source.takes(5, 42) && !any_source.takes(5, 43));
/// assert!(anything.takes(5, 43));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The sending rank, or any.
    pub source: Option<Rank>,
    /// The context.
    pub context: u16,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
}

impl Pattern {
    /// Messages of one rank with one tag, in context 0.
    pub fn new(source: Rank, tag: u64) -> Self {
        Pattern { source: Some(source), context: 0, tag, ignore: 0 }
    }

    /// Messages of any rank with one tag, in context 0.
    pub fn any_source(tag: u64) -> Self {
        Pattern { source: None, context: 0, tag, ignore: 0 }
    }

    /// The same pattern with these bits of the tag ignored.
    pub fn ignore(self, ignore: u64) -> Self {
        Pattern { ignore, ..self }
    }

    /// The same pattern in another context.
    pub fn context(self, context: u16) -> Self {
        Pattern { context, ..self }
    }

    /// Whether a message of the same context, from `source` with `tag`, fits.
    pub fn takes(&self, source: Rank, tag: u64) -> bool {
        self.source.is_none_or(|s| s == source) && (tag ^ self.tag) & !self.ignore == 0
    }
}

impl From<(Rank, u64)> for Pattern {
    fn from((source, tag): (Rank, u64)) -> Self {
        Pattern::new(source, tag)
    }
}

/// What a finished receive, or a successful probe, says of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sending rank.
    pub source: Rank,
    /// The tag it was sent with.
    pub tag: u64,
    /// Its length in bytes (of a send: the bytes sent).
    pub len: usize,
    /// What its sender has put beside the payload ([`Dest::data`]).
    pub data: Data,
}

impl Status {
    /// A copy for a reader of what was stored a moment ago, word by word: two words read as one would
    /// have to wait until both stores have reached the cache.
    #[inline(always)]
    pub(crate) fn word_by_word(&self) -> Status {
        // SAFETY: each field is borrowed, and `Copy`.
        unsafe {
            Status {
                source: (&raw const self.source).read_volatile(),
                tag: (&raw const self.tag).read_volatile(),
                len: (&raw const self.len).read_volatile(),
                data: (&raw const self.data).read_volatile(),
            }
        }
    }
}

/// A non-blocking operation under way. A plain handle: it is good until a `test` or `wait` has
/// returned its result, and stale from then on (using it again is [`Error::StaleRequest`]).
///
/// [`Error::StaleRequest`]: crate::Error::StaleRequest
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Request {
    /// Its place among the operations of its endpoint: small, and given to another when this one is
    /// finished. For tables of embedders.
    #[doc(hidden)]
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// The handle as two plain numbers, for interfaces of other languages: its place in a table, small
    /// and used again by later operations, and which operation of this place it is.
    #[inline]
    pub fn to_raw(self) -> (u32, u32) {
        (self.index, self.generation)
    }

    /// The handle that [`to_raw`](Self::to_raw) has taken apart. Other numbers are at most a handle of
    /// another operation, or of none ([`Error::StaleRequest`](crate::Error::StaleRequest)).
    #[inline]
    pub fn from_raw(index: u32, generation: u32) -> Self {
        Request { index, generation }
    }
}
