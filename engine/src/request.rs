//! Operations under way.

mod completions;
mod table;

pub use completions::Completion;
pub(crate) use completions::MAX_SERIAL;
pub use table::Requests;

use crate::{Error, Rank, Status};
use taffrail_fabric::{Fault, RemoteKey};
use taffrail_logging::mutant;
use taffrail_matching::PostId;

/// Stands for "no particular rank".
pub const ANY: u32 = u32::MAX;

/// What an operation is, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The slot is not in use.
    Free,
    /// A receive that no message has matched yet.
    Posted,
    /// A receive whose message arrives piece by piece, as its sender began it.
    Arriving,
    /// A receive that has asked for the fragments of its message.
    CtsSent,
    /// A receive that reads its message out of the sender's memory.
    Reading,
    /// A send whose message waits for room.
    Queued,
    /// A send that was announced, or waits to be acknowledged.
    RtsSent,
    /// A send whose receiver has asked for the fragments.
    Streaming,
    /// A one-sided get or put that the fabric does.
    OneSided,
    /// A get that the target's engine answers.
    AskedGet,
    /// A put that the target's engine does.
    AskedPut,
    /// Ends when a peer is gone.
    Watching,
    /// Ended, with a status.
    Done,
    /// Ended, with an error.
    Failed,
    /// A multi-receive whose result was taken before all of its messages were reported.
    Reporting,
}

impl Stage {
    /// Whether the operation is over.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Done | Stage::Failed | Stage::Reporting)
    }
}

/// One operation. Two lines of its own: it is found by a shift.
#[repr(align(64))]
pub struct Slot {
    /// How far it has come.
    pub stage: Stage,
    /// Not 0: its completion is [reported](Requests::next_completed), under this number.
    pub(crate) serial: u32,
    pub(crate) generation: u32,
    /// The other side, or [`ANY`].
    pub peer: Rank,
    /// The user's memory: `len` bytes. Null for memory yet to be found, see [`Extra`].
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
    /// Bytes moved so far.
    pub(crate) moved: usize,
    /// Of a receive: what its message says of itself; of a send: what it says at the end.
    pub(crate) status: Status,
    pub(crate) post: Option<PostId>,
    /// Where messages are logged.
    pub(crate) record: super::recv_record::RecvRecord,
    /// The next slot that is free, of one that is free.
    next_free: u32,
    /// What few operations need.
    pub extra: Option<Box<Extra>>,
}

/// What few operations need.
#[derive(Default)]
pub struct Extra {
    pub(crate) error: Option<Error>,
    /// Several places instead of one.
    pub(crate) parts: Vec<(*mut u8, usize)>,
    /// Pieces of its memory that the fabric still reads ([`Sent::Later`](taffrail_fabric::Sent::Later)) or writes (a get
    /// of an announced message).
    pub(crate) lent: u32,
    /// What is lent was lent to a link that has ended since: how that ends says nothing of the message.
    pub(crate) is_of_former_link: bool,
    /// Nothing is left to do, and the operation ends when nothing is lent any more.
    pub(crate) ends_when_returned: bool,
    /// A fragment may not have arrived.
    pub(crate) is_lost: bool,
    /// Where in the log its bytes are, instead of in memory of the program.
    pub(crate) kept: Option<u64>,
    /// Where the sender's memory is, and its request, for a receive that reads.
    pub(crate) source: Option<(RemoteKey, u64)>,
    /// What a get or put of the fabric asks its target for if the fabric fails.
    pub(crate) target: Option<super::memory::Target>,
    /// Nobody holds a handle: the slot is given back when the operation ends.
    pub(crate) detached: bool,
    /// The memory that an answer to a peer's get is read from.
    pub(crate) reads: Option<super::memory::MemoryName>,
    /// Memory that goes back to the pool when the operation ends.
    pub(crate) buffer: Option<super::loan::Buffer>,
    /// The receive makes its own memory when it knows how much.
    pub view: Option<super::view::ViewBuffer>,
    /// A receive of many messages into one buffer.
    pub multi: Option<super::multi::Multi>,
    /// A receive of one message into the buffer of the [`Multi`](super::multi::Multi) at this index.
    pub(crate) part_of: Option<u32>,
}

impl Extra {
    /// The link with the peer has ended: what is lent comes back from it, and the operation begins again.
    pub(crate) fn link_ended(&mut self) {
        self.is_of_former_link = self.lent > 0;
        (self.ends_when_returned, self.is_lost) = (false, false);
    }

    /// The fabric gives one piece of memory back. Whether nothing is lent any more.
    pub(crate) fn piece_returned(&mut self, result: Result<(), Fault>) -> bool {
        self.lent = self.lent.saturating_sub(1);
        // A peer that has closed in good order had received all that it had asked for.
        let is_lost = result.is_err_and(|fault| fault != Fault::Closed);
        self.is_lost |= is_lost && (!self.is_of_former_link || mutant!(FormerFragmentBelieved));
        self.is_of_former_link &= self.lent > 0;
        self.lent == 0
    }
}

impl Slot {
    /// Whether the fabric still reads or writes memory of it.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.lent > 0)
    }

    /// How many bytes in fragments it wants in all. Of other operations, no more than it has.
    pub(crate) fn wanted(&self) -> usize {
        match self.stage {
            Stage::CtsSent => self.status.len.min(self.len),
            Stage::AskedGet => self.len,
            // Nobody has asked: these bytes are the fabric's to write, or nobody's.
            _ => self.moved,
        }
    }

    /// Whether this is a multi-receive with messages that the program does not know of yet.
    #[inline]
    pub(crate) fn has_more_to_report(&self) -> bool {
        let multi = self.extra.as_ref().and_then(|extra| extra.multi.as_ref());
        multi.is_some_and(|multi| !multi.is_reported())
    }

    /// Whether this is a multi-receive with messages of a rank that the program does not know of yet.
    pub(crate) fn has_landed_of(&self, rank: Rank) -> bool {
        let multi = self.extra.as_ref().and_then(|extra| extra.multi.as_ref());
        multi.is_some_and(|multi| multi.has_unreported_of(rank))
    }

    /// Gives away the result of a multi-receive, whose handle is good for its messages only from
    /// now on.
    #[cold]
    fn keep_reporting(&mut self) -> Result<Status, Error> {
        let failed = self.stage == Stage::Failed;
        self.stage = Stage::Reporting;
        self.generation = self.generation.wrapping_add(1);
        match self.extra().error.take().filter(|_| failed) {
            Some(error) => Err(error),
            None => Ok(self.status),
        }
    }

    /// What few operations need, made if it is not there.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// What a peer must say to mean this very operation and no later one in the same slot.
    pub(crate) fn name(&self, index: u32) -> u64 {
        index as u64 | (self.generation as u64) << 32
    }
}
