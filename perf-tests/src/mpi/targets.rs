//! What Taffrail is meant to reach under an MPI, and whether it does.

use super::results::{Results, What};
use crate::rounds::Named;
use crate::table::bytes;
use crate::verdict::{Bound, Verdict};
use taffrail_launch::mpi::Mpi;

/// From Open MPI's own transport, whose matching is inlined below no libfabric, more is taken.
const AGAINST_OPEN_MPI: f64 = 1.5;
/// Greatest time of short messages relative to any other transport.
const AGAINST_OTHERS: f64 = 1.0;
/// Least bandwidth relative to the own transport, and the sizes at which it counts.
const BANDWIDTH: (f64, [usize; 3]) = (1.5, [64 << 10, 1 << 20, 4 << 20]);

/// What logging may cost: at which size, and at most how many times the time without.
const LOGGING: [(What, usize, Bound); 6] = [
    (What::Elided, 8, Bound::AtMost(1.03)),
    (What::Elided, 1 << 20, Bound::AtMost(1.03)),
    (What::SenderBased, 8, Bound::AtMost(1.3)),
    (What::Reserved, 8, Bound::AtMost(1.3)),
    // Of the bandwidth.
    (What::SenderBased, 1 << 20, Bound::AtLeast(0.7)),
    (What::Reserved, 1 << 20, Bound::AtLeast(0.7)),
];

/// The same between two nodes. Of times relative to the own transport over sockets, at each size.
const OVER_NODES: [(What, usize, Bound, What); 10] = [
    (What::Taffrail, 8, Bound::AtMost(1.0), What::Own),
    (What::Taffrail, 1 << 10, Bound::AtMost(1.0), What::Own),
    (What::Taffrail, 64 << 10, Bound::AtMost(1.0), What::Own),
    (What::Taffrail, 1 << 20, Bound::AtMost(1.0), What::Own),
    (What::SenderBased, 8, Bound::AtMost(1.1), What::Taffrail),
    (What::SenderBased, 64 << 10, Bound::AtLeast(0.95), What::Taffrail),
    (What::SenderBased, 1 << 20, Bound::AtLeast(0.95), What::Taffrail),
    (What::Reserved, 64 << 10, Bound::AtLeast(0.95), What::Taffrail),
    (What::Reserved, 1 << 20, Bound::AtLeast(0.95), What::Taffrail),
    (What::Every, 8, Bound::AtMost(2.0), What::Taffrail),
];

/// Every target of an MPI of this name, judged; those of sizes that were left out are left out.
pub fn judge(mpi: Mpi, name: &str, results: &Results) -> Vec<Verdict> {
    judge_all(inside_a_node(mpi), name, results)
}

/// The same of ranks on two nodes.
pub fn judge_over_nodes(name: &str, results: &Results) -> Vec<Verdict> {
    judge_all(OVER_NODES.to_vec(), name, results)
}

fn inside_a_node(mpi: Mpi) -> Vec<(What, usize, Bound, What)> {
    let own = match mpi {
        Mpi::Open => AGAINST_OPEN_MPI,
        Mpi::Mpich | Mpi::Intel => AGAINST_OTHERS,
    };
    let mut all = vec![
        (What::Taffrail, 8, Bound::AtMost(own), What::Own),
        (What::Taffrail, 8, Bound::AtMost(AGAINST_OTHERS), What::Shm),
    ];
    let (least, sizes) = BANDWIDTH;
    all.extend(sizes.map(|size| (What::Taffrail, size, Bound::AtLeast(least), What::Own)));
    all.extend(LOGGING.map(|(what, size, bound)| (what, size, bound, What::Taffrail)));
    all
}

fn judge_all(
    mut all: Vec<(What, usize, Bound, What)>,
    name: &str,
    results: &Results,
) -> Vec<Verdict> {
    let sizes = results.sizes();
    all.retain(|(_, size, ..)| sizes.contains(size));
    let verdict = |(what, size, wanted, to): (What, usize, Bound, What)| {
        let (of, got) = match wanted {
            Bound::AtMost(_) => ("", results.ratio((size, what), (size, to))),
            Bound::AtLeast(_) => (" bandwidth", results.ratio((size, to), (size, what))),
        };
        Verdict {
            target: format!("{name}: {}{of}, {} / {}", bytes(size), what.name(), to.name()),
            unit: "x",
            wanted,
            got: got.map(|ratio| ratio.median),
        }
    };
    all.into_iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Results {
        let mut results = Results::default();
        results.begin_round();
        for (what, short, long) in [
            (What::Own, 0.4, 150.0),
            (What::Shm, 0.7, 200.0),
            (What::Taffrail, 0.5, 80.0),
            (What::Elided, 0.51, 84.0),
            (What::SenderBased, 0.7, 150.0),
            (What::Reserved, 0.6, 100.0),
        ] {
            results.add_time(8, what, Ok(short));
            results.add_time(1 << 20, what, Ok(long));
        }
        results
    }

    fn met(verdicts: &[Verdict]) -> Vec<Option<bool>> {
        verdicts.iter().map(Verdict::met).collect()
    }

    #[test]
    fn each_mpi_is_judged_against_itself() {
        let verdicts = judge(Mpi::Open, "Open MPI 4.1.4", &measured());
        let expected = [true, true, true, true, false, false, true, false, true].map(Some);
        assert_eq!(met(&verdicts), expected, "{verdicts:?}");
        let verdicts = judge(Mpi::Mpich, "MPICH 5.0.2", &measured());
        let expected = [false, true, true, true, false, false, true, false, true].map(Some);
        assert_eq!(met(&verdicts), expected, "{verdicts:?}");
        assert_eq!(verdicts[0].target, "MPICH 5.0.2: 8 B, Taffrail / own");
        assert_eq!(verdicts[2].target, "MPICH 5.0.2: 1 MiB bandwidth, Taffrail / own");
        assert_eq!(verdicts[2].got, Some(1.875), "bandwidth is the inverse of time");
    }

    #[test]
    fn between_nodes_bandwidth_with_a_log_is_judged() {
        let mut results = Results::default();
        results.begin_round();
        for (what, short, long) in [
            (What::Own, 20.0, 60.0),
            (What::Taffrail, 10.0, 50.0),
            (What::SenderBased, 10.9, 52.0),
            (What::Reserved, 11.0, 60.0),
            (What::Every, 21.0, 70.0),
        ] {
            results.add_time(8, what, Ok(short));
            results.add_time(64 << 10, what, Ok(long));
        }
        let verdicts = judge_over_nodes("MPICH", &results);
        let expected = [true, true, true, true, false, false].map(Some);
        assert_eq!(met(&verdicts), expected, "{verdicts:?}");
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(8, What::Own, Ok(0.4));
        results.add_time(8, What::Taffrail, Err("no provider".into()));
        let verdicts = judge(Mpi::Mpich, "MPICH", &results);
        assert_eq!(met(&verdicts), [None; 5], "{verdicts:?}");
    }
}
