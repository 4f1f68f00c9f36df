//! A master hands out work of very unequal size to whoever answers, and works itself while nobody
//! does: integrals of functions with sharp peaks, in pieces.
//!
//! Who computes what, and in which order the answers are added, depends on timing, and so do the
//! last bits of an integral: several are right. So it is compared with the exact one; the checksum
//! is made of the pieces, which are the same whoever computes them.

use super::Application;
use super::checksum::{scramble, share};
use crate::Error;
use std::f64::consts::PI;
use std::ops::Range;
use taffrail::{Endpoint, Pattern, Rank};

const MASTER: Rank = 0;
/// The number of a piece, or nothing when there are no more.
const WORK: u64 = 1;
const ANSWER: u64 = 2;

/// Peaks of a function.
const PEAKS: u64 = 6;
/// How far an integral may be from the exact one: what the pieces aim at, and what is accepted.
const AIM: f64 = 1e-11;
const ACCEPTED: f64 = 1e-9;
/// No part of a piece is halved more often.
const HALVINGS: u32 = 40;

/// A master or a worker.
pub struct Irregular {
    pieces: usize,
    /// Of the answers of all iterations; the master's.
    digest: u64,
}

/// What came out for a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Answer {
    piece: u64,
    integral: f64,
    /// How often the function was evaluated.
    evaluations: u64,
}

impl Irregular {
    /// Integrals in so many pieces.
    pub fn new(pieces: usize) -> Irregular {
        Irregular { pieces, digest: 0 }
    }

    fn master(&mut self, endpoint: &mut Endpoint, function: &Function) -> Result<Integral, Error> {
        let mut integral = Integral::new(self.pieces);
        let mut left = 0..self.pieces as u64;
        let mut under_way = 0;
        for worker in 1..endpoint.size() {
            under_way += hand_out(endpoint, worker, &mut left)?;
        }
        while integral.missing > 0 {
            let answered = under_way > 0
                && (left.is_empty() || endpoint.probe(Pattern::any_source(ANSWER))?.is_some());
            if answered {
                let (worker, answer) = receive_answer(endpoint)?;
                integral.add(answer)?;
                under_way -= 1;
                under_way += hand_out(endpoint, worker, &mut left)?;
            } else if let Some(piece) = left.next() {
                integral.add(function.integrate(piece, self.pieces))?;
            }
        }
        integral.check(function.exact())?;
        Ok(integral)
    }

    fn work(&self, endpoint: &mut Endpoint, function: &Function) -> Result<(), Error> {
        let mut bytes = [0; 8];
        while endpoint.recv((MASTER, WORK), &mut bytes)?.len > 0 {
            let answer = function.integrate(u64::from_le_bytes(bytes), self.pieces);
            let words = [answer.piece, answer.integral.to_bits(), answer.evaluations];
            endpoint.send((MASTER, ANSWER), bytemuck::cast_slice(&words))?;
        }
        Ok(())
    }
}

/// Sends the next piece, or tells that there is none; how many are under way by that.
fn hand_out(endpoint: &mut Endpoint, worker: Rank, left: &mut Range<u64>) -> Result<usize, Error> {
    match left.next() {
        Some(piece) => endpoint.send((worker, WORK), &piece.to_le_bytes()).map(|()| 1),
        None => endpoint.send((worker, WORK), &[]).map(|()| 0),
    }
    .map_err(Error::from)
}

fn receive_answer(endpoint: &mut Endpoint) -> Result<(Rank, Answer), Error> {
    let mut words = [0; 3];
    let room = bytemuck::cast_slice_mut(&mut words);
    let source = endpoint.recv(Pattern::any_source(ANSWER), room)?.source;
    let [piece, integral, evaluations] = words;
    Ok((source, Answer { piece, integral: f64::from_bits(integral), evaluations }))
}

impl Application for Irregular {
    fn step(&mut self, endpoint: &mut Endpoint, iteration: u32) -> Result<(), Error> {
        let function = Function::new(iteration);
        if endpoint.rank() != MASTER {
            return self.work(endpoint, &function);
        }
        let integral = self.master(endpoint, &function)?;
        self.digest = self.digest.wrapping_add(share(iteration.into(), integral.digest));
        Ok(())
    }

    fn digest(&self) -> u64 {
        self.digest
    }

    fn state(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::bytes_of_mut(&mut self.digest)]
    }
}

/// The answers that came so far.
struct Integral {
    got: Vec<bool>,
    missing: usize,
    sum: f64,
    digest: u64,
}

impl Integral {
    fn new(pieces: usize) -> Integral {
        Integral { got: vec![false; pieces], missing: pieces, sum: 0.0, digest: 0 }
    }

    fn add(&mut self, Answer { piece, integral, evaluations }: Answer) -> Result<(), Error> {
        if self.got.get(piece as usize) != Some(&false) {
            return Err(Error::Invalid {
                what: "the answers of the workers",
                expected: format!("each of {} pieces once", self.got.len()),
                got: format!("piece {piece}, with {} still missing", self.missing),
            });
        }
        self.got[piece as usize] = true;
        self.missing -= 1;
        self.sum += integral;
        self.digest =
            self.digest.wrapping_add(share(piece, integral.to_bits() ^ scramble(evaluations)));
        Ok(())
    }

    fn check(&self, exact: f64) -> Result<(), Error> {
        if (self.sum - exact).abs() <= ACCEPTED {
            return Ok(());
        }
        Err(Error::Invalid {
            what: "the integral",
            expected: format!("{exact:.12}"),
            got: format!("{:.12}", self.sum),
        })
    }
}

/// A sum of peaks in 0..1, each of which has the area 1 over all numbers.
struct Function {
    /// Where, and how wide.
    peaks: [(f64, f64); PEAKS as usize],
}

impl Function {
    /// The one of an iteration.
    fn new(iteration: u32) -> Function {
        let number =
            |n: u64| scramble(u64::from(iteration) * 2 * PEAKS + n) as f64 / 2_f64.powi(64);
        let peak =
            |n: usize| (number(2 * n as u64), 10_f64.powf(-1.0 - 4.0 * number(2 * n as u64 + 1)));
        Function { peaks: std::array::from_fn(peak) }
    }

    fn at(&self, x: f64) -> f64 {
        let height = |&(centre, width): &(f64, f64)| width / ((x - centre).powi(2) + width * width);
        self.peaks.iter().map(height).sum::<f64>() / PI
    }

    /// The integral over 0..1.
    fn exact(&self) -> f64 {
        let area = |&(centre, width): &(f64, f64)| {
            ((1.0 - centre) / width).atan() + (centre / width).atan()
        };
        self.peaks.iter().map(area).sum::<f64>() / PI
    }

    /// Integrates one of so many equal pieces of 0..1.
    fn integrate(&self, piece: u64, pieces: usize) -> Answer {
        let bound = |piece: u64| piece as f64 / pieces as f64;
        let mut evaluations = 0;
        let mut at = |x| {
            evaluations += 1;
            self.at(x)
        };
        let part = Part::new(&mut at, bound(piece), bound(piece + 1));
        let integral = part.integrate(&mut at, AIM / pieces as f64, HALVINGS);
        Answer { piece, integral, evaluations }
    }
}

/// A part of a piece: bounds, values there and in the middle, and what Simpson's rule makes of them.
struct Part {
    a: f64,
    b: f64,
    values: [f64; 3],
    simpson: f64,
}

impl Part {
    fn new(at: &mut impl FnMut(f64) -> f64, a: f64, b: f64) -> Part {
        let values = [at(a), at((a + b) / 2.0), at(b)];
        Part::of(a, b, values)
    }

    fn of(a: f64, b: f64, values: [f64; 3]) -> Part {
        let simpson = (b - a) / 6.0 * (values[0] + 4.0 * values[1] + values[2]);
        Part { a, b, values, simpson }
    }

    /// Halves the part until two halves say the same as the whole.
    fn integrate(&self, at: &mut impl FnMut(f64) -> f64, aim: f64, halvings: u32) -> f64 {
        let &Part { a, b, values: [left, middle, right], simpson } = self;
        let m = (a + b) / 2.0;
        let halves = [
            Part::of(a, m, [left, at((a + m) / 2.0), middle]),
            Part::of(m, b, [middle, at((m + b) / 2.0), right]),
        ];
        let both = halves[0].simpson + halves[1].simpson;
        if halvings == 0 || (both - simpson).abs() <= 15.0 * aim {
            return both + (both - simpson) / 15.0;
        }
        halves.iter().map(|half| half.integrate(at, aim / 2.0, halvings - 1)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::after;

    #[test]
    fn pieces_add_up_to_the_exact_integral_and_differ_in_size() {
        for iteration in 0..8 {
            let function = Function::new(iteration);
            let answers: Vec<_> = (0..40).map(|piece| function.integrate(piece, 40)).collect();
            let sum: f64 = answers.iter().map(|answer| answer.integral).sum();
            assert!((sum - function.exact()).abs() < ACCEPTED / 10.0, "{iteration}: {sum}");
            let evaluations = answers.iter().map(|answer| answer.evaluations);
            let (least, most) = (evaluations.clone().min().unwrap(), evaluations.max().unwrap());
            assert!(most > 5 * least, "{iteration}: {least} to {most} evaluations");
        }
    }

    #[test]
    fn simpson_is_exact_for_cubics() {
        let mut cubic = |x: f64| 4.0 * x.powi(3) - x;
        let part = Part::new(&mut cubic, 0.0, 2.0);
        assert!((part.simpson - 14.0).abs() < 1e-14);
    }

    #[test]
    fn the_digest_does_not_depend_on_who_worked() {
        let alone = after(1, 4, |_| Irregular::new(30));
        for ranks in 2..=5 {
            let parts = after(ranks, 4, |_| Irregular::new(30));
            assert_eq!(parts[0].digest, alone[0].digest);
            assert!(parts[1..].iter().all(|part| part.digest == 0));
        }
        // More workers than pieces.
        after(5, 3, |_| Irregular::new(2));
    }

    #[test]
    fn wrong_answers_are_found() {
        let function = Function::new(0);
        let answers: Vec<_> = (0..3).map(|piece| function.integrate(piece, 3)).collect();
        let mut integral = Integral::new(3);
        answers.iter().for_each(|&answer| integral.add(answer).unwrap());
        integral.check(function.exact()).unwrap();
        let twice = integral.add(answers[1]).unwrap_err().to_string();
        assert!(twice.contains("piece 1, with 0 still missing"), "{twice}");
        assert!(integral.add(Answer { piece: 3, ..answers[0] }).is_err());
        let other = integral.check(function.exact() + 1e-8).unwrap_err().to_string();
        assert!(other.contains("the integral: expected"), "{other}");
    }
}
