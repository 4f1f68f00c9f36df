//! When ranks take checkpoints.

use crate::Error;
use std::io::IoSlice;
use taffrail::Endpoint;

/// A message counts at least so many bytes: what is known of it is kept with it.
const LEAST: u64 = 64;

/// The checkpoints of a rank: one whenever messages of so many bytes have gone in one direction since the
/// last.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoints {
    every: u64,
    /// Bytes since the last; below `every`.
    since: u64,
}

impl Checkpoints {
    /// One for each of so many bytes, at least 1; `None`: never.
    pub fn every(bytes: Option<u64>) -> Checkpoints {
        Checkpoints { every: bytes.unwrap_or(u64::MAX), since: 0 }
    }

    /// How many messages of a size there are until the next is due: at least 1.
    pub fn due_in(&self, size: usize) -> u64 {
        (self.every - self.since).div_ceil(counted(size))
    }

    /// Takes one if it is due after so many more messages of a size. Nobody goes on from it: it is there
    /// for what it costs, and for what others need not keep any longer.
    pub fn after(
        &mut self,
        messages: u64,
        size: usize,
        endpoint: &mut Endpoint,
    ) -> Result<(), Error> {
        if self.is_due(messages, size) {
            endpoint.checkpoint(&[IoSlice::new(b"netpipe")])?;
        }
        Ok(())
    }

    fn is_due(&mut self, messages: u64, size: usize) -> bool {
        self.since = self.since.saturating_add(messages.saturating_mul(counted(size)));
        let due = self.since >= self.every;
        if due {
            self.since = 0;
        }
        due
    }
}

fn counted(size: usize) -> u64 {
    LEAST.max(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After which of so many messages of each size one is taken.
    fn taken(every: Option<u64>, messages: &[(u64, usize)]) -> Vec<u64> {
        let (mut checkpoints, mut all, mut taken) = (Checkpoints::every(every), 0, Vec::new());
        for &(mut left, size) in messages {
            while left > 0 {
                let block = checkpoints.due_in(size).min(left);
                (left, all) = (left - block, all + block);
                if checkpoints.is_due(block, size) {
                    taken.push(all);
                }
            }
        }
        taken
    }

    #[test]
    fn one_is_taken_whenever_so_many_bytes_are_sent() {
        assert_eq!(taken(Some(1000), &[(10, 300)]), [4, 8]);
        assert_eq!(taken(Some(128), &[(3, 1), (2, 64), (2, 65)]), [2, 4, 6], "at least 64 each");
        assert_eq!(taken(Some(1), &[(3, 4 << 20)]), [1, 2, 3]);
        assert_eq!(taken(Some(100), &[(2, 49), (1, 99), (1, 1)]), [2, 4], "sizes add up");
        assert!(taken(None, &[(1 << 40, 8), (1 << 20, 1 << 30)]).is_empty());
    }
}
