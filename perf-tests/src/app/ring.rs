//! Tokens go round a ring: each rank sends the one it has to the next, while it receives another.

use super::checksum::{scramble, share, shares};
use super::{Application, Place};
use crate::Error;
use taffrail::{Endpoint, Rank};

const TOKEN: u64 = 1;

/// A rank, and the token it has.
pub struct Ring {
    rank: Rank,
    next: Rank,
    previous: Rank,
    token: Vec<u8>,
    incoming: Vec<u8>,
}

impl Ring {
    /// Every rank begins with a token of its own.
    pub fn new(Place { rank, ranks }: Place, size: usize) -> Ring {
        Ring {
            rank,
            next: (rank + 1) % ranks,
            previous: (rank + ranks - 1) % ranks,
            token: first_token(rank, size),
            incoming: vec![0; size],
        }
    }
}

fn first_token(rank: Rank, size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| scramble(u64::from(rank) << 32 | at) as u8).collect()
}

/// What a rank does to a token before it sends it on: one byte tells of its way.
fn stamp(token: &mut [u8], rank: Rank, iteration: u32) {
    let at = iteration as usize % token.len();
    token[at] = token[at].wrapping_mul(5).wrapping_add(rank as u8 + 1);
}

impl Application for Ring {
    fn step(&mut self, endpoint: &mut Endpoint, iteration: u32) -> Result<(), Error> {
        stamp(&mut self.token, self.rank, iteration);
        endpoint.scope(|scope| {
            let receive = scope.irecv((self.previous, TOKEN), &mut self.incoming)?;
            let send = scope.isend((self.next, TOKEN), &self.token)?;
            scope.wait_all(&[receive, send])
        })?;
        std::mem::swap(&mut self.token, &mut self.incoming);
        Ok(())
    }

    fn digest(&self) -> u64 {
        share(u64::from(self.rank), shares(0, self.token.iter().map(|&byte| u64::from(byte))))
    }

    fn state(&mut self) -> Vec<&mut [u8]> {
        vec![&mut self.token]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::after;

    #[test]
    fn tokens_go_round_and_bear_the_stamps_of_their_way() {
        for (ranks, size, iterations) in [(1, 3, 7), (2, 1, 5), (5, 100, 23), (3, 100_000, 4)] {
            let mut tokens: Vec<_> = (0..ranks).map(|rank| first_token(rank, size)).collect();
            for iteration in 0..iterations {
                (0..).zip(&mut tokens).for_each(|(rank, token)| stamp(token, rank, iteration));
                tokens.rotate_right(1);
            }
            let parts = after(ranks, iterations, |place| Ring::new(place, size));
            assert!(parts.into_iter().map(|part| part.token).eq(tokens));
        }
    }
}
