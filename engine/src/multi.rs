//! Multi-receive: one large buffer that many messages fill, one behind the other.

use crate::{Error, Rank, Status};
use std::collections::VecDeque;

/// The completion of one of its messages.
type PartResult = Result<Landed, Error>;

/// The state of such a receive.
pub struct Multi {
    /// Bytes given to messages.
    pub(crate) used: usize,
    /// The receive ends when fewer bytes are free.
    pub(crate) least: usize,
    /// Messages that are under way.
    pub(crate) pending: u32,
    /// No more messages are taken.
    pub(crate) closed: bool,
    /// What it ends with, once nothing is under way any more.
    pub(crate) ending: Option<Error>,
    /// Messages that are there, to be reported.
    pub(crate) landed: VecDeque<PartResult>,
    /// Where messages are logged, they are reported in the order in which they were matched, since the
    /// other order is not determined: each part, and what has become of it.
    pub(crate) in_order: Option<VecDeque<(u32, Option<PartResult>)>>,
}

/// A message that a multi-receive has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// Where in the buffer it begins.
    pub offset: usize,
    /// What it says of itself.
    pub status: Status,
    /// The buffer is used up with it: nothing more lands.
    pub last: bool,
}

impl Multi {
    pub(crate) fn new(least: usize, in_order: bool) -> Self {
        Multi {
            used: 0,
            least: least.max(1),
            pending: 0,
            closed: false,
            ending: None,
            landed: VecDeque::new(),
            in_order: in_order.then(VecDeque::new),
        }
    }

    /// A message has landed. How many more there are to be reported.
    #[expect(clippy::expect_used, reason = "`part` was carved out of this multi-receive")]
    pub(crate) fn has(&mut self, part: u32, landed: Result<Landed, Error>) -> usize {
        let Some(order) = &mut self.in_order else {
            self.landed.push_back(landed);
            return 1;
        };
        // One that has landed may have had the same number.
        let its = order.iter_mut().find(|(of, landed)| *of == part && landed.is_none());
        its.expect("a part of this").1 = Some(landed);
        let before = self.landed.len();
        while let Some((_, Some(landed))) = order.pop_front_if(|(_, landed)| landed.is_some()) {
            self.landed.push_back(landed);
        }
        self.landed.len() - before
    }

    /// The next message that is there.
    pub(crate) fn next(&mut self) -> Option<Result<Landed, Error>> {
        self.landed.pop_front()
    }

    /// How many messages are there and were not reported.
    pub(crate) fn unreported(&self) -> usize {
        self.landed.len()
    }

    /// Whether messages of a rank are there, and were not reported.
    pub(crate) fn has_unreported_of(&self, rank: Rank) -> bool {
        let is_of =
            |landed: &PartResult| landed.as_ref().is_ok_and(|landed| landed.status.source == rank);
        self.landed.iter().any(is_of)
    }

    /// Whether all that is there was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.landed.is_empty()
    }
}
