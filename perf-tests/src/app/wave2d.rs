//! The wave equation on a square membrane with a fixed rim: explicit steps, second order in time and
//! space.

use super::grid::Block;
use super::{Application, Place};
use crate::Error;
use std::f64::consts::PI;
use taffrail::Endpoint;

/// The square of (speed of the wave x time step / distance of cells); stable up to a half.
const COURANT_SQUARED: f64 = 0.25;
/// The standing waves the membrane begins with, at rest: half waves along each axis, amplitude.
const MODES: [(usize, usize, f64); 2] = [(1, 2, 1.0), (3, 1, 0.5)];

/// A rank's block of the membrane.
pub struct Wave2d {
    block: Block<2>,
    /// Displacement, a time step ago and now.
    before: Vec<f64>,
    now: Vec<f64>,
}

impl Wave2d {
    /// The membrane with `side` x `side` cells inside its rim.
    pub fn new(place: Place, side: usize) -> Wave2d {
        let block = Block::new(place, side);
        let now = block.fill(|place| displacement(side, place));
        // At rest, so that one step before is as one step after.
        let before = block.fill(|[i, j]| {
            if i == 0 || j == 0 || i > side || j > side {
                return 0.0;
            }
            let around = displacement(side, [i - 1, j])
                + displacement(side, [i + 1, j])
                + displacement(side, [i, j - 1])
                + displacement(side, [i, j + 1]);
            let here = displacement(side, [i, j]);
            here + 0.5 * COURANT_SQUARED * (around - 4.0 * here)
        });
        Wave2d { block, before, now }
    }
}

/// The displacement at the beginning; `i` and `j` run from 1 to `side`, and the rim is beyond.
fn displacement(side: usize, [i, j]: [usize; 2]) -> f64 {
    if i == 0 || j == 0 || i > side || j > side {
        return 0.0;
    }
    let sine = |waves: usize, at: usize| (PI * (waves * at) as f64 / (side + 1) as f64).sin();
    MODES.iter().map(|&(m, n, amplitude)| amplitude * sine(m, i) * sine(n, j)).sum()
}

impl Application for Wave2d {
    fn step(&mut self, endpoint: &mut Endpoint, _iteration: u32) -> Result<(), Error> {
        self.block.exchange(endpoint, &mut self.now)?;
        let [rows, columns] = self.block.own.each_ref().map(|own| own.len());
        let [row, _] = self.block.stride;
        let now = &self.now;
        for i in 1..=rows {
            for cell in i * row + 1..=i * row + columns {
                let around = now[cell - row] + now[cell + row] + now[cell - 1] + now[cell + 1];
                self.before[cell] = 2.0 * now[cell] - self.before[cell]
                    + COURANT_SQUARED * (around - 4.0 * now[cell]);
            }
        }
        std::mem::swap(&mut self.before, &mut self.now);
        Ok(())
    }

    fn digest(&self) -> u64 {
        self.block.digest(&self.now)
    }

    fn state(&mut self) -> Vec<&mut [u8]> {
        [&mut self.before, &mut self.now].map(|cells| bytemuck::cast_slice_mut(cells)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::{after, whole};

    fn membrane(ranks: u32, side: usize, iterations: u32) -> Vec<f64> {
        let parts = after(ranks, iterations, |place| Wave2d::new(place, side));
        whole(parts.iter().map(|part| (&part.block, &part.now[..])))
    }

    /// The same on one array, without blocks and messages.
    fn serial(side: usize, iterations: u32) -> Vec<f64> {
        let at = |u: &[f64], i: usize, j: usize| match i > 0 && j > 0 && i <= side && j <= side {
            true => u[(i - 1) * side + j - 1],
            false => 0.0,
        };
        let everywhere = |value: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..side * side).map(|cell| value(cell / side + 1, cell % side + 1)).collect()
        };
        let bend = |u: &[f64], i, j| {
            let around = at(u, i - 1, j) + at(u, i + 1, j) + at(u, i, j - 1) + at(u, i, j + 1);
            around - 4.0 * at(u, i, j)
        };
        let mut now = everywhere(&|i, j| displacement(side, [i, j]));
        let mut before =
            everywhere(&|i, j| at(&now, i, j) + 0.5 * COURANT_SQUARED * bend(&now, i, j));
        for _ in 0..iterations {
            let next = everywhere(&|i, j| {
                2.0 * at(&now, i, j) - at(&before, i, j) + COURANT_SQUARED * bend(&now, i, j)
            });
            before = std::mem::replace(&mut now, next);
        }
        now
    }

    #[test]
    fn blocks_compute_what_one_array_does_to_the_last_bit() {
        for ranks in 1..=8 {
            assert_eq!(membrane(ranks, 13, 40), serial(13, 40), "{ranks} ranks");
        }
    }

    #[test]
    fn standing_waves_swing_as_the_scheme_says() {
        let (side, iterations) = (20, 150);
        let sine = |waves: usize, at: usize| (PI * (waves * at) as f64 / (side + 1) as f64).sin();
        let half = |waves: usize| (PI * waves as f64 / (2 * (side + 1)) as f64).sin().powi(2);
        let swing = |(m, n, amplitude): (usize, usize, f64)| {
            // The dispersion relation of the discrete equation.
            let omega = 2.0 * (COURANT_SQUARED * (half(m) + half(n))).sqrt().asin();
            amplitude * (omega * f64::from(iterations)).cos()
        };
        let membrane = membrane(3, side, iterations);
        for (cell, &got) in membrane.iter().enumerate() {
            let (i, j) = (cell / side + 1, cell % side + 1);
            let expected: f64 =
                MODES.iter().map(|&mode| swing(mode) * sine(mode.0, i) * sine(mode.1, j)).sum();
            assert!((got - expected).abs() < 1e-11, "{i}, {j}: {got} for {expected}");
        }
    }
}
