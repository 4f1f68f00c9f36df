//! Operations that all ranks of a job take part in, made of plain sends and receives.
//!
//! Every rank calls the same operations in the same order, with slices of the same length (unless
//! said otherwise) and the same root. They use a context of their own, so they never meet the
//! program's messages. Errors are those of [`Endpoint::send`] and [`Endpoint::recv`], and
//! [`Error::Uneven`] when ranks disagree about the length.
//!
//! Reductions combine values in the order of the ranks, so the function need not be commutative,
//! and every rank gets the same bits, also with floating-point numbers.

mod element;

pub use element::{Element, Integer, bit_and, bit_or, max, min, product, sum};

use crate::{CONTEXTS, Dest, Endpoint, Error, Pattern, Rank, Transport};

/// The context of all collective operations: the first of those the library keeps for itself.
const CONTEXT: u16 = CONTEXTS;

/// Tags, so that ranks which call different operations wait instead of mixing them up.
const BARRIER: u64 = 1;
const BROADCAST: u64 = 2;
const REDUCE: u64 = 3;
const ALLREDUCE: u64 = 4;
const ALLGATHER: u64 = 5;
const ALLTOALL: u64 = 6;

/// Waits until every rank is here.
///
/// # Errors
/// See the [module](self).
pub fn barrier(ep: &mut Endpoint<impl Transport>) -> Result<(), Error> {
    // Dissemination: after the round at distance d, each rank has heard, directly or not, of the
    // 2d - 1 ranks before it.
    let (rank, size) = (ep.rank(), ep.size());
    let mut distance = 1;
    while distance < size {
        let (next, previous) = ring(rank, size, distance);
        let got = ep.sendrecv(to(next, BARRIER), &[], from(previous, BARRIER), &mut [])?;
        whole(got.len, 0, previous)?;
        distance *= 2;
    }
    Ok(())
}

/// Copies `data` of rank `root` to every rank's `data`.
///
/// # Errors
/// See the [module](self); [`Error::NoSuchRank`] for the root.
pub fn broadcast<T: Element>(
    ep: &mut Endpoint<impl Transport>,
    root: Rank,
    data: &mut [T],
) -> Result<(), Error> {
    // Binomial tree over the ranks counted from the root: a rank's parent lacks its lowest bit.
    let size = ep.size();
    known(root, size)?;
    let me = (ep.rank() + size - root) % size;
    let real = |rank: u32| (rank + root) % size;
    let mut bit = 1;
    while bit < size && me & bit == 0 {
        bit *= 2;
    }
    if me != 0 {
        receive(ep, real(me - bit), BROADCAST, data)?;
    }
    while bit > 1 {
        bit /= 2;
        if me + bit < size {
            ep.send(to(real(me + bit), BROADCAST), bytemuck::cast_slice(data))?;
        }
    }
    Ok(())
}

/// Combines the `data` of all ranks, element by element, into `data` of rank `root`. Other ranks'
/// `data` is used as working space.
///
/// `combine` is associative: one of [`sum`], [`product`], [`min`], [`max`], [`bit_and`],
/// [`bit_or`], or any function.
///
/// # Errors
/// See the [module](self); [`Error::NoSuchRank`] for the root.
pub fn reduce<T: Element>(
    ep: &mut Endpoint<impl Transport>,
    root: Rank,
    data: &mut [T],
    combine: impl Fn(T, T) -> T,
) -> Result<(), Error> {
    // Binomial tree towards rank 0, which keeps the order of the ranks whatever the root is.
    let (rank, size) = (ep.rank(), ep.size());
    known(root, size)?;
    let mut right = vec![T::zeroed(); if size > 1 { data.len() } else { 0 }];
    let mut bit = 1;
    while bit < size && rank & bit == 0 {
        if rank + bit < size {
            receive(ep, rank + bit, REDUCE, &mut right)?;
            fold(data, &right, &combine);
        }
        bit *= 2;
    }
    if rank != 0 {
        ep.send(to(rank - bit, REDUCE), bytemuck::cast_slice(data))?;
    }
    if root != 0 && rank == 0 {
        ep.send(to(root, REDUCE), bytemuck::cast_slice(data))?;
    } else if root != 0 && rank == root {
        receive(ep, 0, REDUCE, data)?;
    }
    Ok(())
}

/// As [`reduce`], with the result on every rank.
///
/// # Errors
/// See the [module](self).
pub fn allreduce<T: Element>(
    ep: &mut Endpoint<impl Transport>,
    data: &mut [T],
    combine: impl Fn(T, T) -> T,
) -> Result<(), Error> {
    // Recursive doubling among a power of two of ranks. The ranks beyond it are first folded into
    // a neighbour (even ranks into the odd ones after them), and told the result at the end.
    let (rank, size) = (ep.rank(), ep.size());
    let power = 1 << size.ilog2();
    let extra = size - power;
    let mut other = vec![T::zeroed(); if size > 1 { data.len() } else { 0 }];

    if rank < 2 * extra && rank % 2 == 0 {
        ep.send(to(rank + 1, ALLREDUCE), bytemuck::cast_slice(data))?;
        return receive(ep, rank + 1, ALLREDUCE, data);
    }
    let folded = rank < 2 * extra;
    if folded {
        receive(ep, rank - 1, ALLREDUCE, &mut other)?;
        other.iter().zip(&mut *data).for_each(|(&left, mine)| *mine = combine(left, *mine));
    }
    let place = if folded { rank / 2 } else { rank - extra };
    let real = |place: u32| if place < extra { 2 * place + 1 } else { place + extra };
    let mut bit = 1;
    while bit < power {
        let peer = real(place ^ bit);
        let (bytes, room) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(&mut other));
        let expected = bytes.len();
        let got = ep.sendrecv(to(peer, ALLREDUCE), bytes, from(peer, ALLREDUCE), room)?;
        whole(got.len, expected, peer)?;
        if place & bit == 0 {
            fold(data, &other, &combine);
        } else {
            other.iter().zip(&mut *data).for_each(|(&left, mine)| *mine = combine(left, *mine));
        }
        bit *= 2;
    }
    if folded {
        ep.send(to(rank - 1, ALLREDUCE), bytemuck::cast_slice(data))?;
    }
    Ok(())
}

/// Gathers every rank's `mine` in `all`, in the order of the ranks, on every rank.
///
/// # Errors
/// See the [module](self).
///
/// # Panics
/// When `all` is not as long as `mine` times the number of ranks.
#[expect(clippy::expect_used, reason = "blocks of two ranks do not overlap, and lie within `all`")]
pub fn allgather<T: Element>(
    ep: &mut Endpoint<impl Transport>,
    mine: &[T],
    all: &mut [T],
) -> Result<(), Error> {
    // A ring: in each step a rank hands on the block it got in the step before.
    let (rank, size) = (ep.rank(), ep.size());
    let len = mine.len();
    assert_eq!(all.len(), len * size as usize, "room for {len} elements from each of {size} ranks");
    let block = |rank: u32| rank as usize * len..(rank as usize + 1) * len;
    all[block(rank)].copy_from_slice(mine);
    let (next, previous) = ring(rank, size, 1);
    for step in 1..size {
        let (_, coming) = ring(rank, size, step);
        let (_, going) = ring(rank, size, step - 1);
        let [send, room] = all.get_disjoint_mut([block(going), block(coming)]).expect("two blocks");
        let (send, room) = (bytemuck::cast_slice(send), bytemuck::cast_slice_mut(room));
        let got = ep.sendrecv(to(next, ALLGATHER), send, from(previous, ALLGATHER), room)?;
        whole(got.len, size_of_val(mine), previous)?;
    }
    Ok(())
}

/// Sends the r-th of as many equal parts of `mine` as there are ranks to rank r, and gathers what
/// came from each rank in `all`, in the order of the ranks.
///
/// # Errors
/// See the [module](self).
///
/// # Panics
/// When the slices differ in length, or the length is no multiple of the number of ranks.
pub fn alltoall<T: Element>(
    ep: &mut Endpoint<impl Transport>,
    mine: &[T],
    all: &mut [T],
) -> Result<(), Error> {
    // Pairwise: in each step a rank sends to one rank and receives from one.
    let (rank, size) = (ep.rank(), ep.size());
    assert_eq!(mine.len(), all.len(), "as many elements come as go");
    assert_eq!(mine.len() % size as usize, 0, "{} elements for {size} ranks", mine.len());
    let len = mine.len() / size as usize;
    let block = |rank: u32| rank as usize * len..(rank as usize + 1) * len;
    all[block(rank)].copy_from_slice(&mine[block(rank)]);
    for step in 1..size {
        let (next, previous) = ring(rank, size, step);
        let send: &[u8] = bytemuck::cast_slice(&mine[block(next)]);
        let room = bytemuck::cast_slice_mut(&mut all[block(previous)]);
        let got = ep.sendrecv(to(next, ALLTOALL), send, from(previous, ALLTOALL), room)?;
        whole(got.len, send.len(), previous)?;
    }
    Ok(())
}

fn receive<T: Element>(
    ep: &mut Endpoint<impl Transport>,
    rank: Rank,
    tag: u64,
    into: &mut [T],
) -> Result<(), Error> {
    let expected = size_of_val(into);
    let got = ep.recv(from(rank, tag), bytemuck::cast_slice_mut(into))?;
    whole(got.len, expected, rank)
}

/// Combines each element with the one of a higher rank.
fn fold<T: Element>(data: &mut [T], right: &[T], combine: impl Fn(T, T) -> T) {
    data.iter_mut().zip(right).for_each(|(mine, &right)| *mine = combine(*mine, right));
}

/// The ranks so many places after and before this one.
fn ring(rank: Rank, size: u32, distance: u32) -> (Rank, Rank) {
    ((rank + distance) % size, (rank + size - distance) % size)
}

fn to(rank: Rank, tag: u64) -> Dest {
    Dest { rank, context: CONTEXT, tag, data: crate::Data::NONE }
}

fn from(rank: Rank, tag: u64) -> Pattern {
    Pattern { source: Some(rank), context: CONTEXT, tag, ignore: 0 }
}

fn whole(got: usize, expected: usize, source_rank: Rank) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Uneven { expected, got, source_rank }) }
}

fn known(rank: Rank, size: u32) -> Result<(), Error> {
    if rank < size { Ok(()) } else { Err(Error::NoSuchRank { rank, size }) }
}
