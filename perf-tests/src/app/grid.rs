//! Grids cut into blocks, one for each rank, and the exchange of the cells at their faces.

use super::Place;
use super::checksum::share;
use crate::Error;
use std::ops::Range;
use taffrail::{Endpoint, Rank};

/// A rank's block of a grid of `D` dimensions, and around it the layer of ghost cells: copies of
/// the neighbours' cells, or the values on the boundary. Cells are kept row by row, the last axis
/// without gaps.
pub struct Block<const D: usize> {
    /// The rank's own cells, counted in the whole grid from 0.
    pub own: [Range<usize>; D],
    /// Distance in memory of neighbouring cells along each axis.
    pub stride: [usize; D],
    /// Where another block goes on.
    faces: Vec<Face>,
    whole: [usize; D],
}

/// A side of a block that has a neighbour.
struct Face {
    neighbour: Rank,
    /// Tags of what comes and what goes.
    coming: u64,
    going: u64,
    /// Where the block's own cells at this face are, and the ghosts beyond.
    inner: Vec<usize>,
    ghosts: Vec<usize>,
    sent: Vec<f64>,
    received: Vec<f64>,
}

/// How many parts each axis is cut into, the product being `ranks`: as equal as possible, the first
/// the largest.
fn cuts<const D: usize>(ranks: u32) -> [u32; D] {
    let mut cuts = [1; D];
    let mut left = ranks;
    for (axis, cut) in cuts.iter_mut().enumerate() {
        let axes = (D - axis) as u32;
        // The least divisor whose power by the axes left is not below what is left.
        let enough = |cut: &u32| left.is_multiple_of(*cut) && cut.pow(axes) >= left;
        *cut = (1..=left).find(enough).unwrap_or(left);
        left /= *cut;
    }
    cuts
}

/// The least side of a grid that gives each of so many ranks a cell.
pub fn smallest<const D: usize>(ranks: u32) -> u32 {
    cuts::<D>(ranks).into_iter().fold(1, u32::max)
}

/// The `part`-th of `parts` nearly equal parts of `0..len`.
pub fn part(len: usize, parts: u32, part: u32) -> Range<usize> {
    let bound = |part: u32| len * part as usize / parts as usize;
    bound(part)..bound(part + 1)
}

impl<const D: usize> Block<D> {
    /// The rank's block of a grid with `side` cells along each axis.
    pub fn new(place: Place, side: usize) -> Self {
        let cuts = cuts::<D>(place.ranks);
        let coordinate =
            |axis: usize| place.rank / cuts[axis + 1..].iter().product::<u32>() % cuts[axis];
        let own = std::array::from_fn(|axis| part(side, cuts[axis], coordinate(axis)));
        let extent = |axis: &Range<usize>| axis.len() + 2;
        let stride = std::array::from_fn(|axis| own[axis + 1..].iter().map(extent).product());
        let mut block = Block { own, stride, faces: Vec::new(), whole: [side; D] };
        for axis in 0..D {
            let (at, far) = (coordinate(axis), block.own[axis].len());
            let step = cuts[axis + 1..].iter().product::<u32>();
            let tag = 2 * axis as u64;
            if at > 0 {
                block.add_face(place.rank - step, (tag, tag + 1), axis, (1, 0));
            }
            if at + 1 < cuts[axis] {
                block.add_face(place.rank + step, (tag + 1, tag), axis, (far, far + 1));
            }
        }
        block
    }

    fn add_face(
        &mut self,
        neighbour: Rank,
        (coming, going): (u64, u64),
        axis: usize,
        (inner, ghosts): (usize, usize),
    ) {
        let [inner, ghosts] = [inner, ghosts].map(|at| self.layer(axis, at));
        let [sent, received] = [vec![0.0; inner.len()], vec![0.0; inner.len()]];
        self.faces.push(Face { neighbour, coming, going, inner, ghosts, sent, received });
    }

    /// Where the cells are whose place along `axis` is `at`, without edges and corners.
    fn layer(&self, axis: usize, at: usize) -> Vec<usize> {
        let mut cells = vec![0];
        for other in 0..D {
            let places = if other == axis { at..at + 1 } else { 1..self.own[other].len() + 1 };
            let stride = self.stride[other];
            let along = |cell| places.clone().map(move |place| cell + place * stride);
            cells = cells.into_iter().flat_map(along).collect();
        }
        cells
    }

    /// An array of the block and its ghosts. `value` is given places counted from 1; 0 and `side`
    /// + 1 are on the boundary.
    pub fn fill(&self, value: impl Fn([usize; D]) -> f64) -> Vec<f64> {
        let len = self.own.iter().map(|own| own.len() + 2).product();
        (0..len).map(|cell| value(self.place(cell))).collect()
    }

    /// Where in the whole grid a cell of the array is; counted as by [`fill`](Self::fill).
    fn place(&self, cell: usize) -> [usize; D] {
        std::array::from_fn(|axis| {
            let local = cell / self.stride[axis] % (self.own[axis].len() + 2);
            self.own[axis].start + local
        })
    }

    /// The rank's own cells: where they are in the whole grid, as a number, and their values.
    pub fn own_cells(&self, cells: &[f64]) -> impl Iterator<Item = (u64, f64)> {
        cells.iter().enumerate().filter_map(|(cell, &value)| {
            let place = self.place(cell);
            let number = |n, axis| n * self.whole[axis] + place[axis] - 1;
            self.owns(place).then(|| ((0..D).fold(0, number) as u64, value))
        })
    }

    /// The share of the block's own cells in the checksum of the grid.
    pub fn digest(&self, cells: &[f64]) -> u64 {
        let shares = self.own_cells(cells).map(|(cell, value)| share(cell, value.to_bits()));
        shares.fold(0, u64::wrapping_add)
    }

    fn owns(&self, place: [usize; D]) -> bool {
        (0..D).all(|axis| (self.own[axis].start + 1..=self.own[axis].end).contains(&place[axis]))
    }

    /// Copies the neighbours' cells into the ghosts. Collective.
    pub fn exchange(&mut self, endpoint: &mut Endpoint, cells: &mut [f64]) -> Result<(), Error> {
        for face in &mut self.faces {
            face.sent.iter_mut().zip(&face.inner).for_each(|(sent, &cell)| *sent = cells[cell]);
        }
        let faces = &mut self.faces;
        endpoint.scope(|scope| {
            let mut requests = Vec::with_capacity(2 * faces.len());
            for Face { neighbour, coming, going, sent, received, .. } in faces {
                let room = bytemuck::cast_slice_mut(received);
                requests.push(scope.irecv((*neighbour, *coming), room)?);
                requests.push(scope.isend((*neighbour, *going), bytemuck::cast_slice(sent))?);
            }
            scope.wait_all(&requests)
        })?;
        for face in &self.faces {
            face.ghosts.iter().zip(&face.received).for_each(|(&cell, &value)| cells[cell] = value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::testing::on_ranks;

    #[test]
    fn ranks_are_spread_over_the_axes() {
        assert_eq!(cuts::<2>(1), [1, 1]);
        assert_eq!(cuts::<2>(6), [3, 2]);
        assert_eq!(cuts::<2>(7), [7, 1]);
        assert_eq!(cuts::<2>(16), [4, 4]);
        assert_eq!(cuts::<3>(8), [2, 2, 2]);
        assert_eq!(cuts::<3>(12), [3, 2, 2]);
        for ranks in 1..200 {
            assert_eq!(cuts::<3>(ranks).iter().product::<u32>(), ranks);
        }
    }

    #[test]
    fn every_cell_belongs_to_one_rank() {
        for ranks in 1..=12 {
            let mut cells: Vec<u64> = (0..ranks)
                .flat_map(|rank| {
                    let block = Block::<3>::new(Place { rank, ranks }, 12);
                    let array = block.fill(|_| 0.0);
                    block.own_cells(&array).map(|(number, _)| number).collect::<Vec<_>>()
                })
                .collect();
            cells.sort_unstable();
            assert_eq!(cells, (0..12 * 12 * 12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ghosts_become_what_the_neighbours_have() {
        let number = |[i, j, k]: [usize; 3]| (100 * i + 10 * j + k) as f64;
        for ranks in [1, 2, 6, 8] {
            on_ranks(ranks, |place, endpoint| {
                let mut block = Block::<3>::new(place, 4);
                let mut cells = block.fill(|at| if block.owns(at) { number(at) } else { -1.0 });
                block.exchange(endpoint, &mut cells).unwrap();
                let expected = block.fill(|place| {
                    let outside = (0..3).filter(|&axis| {
                        place[axis] <= block.own[axis].start || place[axis] > block.own[axis].end
                    });
                    let boundary = place.iter().any(|&at| at == 0 || at == 5);
                    if outside.count() > 1 || boundary { -1.0 } else { number(place) }
                });
                assert_eq!(cells, expected);
            });
        }
    }
}
