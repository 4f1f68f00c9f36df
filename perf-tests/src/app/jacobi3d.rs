//! Jacobi iterations towards the solution of the Laplace equation in a cube with given values on its
//! surface.

use super::grid::Block;
use super::{Application, Place};
use crate::Error;
use std::f64::consts::PI;
use taffrail::Endpoint;

/// A rank's block of the cube.
pub struct Jacobi3d {
    block: Block<3>,
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Jacobi3d {
    /// The cube with `side` cells along each edge, inside its surface.
    pub fn new(place: Place, side: usize) -> Jacobi3d {
        let block = Block::new(place, side);
        let now = block.fill(|place| solution(side, place) + first_error(side, place));
        // For the surface, which is never computed.
        let next = now.clone();
        Jacobi3d { block, now, next }
    }
}

/// What the iterations come near to, and what the surface has: x^2 + y^2 - 2 z^2.
fn solution(side: usize, place: [usize; 3]) -> f64 {
    let [x, y, z] = place.map(|at| at as f64 / (side + 1) as f64);
    x * x + y * y - 2.0 * z * z
}

/// How far they begin from it: the error that vanishes most slowly.
fn first_error(side: usize, place: [usize; 3]) -> f64 {
    if place.iter().any(|&at| at == 0 || at > side) {
        return 0.0;
    }
    place.iter().map(|&at| (PI * at as f64 / (side + 1) as f64).sin()).product()
}

impl Application for Jacobi3d {
    fn step(&mut self, endpoint: &mut Endpoint, _iteration: u32) -> Result<(), Error> {
        self.block.exchange(endpoint, &mut self.now)?;
        let [ni, nj, nk] = self.block.own.each_ref().map(|own| own.len());
        let [plane, row, _] = self.block.stride;
        let now = &self.now;
        for i in 1..=ni {
            for j in 1..=nj {
                let start = i * plane + j * row;
                for cell in start + 1..=start + nk {
                    let around = now[cell - plane]
                        + now[cell + plane]
                        + now[cell - row]
                        + now[cell + row]
                        + now[cell - 1]
                        + now[cell + 1];
                    self.next[cell] = around / 6.0;
                }
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }

    fn digest(&self) -> u64 {
        self.block.digest(&self.now)
    }

    fn state(&mut self) -> Vec<&mut [u8]> {
        // The other array is computed anew, but for the surface, which is the same.
        vec![bytemuck::cast_slice_mut(&mut self.now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::{after, whole};

    fn cube(ranks: u32, side: usize, iterations: u32) -> Vec<f64> {
        let parts = after(ranks, iterations, |place| Jacobi3d::new(place, side));
        whole(parts.iter().map(|part| (&part.block, &part.now[..])))
    }

    fn place(side: usize, cell: usize) -> [usize; 3] {
        [cell / (side * side) + 1, cell / side % side + 1, cell % side + 1]
    }

    /// The same on one array, without blocks and messages.
    fn serial(side: usize, iterations: u32) -> Vec<f64> {
        let cells = side * side * side;
        let begin = |place| solution(side, place) + first_error(side, place);
        let mut now: Vec<f64> = (0..cells).map(|cell| begin(place(side, cell))).collect();
        for _ in 0..iterations {
            let at = |[i, j, k]: [usize; 3]| match [i, j, k].iter().all(|&at| at > 0 && at <= side)
            {
                true => now[((i - 1) * side + j - 1) * side + k - 1],
                false => solution(side, [i, j, k]),
            };
            let mean = |[i, j, k]: [usize; 3]| {
                let around = at([i - 1, j, k])
                    + at([i + 1, j, k])
                    + at([i, j - 1, k])
                    + at([i, j + 1, k])
                    + at([i, j, k - 1])
                    + at([i, j, k + 1]);
                around / 6.0
            };
            now = (0..cells).map(|cell| mean(place(side, cell))).collect();
        }
        now
    }

    #[test]
    fn blocks_compute_what_one_array_does_to_the_last_bit() {
        for ranks in 1..=8 {
            assert_eq!(cube(ranks, 7, 12), serial(7, 12), "{ranks} ranks");
        }
    }

    #[test]
    fn the_error_shrinks_by_the_same_factor_in_every_iteration() {
        let side = 8;
        let factor = (PI / (side + 1) as f64).cos();
        for iterations in [1, 30, 600] {
            let cube = cube(3, side, iterations);
            for (cell, &got) in cube.iter().enumerate() {
                let place = place(side, cell);
                let error = factor.powi(iterations as i32) * first_error(side, place);
                let expected = solution(side, place) + error;
                assert!((got - expected).abs() < 1e-13, "{place:?}: {got} for {expected}");
            }
        }
    }
}
