//! The sending side: [`TxState`] is what it keeps beside the queues of the peers, [`Tx`] what its functions work on.
//! Frames wait in [`queue`], and every one leaves through [`transmit`](transmit()).

mod borrowing;
mod queue;
mod transmit;

pub(crate) use transmit::transmit;

use crate::core::state::Core;
use crate::lending::Lending;
use crate::{Engine, Rank, Sizes};

/// Bytes sent without asking between two polls.
const POLL_EVERY_BYTES: usize = 1 << 20;
/// Messages sent between two polls.
const POLL_EVERY: u32 = 4096;

/// What sending keeps beside the queues of the peers.
///
/// *Invariant:* between two calls every peer in whose queue a frame or a stream waits is in the backlog, once.
pub struct TxState {
    /// Ranks that frames or fragments wait to be sent to.
    backlog: Vec<Rank>,
    /// Bytes of long messages sent without asking since the last poll for that reason.
    bytes_since_poll: usize,
    /// Messages that may be sent before the next poll for that reason.
    sends_until_poll: u32,
}

impl Default for TxState {
    fn default() -> Self {
        TxState { backlog: Vec::new(), bytes_since_poll: 0, sends_until_poll: POLL_EVERY }
    }
}

impl TxState {
    /// Whether frames or fragments wait to be sent to any peer.
    #[inline(always)]
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The peers that frames or fragments wait to be sent to.
    pub(crate) fn backlog(&self) -> impl Iterator<Item = Rank> {
        self.backlog.iter().copied()
    }

    /// Frames or fragments wait to be sent to a peer.
    pub(crate) fn mark_backlog(&mut self, to: Rank) {
        if !self.backlog.contains(&to) {
            self.backlog.push(to);
        }
    }

    /// Nothing waits to be sent to a peer any more.
    pub(crate) fn forget(&mut self, rank: Rank) {
        self.backlog.retain(|&other| other != rank);
    }

    /// A message is sent. Whether a poll is due: a program that only sends does not poll by itself.
    #[inline(always)]
    pub(crate) fn is_poll_due_after_many(&mut self) -> bool {
        self.sends_until_poll -= 1;
        self.sends_until_poll == 0
    }

    /// A poll has found what there is.
    pub(crate) fn polled(&mut self) {
        self.sends_until_poll = POLL_EVERY;
    }

    /// A long message is sent without asking. Whether a poll is due for that reason.
    #[inline]
    pub(crate) fn is_poll_due(&mut self, len: usize) -> bool {
        self.bytes_since_poll += len;
        let is_due = self.bytes_since_poll > POLL_EVERY_BYTES;
        if is_due {
            self.bytes_since_poll = 0;
        }
        is_due
    }

    /// Forgets what waits.
    #[cfg(fuzzing)]
    pub(crate) fn clear(&mut self) {
        self.backlog.clear();
    }
}

/// What sending works on, and what moves a message that was announced: a view of the engine. Memory that peers reach and
/// the turn of the engine are not in it, and loans are only looked at.
pub struct Tx<'a, F, P> {
    pub(crate) fabric: &'a mut F,
    pub(crate) core: &'a mut Core<P>,
    pub(crate) state: &'a mut TxState,
    pub(crate) lending: &'a Lending,
    pub(crate) sizes: &'a Sizes,
}

impl<F, P> Engine<F, P> {
    /// The view for sending.
    #[inline(always)]
    pub(crate) fn tx(&mut self) -> Tx<'_, F, P> {
        let Engine { fabric, core, tx: state, lending, sizes, .. } = self;
        Tx { fabric, core, state, lending, sizes }
    }
}
