//! Collective operations on jobs of 1 to 8 threads, compared with a computation on one.

use crate::world::*;
use proptest::prelude::*;
use taffrail::Error;
use taffrail::collectives::{self as coll, Element};

in_every_world!(
    nobody_leaves_a_barrier_before_everybody_came,
    broadcast_from_every_root,
    reduce_to_every_root,
    allreduce_with_each_function,
    reductions_keep_the_order_of_the_ranks,
    floating_point_sums_are_the_same_bits_everywhere,
    allgather_and_alltoall_of_many_lengths,
    ranks_that_disagree_about_the_length_are_told,
    operations_of_different_kinds_follow_each_other,
);

/// Runs `f` on each rank of a job of `n` threads, and returns the results in their order.
fn on_all<W: World, R: Send>(n: u32, f: impl Fn(&mut End<W>) -> R + Sync) -> Vec<R> {
    on_jobs::<W, R>(n, |mut job| {
        let mut endpoint = job.endpoint().expect("an endpoint");
        let result = f(&mut endpoint);
        job.barrier().expect("all ranks finish");
        result
    })
}

/// The values of one rank: different on each, small enough that no order overflows.
fn values(rank: u32, len: usize) -> Vec<i64> {
    (0..len as i64).map(|i| (i * 31 + i64::from(rank) * 17) % 101 - 50).collect()
}

fn serial<T: Element>(n: u32, of: impl Fn(u32) -> Vec<T>, combine: impl Fn(T, T) -> T) -> Vec<T> {
    let join = |a: Vec<T>, b: Vec<T>| a.into_iter().zip(b).map(|(a, b)| combine(a, b)).collect();
    (0..n).map(of).reduce(join).expect("a rank at least")
}

fn nobody_leaves_a_barrier_before_everybody_came<W: World>() {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    for n in 1..=8 {
        let came = AtomicU32::new(0);
        on_all::<W, _>(n, |ep| {
            for round in 1..=50 {
                came.fetch_add(1, SeqCst);
                coll::barrier(ep).unwrap();
                assert!(came.load(SeqCst) >= round * n, "round {round} of {n} ranks");
                coll::barrier(ep).unwrap();
            }
        });
    }
}

fn broadcast_from_every_root<W: World>() {
    for n in 1..=8 {
        on_all::<W, _>(n, |ep| {
            for root in 0..n {
                let mut data = values(ep.rank(), 1000);
                coll::broadcast(ep, root, &mut data).unwrap();
                assert_eq!(data, values(root, 1000), "root {root} of {n}, rank {}", ep.rank());
            }
        });
    }
}

fn reduce_to_every_root<W: World>() {
    for n in 1..=8 {
        let expected = serial(n, |rank| values(rank, 500), |a, b| a + b);
        on_all::<W, _>(n, |ep| {
            for root in 0..n {
                let mut data = values(ep.rank(), 500);
                coll::reduce(ep, root, &mut data, coll::sum).unwrap();
                assert!(ep.rank() != root || data == expected, "root {root} of {n}");
            }
        });
    }
}

fn allreduce_with_each_function<W: World>() {
    type Function = (&'static str, fn(i64, i64) -> i64);
    let functions: [Function; 6] = [
        ("sum", coll::sum),
        ("product", coll::product),
        ("min", coll::min),
        ("max", coll::max),
        ("bit_and", coll::bit_and),
        ("bit_or", coll::bit_or),
    ];
    let serially: [fn(i64, i64) -> i64; 6] = [
        |a, b| a + b,
        |a, b| a * b,
        |a, b| if a < b { a } else { b },
        |a, b| if a < b { b } else { a },
        |a, b| a & b,
        |a, b| a | b,
    ];
    for n in 1..=8 {
        on_all::<W, _>(n, |ep| {
            for ((name, function), serially) in functions.into_iter().zip(serially) {
                let mut data = values(ep.rank(), 333);
                coll::allreduce(ep, &mut data, function).unwrap();
                assert_eq!(data, serial(n, |r| values(r, 333), serially), "{name} of {n}");
            }
        });
    }
}

/// Joining the digits of two numbers is associative but not commutative.
fn reductions_keep_the_order_of_the_ranks<W: World>() {
    let join = |a: u64, b: u64| a * 10u64.pow(b.ilog10() + 1) + b;
    for n in 1..=8 {
        let expected: u64 = (1..=n).map(|r| r.to_string()).collect::<String>().parse().unwrap();
        let all = on_all::<W, _>(n, |ep| {
            let mine = u64::from(ep.rank() + 1);
            let (mut all, mut last) = ([mine], [mine]);
            coll::allreduce(ep, &mut all, join).unwrap();
            coll::reduce(ep, n - 1, &mut last, join).unwrap();
            assert!(ep.rank() != n - 1 || last == [expected], "reduce of {n}");
            all[0]
        });
        assert_eq!(all, vec![expected; n as usize]);
    }
}

fn floating_point_sums_are_the_same_bits_everywhere<W: World>() {
    for n in 2..=8 {
        let sums = on_all::<W, _>(n, |ep| {
            let mut data: Vec<f64> =
                (1..200).map(|i| 1.0 / f64::from(i * (ep.rank() as i32 + 3))).collect();
            coll::allreduce(ep, &mut data, coll::sum).unwrap();
            data.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        });
        assert!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{n} ranks");
    }
}

fn allgather_and_alltoall_of_many_lengths<W: World>() {
    for n in 1..=8 {
        on_all::<W, _>(n, |ep| {
            for len in [0, 1, 7, 4096, 50_000] {
                let mut all = vec![0; len * n as usize];
                coll::allgather(ep, &values(ep.rank(), len), &mut all).unwrap();
                let expected: Vec<_> = (0..n).flat_map(|rank| values(rank, len)).collect();
                assert!(all == expected, "allgather of {len} on {n}");

                let for_rank = |from: u32, to: u32| values(from * 100 + to, len);
                let me = ep.rank();
                let mine: Vec<_> = (0..n).flat_map(|to| for_rank(me, to)).collect();
                coll::alltoall(ep, &mine, &mut all).unwrap();
                let expected: Vec<_> = (0..n).flat_map(|from| for_rank(from, me)).collect();
                assert!(all == expected, "alltoall of {len} on {n}");
            }
        });
    }
}

fn ranks_that_disagree_about_the_length_are_told<W: World>() {
    let results = on_all::<W, _>(2, |ep| {
        let mut data = vec![0u32; if ep.rank() == 0 { 4 } else { 5 }];
        coll::broadcast(ep, 0, &mut data)
    });
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1], Err(Error::Uneven { expected: 20, got: 16, source_rank: 0 }));
    let results = on_all::<W, _>(2, |ep| coll::broadcast(ep, 2, &mut [0u8]));
    assert_eq!(results, vec![Err(Error::NoSuchRank { rank: 2, size: 2 }); 2]);
}

fn operations_of_different_kinds_follow_each_other<W: World>() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) };
    let steps = prop::collection::vec((0u8..5, 1usize..3000), 1..12);
    proptest!(config, |(n in 1u32..=8, steps in steps, root in 0u32..8)| {
        let root = root % n;
        on_all::<W, _>(n, |ep| {
            for &(kind, len) in &steps {
                let mut data = values(ep.rank(), len);
                match kind {
                    0 => coll::barrier(ep).unwrap(),
                    1 => {
                        coll::broadcast(ep, root, &mut data).unwrap();
                        assert_eq!(data, values(root, len));
                    }
                    2 => {
                        coll::reduce(ep, root, &mut data, coll::max).unwrap();
                        if ep.rank() == root {
                            assert_eq!(data, serial(n, |r| values(r, len), i64::max));
                        }
                    }
                    3 => {
                        coll::allreduce(ep, &mut data, coll::min).unwrap();
                        assert_eq!(data, serial(n, |r| values(r, len), i64::min));
                    }
                    _ => {
                        let mut all = vec![0; len * n as usize];
                        coll::allgather(ep, &data, &mut all).unwrap();
                        assert_eq!(all, (0..n).flat_map(|r| values(r, len)).collect::<Vec<_>>());
                    }
                }
            }
        });
    });
}
