//! The heat equation on a square plate with a cold rim, in implicit steps: each solves a system of
//! equations with a sparse matrix by conjugate gradients, which needs two sums over all ranks for
//! every iteration of its own.

use super::checksum::share;
use super::grid::part;
use super::{Application, Place, checksum};
use crate::Error;
use std::ops::Range;
use taffrail::{Endpoint, Rank, collectives};

/// Time step x conductivity / (distance of cells)^2.
const STEP: f64 = 4.0;
/// A system is solved when its residual is so many times smaller than its right-hand side.
const TOLERANCE: f64 = 1e-10;

/// A line of cells that goes to a higher rank, and to a lower one.
const UP: u64 = 1;
const DOWN: u64 = 2;

/// A rank's strip of the plate: whole lines of cells.
pub struct Heat {
    side: usize,
    lines: Range<usize>,
    lower: Option<Rank>,
    higher: Option<Rank>,
    matrix: Sparse,
    temperature: Vec<f64>,
}

impl Heat {
    /// A plate of `side` x `side` cells, of uneven temperature.
    pub fn new(Place { rank, ranks }: Place, side: usize) -> Heat {
        let lines = part(side, ranks, rank);
        let cells = lines.start * side..lines.end * side;
        Heat {
            side,
            lower: rank.checked_sub(1),
            higher: (rank + 1 < ranks).then_some(rank + 1),
            matrix: Sparse::implicit_step(side, lines.clone()),
            temperature: cells.map(first_temperature).collect(),
            lines,
        }
    }

    /// Solves `matrix x = right`, from a guess of `x`.
    fn solve(
        &self,
        endpoint: &mut Endpoint,
        right: &[f64],
        mut x: Vec<f64>,
    ) -> Result<Vec<f64>, Error> {
        let enough = TOLERANCE * TOLERANCE * dot(endpoint, right, right)?;
        let mut product = self.multiply(endpoint, &x)?;
        let mut residual: Vec<f64> = right.iter().zip(&product).map(|(b, ax)| b - ax).collect();
        let mut direction = residual.clone();
        let mut square = dot(endpoint, &residual, &residual)?;
        // In exact arithmetic there are no more steps than cells.
        for _ in 0..self.side * self.side {
            if square <= enough {
                return Ok(x);
            }
            product = self.multiply(endpoint, &direction)?;
            let alpha = square / dot(endpoint, &direction, &product)?;
            add(&mut x, alpha, &direction);
            add(&mut residual, -alpha, &product);
            let before = std::mem::replace(&mut square, dot(endpoint, &residual, &residual)?);
            let beta = square / before;
            direction.iter_mut().zip(&residual).for_each(|(d, r)| *d = r + beta * *d);
        }
        match square <= enough {
            true => Ok(x),
            false => Err(Error::Invalid {
                what: "the residual of the conjugate gradients",
                expected: format!("{:.3e} or less", enough.sqrt()),
                got: format!("{:.3e}", square.sqrt()),
            }),
        }
    }

    /// The product of the matrix and a vector; neighbours exchange the lines they share.
    fn multiply(&self, endpoint: &mut Endpoint, x: &[f64]) -> Result<Vec<f64>, Error> {
        let side = self.side;
        let mut around = vec![0.0; x.len() + 2 * side];
        let (below, rest) = around.split_at_mut(side);
        let (own, above) = rest.split_at_mut(x.len());
        own.copy_from_slice(x);
        endpoint.scope(|scope| {
            let mut requests = Vec::with_capacity(4);
            if let Some(rank) = self.lower {
                requests.push(scope.irecv((rank, UP), bytemuck::cast_slice_mut(below))?);
                requests.push(scope.isend((rank, DOWN), bytemuck::cast_slice(&x[..side]))?);
            }
            if let Some(rank) = self.higher {
                let last = &x[x.len() - side..];
                requests.push(scope.irecv((rank, DOWN), bytemuck::cast_slice_mut(above))?);
                requests.push(scope.isend((rank, UP), bytemuck::cast_slice(last))?);
            }
            scope.wait_all(&requests)
        })?;
        Ok(self.matrix.multiply(&around))
    }
}

/// The heat that an iteration adds: a spark, somewhere.
fn spark(side: usize, iteration: u32) -> (usize, f64) {
    let cells = (side * side) as u64;
    ((checksum::scramble(iteration.into()) % cells) as usize, 10.0)
}

fn first_temperature(cell: usize) -> f64 {
    checksum::scramble(cell as u64) as f64 / 2_f64.powi(64)
}

impl Application for Heat {
    fn step(&mut self, endpoint: &mut Endpoint, iteration: u32) -> Result<(), Error> {
        let mut right = self.temperature.clone();
        let (cell, heat) = spark(self.side, iteration);
        let own = cell.checked_sub(self.lines.start * self.side);
        if let Some(place) = own.and_then(|own| right.get_mut(own)) {
            *place += heat;
        }
        let guess = std::mem::take(&mut self.temperature);
        self.temperature = self.solve(endpoint, &right, guess)?;
        Ok(())
    }

    fn digest(&self) -> u64 {
        let first = (self.lines.start * self.side) as u64;
        let cells = (first..).zip(&self.temperature);
        cells.map(|(cell, t)| share(cell, t.to_bits())).fold(0, u64::wrapping_add)
    }

    fn state(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::cast_slice_mut(&mut self.temperature)]
    }
}

/// The scalar product over all ranks, added in their order.
fn dot(endpoint: &mut Endpoint, a: &[f64], b: &[f64]) -> Result<f64, Error> {
    let mut sum = [a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()];
    collectives::allreduce(endpoint, &mut sum, collectives::sum)?;
    Ok(sum[0])
}

fn add(to: &mut [f64], factor: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, v)| *to += factor * v);
}

/// Rows of a sparse matrix, compressed: of each row the columns that are not zero.
struct Sparse {
    /// Where each row begins in `entries`, and where the last one ends.
    rows: Vec<usize>,
    entries: Vec<(u32, f64)>,
}

impl Sparse {
    /// 1 + `STEP` x the five-point Laplacian, for these lines. Columns are counted from the line
    /// before them.
    fn implicit_step(side: usize, lines: Range<usize>) -> Sparse {
        let mut matrix = Sparse { rows: vec![0], entries: Vec::new() };
        for line in lines.clone() {
            for column in 0..side {
                let own = (line + 1 - lines.start) * side + column;
                let neighbours = [
                    (line > 0).then(|| own - side),
                    (column > 0).then(|| own - 1),
                    (column + 1 < side).then(|| own + 1),
                    (line + 1 < side).then(|| own + side),
                ];
                matrix.entries.push((own as u32, 1.0 + 4.0 * STEP));
                matrix
                    .entries
                    .extend(neighbours.into_iter().flatten().map(|at| (at as u32, -STEP)));
                matrix.rows.push(matrix.entries.len());
            }
        }
        matrix
    }

    fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let row = |bounds: &[usize]| {
            let entries = &self.entries[bounds[0]..bounds[1]];
            entries.iter().map(|&(column, factor)| factor * x[column as usize]).sum()
        };
        self.rows.windows(2).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::after;
    use std::f64::consts::PI;

    fn plate(ranks: u32, side: usize, iterations: u32) -> Vec<f64> {
        let parts = after(ranks, iterations, |place| Heat::new(place, side));
        parts.into_iter().flat_map(|part| part.temperature).collect()
    }

    fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    /// The same systems solved by Gauss-Seidel iterations, on one array, until nothing changes.
    fn serial(side: usize, iterations: u32) -> Vec<f64> {
        let mut now: Vec<f64> = (0..side * side).map(first_temperature).collect();
        for iteration in 0..iterations {
            let mut right = now.clone();
            let (cell, heat) = spark(side, iteration);
            right[cell] += heat;
            loop {
                let before = now.clone();
                for cell in 0..side * side {
                    let (line, column) = (cell / side, cell % side);
                    let mut around = 0.0;
                    around += if line > 0 { now[cell - side] } else { 0.0 };
                    around += if column > 0 { now[cell - 1] } else { 0.0 };
                    around += if column + 1 < side { now[cell + 1] } else { 0.0 };
                    around += if line + 1 < side { now[cell + side] } else { 0.0 };
                    now[cell] = (right[cell] + STEP * around) / (1.0 + 4.0 * STEP);
                }
                if largest_difference(&before, &now) < 1e-13 {
                    break;
                }
            }
        }
        now
    }

    #[test]
    fn every_number_of_ranks_finds_what_one_array_does() {
        let expected = serial(11, 6);
        for ranks in 1..=8 {
            let off = largest_difference(&plate(ranks, 11, 6), &expected);
            assert!(off < 1e-8, "{ranks} ranks: {off:e}");
        }
    }

    #[test]
    fn every_standing_pattern_of_heat_fades_at_its_rate() {
        let (side, iterations) = (16, 12);
        let plate = plate(3, side, iterations);
        for (m, n) in [(1, 1), (2, 1), (5, 9), (16, 16)] {
            let sine =
                |waves: usize, at: usize| (PI * (waves * at) as f64 / (side + 1) as f64).sin();
            let pattern = |cell: usize| sine(m, cell / side + 1) * sine(n, cell % side + 1);
            let cosine = |waves: usize| (PI * waves as f64 / (side + 1) as f64).cos();
            let rate = 1.0 + STEP * (4.0 - 2.0 * cosine(m) - 2.0 * cosine(n));
            let begin = (0..side * side).map(|cell| first_temperature(cell) * pattern(cell)).sum();
            let expected = (0..iterations).fold(begin, |amplitude: f64, iteration| {
                let (cell, heat) = spark(side, iteration);
                (amplitude + heat * pattern(cell)) / rate
            });
            let got: f64 = plate.iter().enumerate().map(|(cell, t)| t * pattern(cell)).sum();
            assert!((got - expected).abs() < 1e-6, "{m}, {n}: {got} for {expected}");
        }
    }
}
