//! Which checkpoints the ranks of a node may announce: those that are in all of its copies (*announced-is-elsewhere*).

use std::collections::BTreeMap;
use std::io::Result;
use std::sync::{Arc, Mutex, PoisonError};
use taffrail_logging::store::CheckpointFiles;

/// Of each rank, the number of the last checkpoint that is whole in each copy; none where a copy is brought to no other node.
type Whole = BTreeMap<u32, Vec<Option<u64>>>;

/// What one of the copies of a node has.
#[derive(Debug)]
pub struct Announcing {
    all: Arc<Mutex<Whole>>,
    copies: usize,
    /// Which one it is.
    copy: usize,
}

impl Announcing {
    /// One for each copy, of which there is this number.
    pub fn of_copies(copies: usize) -> Vec<Announcing> {
        let all: Arc<Mutex<Whole>> = Arc::default();
        (0..copies).map(|copy| Announcing { all: all.clone(), copies, copy }).collect()
    }

    /// A rank begins on this node. With the number of its last checkpoint, if it has brought one, which was announced.
    pub fn begin(&self, rank: u32, brought: u64) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(rank).or_insert_with(|| vec![Some(brought); self.copies]);
    }

    /// This copy has the checkpoints of a rank up to this one from now on; none: it is brought to no other node. It keeps its
    /// number while all is brought to another node: it does not count before it has the last one again.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn has(&self, rank: u32, up_to: Option<u64>, checkpoints: &CheckpointFiles) -> Result<()> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = all.entry(rank).or_insert_with(|| vec![Some(0); self.copies]);
        whole[self.copy] = up_to;
        checkpoints.let_announce(whole.iter().flatten().min().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use taffrail_logging::store::{Announcements, Owner, empty_memory};

    fn files() -> (CheckpointFiles, Announcements) {
        let file = File::from(empty_memory("checkpoints").unwrap());
        let files = CheckpointFiles::open(file, Owner { rank: 3, job: 1 }).unwrap();
        let announcements = files.announcements().unwrap();
        (files, announcements)
    }

    #[test]
    fn what_is_in_all_copies_may_be_announced() {
        let (files, rank) = files();
        let may = |number: u64| rank.may_announce(number) && !rank.may_announce(number + 1);
        let copies = Announcing::of_copies(3);
        copies.iter().for_each(|copy| copy.begin(3, 4));
        copies[0].has(3, Some(6), &files).unwrap();
        copies[1].has(3, Some(5), &files).unwrap();
        assert!(may(4), "what it has brought");
        copies[2].has(3, Some(7), &files).unwrap();
        assert!(may(5));
        copies[1].has(3, None, &files).unwrap();
        assert!(may(6), "no node is left for that one");
        copies[0].has(3, None, &files).unwrap();
        copies[2].has(3, None, &files).unwrap();
        assert!(rank.may_announce(100), "nor for any other");
        copies[2].has(3, Some(9), &files).unwrap();
        assert!(may(9));
    }
}
