//! Several phases in an iteration, each with partners and message lengths of its own, as in solvers
//! that sweep a grid along one axis after the other. In each phase a rank starts ten receives and
//! ten sends, and waits for all.
//!
//! What is exchanged are grains: whoever sends some has fewer, and none are made or lost.

use super::checksum::{scramble, share, shares};
use super::{Application, Place};
use crate::Error;
use taffrail::{Endpoint, Rank};

/// Messages that a rank sends in a phase: half of them to a higher rank, half to a lower one.
const MESSAGES: usize = 10;
/// For each phase, how far away the partners are, and by what the length of messages is divided.
const PHASES: [(u32, usize); 3] = [(1, 1), (2, 4), (3, 16)];

/// A rank, and its grains.
pub struct Phases {
    place: Place,
    /// A row of piles for each message of a phase.
    rows: [Vec<u64>; MESSAGES],
    given: [Vec<u64>; MESSAGES],
    taken: [Vec<u64>; MESSAGES],
}

impl Phases {
    /// Every rank begins with `size` piles in each row.
    pub fn new(place: Place, size: usize) -> Phases {
        Phases {
            place,
            rows: first_rows(place.rank, size),
            given: std::array::from_fn(|_| vec![0; size]),
            taken: std::array::from_fn(|_| vec![0; size]),
        }
    }

    fn phase(&mut self, endpoint: &mut Endpoint, phase: usize) -> Result<(), Error> {
        let (distance, divisor) = PHASES[phase];
        let len = length(self.rows[0].len(), divisor);
        for (row, given) in self.rows.iter_mut().zip(&mut self.given) {
            row.iter_mut().zip(&mut given[..len]).for_each(|(pile, given)| *given = give(pile));
        }
        let (place, given, taken) = (self.place, &self.given, &mut self.taken);
        endpoint.scope(|scope| {
            let mut requests = Vec::with_capacity(2 * MESSAGES);
            for (message, taken) in taken.iter_mut().enumerate() {
                let (source, _) = partners(place, distance, message);
                let room = bytemuck::cast_slice_mut(&mut taken[..len]);
                requests.push(scope.irecv((source, tag(phase, message)), room)?);
            }
            for (message, given) in given.iter().enumerate() {
                let (_, destination) = partners(place, distance, message);
                let data = bytemuck::cast_slice(&given[..len]);
                requests.push(scope.isend((destination, tag(phase, message)), data)?);
            }
            scope.wait_all(&requests)
        })?;
        for (row, taken) in self.rows.iter_mut().zip(&self.taken) {
            row.iter_mut().zip(&taken[..len]).for_each(|(pile, taken)| *pile += taken);
        }
        Ok(())
    }
}

fn first_rows(rank: Rank, size: usize) -> [Vec<u64>; MESSAGES] {
    std::array::from_fn(|row| {
        let first = u64::from(rank) << 40 | (row as u64) << 32;
        (first..).take(size).map(|pile| scramble(pile) >> 32).collect()
    })
}

/// Takes from a pile what is sent of it: up to seven sixteenths, so that piles never come to rest.
fn give(pile: &mut u64) -> u64 {
    let given = *pile / 16 * (scramble(*pile) % 8);
    *pile -= given;
    given
}

fn length(size: usize, divisor: usize) -> usize {
    (size / divisor).max(1)
}

/// Where a message comes from, and where the one of the same number goes to.
fn partners(Place { rank, ranks }: Place, distance: u32, message: usize) -> (Rank, Rank) {
    let distance = distance % ranks;
    let (higher, lower) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
    if message < MESSAGES / 2 { (lower, higher) } else { (higher, lower) }
}

fn tag(phase: usize, message: usize) -> u64 {
    (phase * MESSAGES + message) as u64
}

impl Application for Phases {
    fn step(&mut self, endpoint: &mut Endpoint, _iteration: u32) -> Result<(), Error> {
        (0..PHASES.len()).try_for_each(|phase| self.phase(endpoint, phase))
    }

    fn digest(&self) -> u64 {
        let piles = self.rows.iter().flatten().copied();
        share(u64::from(self.place.rank), shares(0, piles))
    }

    fn state(&mut self) -> Vec<&mut [u8]> {
        self.rows.iter_mut().map(|row| bytemuck::cast_slice_mut(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::after;

    type Rows = [Vec<u64>; MESSAGES];

    /// The same with the rows of all ranks at hand, without messages.
    fn serial(ranks: u32, size: usize, iterations: u32) -> Vec<Rows> {
        let mut all: Vec<Rows> = (0..ranks).map(|rank| first_rows(rank, size)).collect();
        for (distance, divisor) in (0..iterations).flat_map(|_| PHASES) {
            let mut taken: Vec<Rows> = (0..ranks).map(|_| Rows::default()).collect();
            for (rank, rows) in (0..).zip(&mut all) {
                for (message, row) in rows.iter_mut().enumerate() {
                    let (_, to) = partners(Place { rank, ranks }, distance, message);
                    let piles = row[..length(size, divisor)].iter_mut();
                    taken[to as usize][message] = piles.map(give).collect();
                }
            }
            for (row, taken) in all.iter_mut().flatten().zip(taken.iter().flatten()) {
                row.iter_mut().zip(taken).for_each(|(pile, taken)| *pile += taken);
            }
        }
        all
    }

    #[test]
    fn ranks_exchange_what_they_should() {
        for (ranks, size, iterations) in [(1, 20, 9), (2, 1, 9), (4, 33, 9), (8, 3000, 2)] {
            let parts = after(ranks, iterations, |place| Phases::new(place, size));
            assert!(parts.into_iter().map(|part| part.rows).eq(serial(ranks, size, iterations)));
        }
    }

    #[test]
    fn no_grain_is_made_or_lost_and_piles_do_not_come_to_rest() {
        let count = |all: &[Rows]| all.iter().flatten().flatten().sum::<u64>();
        let parts = after(5, 200, |place| Phases::new(place, 16));
        let end: Vec<Rows> = parts.into_iter().map(|part| part.rows).collect();
        assert_eq!(count(&end), count(&serial(5, 16, 0)));
        assert_ne!(end, serial(5, 16, 199));
        assert!(end.iter().flatten().flatten().all(|&pile| pile > 0));
    }
}
