//! The exchange between the threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One rank's place at the table.
#[derive(Debug)]
pub(super) struct Member {
    rank: usize,
    table: Arc<Table>,
}

#[derive(Debug)]
struct Table {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// How many exchanges are complete.
    round: u64,
    /// What each rank brought to the exchange under way: label and value.
    brought: Vec<Option<(String, String)>>,
    /// The last complete exchange. It stays until every rank has fetched it, since the next one
    /// cannot complete before.
    complete: Arc<Vec<(String, String)>>,
    left: Option<usize>,
}

/// Seats for `n` ranks.
pub(super) fn table(n: u32) -> Vec<Member> {
    let state =
        State { round: 0, brought: vec![None; n as usize], complete: Arc::default(), left: None };
    let table = Arc::new(Table { state: Mutex::new(state), changed: Condvar::new() });
    (0..n as usize).map(|rank| Member { rank, table: table.clone() }).collect()
}

impl Member {
    pub(super) fn exchange(&mut self, label: &str, mine: &str) -> Result<Vec<String>, String> {
        let mut state = self.table.lock();
        let round = state.round;
        state.brought[self.rank] = Some((label.to_owned(), mine.to_owned()));
        if state.brought.iter().all(Option::is_some) {
            state.complete = Arc::new(state.brought.iter_mut().filter_map(Option::take).collect());
            state.round += 1;
            self.table.changed.notify_all();
        }
        while state.round == round {
            if let Some(rank) = state.left {
                return Err(format!("rank {rank} left the job while others wait for it"));
            }
            state = self.table.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let complete = state.complete.clone();
        drop(state);
        match complete.iter().zip(0..).find(|((theirs, _), _)| theirs != label) {
            Some(((theirs, _), rank)) => Err(super::out_of_step(rank, theirs, label)),
            None => Ok(complete.iter().map(|(_, value)| value.clone()).collect()),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.table.lock().left.get_or_insert(self.rank);
        self.table.changed.notify_all();
    }
}

impl Table {
    /// A panic under the lock leaves nothing half done, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_all(n: u32, f: impl Fn(Member) + Sync) {
        std::thread::scope(|s| {
            for member in table(n) {
                s.spawn(|| f(member));
            }
        });
    }

    #[test]
    fn every_rank_gets_every_value_round_after_round() {
        on_all(5, |mut member| {
            for round in 0..200 {
                let got = member.exchange("test", &format!("{round}:{}", member.rank)).unwrap();
                let expected: Vec<_> = (0..5).map(|rank| format!("{round}:{rank}")).collect();
                assert_eq!(got, expected);
            }
        });
    }

    #[test]
    fn a_rank_that_leaves_ends_the_wait_of_the_others() {
        on_all(3, |mut member| {
            member.exchange("first", "").unwrap();
            if member.rank != 1 {
                let e = member.exchange("second", "").unwrap_err();
                assert!(e.contains("left the job"), "{e}");
            }
        });
    }

    #[test]
    fn ranks_out_of_step_are_told() {
        on_all(2, |mut member| {
            let label = ["a", "b"][member.rank];
            let e = member.exchange(label, "").unwrap_err();
            assert!(e.contains("same order"), "{e}");
        });
    }
}
