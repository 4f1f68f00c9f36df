//! Checkpoints that are copied to another node, with the log that they refer to; and the loss of the node of a rank, which
//! starts again from its copy.

use super::Job;
use super::host::{LeftLog, Saved};
use super::paths::Path;
use super::process::Mark;
use taffrail_fabric::{SegmentId, SendMemory};
use taffrail_logging::Rank;

/// What another node has of a rank.
#[derive(Clone, Default)]
pub(super) struct Elsewhere {
    pub(super) saved: Option<Saved>,
    mark: Mark,
    log: LeftLog,
}

impl Elsewhere {
    /// The number of the last checkpoint that is whole there; 0: there is none.
    pub(super) fn number(&self) -> u64 {
        self.saved.as_ref().map_or(0, |saved| saved.number)
    }
}

impl<const S: bool, const L: bool> Job<'_, S, L> {
    /// Whether a checkpoint of a rank is not on the other node yet.
    pub(super) fn lacks_copy(&self, rank: Rank) -> bool {
        let outside = self.outside.borrow();
        let last = outside.vault[rank as usize].as_ref();
        let is_new = |saved: &Saved| saved.number > outside.elsewhere[rank as usize].number();
        self.case.copied && last.is_some_and(is_new)
    }

    /// All of the last checkpoint of a rank has come to the other node. Its process may be gone by then.
    pub(super) fn copy(&mut self, rank: Rank) {
        let me = rank as usize;
        let log = self.log_of_checkpoint(rank).unwrap_or_else(|| self.left[me].clone());
        let mut outside = self.outside.borrow_mut();
        let (saved, mark) = (outside.vault[me].clone(), outside.marks[me].clone());
        outside.elsewhere[me] = Elsewhere { saved, mark, log };
        outside.oracle.copied(rank);
    }

    /// The log that the last checkpoint of a rank refers to, if the present process has taken that.
    pub(super) fn log_of_checkpoint(&self, rank: Rank) -> Option<LeftLog> {
        let (me, outside) = (rank as usize, self.outside.borrow());
        let (process, saved) = (self.ranks[me].as_ref()?, outside.vault[me].as_ref()?);
        (saved.incarnation == self.incarnations[me]).then(|| {
            let (fabric, spill) = (&process.engine.fabric, process.spill.borrow());
            let size = fabric.segment_len();
            LeftLog::new(&spill, size, |memory| fabric.read(SegmentId(memory), 0, size).to_vec())
        })
    }

    /// The node of a rank is lost with its checkpoints: what another node has is left.
    pub(super) fn lose_node(&mut self, rank: Rank) {
        let is_newer = self.lacks_copy(rank);
        let (me, mut outside) = (rank as usize, self.outside.borrow_mut());
        let Elsewhere { saved, mark, log } = outside.elsewhere[me].clone();
        if is_newer {
            outside.oracle.paths.reach(match &saved {
                Some(_) => Path::FormerCheckpointUsed,
                None => Path::OnlyCheckpointLost,
            });
        }
        (outside.vault[me], outside.marks[me]) = (saved, mark);
        outside.oracle.lost_node(rank);
        self.left[me] = log;
    }
}
