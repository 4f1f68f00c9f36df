//! What other nodes have of checkpoints.

use super::Oracle;
use taffrail_logging::{Position, Rank};

/// The last checkpoint of a rank that is on another node.
#[derive(Clone, Default)]
pub(super) struct Copied {
    /// Calls that had been made by then.
    saved: usize,
    position: Option<Position>,
}

impl Oracle {
    /// The last checkpoint of a rank is on another node.
    pub(in crate::job) fn copied(&mut self, rank: Rank) {
        let me = rank as usize;
        let (saved, position) = (self.histories[me].saved, self.saved[me].clone());
        self.elsewhere[me] = Copied { saved, position };
    }

    /// The node of a rank is lost: what is on another node is its last checkpoint. All that was before a later one is done
    /// again as it was: others may have seen it.
    pub(in crate::job) fn lost_node(&mut self, rank: Rank) {
        let me = rank as usize;
        let Copied { saved, position } = self.elsewhere[me].clone();
        (self.histories[me].saved, self.saved[me]) = (saved, position);
    }

    /// What the checkpoint of a rank covers that it may announce.
    pub(super) fn announceable(&self, rank: usize) -> Option<&Position> {
        match self.copies {
            true => self.elsewhere[rank].position.as_ref(),
            false => self.saved[rank].as_ref(),
        }
    }
}
