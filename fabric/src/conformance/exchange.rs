//! How ranks exchange their addresses at the start.

use super::Processes;
use std::sync::{Condvar, Mutex};

/// A rank's place in a mesh that is being connected.
pub struct Member<'a> {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) exchange: &'a mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>,
}

impl Member<'_> {
    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Gives `mine` to every rank and returns what each gave, in the order of ranks. It also is a
    /// barrier. Every rank calls it equally often.
    ///
    /// # Panics
    /// When another rank ended before it called.
    pub fn exchange(&mut self, mine: &[u8]) -> Vec<Vec<u8>> {
        (self.exchange)(mine)
    }
}

/// A [`mesh`](super::Bench::mesh) for backends that only know how to [`join`](Processes::join): as
/// many threads join at once, and hand over what they got.
///
/// # Panics
/// When a rank cannot join.
pub fn mesh_of_joined<B: Processes>(bench: &B, n: usize) -> Vec<B::Fabric> {
    // What each rank gave in each round.
    let rounds: Mutex<Vec<Vec<Option<Vec<u8>>>>> = Mutex::new(Vec::new());
    let news = Condvar::new();
    let give = |round: usize, rank: usize, mine: &[u8]| {
        let mut rounds = rounds.lock().expect("no rank panics while it holds this");
        if rounds.len() <= round {
            rounds.push(vec![None; n]);
        }
        rounds[round][rank] = Some(mine.to_vec());
        news.notify_all();
        let (rounds, waited) = news
            .wait_timeout_while(rounds, bench.patience(), |rounds| {
                rounds[round].iter().any(Option::is_none)
            })
            .expect("no rank panics while it holds this");
        assert!(!waited.timed_out(), "exchange {round}: not every rank has called it");
        rounds[round].iter().flatten().cloned().collect()
    };
    std::thread::scope(|scope| {
        let joining: Vec<_> = (0..n)
            .map(|rank| {
                let give = &give;
                scope.spawn(move || {
                    let mut round = 0;
                    let mut exchange = |mine: &[u8]| {
                        round += 1;
                        give(round - 1, rank, mine)
                    };
                    let (rank, size) = (rank as u32, n as u32);
                    bench.join(&mut Member { rank, size, exchange: &mut exchange })
                })
            })
            .collect();
        joining.into_iter().map(|thread| thread.join().expect("every rank joins")).collect()
    })
}
